//! The last change of a path, without walking every commit.

use bristlecone_core::{AsPath, CommitId, Format, ObjRef};

use super::{
    super::Repo,
    LogEntry,
    circle::LineCheck,
    filter::path_hash,
    graph::CommitGraph,
    index::{HistoryIndex, Touch},
    watch::Watch,
};
use crate::Result;

/// After this many commits in a row that are not in the index, the next ones are added to it.
const PASSED_MAX: u64 = 1024;
/// The most commits that one lookup adds to the index.
const ADDED_MAX: u64 = 1 << 16;

impl<F: Format> Repo<F> {
    /// Returns the commit that last changed what is at `path`, value or directory, looking back from `head`; `None`
    /// if nothing ever was there. A removal is a change.
    ///
    /// At a merge the first parent that has the same at `path` is followed; a merge that differs from all its
    /// parents is the answer. This is the first commit of [`Repo::log`] with that path. No value is loaded.
    ///
    /// Runs of commits that are in the index of history and did not touch `path` are passed over unread. Long
    /// stretches that are not indexed yet are added as they are met, up to 65,536 commits at a time;
    /// [`Repo::index_history`] adds all.
    ///
    /// # Errors
    /// As [`Repo::read_commit`] and [`crate::Tree::get`]; [`crate::Error::Path`].
    pub fn last_change(&self, head: CommitId, path: impl AsPath) -> Result<Option<LogEntry>> {
        let path = path.as_path()?;
        let store = self.now();
        let watch = Watch::new(&store, &[path.clone().into_owned()]);
        let mut search = LastChangeSearch {
            graph: CommitGraph::new(store.clone()).beside(Some(&watch)),
            index: HistoryIndex::load(&store),
            watch,
            // Nearly every commit changes the root, so no filter holds it.
            hash: (!path.is_root()).then(|| path_hash(path.as_bytes())),
            stretch: None,
            passed: 0,
            added: 0,
            line: LineCheck::default(),
        };
        let found = search.run(&self.shared.commit_ref(head));
        // What was learnt is worth keeping, and no reason to fail.
        let _ = search.index.save();
        found
    }
}

struct LastChangeSearch<F: Format> {
    graph: CommitGraph<F>,
    index: HistoryIndex<F>,
    watch: Watch<F>,
    hash: Option<u32>,
    // Where the line of commits begins that are passed now and are not in the index, and how many they are.
    stretch: Option<LogEntry>,
    passed: u64,
    // Commits that this question added.
    added: u64,
    line: LineCheck,
}

/// What one commit says.
enum CommitChange {
    Changed,
    Same(Box<LogEntry>),
    Never,
}

impl<F: Format> LastChangeSearch<F> {
    fn run(&mut self, head: &ObjRef) -> Result<Option<LogEntry>> {
        let mut entry = self.read(head)?;
        loop {
            if let Some(hash) = self.hash {
                match self.touch(&entry, hash)? {
                    Some(Touch::At(oid)) if oid != entry.id.oid() => entry = self.read(&oid.into())?,
                    Some(Touch::Below(Some(oid))) => {
                        // Where one stretch was long enough to be added, so is what lies below.
                        self.passed = if self.added > 0 { PASSED_MAX } else { 0 };
                        entry = self.read(&oid.into())?;
                        continue;
                    }
                    Some(Touch::Below(None)) => return Ok(None),
                    Some(Touch::Lost) => continue,
                    Some(Touch::At(_)) | None => {}
                }
            }
            match self.step(&entry)? {
                CommitChange::Changed => return Ok(Some(entry)),
                CommitChange::Same(parent) => {
                    self.line.pass(parent.id.oid())?;
                    entry = *parent;
                }
                CommitChange::Never => return Ok(None),
            }
        }
    }

    /// Reads the next commit that is looked at.
    fn read(&mut self, at: &ObjRef) -> Result<LogEntry> {
        self.line.pass(at.oid)?;
        self.graph.read_numbered(at)
    }

    /// Asks the index; `None` if it does not know the commit.
    fn touch(&mut self, entry: &LogEntry, hash: u32) -> Result<Option<Touch>> {
        let mut spot = self.index.find(&entry.id.oid(), entry.number());
        if spot.is_none() && self.passed >= PASSED_MAX && self.added < ADDED_MAX && !self.index.has_failed() {
            let newest = self.stretch.take().unwrap_or_else(|| entry.clone());
            self.added += self.index.extend(&mut self.graph, newest)?.0;
            self.passed = 0;
            spot = self.index.find(&entry.id.oid(), entry.number());
        }
        let Some(spot) = spot else {
            self.stretch.get_or_insert_with(|| entry.clone());
            self.passed += 1;
            return Ok(None);
        };
        (self.stretch, self.passed) = (None, 0);
        self.index.last_touch(spot, hash).map(Some)
    }

    /// Compares a commit with its parents.
    fn step(&mut self, entry: &LogEntry) -> Result<CommitChange> {
        let parents = self.graph.parents(&entry.id.oid(), &entry.commit)?;
        self.watch.expect(false, || [entry.id.into()]);
        for (index, parent) in parents.iter().enumerate() {
            let parent = self.graph.read_numbered(parent)?;
            if self.watch.same(&entry.commit.tree.into(), &parent.commit.tree.into())? {
                if index > 0 {
                    // Another line begins.
                    (self.stretch, self.passed) = (None, 0);
                }
                return Ok(CommitChange::Same(Box::new(parent)));
            }
        }
        let never = parents.is_empty() && !self.watch.is_there(&entry.commit.tree.into())?;
        Ok(if never { CommitChange::Never } else { CommitChange::Changed })
    }
}
