//! Replaying a trace: the operations of a node done again, their answers and commit hashes checked.
//!
//! **The idea.** Contexts are trees, named by ids; commits are named by the hashes that the trace recorded for them.
//! Reading, applying and committing are apart: a [`Reader`] lends rows, `apply.rs` does them on the
//! table of contexts, `commit.rs` makes commits and finds them again, `meter.rs` has the clocks. A context that is not
//! mentioned again is not copied before it is edited: along a chain of blocks one tree is edited in place.
//!
//! Every answer of Find, Mem and Mem_tree is compared with the recorded one, and where the configuration allows it
//! ([`hashes_checkable`]) every commit hash. The first difference ends the replay with the row that showed it.
//!
//! Each commit moves a branch, in the same append. [`chunked`] is something else, for comparison alone.

use std::{any::Any, io::Read, ops::ControlFlow, time::Duration};

use bristlecone::{BackendStats, Durability, Format, Oid, Repo, Tezos};

mod apply;
mod behind;
pub mod chunked;
mod commit;
mod contexts;
mod durations;
mod error;
mod hash;
mod meter;
mod report;

pub use error::{Fault, Place, ReplayError};
pub use hash::CommitHash;
pub use report::{End, GIANT_ADDS, Giant, Latency, Memory, Report, RowCounts, Sample};

use self::{
    apply::Applier,
    behind::{Behind, Commits, Serially},
    commit::{Committer, Plan, parse},
    meter::Meter,
};
use crate::{PathConversion, Reader, Row, TraceError};

/// The observer is asked so often whether to go on.
const OBSERVED_EVERY: Duration = Duration::from_millis(100);
/// Within a block the clock is looked at after this many rows.
const ROWS_BETWEEN: u64 = 4096;

/// Returns the id that a format gives to the commit with a recorded hash.
pub type ToOid = fn(&CommitHash) -> Oid;

/// How a trace is replayed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// How many commits; `None`: the whole trace.
    pub commits: Option<u64>,
    /// Every Add writes the empty value.
    pub empty_blobs: bool,
    /// How keys are rewritten, which is part of the work.
    pub path_conversion: PathConversion,
    /// When a commit is acknowledged.
    pub durability: Durability,
    /// What the id of each commit must be; `None`: any. [`hashes_checkable`] says where it can be checked.
    pub check_hashes: Option<ToOid>,
    /// List the root directory before each commit, as the reference replayer does. Not part of the commit's latency.
    pub list_root_before_commit: bool,
    /// Drop what is only kept to be found sooner after each commit, as the reference replayer does.
    pub clear_caches_after_commit: bool,
    /// The branch that follows the commits.
    pub branch: String,
    /// How many threads work: with 2, one applies rows while the other hashes and writes commits. Answers, hashes and the
    /// store are the same.
    pub threads: usize,
    /// A trace that ends within a row is an error, behind its whole rows; else it ends with those, and the report says so.
    pub strict: bool,
}

bristlecone::setters! {
    ReplayOptions {
        commits: into Option<u64>,
        empty_blobs: bool,
        path_conversion: PathConversion,
        durability: Durability,
        check_hashes: into Option<ToOid>,
        list_root_before_commit: bool,
        clear_caches_after_commit: bool,
        branch: into String,
        threads: usize,
        strict: bool,
    }
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            commits: None,
            empty_blobs: false,
            path_conversion: PathConversion::None,
            durability: Durability::None,
            check_hashes: None,
            list_root_before_commit: true,
            clear_caches_after_commit: true,
            branch: "main".into(),
            threads: 1,
            strict: false,
        }
    }
}

/// Follows a replay.
pub trait Observer {
    /// Called about ten times a second; [`ControlFlow::Break`] ends the replay.
    fn progress(&mut self, now: &Progress) -> ControlFlow<()> {
        let _ = now;
        ControlFlow::Continue(())
    }

    /// Returns the resident memory of this process, for samples.
    fn memory(&mut self) -> Memory {
        Memory::default()
    }
}

/// A replay that no watcher follows.
impl Observer for () {}

/// How far a replay is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Seconds since the first row.
    pub seconds: f64,
    /// Rows so far.
    pub rows: u64,
    /// Commits so far.
    pub commits: u64,
    /// The share that is done, 0 to 1, by bytes of the trace or by commits; `None` if neither has an end that is known.
    pub done: Option<f64>,
}

