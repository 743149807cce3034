//! The index of history: runs of first-parent commits with filters over what they changed.
//!
//! Everything here is derived: a file that is missing, damaged, of another version, or was replaced by another
//! process takes its run out of the index, and the next lookup that lacks the run makes it again.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bristlecone_core::{CommitId, Format, ObjRef, Oid};

use super::{
    super::Repo,
    LogEntry,
    ancestry::GOES_ON,
    changes::{EditedPaths, changes},
    circle::LineCheck,
    graph::CommitGraph,
    manifest::{self, RunHead},
    run::{COMMITS_MAX, FilterRun, HASHES_MAX, Indexed, stored_check, union_filter},
};
use crate::{Error, Result, oid_map::OidMap, store::StoreView};

/// The derived file that says which runs there are.
const MANIFEST: &str = "history";
/// Side branches shorter than this get no run of their own.
const SIDE_COMMITS_MIN: usize = 64;
/// The most runs; history beyond them is walked.
const RUNS_MAX: usize = 1 << 14;
/// How many commits are compared with their parents together.
const TOGETHER_MAX: usize = 256;
/// How many runs are in memory at a time.
const OPEN_MAX: usize = 8;

impl<F: Format> Repo<F> {
    /// Brings what questions about history use up to `head`: the index that [`Repo::last_change`] uses, along first parents, and
    /// the graph of all commits that led to it, which [`Repo::is_ancestor`] and [`Repo::merge_bases`] use. Returns how many
    /// commits were added to the index.
    ///
    /// Costs a look at what each new commit changed, and nothing but a few reads where all is there. Call it after an import, or
    /// now and then. Both are caches: losing them costs time only.
    ///
    /// # Errors
    /// As [`Repo::read_commit`]; those of [`crate::Backend::write_derived`], such as [`Error::ReadOnly`].
    pub fn index_history(&self, head: CommitId) -> Result<u64> {
        let (store, head) = (self.now(), self.shared.commit_ref(head));
        let added = bring_up(&store, &head, OidMap::default(), u64::MAX, &GOES_ON)?;
        self.shared.graph.extend(&store, &[head], 1, &GOES_ON)?;
        Ok(added)
    }
}

/// How many commits the caches hold that answer questions about history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexedCommits {
    /// In the graph of commits, which [`Repo::is_ancestor`] and [`Repo::merge_bases`] use.
    pub graph: u64,
    /// In the index of changes, which [`Repo::last_change`] uses: of lines of first parents alone.
    pub changes: u64,
}

impl<F: Format> Repo<F> {
    /// Returns how many commits the caches hold that answer questions about history: those of [`Repo::index_history`].
    ///
    /// # Errors
    /// Those of [`crate::Backend::shallow`] and [`crate::Backend::absent`].
    pub fn indexed_commits(&self) -> Result<IndexedCommits> {
        let store = self.now();
        let changes = HistoryIndex::load(&store).runs.iter().map(|run| u64::from(run.count)).sum();
        Ok(IndexedCommits { graph: self.shared.graph.latest(&store)?.len().into(), changes })
    }
}

/// Brings the index up to `head`, along first parents; returns how many commits were added. Ends once these are `most` or more,
/// or `stop` says so. What commits of `edited` may have changed need not be looked at.
pub(crate) fn bring_up<F: Format>(
    store: &Arc<StoreView<F>>,
    head: &ObjRef,
    edited: OidMap<EditedPaths>,
    most: u64,
    stop: &AtomicBool,
) -> Result<u64> {
    let mut graph = CommitGraph::new(store.clone());
    let mut index = HistoryIndex::load(store);
    index.edited = edited;
    let mut added = 0;
    let (mut next, mut line) = (Some(graph.read_numbered(head)?), LineCheck::default());
    while let Some(entry) = next.take_if(|_| added < most && !stop.load(Relaxed)) {
        line.pass(entry.id.oid())?;
        next = match index.find(&entry.id.oid(), entry.number()) {
            Some(spot) => {
                let lowest = index.lowest(spot)?;
                index.below(&mut graph, lowest)?
            }
            None => {
                let (count, below) = index.extend(&mut graph, entry)?;
                index.kept()?;
                added += count;
                below
            }
        };
    }
    index.save()?;
    Ok(added)
}

/// The index, as far as it is loaded.
#[derive(Debug)]
pub(super) struct HistoryIndex<F: Format> {
    store: Arc<StoreView<F>>,
    runs: Vec<RunHead>,
    // Runs by their newest commit.
    tops: OidMap<usize>,
    // What is known without a look at trees.
    edited: OidMap<EditedPaths>,
    // The runs used last, by file, latest last.
    open: Vec<(u32, FilterRun)>,
    changed: bool,
    // Whether retention has cut anything, once that is asked.
    cuts: Option<bool>,
    // The commits that a shallow history ends with, once that is asked.
    shallow: Option<BTreeSet<Oid>>,
    // Why a run could not be written.
    failed: Option<Error>,
}

