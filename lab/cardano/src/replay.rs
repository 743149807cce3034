//! A replay of a chain: its blocks into an index, what they spend and create into a set of unspent outputs.
//!
//! **The idea.** [`ChainReader`] lends blocks that are checked, `apply` decodes one and looks whether all that it spends is
//! there before anything changes, and the set takes the changes of one or several blocks as one commit, with their last block
//! as its point. Blocks go into the index as they come.
//!
//! **Where it stopped it goes on.** The point of the set's last commit says where: an index that is ahead is cut back to it, one
//! that is behind is filled, and a chain that does not lead through it is refused. So a crash between index and set costs
//! nothing but the blocks since the last commit. What is wrong with a block leaves the set at the block before it.

use std::{
    collections::VecDeque,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use self::{apply::Decoded, meter::Meter};
pub use self::{
    checkpoint::{Checkpoint, Checkpoints},
    error::ReplayError,
    report::{Memory, Progress, Report, Sample},
};
use crate::{
    Block, BlockHash, BlockPlace, ChainReader, Era, Point, StoredBlock,
    index::{BlockIndex, IndexError},
    utxo::{Changes, UtxoStore, UtxoTip},
};

mod allegra;
mod apply;
mod begin;
mod checkpoint;
mod error;
mod meter;
mod report;

/// How a chain is replayed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReplayOptions {
    /// How many blocks a commit has; a commit has fewer at the end, and before a checkpoint.
    pub commit_every: u64,
    /// Blocks that change nothing are committed as well.
    pub commit_unchanged: bool,
    /// Stop after so many blocks.
    pub blocks: Option<u64>,
    /// Stop after so long, by the clock of [`Report::seconds`], once a block was applied.
    pub time: Option<Duration>,
    /// Inputs that name no output of the set are counted; else the first one is an error.
    pub allow_missing: bool,
    /// Counts and digests to compare with after each chunk. That takes no part in the time.
    pub checkpoints: Checkpoints,
    /// How often a sample is taken.
    pub sample_every: Duration,
}

bristlecone::setters! {
    ReplayOptions {
        commit_every: u64,
        commit_unchanged: bool,
        blocks: into Option<u64>,
        time: into Option<Duration>,
        allow_missing: bool,
        checkpoints: Checkpoints,
        sample_every: Duration,
    }
}

impl Default for ReplayOptions {
    fn default() -> Self {
        Self {
            commit_every: 1,
            commit_unchanged: false,
            blocks: None,
            time: None,
            allow_missing: false,
            checkpoints: Checkpoints::default(),
            sample_every: Duration::from_secs(15),
        }
    }
}

/// Follows a replay.
pub trait Observer {
    /// Called about ten times a second; [`ControlFlow::Break`] ends the replay after a commit.
    fn progress(&mut self, now: &Progress) -> ControlFlow<()> {
        let _ = now;
        ControlFlow::Continue(())
    }

    /// Called with each sample.
    fn sample(&mut self, sample: &Sample) {
        let _ = sample;
    }

    /// Returns the resident memory of this process, for samples.
    fn memory(&mut self) -> Memory {
        Memory::default()
    }
}

/// A replay that no watcher follows.
impl Observer for () {}

/// A replay into an index and a set.
pub struct Replay<'s> {
    index: &'s mut dyn BlockIndex,
    set: &'s mut dyn UtxoStore,
    options: ReplayOptions,
    changes: Changes,
    decoded: Decoded,
    /// The network of the genesis files, where one of them says it.
    magic: Option<u64>,
    /// The hash of the Byron genesis file, where there is one.
    genesis: Option<BlockHash>,
    /// The block where the set stood at the beginning, until it was met.
    resume: Option<Point>,
    last: Option<Point>,
    /// The era of that block, once it was met; of genesis files Byron.
    era: Option<Era>,
    /// The last block that index and set have, until it was met.
    known: Option<Point>,
    /// The tip of the index at the beginning.
    began: Option<Point>,
    /// Blocks since the last commit.
    waiting: u64,
    /// When the commits began that are not acknowledged; `None` for those that do not count.
    unsettled: VecDeque<Option<Instant>>,
    meter: Meter,
}

