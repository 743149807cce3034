//! What a log of paths will read: commits, and the directories on the way to the paths in their trees.
//!
//! A line of commits is known commit by commit. While it is followed, the trees of the commits before are read in the same
//! calls, each one level deeper; so a tree is there a few calls after its commit, and the line is not waited for twice.

use std::{sync::Arc, vec};

use bristlecone_core::{EntryKind, Format, Kind, ObjRef, Source, Target, Task};

use crate::{prefetched::Prefetched, store::StoreView};

/// How many commits a line is followed beyond those that the log asked for, at most. Each call brings one of them, so that
/// few are read in vain; but a line that the log does not go on with must end.
const LINE_MAX: u32 = 1024;

/// Commits and trees as a log of paths reads them.
pub(super) type Far<F> = Prefetched<Arc<StoreView<F>>, LogTask<F>>;

/// The paths of a log, step by step.
pub(super) type Paths = Arc<[Vec<Vec<u8>>]>;

/// A part of a log that may be still to come.
#[derive(Debug)]
pub(super) struct LogTask<F> {
    store: Arc<StoreView<F>>,
    paths: Paths,
    first_parent: bool,
    part: LogTaskPart,
}

#[derive(Clone, Copy, Debug)]
enum LogTaskPart {
    /// A commit with its tree, and `line` commits before it.
    Commit { at: ObjRef, line: u32 },
    /// A directory in which a step of a path is looked for.
    Dir { at: ObjRef, path: usize, step: usize },
}

/// Returns the parts that these commits are, with those before them.
pub(super) fn commits<F: Format>(
    store: &Arc<StoreView<F>>,
    paths: &Paths,
    first_parent: bool,
    commits: impl IntoIterator<Item = ObjRef>,
) -> vec::IntoIter<LogTask<F>> {
    let part = |at| {
        let part = LogTaskPart::Commit { at, line: LINE_MAX };
        LogTask { store: store.clone(), paths: paths.clone(), first_parent, part }
    };
    commits.into_iter().map(part).collect::<Vec<_>>().into_iter()
}

impl<F: Format> Task for LogTask<F> {
    type Below = vec::IntoIter<Self>;

    fn try_out<S: Source>(&self, source: &S) -> Result<Self::Below, S::Error> {
        let format = &self.store.format;
        let mut below = Vec::new();
        match self.part {
            LogTaskPart::Commit { at, line } => {
                let commit = format.decode_commit(&source.read(Kind::Commit, &at)?)?;
                let dir = |path| LogTaskPart::Dir { at: commit.tree.into(), path, step: 0 };
                below.extend((0..self.paths.len()).map(dir));
                // Where lines meet, the log tells with which it goes on.
                let meet = commit.parents.len() > 1 && !self.first_parent;
                if let (Some(first), Some(line)) = (commit.parents.first(), line.checked_sub(1)) {
                    below.push(LogTaskPart::Commit { at: (*first).into(), line: if meet { 0 } else { line } });
                }
            }
            LogTaskPart::Dir { at, path, step } => {
                if let Some(name) = self.paths[path].get(step)
                    && let Some((EntryKind::Dir, Target::Object { at, .. })) = format.find(source, &at, name)?
                {
                    below.push(LogTaskPart::Dir { at, path, step: step + 1 });
                }
            }
        }
        let (store, paths, first_parent) = (&self.store, &self.paths, self.first_parent);
        let part = |part| Self { store: store.clone(), paths: paths.clone(), first_parent, part };
        Ok(below.into_iter().map(part).collect::<Vec<_>>().into_iter())
    }
}