/// A replay of one trace into one repository.
///
/// ```
/// use bristlecone::Repo;
/// use bristlecone_tezos::{Reader, Writer, replay::{End, Replay, ReplayOptions}};
///
/// let trace = Writer::new(Vec::new())?.finish()?;
/// let mut replay = Replay::new(&Repo::memory(), ReplayOptions::default())?;
/// replay.run(&mut Reader::new(&trace[..], "empty.repr")?, &mut ())?;
/// assert_eq!((replay.report().commits, replay.report().end), (0, End::Trace));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Replay<F: Format> {
    repo: Repo<F>,
    options: ReplayOptions,
    applier: Applier<F>,
    // Lent to the thread that commits while the replay runs.
    committer: Option<Committer<F>>,
    meter: Meter,
    before: BackendStats,
    wrong_answers: u64,
    wrong_hashes: u64,
    cut: Option<String>,
    end: End,
}

impl<F: Format> Replay<F> {
    /// Returns a replay that has not begun. What the branch holds so far is not looked at; it will be left behind.
    ///
    /// # Errors
    /// For a branch that cannot be; those of the backend.
    pub fn new(repo: &Repo<F>, options: ReplayOptions) -> bristlecone::Result<Self> {
        Ok(Self {
            repo: repo.clone(),
            applier: Applier::new(repo, &options),
            committer: Some(Committer::new(repo, &options)?),
            options,
            meter: Meter::start(),
            before: repo.backend().stats(),
            wrong_answers: 0,
            wrong_hashes: 0,
            cut: None,
            end: End::Open,
        })
    }

    /// Replays rows until the trace ends, all commits asked for are made, or the observer breaks off. The clocks start
    /// here: a replay is run once.
    ///
    /// # Errors
    /// The first thing that goes wrong. Commits made so far stay, and [`Replay::report`] tells of them.
    pub fn run<R: Read + Send>(
        &mut self,
        reader: &mut Reader<R>,
        observer: &mut (dyn Observer + Send),
    ) -> Result<(), ReplayError> {
        let Some(mut committer) = self.committer.take() else { return Ok(()) };
        self.meter = Meter::start();
        let ended = if self.options.threads > 1 {
            let threads = self.options.threads;
            match Behind::with(threads, &mut committer, |behind| self.rows(reader, observer, behind)) {
                Ok((ended, mut behind)) => self.after(ended, &mut behind, reader.name()),
                Err(error) => Err(error.into()),
            }
        } else {
            let mut serially = Serially::new(&mut committer);
            self.rows(reader, observer, &mut serially)
        };
        self.committer = Some(committer);
        self.meter.finish(observer.memory());
        self.end = *ended.as_ref().unwrap_or(&End::Open);
        ended.map(|_| ())
    }

    /// Hears of the commits that were still on their way. What failed first counts.
    fn after(
        &mut self,
        ended: Result<End, ReplayError>,
        commits: &mut impl Commits<F>,
        file: &str,
    ) -> Result<End, ReplayError> {
        let meter = &mut self.meter;
        match commits.made(&mut |made| meter.made(made)) {
            Ok(()) => ended,
            Err(late) => {
                // A row behind it may have failed before this was heard of.
                (self.wrong_answers, self.wrong_hashes) = (0, 0);
                Err(self.failed(*late.place, *late.fault, file))
            }
        }
    }

