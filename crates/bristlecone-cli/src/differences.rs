//! What differs between two trees, written as lines or as a JSON list.

use bristlecone::{EntryKind, Path};

use crate::{
    entry::describe,
    failure::{Failure, Result},
    output::{Output, fields, put_name},
};
use bristlecone_any::{DirEntry, Tree};

/// Writes what differs below `path` as lines or items of the list that was begun; returns how many there are.
pub(crate) fn write(out: &mut Output, before: &mut Tree, after: &mut Tree, path: &Path) -> Result<u64> {
    let mut count = 0;
    let mut failed = None;
    let mut each = |path: &Path, before: Option<&DirEntry<'_>>, after: Option<&DirEntry<'_>>| {
        count += 1;
        if failed.is_none() {
            failed = write_one(out, path, before, after).err();
        }
    };
    // A value is no directory to compare; and an empty tree is nothing yet that could be compared.
    let values = (value_at(before, path)?, value_at(after, path)?);
    if values.0.as_ref().map(bytes_of).transpose()? != values.1.as_ref().map(bytes_of).transpose()? {
        each(path, values.0.as_ref(), values.1.as_ref());
    }
    let dirs = (values.0.is_none() && before.mem_tree(path)?, values.1.is_none() && after.mem_tree(path)?);
    drop(values);
    match (dirs.0 && !before.is_empty()?, dirs.1 && !after.is_empty()?) {
        (false, false) => {}
        (true, true) => before.diff(after, path, &mut |difference| {
            each(&difference.path, difference.before.as_ref(), difference.after.as_ref());
            Ok(())
        })?,
        (old, _) => {
            let tree = if old { before } else { after };
            for entry in tree.walk_all(path)? {
                let (below, entry) = entry?;
                let whole = Path::from_steps(path.steps().chain(below.steps())).map_err(Failure::from)?;
                match (entry.kind(), old) {
                    (EntryKind::Dir, _) => {}
                    (_, true) => each(&whole, Some(&entry), None),
                    (_, false) => each(&whole, None, Some(&entry)),
                }
            }
        }
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(count),
    }
}

fn value_at<'t>(tree: &'t Tree, path: &Path) -> Result<Option<DirEntry<'t>>> {
    Ok(tree.get(path)?.filter(|entry| entry.kind() != EntryKind::Dir))
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
