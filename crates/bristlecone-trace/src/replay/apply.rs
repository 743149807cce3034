//! Rows applied to trees: lookups with their answers checked, edits, copies.

use bristlecone::{EntryKind, Format, Path, Repo, Tree};

use super::{contexts::Contexts, error::Fault};
use crate::{Key, Row};

/// Applies rows to contexts. Knows nothing of files and commits.
#[derive(Debug)]
pub(super) struct Applier<F: Format> {
    pub(super) contexts: Contexts<F>,
    pub(super) found: Found,
    empty_blobs: bool,
    // Filled again for each row.
    path: Path,
    source: Path,
}

/// What lookups have come to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// Answers that were compared with the recorded ones.
    pub(super) answers: u64,
    /// Bytes of the values that were found.
    pub(super) value_bytes: u64,
    /// The sum of all these bytes.
    pub(super) value_sum: u64,
}

impl Found {
    /// Reads a value to its last byte.
    #[inline]
    pub(super) fn touch(&mut self, value: &[u8]) {
        self.value_bytes += value.len() as u64;
        self.value_sum = self.value_sum.wrapping_add(value.iter().map(|&byte| u64::from(byte)).sum());
    }
}

impl<F: Format> Applier<F> {
    pub(super) fn new(repo: &Repo<F>, empty_blobs: bool) -> Self {
        let (path, source) = (Path::root(), Path::root());
        Self { contexts: Contexts::new(repo), found: Found::default(), empty_blobs, path, source }
    }

    /// Applies one row. Checkouts and commits are not for here; nothing happens.
    #[inline]
    pub(super) fn apply(&mut self, row: &Row<'_>) -> Result<(), Fault> {
        match *row {
            Row::Find { key, found, input } => {
                set(&mut self.path, key)?;
                let tree = self.contexts.get(input.value)?;
                let value = tree.find(&self.path)?;
                if let Some(value) = &value {
                    self.found.touch(value);
                }
                if value.is_some() != found {
                    return Err(wrong_value(tree, &self.path, found));
                }
                self.found.answers += 1;
                self.contexts.used(input);
            }
            Row::Mem { key, found, input } => {
                set(&mut self.path, key)?;
                let tree = self.contexts.get(input.value)?;
                if tree.mem(&self.path)? != found {
                    return Err(wrong_value(tree, &self.path, found));
                }
                self.found.answers += 1;
                self.contexts.used(input);
            }
            Row::MemTree { key, found, input } => {
                set(&mut self.path, key)?;
                let kind = self.contexts.get(input.value)?.kind(&self.path)?;
                if kind.is_some() != found {
                    let expected = if found { "a value or directory" } else { "nothing" };
                    return Err(Fault::Answer { expected, found: name(kind) });
                }
                self.found.answers += 1;
                self.contexts.used(input);
            }
            Row::Add { key, value, input, output } => {
                set(&mut self.path, key)?;
                let mut tree = self.contexts.take(input)?;
                tree.add(&self.path, if self.empty_blobs { &[] } else { value })?;
                self.contexts.bind(output, tree);
            }
            Row::Remove { key, input, output } => {
                set(&mut self.path, key)?;
                let mut tree = self.contexts.take(input)?;
                tree.remove(&self.path)?;
                self.contexts.bind(output, tree);
            }
            Row::Copy { source, destination, input, output } => {
                set(&mut self.source, source)?;
                set(&mut self.path, destination)?;
                let mut tree = self.contexts.take(input)?;
                if !copy(&mut tree, &self.source, &self.path)? {
                    return Err(Fault::NoSource);
                }
                self.contexts.bind(output, tree);
            }
            Row::Checkout { .. } | Row::Commit { .. } => {}
        }
        Ok(())
    }
}

/// Makes `path` the path that a key stands for.
#[inline]
pub(super) fn set(path: &mut Path, key: Key<'_>) -> Result<(), Fault> {
    Ok(path.set_steps(key.steps())?)
}

/// Binds `to` to what is at `from`; returns whether there is anything.
pub(super) fn copy<F: Format>(tree: &mut Tree<F>, from: &Path, to: &Path) -> bristlecone::Result<bool> {
    match tree.kind(from)? {
        None => return Ok(false),
        Some(EntryKind::Dir) => {
            if let Some(part) = tree.find_tree(from)? {
                tree.add_tree(to, &part)?;
            }
        }
        Some(kind) => {
            // Hashed again: values are copied dozens of times in thousands of commits.
            if let Some(value) = tree.find(from)?.map(|value| value.to_vec()) {
                tree.add_kind(to, kind, value)?;
            }
        }
    }
    Ok(true)
}

#[cold]
fn wrong_value<F: Format>(tree: &Tree<F>, path: &Path, expected: bool) -> Fault {
    match tree.kind(path) {
        Ok(kind) => Fault::Answer { expected: if expected { "a value" } else { "no value" }, found: name(kind) },
        Err(error) => Fault::Store(error),
    }
}

const fn name(kind: Option<EntryKind>) -> &'static str {
    match kind {
        None => "nothing",
        Some(EntryKind::Dir) => "a directory",
        Some(_) => "a value",
    }
}
