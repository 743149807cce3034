//! What differs between two trees of the original, and the same edits in the copy.

use bristlecone::{
    CommitId, EntryKind, Format, ObjRef, Oid, Path, PathError,
    core::{Entry, Target},
};

use super::{
    super::loss::{LossKind, Losses},
    rules::Rules,
    source::Source,
};
use crate::{error::Result, format::Tree, repo::AnyRepo};

/// Values of more bytes are not read at once.
const WHOLE_BYTES_MAX: u64 = 32 << 20;
/// Edits are written when so many wait, or values of so many bytes.
const EDITS_MAX: u64 = 100_000;
const EDITED_BYTES_MAX: u64 = 64 << 20;

/// Where the edits go.
pub(super) trait Edits {
    /// Removes what is at a path.
    fn remove(&mut self, path: &Path) -> Result<()>;
    /// Binds a path, at which there is no directory, to a value of the original.
    fn set(&mut self, path: &Path, kind: EntryKind, value: Target<'_>) -> Result<()>;
    /// Binds a path to an id of another store.
    fn set_foreign(&mut self, path: &Path, oid: Oid) -> Result<()>;
}

/// Nowhere.
pub(super) struct Unwritten;

impl Edits for Unwritten {
    fn remove(&mut self, _: &Path) -> Result<()> {
        Ok(())
    }

    fn set(&mut self, _: &Path, _: EntryKind, _: Target<'_>) -> Result<()> {
        Ok(())
    }

    fn set_foreign(&mut self, _: &Path, _: Oid) -> Result<()> {
        Ok(())
    }
}

/// Into a tree of the copy.
pub(super) struct TreeEdits<'c> {
    source: &'c Source,
    to: &'c AnyRepo,
    pub(super) tree: Tree,
    // Edits that wait, and bytes of their values.
    waiting: (u64, u64),
    /// Values that were set.
    pub(super) values: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

impl<'c> TreeEdits<'c> {
    pub(super) const fn new(source: &'c Source, to: &'c AnyRepo, tree: Tree) -> Self {
        Self { source, to, tree, waiting: (0, 0), values: 0, bytes: 0 }
    }

    /// Writes the edits if many wait: a first commit may hold more than fits in memory.
    fn written(&mut self, bytes: u64) -> Result<()> {
        self.waiting = (self.waiting.0 + 1, self.waiting.1 + bytes);
        if (self.waiting.0 >= EDITS_MAX || self.waiting.1 >= EDITED_BYTES_MAX) && !self.tree.is_empty()? {
            self.tree.write()?;
            self.waiting = (0, 0);
        }
        Ok(())
    }

    fn set_long(&mut self, path: &Path, kind: EntryKind, at: ObjRef) -> Result<()> {
        let mut reader = self.source.reader(at);
        let written = self.to.write_value(&mut reader);
        // What the store said tells more than that its reader has failed.
        let value = match (written, reader.failed) {
            (_, Some(error)) => return Err(error.into()),
            (written, None) => written?,
        };
        Ok(self.tree.set_stored(path, kind, &value)?)
    }
}

impl Edits for TreeEdits<'_> {
    fn remove(&mut self, path: &Path) -> Result<()> {
        self.tree.remove(path)?;
        self.written(0)
    }

    fn set(&mut self, path: &Path, kind: EntryKind, value: Target<'_>) -> Result<()> {
        let bytes = match value {
            Target::Inline(bytes) => {
                self.tree.set_kind(path, kind, &bytes[..])?;
                bytes.len() as u64
            }
            Target::Object { at, bytes } if bytes > WHOLE_BYTES_MAX && bytes != Target::UNKNOWN_BYTES => {
                self.set_long(path, kind, at)?;
                bytes
            }
            Target::Object { at, .. } => {
                let bytes = self.source.value(&at)?;
                self.tree.set_kind(path, kind, &bytes[..])?;
                bytes.len() as u64
            }
            Target::Foreign(_) => 0,
        };
        self.values += 1;
        self.bytes += bytes;
        self.written(bytes)
    }

    fn set_foreign(&mut self, path: &Path, oid: Oid) -> Result<()> {
        self.tree.set_foreign(path, oid)?;
        self.written(0)
    }
}

