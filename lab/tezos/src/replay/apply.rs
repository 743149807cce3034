//! Rows applied to trees: lookups with their answers checked, edits, copies.

use bristlecone::{EntryKind, Format, Path, PathError, Repo, Tree};

use super::{ReplayOptions, contexts::Contexts, error::Fault};
use crate::{Key, KeyBuf, PathConversion, Row};

/// Applies rows to contexts. Knows nothing of files and commits.
#[derive(Debug)]
pub(super) struct Applier<F: Format> {
    pub(super) contexts: Contexts<F>,
    pub(super) found: Found,
    empty_blobs: bool,
    // Filled again for each row.
    keys: Keys,
    path: Path,
    source: Path,
}

/// Makes paths of keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    conversion: PathConversion,
    converted: KeyBuf,
}

impl Keys {
    pub(super) fn new(conversion: PathConversion) -> Self {
        Self { conversion, converted: KeyBuf::new() }
    }

    /// Makes `path` the path that a key stands for.
    #[inline]
    pub(super) fn set(&mut self, path: &mut Path, key: Key<'_>) -> Result<(), PathError> {
        if self.conversion == PathConversion::None {
            return path.set_steps(key.steps());
        }
        self.conversion.convert(key, &mut self.converted);
        path.set_steps(self.converted.as_key().steps())
    }
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
    pub(super) fn new(repo: &Repo<F>, options: &ReplayOptions) -> Self {
        Self {
            contexts: Contexts::new(repo),
            found: Found::default(),
            empty_blobs: options.empty_blobs,
            keys: Keys::new(options.path_conversion),
            path: Path::root(),
            source: Path::root(),
        }
    }

    /// Applies one row. Checkouts and commits are not for here; nothing happens.
    #[inline]
    pub(super) fn apply(&mut self, row: &Row<'_>) -> Result<(), Fault> {
        match *row {
            Row::Find { key, found, input } => {
                self.keys.set(&mut self.path, key)?;
                let tree = self.contexts.get(input.value)?;
                let value = tree.get(&self.path)?;
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
                self.keys.set(&mut self.path, key)?;
                let tree = self.contexts.get(input.value)?;
                if tree.contains(&self.path)? != found {
                    return Err(wrong_value(tree, &self.path, found));
                }
                self.found.answers += 1;
                self.contexts.used(input);
            }
            Row::MemTree { key, found, input } => {
                self.keys.set(&mut self.path, key)?;
                let kind = self.contexts.get(input.value)?.kind(&self.path)?;
                if kind.is_some() != found {
                    let expected = if found { "a value or directory" } else { "nothing" };
                    return Err(Fault::Answer { expected, found: name(kind) });
                }
                self.found.answers += 1;
                self.contexts.used(input);
            }
            Row::Add { key, value, input, output } => {
                self.keys.set(&mut self.path, key)?;
                let mut tree = self.contexts.take(input)?;
                tree.replace(&self.path, if self.empty_blobs { &[] } else { value })?;
                self.contexts.bind(output, tree);
            }
            Row::Remove { key, input, output } => {
                self.keys.set(&mut self.path, key)?;
                let mut tree = self.contexts.take(input)?;
                tree.remove(&self.path)?;
                self.contexts.bind(output, tree);
            }
            Row::Copy { source, destination, input, output } => {
                self.keys.set(&mut self.source, source)?;
                self.keys.set(&mut self.path, destination)?;
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

/// Binds `to` to what is at `from`; returns whether there is anything.
pub(super) fn copy<F: Format>(tree: &mut Tree<F>, from: &Path, to: &Path) -> bristlecone::Result<bool> {
    match tree.kind(from)? {
        None => return Ok(false),
        Some(EntryKind::Dir) => {
            if let Some(part) = tree.get_tree(from)? {
                tree.set_tree(to, &part)?;
            }
        }
        Some(kind) => {
            // Hashed again: values are copied dozens of times in thousands of commits.
            if let Some(value) = tree.get(from)?.map(|value| value.to_vec()) {
                tree.remove(to)?;
                tree.set_kind(to, kind, value)?;
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
