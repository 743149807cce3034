//! Entries of directories, as lines and as JSON.

use bristlecone::{EntryKind, Kind, Path, Result, escape};
use serde_json::Value;

use crate::{
    failure::{self, Failure},
    output::{Fields, fields},
};
use bristlecone_any::{DirEntry, Tree};

/// Returns the JSON fields that describe an entry: kind, bytes, id.
pub(crate) fn put_entry(fields: &mut Fields, entry: &DirEntry<'_>) {
    fields.insert("kind".to_owned(), entry.kind().name().into());
    if let Some(bytes) = bytes(entry) {
        fields.insert("bytes".to_owned(), bytes.into());
    }
    if let Some(oid) = id(entry) {
        fields.insert("oid".to_owned(), oid.into());
    }
}

/// As [`put_entry`], as a value of its own; `null` for none.
pub(crate) fn describe(entry: Option<&DirEntry<'_>>) -> Value {
    entry.map_or(Value::Null, |entry| {
        let mut all = fields! {};
        put_entry(&mut all, entry);
        Value::Object(all)
    })
}

/// Returns a value's length. Whoever lists a directory is not to fail for a value that is missing: its length is then
/// left out.
fn bytes(entry: &DirEntry<'_>) -> Option<u64> {
    entry.length().ok().flatten()
}

fn id(entry: &DirEntry<'_>) -> Option<String> {
    let oid = entry.foreign().or_else(|| entry.object().map(|at| at.oid))?;
    Some(oid.to_string())
}

/// Shows the name of an entry, with a sign for what it is where that is no plain value: `dir/`, `script*`.
pub(crate) fn name(step: &[u8], kind: EntryKind) -> String {
    let sign = match kind {
        EntryKind::Value => "",
        EntryKind::Executable => "*",
        EntryKind::Link => "@",
        EntryKind::Dir => "/",
        EntryKind::Foreign => "&",
    };
    format!("{}{sign}", escape(step))
}

/// Shows an entry on a line of columns: kind, bytes, id, name.
pub(crate) fn long(entry: &DirEntry<'_>) -> String {
    let bytes = bytes(entry).map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let oid = id(entry).map_or_else(|| "-".to_owned(), |oid| oid[..oid.len().min(12)].to_owned());
    format!("{:<10} {bytes:>12} {oid:<12} {}", entry.kind().name(), name(entry.step(), entry.kind()))
}

/// Returns the name of a kind of objects, as entries of directories have it.
pub(crate) fn object_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Node => "dir",
        Kind::Contents | Kind::Pieces => "value",
        kind => kind.name(),
    }
}

/// Checks that there is a directory at `path`.
pub(crate) fn check_dir(tree: &Tree, path: &Path) -> failure::Result<()> {
    if path.is_root() {
        return Ok(());
    }
    match tree.get(path)? {
        Some(entry) if entry.kind() == EntryKind::Dir => Ok(()),
        Some(entry) if entry.kind() == EntryKind::Foreign => Err(foreign(path, &entry)),
        Some(entry) => Err(Failure::usage(format!(
            "{path} is a {}, not a directory; read it with `cone get {path}`",
            entry.kind().name()
        ))),
        None => Err(nothing_at(tree, path)?),
    }
}

/// Says that an id of another store stands at `path`, and what it is an id of.
pub(crate) fn foreign(path: &Path, entry: &DirEntry<'_>) -> Failure {
    let oid = entry.foreign().map(|oid| oid.to_string()).unwrap_or_default();
    Failure::usage(format!(
        "{path} is the id {oid} of a commit in another repository (a submodule), and has no contents here; look there, \
         or see the id with `cone list -l`"
    ))
}

/// Says that there is nothing at `path`: and that it cannot be, where a value stands on the way.
pub(crate) fn nothing_at(tree: &Tree, path: &Path) -> Result<Failure> {
    Ok(Failure::negative(match value_above(tree, path)? {
        Some(above) => format!(
            "there is nothing at {path}: {above} is a value, not a directory; read that with `cone get {above}`"
        ),
        None => format!("there is nothing at {path}; `cone list` and `cone tree` show what there is"),
    }))
}

/// Returns the path above `path` that holds a value, if one does.
pub(crate) fn value_above(tree: &Tree, path: &Path) -> Result<Option<Path>> {
    let mut above = Path::root();
    let steps: Vec<&[u8]> = path.steps().collect();
    for step in steps.iter().take(steps.len().saturating_sub(1)) {
        above.push(step)?;
        match tree.get(&above)? {
            Some(entry) if entry.kind() == EntryKind::Dir => {}
            Some(_) => return Ok(Some(above)),
            None => return Ok(None),
        }
    }
    Ok(None)
}
