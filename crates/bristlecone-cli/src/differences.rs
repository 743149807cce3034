//! What differs between two trees, written as lines or as a JSON list.

use bristlecone::{EntryKind, Path};

use bristlecone_any::{AnyRepo, DirEntry, Tree};

use crate::{
    entry::describe,
    failure::Result,
    output::{Output, fields, put_name, say},
    text,
};

/// Writes what differs below `path` in two trees of `repo` as lines or items of the list that was begun; returns how many there are.
pub(crate) fn write(out: &mut Output, repo: &AnyRepo, before: &Tree, after: &Tree, path: &Path) -> Result<u64> {
    let mut count = 0;
    // A value at the path itself is no directory to compare.
    let values = (value_at(before, path)?, value_at(after, path)?);
    if differ(values.0.as_ref(), values.1.as_ref())? {
        write_one(out, repo, path, (values.0.as_ref(), values.1.as_ref()))?;
        count += 1;
    }
    let mut keys = 0;
    for difference in before.diff(after, path)? {
        count += 1;
        match difference {
            Ok(found) => write_one(out, repo, &found.path, (found.before.as_ref(), found.after.as_ref()))?,
            Err(bristlecone::Error::Path(_)) => keys += 1,
            Err(error) => return Err(error.into()),
        }
    }
    if keys > 0 {
        let (one, many) =
            ("key of a map that is no step of a path differs", "keys of maps that are no steps of paths differ");
        say!("{}, too; `cone map diff` names them", text::count(keys, one, many));
    }
    Ok(count)
}

fn value_at<'t>(tree: &'t Tree, path: &Path) -> Result<Option<DirEntry<'t>>> {
    Ok(tree.entry(path)?.filter(|entry| entry.kind() != EntryKind::Dir))
}

/// Whether two values differ: by the ids of their objects, where both have one, so that nothing is read.
fn differ(before: Option<&DirEntry<'_>>, after: Option<&DirEntry<'_>>) -> Result<bool> {
    let (Some(before), Some(after)) = (before, after) else { return Ok(before.is_some() != after.is_some()) };
    if before.kind() != after.kind() || before.foreign() != after.foreign() {
        return Ok(true);
    }
    if let (Some(before), Some(after)) = (before.object(), after.object()) {
        return Ok(before.oid != after.oid);
    }
    Ok(before.contents()?.as_deref() != after.contents()?.as_deref())
}

/// What was at a path before and what is there after.
type Sides<'d, 't> = (Option<&'d DirEntry<'t>>, Option<&'d DirEntry<'t>>);

fn write_one(out: &mut Output, repo: &AnyRepo, path: &Path, (before, after): Sides<'_, '_>) -> Result<()> {
    let (letter, change) = match (before, after) {
        (None, _) => ('A', "added"),
        (_, None) => ('D', "removed"),
        (Some(before), Some(after)) if before.kind() != after.kind() => ('T', "changed"),
        _ => ('M', "changed"),
    };
    if !out.json() {
        // Some formats tell how long a value is by the value alone.
        return out.line(format_args!("{letter} {path}"));
    }
    let mut item = fields! { "change": change };
    put_name(&mut item, "path", path.as_bytes());
    item.insert("before".to_owned(), describe(repo, before));
    item.insert("after".to_owned(), describe(repo, after));
    out.item(item)
}