    fn rows<R: Read + Send>(
        &mut self,
        reader: &mut Reader<R>,
        observer: &mut (dyn Observer + Send),
        commits: &mut impl Commits<F>,
    ) -> Result<End, ReplayError> {
        let mut observed = Duration::ZERO;
        loop {
            if self.options.commits.is_some_and(|commits| self.meter.commits() >= commits) {
                return Ok(End::Commits);
            }
            let offset = reader.offset();
            let row = match reader.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(End::Trace),
                Err(cut @ TraceError::Cut { .. }) if !self.options.strict => {
                    self.cut = Some(cut.to_string());
                    return Ok(End::Trace);
                }
                Err(error) => return Err(error.into()),
            };
            if let Err(fault) = self.row(&row, offset, commits) {
                let place = self.place(&row, offset);
                return Err(self.failed(place, fault, reader.name()));
            }
            let ends_block = matches!(row, Row::Commit { .. });
            if ends_block {
                let meter = &mut self.meter;
                if let Err(late) = commits.made(&mut |made| meter.made(made)) {
                    return Err(self.failed(*late.place, *late.fault, reader.name()));
                }
            }
            if ends_block || self.meter.block_rows().is_multiple_of(ROWS_BETWEEN) {
                let done = self.done(reader);
                let elapsed = self.meter.elapsed();
                self.meter.sample(done, || observer.memory());
                if elapsed - observed >= OBSERVED_EVERY {
                    observed = elapsed;
                    let (rows, commits) = (self.meter.rows(), self.meter.commits());
                    let now = Progress { seconds: elapsed.as_secs_f64(), rows, commits, done };
                    if observer.progress(&now).is_break() {
                        return Ok(End::Stopped);
                    }
                }
            }
        }
    }

    /// Replays one row.
    #[inline]
    fn row(&mut self, row: &Row<'_>, offset: u64, commits: &mut impl Commits<F>) -> Result<(), Fault> {
        match *row {
            Row::Checkout { hash, output } => {
                let tree = commits.checkout(parse(hash)?)?;
                self.applier.contexts.bind(output, Box::new(tree));
            }
            Row::Commit { hash, date, message, parents, input } => {
                let plan = Plan::new(hash, date, message, parents)?;
                let mut tree = self.applier.contexts.take(input)?;
                let made = commits.commit(&mut tree, plan, || self.place(row, offset));
                if input.keep {
                    self.applier.contexts.bind(input, tree);
                }
                made?;
                self.meter.commit();
            }
            _ => self.applier.apply(row)?,
        }
        self.meter.row(row.kind());
        if matches!(row, Row::Commit { .. }) {
            self.meter.block();
        }
        Ok(())
    }

    /// Returns the share of the trace, or of the commits asked for, that is done.
    fn done<R: Read>(&self, reader: &Reader<R>) -> Option<f64> {
        let bytes = reader.bytes_total().map(|total| reader.offset() as f64 / total.max(1) as f64);
        let commits = self.options.commits.map(|commits| self.meter.commits() as f64 / commits.max(1) as f64);
        match (bytes, commits) {
            (Some(bytes), Some(commits)) => Some(bytes.max(commits)),
            (bytes, commits) => bytes.or(commits),
        }
    }

    fn place(&self, row: &Row<'_>, offset: u64) -> Place {
        let key = match row {
            Row::Copy { source, destination, .. } => format!("{} to {}", source.shown(), destination.shown()),
            _ => row.key().map(|key| key.shown()).unwrap_or_default(),
        };
        // A row that fails was not counted, nor its commit; both are counted from 1.
        let (commit, number) = (self.meter.commits() + 1, self.meter.block_rows() + 1);
        Place { file: String::new(), offset, commit, row: number, operation: row.name(), key }
    }

    fn failed(&mut self, mut place: Place, fault: Fault, file: &str) -> ReplayError {
        file.clone_into(&mut place.file);
        match &fault {
            Fault::Hash { .. } => self.wrong_hashes += 1,
            fault if fault.is_wrong() => self.wrong_answers += 1,
            _ => {}
        }
        ReplayError::Row { place: Box::new(place), fault: Box::new(fault) }
    }

    /// Returns what was done so far. The commits are not durable by this: [`Repo::flush`] makes them so.
    #[must_use]
    pub fn report(&self) -> Report {
        let now = self.repo.backend().stats();
        let found = self.applier.found;
        Report {
            answers_checked: found.answers,
            answers_wrong: self.wrong_answers,
            hashes_checked: self.committer.as_ref().map_or(0, Committer::checked),
            hashes_wrong: self.wrong_hashes,
            bytes_written: now.bytes_written - self.before.bytes_written,
            store_bytes: now.store_bytes,
            file_bytes: now.file_bytes,
            syncs: now.syncs - self.before.syncs,
            value_bytes: found.value_bytes,
            value_sum: found.value_sum,
            open: (self.applier.contexts.len(), self.committer.as_ref().map_or(0, Committer::len)),
            head: self.committer.as_ref().and_then(Committer::head),
            cut: self.cut.clone(),
            end: self.end,
            ..self.meter.report()
        }
    }
}

/// Returns how commit hashes are checked in a format with these options, or why they cannot be.
///
/// # Errors
/// The reason, as a sentence says it after "because".
pub fn hashes_checkable<F: Format>(format: &F, options: &ReplayOptions) -> Result<ToOid, &'static str> {
    let Some(tezos) = (format as &dyn Any).downcast_ref::<Tezos>() else {
        return Err("the format hashes in its own way");
    };
    if !tezos.is_standard() {
        return Err("the format's hashing is not configured as in Tezos");
    }
    if options.path_conversion != PathConversion::None {
        return Err("keys are rewritten");
    }
    if options.empty_blobs {
        return Err("every value is empty");
    }
    Ok(CommitHash::oid)
}

#[cfg(test)]
mod tests;