impl std::fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("last", &self.last).finish_non_exhaustive()
    }
}

impl<'s> Replay<'s> {
    /// Prepares a replay: cuts an index that is ahead of the set back to it.
    ///
    /// # Errors
    /// Those of the index.
    pub fn new(
        index: &'s mut dyn BlockIndex,
        set: &'s mut dyn UtxoStore,
        options: ReplayOptions,
    ) -> Result<Self, ReplayError> {
        let resume = set.tip().point();
        let has = match &resume {
            None => index.truncate(None).map(|()| false)?,
            Some(point) => match index.truncate(Some(point)) {
                Ok(()) => true,
                Err(IndexError::NotIndexed { .. }) => false,
                Err(error) => return Err(error.into()),
            },
        };
        // One that is behind is filled, or is of another chain, which filling it shows.
        if let Some(point) = resume.filter(|_| !has)
            && index.tip().is_some_and(|tip| tip.point.slot >= point.slot)
        {
            index.truncate(None)?;
        }
        let last = index.tip().map(|tip| tip.point);
        let era = set.tip().point().is_none().then_some(Era::Byron);
        Ok(Self {
            resume: resume.filter(|_| !has),
            index,
            set,
            meter: Meter::new(options.sample_every),
            options,
            changes: Changes::default(),
            decoded: Decoded::default(),
            magic: None,
            genesis: None,
            last,
            era,
            known: last,
            began: last,
            waiting: 0,
            unsettled: VecDeque::new(),
        })
    }

    /// Returns the slot from which blocks are to be read; `None` to begin at the first. Those of this slot that are known are
    /// left out.
    #[must_use]
    pub fn from(&self) -> Option<u64> {
        self.last.map(|last| last.slot)
    }

