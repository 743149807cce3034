//! What differs between two trees, written as lines or as a JSON list.

use bristlecone::{EntryKind, Path};

use bristlecone_any::{DirEntry, Tree};

use crate::{
    entry::describe,
    failure::Result,
    output::{Output, fields, put_name, say},
    text,
};

/// Writes what differs below `path` as lines or items of the list that was begun; returns how many there are.
pub(crate) fn write(out: &mut Output, before: &Tree, after: &Tree, path: &Path) -> Result<u64> {
    let mut count = 0;
    // A value at the path itself is no directory to compare.
    let values = (value_at(before, path)?, value_at(after, path)?);
    if values.0.as_ref().map(bytes_of).transpose()? != values.1.as_ref().map(bytes_of).transpose()? {
        write_one(out, path, values.0.as_ref(), values.1.as_ref())?;
        count += 1;
    }
    let mut keys = 0;
    for difference in before.diff(after, path)? {
        count += 1;
        match difference {
            Ok(found) => write_one(out, &found.path, found.before.as_ref(), found.after.as_ref())?,
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

type Contents = (EntryKind, Option<Vec<u8>>, Option<bristlecone::Oid>);

fn bytes_of(entry: &DirEntry<'_>) -> Result<Contents> {
    Ok((entry.kind(), entry.contents()?.map(|bytes| bytes.to_vec()), entry.foreign()))
}

fn write_one(out: &mut Output, path: &Path, before: Option<&DirEntry<'_>>, after: Option<&DirEntry<'_>>) -> Result<()> {
    let (letter, change) = match (before, after) {
        (None, _) => ('A', "added"),
        (_, None) => ('D', "removed"),
        (Some(before), Some(after)) if before.kind() != after.kind() => ('T', "changed"),
        _ => ('M', "changed"),
    };
    out.line(format_args!("{letter} {path}"))?;
    let mut item = fields! { "change": change };
    put_name(&mut item, "path", path.as_bytes());
    item.insert("before".to_owned(), describe(before));
    item.insert("after".to_owned(), describe(after));
    out.item(item)
}
