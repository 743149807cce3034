//! Entries of directories, as lines and as JSON.

use bristlecone::{EntryKind, Kind, escape};
use serde_json::Value;

use crate::output::{Fields, fields};
use bristlecone_any::{AnyRepo, DirEntry};

/// Returns the JSON fields that describe an entry: kind, bytes, id.
pub(crate) fn put_entry(fields: &mut Fields, repo: &AnyRepo, entry: &DirEntry<'_>) {
    fields.insert("kind".to_owned(), entry.kind().name().into());
    if let Some(bytes) = bytes(repo, entry) {
        fields.insert("bytes".to_owned(), bytes.into());
    }
    if let Some(oid) = id(entry) {
        fields.insert("oid".to_owned(), oid.into());
    }
}

/// As [`put_entry`], as a value of its own; `null` for none.
pub(crate) fn describe(repo: &AnyRepo, entry: Option<&DirEntry<'_>>) -> Value {
    entry.map_or(Value::Null, |entry| {
        let mut all = fields! {};
        put_entry(&mut all, repo, entry);
        Value::Object(all)
    })
}

/// Returns a value's length. A listing must not fail for a value that is missing: its length is then
/// left out.
fn bytes(repo: &AnyRepo, entry: &DirEntry<'_>) -> Option<u64> {
    if let Some(bytes) = entry.bytes() {
        return Some(bytes);
    }
    let object = entry.object().filter(|_| entry.kind().has_contents());
    if let (Some((git, _)), Some(at)) = (repo.git(), object) {
        // Git's directories do not tell it, but the head of a blob does, which need not be read.
        let head = git.odb().header(&at.oid).ok().flatten();
        return head.filter(|(kind, _)| *kind == Kind::Contents).map(|(_, bytes)| bytes);
    }
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
pub(crate) fn long(repo: &AnyRepo, entry: &DirEntry<'_>) -> String {
    let bytes = bytes(repo, entry).map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let oid = id(entry).map_or_else(|| "-".to_owned(), |oid| oid[..oid.len().min(12)].to_owned());
    format!("{:<10} {bytes:>12} {oid:<12} {}", entry.kind().name(), name(entry.step(), entry.kind()))
}