    /// Replays blocks as [`Replay::run`] does, of a chain that `open` opens from a slot on, as [`Replay::from`] gives it. Where the
    /// index may be of another chain than the set, as after a replay into another branch, it is emptied, and the chain is read
    /// once more from its start.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn run_opened(
        &mut self,
        open: &mut dyn FnMut(Option<u64>) -> Result<ChainReader, ReplayError>,
        observer: &mut dyn Observer,
    ) -> Result<(), ReplayError> {
        let done = open(self.from()).and_then(|mut reader| self.run(&mut reader, observer));
        let is_refused = matches!(done, Err(ReplayError::NotThisChain { .. }));
        if !is_refused || self.resume.is_none() || self.began.is_none() {
            return done;
        }
        self.index.truncate(None)?;
        (self.last, self.known, self.began) = (None, None, None);
        self.meter = Meter::new(self.options.sample_every);
        self.run(&mut open(None)?, observer)
    }

    /// Replays blocks until the chain ends, or the options or the observer say so.
    ///
    /// # Errors
    /// [`ReplayError`]. The blocks before the one that is wrong are committed then.
    pub fn run(&mut self, reader: &mut ChainReader, observer: &mut dyn Observer) -> Result<(), ReplayError> {
        self.meter.start(observer.memory());
        let done = self
            .replay(reader, observer)
            .and_then(|done| if done.is_break() { Ok(done) } else { self.met().map(|()| done) });
        if self.resume.is_some() && matches!(done, Err(ReplayError::NotThisChain { .. })) {
            // What another chain put into the index goes again.
            self.index.truncate(self.began.as_ref())?;
            self.last = self.began;
        }
        // The last block that is right has its place in the history, so that the next replay goes on behind it.
        let committed = self.commit(true).and_then(|()| self.settle());
        let synced = self.index.sync();
        self.meter.finish(self.set, self.last, observer);
        self.meter.report.tail = reader.tail().map(str::to_owned);
        let _: ControlFlow<()> = done?;
        committed?;
        Ok(synced?)
    }

    /// Returns what was done.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.meter.report
    }

    /// Returns [`ControlFlow::Break`] where it was stopped before the end of the chain.
    fn replay(
        &mut self,
        reader: &mut ChainReader,
        observer: &mut dyn Observer,
    ) -> Result<ControlFlow<()>, ReplayError> {
        let mut chunk = None;
        while let Some(StoredBlock { block, place }) = reader.next_block()? {
            if let Some(ended) = chunk.replace(place.chunk).filter(|ended| *ended != place.chunk) {
                self.compare(ended, true)?;
            }
            self.block(&block, place)?;
            if self.meter.report.blocks == 0 {
                // Work begins with the first block that is applied: what only leads there takes no part in the time.
                self.meter.begin_again();
            }
            if self.meter.is_due() && self.look(reader.progress(), observer)?.is_break() {
                self.meter.report.stopped = true;
                return Ok(ControlFlow::Break(()));
            }
            let report = &self.meter.report;
            let is_late = self.options.time.is_some_and(|time| report.seconds >= time.as_secs_f64());
            if self.options.blocks.is_some_and(|blocks| report.blocks >= blocks) || is_late && report.blocks > 0 {
                return Ok(ControlFlow::Break(()));
            }
        }
        if let Some(chunk) = chunk {
            self.compare(chunk, reader.tail().is_none())?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Looks whether the chain led to the last block that is known, and to the point where the set stands.
    fn met(&self) -> Result<(), ReplayError> {
        let (point, reason) = match (self.known, self.resume, self.last) {
            (Some(known), ..) => {
                (known, "it is the last block that is known, and the chain ends without it".to_owned())
            }
            (None, Some(resume), Some(last)) => {
                (last, format!("the chain ends with it, and the set stands at {resume}"))
            }
            (None, Some(resume), None) => (resume, "the set stands there, and the chain ends without it".to_owned()),
            (None, None, _) => return Ok(()),
        };
        Err(ReplayError::NotThisChain { place: None, point, reason })
    }

    /// Takes one block.
    fn block(&mut self, block: &Block<'_>, place: BlockPlace) -> Result<(), ReplayError> {
        let point = block.point();
        self.check_genesis(block, place)?;
        if let Some(known) = self.known.filter(|known| point.slot <= known.slot) {
            // Boundary blocks share slots and numbers, hashes are shared by none.
            if point.hash == known.hash {
                (self.known, self.era) = (None, Some(block.era()));
                return Ok(());
            }
            let is_before = point.slot < known.slot || block.boundary_epoch().is_some();
            if is_before {
                return Ok(());
            }
            if block.previous() != Some(known.hash) {
                let reason = format!("its slot is that of {known}, the last block that is known");
                return Err(ReplayError::NotThisChain { place: Some(place), point, reason });
            }
            // The successor of a boundary block that was not named again.
        }
        self.known = None;
        self.follows(&point, block, place)?;
        if self.last.is_none() && self.resume.is_some_and(|resume| block.previous() == Some(resume.hash)) {
            // What comes before was not named again: the index begins here.
            self.resume = None;
        }
        let Some(resume) = self.resume else {
            self.enter(block.era())?;
            self.decoded.read(block, place)?;
            self.decoded.look(&self.changes, &*self.set, (point, place), self.options.allow_missing)?;
            self.index.insert(&point, place)?;
            self.decoded.apply(block.bytes(), &mut self.changes);
            self.meter.block(block.bytes().len(), &self.decoded);
            self.last = Some(point);
            self.waiting += 1;
            if self.set.tip() == UtxoTip::Empty {
                return self.begin_with(point);
            }
            return if self.waiting >= self.options.commit_every { self.commit(false) } else { Ok(()) };
        };
        // The set has this block; the index has not.
        self.index.insert(&point, place)?;
        self.meter.report.indexed += 1;
        (self.last, self.era) = (Some(point), Some(block.era()));
        if point.hash == resume.hash {
            self.resume = None;
        }
        Ok(())
    }

    /// Commits the first block of a set that begins without genesis files, whatever it changes: so the set is kept at every block.
    /// As the commit of genesis files it is not counted.
    fn begin_with(&mut self, first: Point) -> Result<(), ReplayError> {
        self.commit_as(UtxoTip::Block(first), false)?;
        self.waiting = 0;
        Ok(())
    }

    /// Looks whether a block follows the last one, and leads through the point where the set stands.
    fn follows(&self, point: &Point, block: &Block<'_>, place: BlockPlace) -> Result<(), ReplayError> {
        let broken = |reason: String| Err(ReplayError::NotThisChain { place: Some(place), point: *point, reason });
        if let Some(last) = &self.last {
            return match block.previous() {
                Some(previous) if previous == last.hash => match &self.resume {
                    Some(resume) if point.slot > resume.slot => {
                        broken(format!("the chain does not lead through {resume}, where the set stands"))
                    }
                    _ => Ok(()),
                },
                _ => broken(format!("it does not follow {last}, the last block that is known")),
            };
        }
        match (&self.resume, block.previous()) {
            // A chain whose part before the set's point was not named again: its index begins here.
            (Some(resume), previous) if point.slot > resume.slot && previous != Some(resume.hash) => {
                broken(format!("it does not follow {resume}, where the set stands"))
            }
            // Without its first blocks a chain that begins with the genesis leads to another set, and nothing shows it.
            (None, Some(_))
                if point.number > 0 && self.set.tip() == UtxoTip::Genesis && !self.options.allow_missing =>
            {
                Err(ReplayError::NotFirst { place, point: *point })
            }
            _ => Ok(()),
        }
    }

    /// Commits what waits: blocks that change nothing only where that is wanted, or `always`.
    fn commit(&mut self, always: bool) -> Result<(), ReplayError> {
        let Some(point) = self.last.filter(|_| self.waiting > 0) else { return Ok(()) };
        if self.changes.is_empty() && !self.options.commit_unchanged && !always {
            // The next commit has a later point.
            return Ok(());
        }
        self.commit_as(UtxoTip::Block(point), true)?;
        self.waiting = 0;
        Ok(())
    }

    /// Makes a commit, which counts, if it is `counted`, once it is as durable as was asked for.
    fn commit_as(&mut self, tip: UtxoTip, counted: bool) -> Result<(), ReplayError> {
        let began = counted.then(Instant::now);
        self.set.commit(&mut self.changes, tip)?;
        self.unsettled.push_back(began);
        self.acknowledge();
        Ok(())
    }

    /// Waits until everything that was committed is as durable as was asked for.
    fn settle(&mut self) -> Result<(), ReplayError> {
        self.set.settle()?;
        self.acknowledge();
        Ok(())
    }

    /// Counts the commits that are as durable as was asked for, and what they took.
    fn acknowledge(&mut self) {
        let settled = self.unsettled.len().saturating_sub(self.set.unsettled());
        for began in self.unsettled.drain(..settled) {
            let at = self.set.settled_at();
            if let Some(began) = began {
                self.meter.commit(at.saturating_duration_since(began));
            }
        }
    }

    /// Compares the set with what is known of it after a chunk: if that is not `whole`, only where the last block is there.
    fn compare(&mut self, chunk: u32, whole: bool) -> Result<(), ReplayError> {
        let Some(known) = self.options.checkpoints.of(chunk).cloned() else { return Ok(()) };
        if self.resume.is_some() || !(whole || known.is_at(self.last)) {
            return Ok(());
        }
        self.commit(false)?;
        self.settle()?;
        let began = Instant::now();
        known.compare(chunk, self.last, &self.set.digest()?)?;
        self.meter.report.checkpoints += 1;
        self.meter.report.compared = self.last;
        self.meter.leave_out(began.elapsed());
        Ok(())
    }

    /// Tells the observer how far the replay is, and takes a sample when it is time.
    fn look(&mut self, bytes: (u64, Option<u64>), observer: &mut dyn Observer) -> Result<ControlFlow<()>, ReplayError> {
        let progress = self.meter.progress(self.set.entries()?, self.last, bytes);
        if self.meter.sample_due() {
            let sample = self.meter.sample(&progress, observer.memory());
            observer.sample(&sample);
        }
        Ok(observer.progress(&progress))
    }
}

#[cfg(test)]
mod tests;