/// A commit's place in the index.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    run: usize,
    position: usize,
}

/// Where a path may have changed last, at or before a commit of the index.
#[derive(Clone, Copy, Debug)]
pub(super) enum Touch {
    /// In this commit, if anywhere in the run.
    At(Oid),
    /// Not in the run; history goes on with this commit, if it does.
    Below(Option<Oid>),
    /// The run turned out to be damaged and is out of the index.
    Lost,
}

impl<F: Format> HistoryIndex<F> {
    /// Loads the manifest; an empty one if it is lost or damaged.
    pub(super) fn load(store: &Arc<StoreView<F>>) -> Self {
        let bytes = store.backend.read_derived(MANIFEST).ok().flatten();
        let runs = bytes.and_then(|bytes| manifest::decode(&bytes)).unwrap_or_default();
        let mut index = Self {
            store: store.clone(),
            runs,
            tops: OidMap::default(),
            edited: OidMap::default(),
            open: Vec::new(),
            changed: false,
            cuts: None,
            shallow: None,
            failed: None,
        };
        index.sort_tops();
        index
    }

    /// Checks that the runs that were made could be written.
    fn kept(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Whether runs cannot be written.
    pub(super) const fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Writes the manifest if anything changed.
    pub(super) fn save(&mut self) -> Result<()> {
        if self.changed {
            self.store.backend.write_derived(MANIFEST, &manifest::encode(&self.runs))?;
            self.changed = false;
        }
        Ok(())
    }

    /// Returns where a commit is in the index. Loads a run only if its generations say that it may be inside.
    pub(super) fn find(&mut self, oid: &Oid, generation: u64) -> Option<Spot> {
        if let Some(&run) = self.tops.get(oid) {
            return Some(Spot { run, position: self.runs[run].count as usize - 1 });
        }
        let mut run = 0;
        while run < self.runs.len() {
            let head = &self.runs[run];
            if head.first <= generation && generation < head.last {
                let Some(open) = self.open(run) else { continue };
                if let Some(position) = open.position(oid, generation) {
                    return Some(Spot { run, position });
                }
            }
            run += 1;
        }
        None
    }

    /// Returns the spot of the lowest run that is reached from one, each run standing on the next; the spot itself where retention
    /// has cut anything, or history ends with a commit that has parents. No commit is read: a run names that below it by its id
    /// alone, for which a store looks everywhere.
    fn lowest(&mut self, spot: Spot) -> Result<Spot> {
        if self.cuts()? || self.is_shallow()? {
            return Ok(spot);
        }
        let mut spot = spot;
        while let Some(&run) = self.runs[spot.run].below.and_then(|below| self.tops.get(&below))
            && self.runs[run].last < self.runs[spot.run].first
        {
            spot = Spot { run, position: self.runs[run].count as usize - 1 };
        }
        Ok(spot)
    }

    /// Returns the commit with which history goes on below a run, unless it ends in the run by now.
    fn below(&mut self, graph: &mut CommitGraph<F>, spot: Spot) -> Result<Option<LogEntry>> {
        let Some(below) = self.runs[spot.run].below else { return Ok(None) };
        if self.shallow_end(spot, 0)?.is_some() {
            return Ok(None);
        }
        if !self.is_cut(&below)? {
            return graph.read_numbered(&below.into()).map(Some);
        }
        let Some(oldest) = self.oldest_kept(spot, 0)? else { return Ok(None) };
        let oldest = graph.read_numbered(&oldest.into())?;
        let parents = graph.parents(&oldest.id.oid(), &oldest.commit)?;
        parents.first().map(|parent| graph.read_numbered(parent)).transpose()
    }

    /// Returns where a path may have changed last in a run. If retention has cut what the run names, that is a commit
    /// above it that is kept and has a gap below: it is compared with what history goes on with.
    pub(super) fn last_touch(&mut self, spot: Spot, hash: u32) -> Result<Touch> {
        let below = self.runs[spot.run].below;
        let mut touched = None;
        if super::filter::may_hold(&self.runs[spot.run].filter, hash) {
            let Some(run) = self.open(spot.run) else { return Ok(Touch::Lost) };
            touched = run.last_touch(spot.position, hash).map(|position| (position, run.oid(position)));
        }
        let from = touched.map_or(0, |(position, _)| position + 1);
        if let Some(end) = self.shallow_end(spot, from)? {
            return Ok(end);
        }
        let Some(oid) = touched.map(|(_, oid)| oid).or(below) else { return Ok(Touch::Below(None)) };
        if self.is_cut(&oid)? {
            let oldest = self.oldest_kept(spot, touched.map_or(0, |(position, _)| position))?;
            return Ok(oldest.map_or(Touch::Lost, Touch::At));
        }
        Ok(if touched.is_some() { Touch::At(oid) } else { Touch::Below(below) })
    }

    /// Returns the newest commit of a run, from a position on up to a spot, with which history ends now: it may have been made
    /// shallow since, and what lies below that does not count though it is there. The run may turn out to be lost.
    fn shallow_end(&mut self, spot: Spot, from: usize) -> Result<Option<Touch>> {
        let shallow = match self.shallow.take() {
            Some(shallow) => shallow,
            None => self.store.backend.shallow()?,
        };
        let mut end = None;
        if !shallow.is_empty() {
            end = match self.open(spot.run) {
                None => Some(Touch::Lost),
                Some(run) => {
                    let mut newest_first = (from..=spot.position).rev().map(|position| run.oid(position));
                    newest_first.find(|oid| shallow.contains(oid)).map(Touch::At)
                }
            };
        }
        self.shallow = Some(shallow);
        Ok(end)
    }

    /// Whether history ends with a commit that has parents.
    fn is_shallow(&mut self) -> Result<bool> {
        let shallow = match &self.shallow {
            Some(shallow) => shallow,
            None => self.shallow.insert(self.store.backend.shallow()?),
        };
        Ok(!shallow.is_empty())
    }

    /// Whether retention has cut a commit that a run names.
    fn is_cut(&mut self, oid: &Oid) -> Result<bool> {
        Ok(self.cuts()? && self.is_gone(oid))
    }

    /// Whether retention has cut anything.
    fn cuts(&mut self) -> Result<bool> {
        Ok(match self.cuts {
            Some(cuts) => cuts,
            None => *self.cuts.insert(!self.store.absent()?.is_empty()),
        })
    }

    /// Whether a commit is no longer there. One that cannot be read is.
    fn is_gone(&self, oid: &Oid) -> bool {
        matches!(self.store.snapshot.read(&(*oid).into()), Ok(None))
    }

    /// Returns the oldest commit of a run, from a position on up to a commit that is there, that has not been cut; where the run has
    /// several gaps, the one above any of them. `None` if the run turns out to be damaged.
    fn oldest_kept(&mut self, spot: Spot, from: usize) -> Result<Option<Oid>> {
        let Some(run) = self.open(spot.run) else { return Ok(None) };
        let line: Vec<Oid> = (from..=spot.position).map(|position| run.oid(position)).collect();
        // What is looked for lies in `low..=high`, by halves: each look at what was cut goes through the whole store.
        let (mut low, mut high) = (0, line.len().saturating_sub(1));
        while low < high {
            let middle = low.midpoint(high);
            if self.is_cut(&line[middle])? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(line.get(high).copied())
    }

    /// Adds a run that ends with `newest`, or extends the one below; returns how many commits were added, and the
    /// commit below them, if there is one.
    pub(super) fn extend(&mut self, graph: &mut CommitGraph<F>, newest: LogEntry) -> Result<(u64, Option<LogEntry>)> {
        let (mut commits, below) = self.collect(graph, newest)?;
        commits.reverse();
        let spot = below.as_ref().and_then(|entry| self.find(&entry.id.oid(), entry.number()));
        let on_top = spot.filter(|spot| spot.position + 1 == self.runs[spot.run].count as usize);
        if spot.is_some() && on_top.is_none() && commits.len() < SIDE_COMMITS_MIN {
            return Ok((0, below));
        }
        let added = commits.len() as u64;
        if let Some(old) = on_top.filter(|spot| spot.position + 1 + commits.len() <= COMMITS_MAX)
            && let Some(run) = self.open(old.run)
            && run.hashes() + hashes(&commits) <= HASHES_MAX
        {
            let mut all = run.commits();
            all.append(&mut commits);
            let (file, below) = (self.runs[old.run].file, self.runs[old.run].below);
            self.put(Some(old.run), file, below, &all);
        } else if self.has_room() {
            let file = (0..).find(|&file| self.runs.iter().all(|run| run.file != file)).unwrap_or_default();
            self.put(None, file, below.as_ref().map(|entry| entry.id.oid()), &commits);
        } else {
            return Ok((0, below));
        }
        Ok((added, below))
    }

    /// Whether there may be another run. Runs of which a collection has left not even the newest commit make room first, and the
    /// next runs take the numbers of their files: so the files of the index are as few as what is kept needs.
    fn has_room(&mut self) -> bool {
        if self.store.backend.sweeps() > 0 {
            for run in std::mem::take(&mut self.runs) {
                if self.is_gone(&run.top) {
                    // Its room is given back; a file that stays is written over by the next run.
                    let _ = self.store.backend.write_derived(&file_name(run.file), &[]);
                    self.keep_open(run.file, None);
                    self.changed = true;
                } else {
                    self.runs.push(run);
                }
            }
            self.sort_tops();
        }
        self.runs.len() < RUNS_MAX
    }

    /// Looks at what changed in up to [`COMMITS_MAX`] commits, newest first, down to one that is in the index.
    fn collect(&mut self, graph: &mut CommitGraph<F>, newest: LogEntry) -> Result<(Vec<Indexed>, Option<LogEntry>)> {
        let (mut commits, mut hashes) = (Vec::new(), 0);
        let mut next = Some(newest);
        while next.is_some() && commits.len() < COMMITS_MAX {
            // The line is followed first, so that many commits are compared together.
            let (mut line, mut pairs) = (Vec::new(), Vec::new());
            while line.len() < TOGETHER_MAX.min(COMMITS_MAX - commits.len())
                && let Some(entry) = next.take_if(|entry| self.find(&entry.id.oid(), entry.number()).is_none())
            {
                let parents = graph.parents(&entry.id.oid(), &entry.commit)?;
                // What stands behind a gap may be followed by another, or the gap be filled: such a commit is always compared.
                let gap =
                    parents.first().map(|parent| parent.oid) != entry.commit.parents.first().map(|parent| parent.oid());
                next = parents.first().map(|parent| graph.read_numbered(parent)).transpose()?;
                let before = next.as_ref().map(|parent| ObjRef::from(parent.commit.tree));
                let edited = self.edited.remove(&entry.id.oid());
                let base = before.and_then(|root| self.store.unless_empty(root)).map(|root| root.oid);
                let known = if gap { Some(None) } else { edited.and_then(|edited| edited.over(base)).map(Some) };
                if known.is_none() {
                    pairs.push((before, entry.commit.tree.into()));
                }
                line.push((entry, known));
            }
            if line.is_empty() {
                break;
            }
            let mut compared = changes(&self.store, &pairs)?.into_iter();
            for (entry, known) in line {
                let changes = known.unwrap_or_else(|| compared.next().flatten());
                if hashes >= HASHES_MAX {
                    return Ok((commits, Some(entry)));
                }
                hashes += changes.as_ref().map_or(0, Vec::len);
                commits.push(Indexed { oid: entry.id.oid(), generation: entry.number(), changes });
            }
        }
        Ok((commits, next))
    }

    /// Writes a run, in place of another or a new one.
    fn put(&mut self, old: Option<usize>, file: u32, below: Option<Oid>, commits: &[Indexed]) {
        let (Some(oldest), Some(newest)) = (commits.first(), commits.last()) else { return };
        let bytes = FilterRun::encode(commits);
        let head = RunHead {
            file,
            count: commits.len() as u32,
            first: oldest.generation,
            last: newest.generation,
            check: stored_check(&bytes),
            top: newest.oid,
            below,
            filter: union_filter(commits),
        };
        // In memory first: a store that is read-only profits for as long as this index lives.
        self.keep_open(file, FilterRun::parse(bytes.clone(), head.check));
        match old {
            Some(run) => self.runs[run] = head,
            None => self.runs.push(head),
        }
        self.changed = true;
        self.sort_tops();
        self.failed = self.store.backend.write_derived(&file_name(file), &bytes).err();
    }

    /// Returns a run's contents, loading them if need be. One that is lost or damaged, or has not as many commits as the manifest
    /// says, leaves the index.
    fn open(&mut self, run: usize) -> Option<&FilterRun> {
        let RunHead { file, check, count, .. } = self.runs[run];
        if !self.open.iter().any(|(other, _)| *other == file) {
            let bytes = self.store.backend.read_derived(&file_name(file)).ok().flatten();
            let loaded = bytes.and_then(|bytes| FilterRun::parse(bytes, check));
            let loaded = loaded.filter(|loaded| loaded.count() == count as usize);
            if loaded.is_none() {
                self.runs.remove(run);
                self.changed = true;
                self.sort_tops();
            }
            self.keep_open(file, loaded);
        }
        self.open.iter().find(|(other, _)| *other == file).map(|(_, run)| run)
    }

    fn keep_open(&mut self, file: u32, run: Option<FilterRun>) {
        self.open.retain(|(other, _)| *other != file);
        if self.open.len() == OPEN_MAX {
            self.open.remove(0);
        }
        self.open.extend(run.map(|run| (file, run)));
    }

    fn sort_tops(&mut self) {
        self.tops = self.runs.iter().enumerate().map(|(run, head)| (head.top, run)).collect();
    }
}

fn file_name(file: u32) -> String {
    format!("{MANIFEST}-{file}")
}

fn hashes(commits: &[Indexed]) -> usize {
    commits.iter().flat_map(|commit| &commit.changes).map(Vec::len).sum()
}

#[cfg(test)]
mod tests;