/// What differs between two directories of the original, and all below them.
pub(super) struct TreeDifferences<'c> {
    source: &'c Source,
    rules: &'c Rules,
    commit: CommitId,
}

/// Two directories that are compared, and where they are.
type ComparedDirs = (Path, Option<ObjRef>, Option<ObjRef>);

impl<'c> TreeDifferences<'c> {
    pub(super) const fn new(source: &'c Source, rules: &'c Rules, commit: CommitId) -> Self {
        Self { source, rules, commit }
    }

    /// Gives the edits that make the second directory of the first; what is the same in both is not looked at.
    pub(super) fn walk(
        &self,
        before: Option<ObjRef>,
        after: ObjRef,
        edits: &mut dyn Edits,
        losses: &mut Losses,
    ) -> Result<()> {
        let before = before.and_then(|at| self.source.dir(at));
        let mut waiting: Vec<ComparedDirs> = vec![(Path::root(), before, self.source.dir(after))];
        while let Some((path, before, after)) = waiting.pop() {
            if before == after {
                continue;
            }
            for pair in self.source.format().diff(self.source, before.as_ref(), after.as_ref(), None, None)? {
                let (before, after) = pair?;
                let Some(step) = before.as_ref().or(after.as_ref()).map(|entry| entry.step.to_vec()) else { continue };
                match path.join(&step) {
                    Ok(path) => self.entry(path, before, after, &mut waiting, edits, losses)?,
                    // What is below it was left out of the copy before, too.
                    Err(_) if after.is_none() => {}
                    Err(PathError::TooDeep { .. }) => losses.add_at(LossKind::Depth, self.commit, &path),
                    Err(_) => self.lose_name(&path, &step, losses),
                }
            }
        }
        Ok(())
    }

    fn entry(
        &self,
        path: Path,
        before: Option<Entry<'_>>,
        after: Option<Entry<'_>>,
        waiting: &mut Vec<ComparedDirs>,
        edits: &mut dyn Edits,
        losses: &mut Losses,
    ) -> Result<()> {
        let was_dir = before.as_ref().is_some_and(|entry| entry.kind == EntryKind::Dir);
        let after = after.filter(|after| self.is_kept(&path, after, losses));
        let Some(after) = after else {
            return if before.is_some() { edits.remove(&path) } else { Ok(()) };
        };
        let is_dir = after.kind == EntryKind::Dir;
        if before.is_some() && was_dir != is_dir {
            edits.remove(&path)?;
        }
        match (after.kind, after.target) {
            (EntryKind::Dir, Target::Object { at, .. }) => {
                let before = before.filter(|_| was_dir).and_then(|entry| match entry.target {
                    Target::Object { at, .. } => self.source.dir(at),
                    _ => None,
                });
                let after = self.source.dir(at);
                if after.is_none() {
                    losses.add_at(LossKind::EmptyDir, self.commit, &path);
                }
                waiting.push((path, before, after));
                Ok(())
            }
            (_, Target::Foreign(oid)) => edits.set_foreign(&path, oid),
            (kind, target) => edits.set(&path, self.rules.kind(kind), target),
        }
    }

    /// Whether the copy holds an entry; counts what it loses of it.
    fn is_kept(&self, path: &Path, entry: &Entry<'_>, losses: &mut Losses) -> bool {
        if !self.rules.holds_name(&entry.step, self.rules.kind(entry.kind)) {
            losses.add_at(LossKind::Name, self.commit, path);
            return false;
        }
        if let Target::Foreign(oid) = &entry.target
            && !self.rules.holds_foreign(oid)
        {
            losses.add_at(LossKind::Foreign, self.commit, path);
            return false;
        }
        if self.rules.kind(entry.kind) != entry.kind {
            let kind = if entry.kind == EntryKind::Link { LossKind::Link } else { LossKind::Executable };
            losses.add_at(kind, self.commit, path);
        }
        if !entry.mode.is_usual() {
            losses.add_at(LossKind::Mode, self.commit, path);
        }
        true
    }

    fn lose_name(&self, dir: &Path, step: &[u8], losses: &mut Losses) {
        let name =
            || if dir.is_root() { bristlecone::escape(step) } else { format!("{dir}/{}", bristlecone::escape(step)) };
        losses.add(LossKind::Name, Some(self.commit), name);
    }
}
