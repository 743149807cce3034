//! One replay of a chain: the stores, the clocks around it, and what is looked at afterwards.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use bristlecone::{BackendStats, MemoryBackend, Native, Repo};
use bristlecone_any::{AnyFormat, AnyRepo, OpenOptions, Place, store_dir};
use bristlecone_cardano::{
    BlockIndex, BlockPlace, ChainReader, Genesis, IndexError, MappedIndex, MemoryIndex, Opened, Point, ReadOptions,
    replay::{Checkpoints, Replay, ReplayError, ReplayOptions, Report},
    utxo::{LsmUtxo, TreeUtxo, UtxoDigest, UtxoStore, UtxoTip},
};
use bristlecone_lsm::LsmOptions;
use serde::{Deserialize, Serialize};

use super::{
    job::{ChainJob, IndexName, UtxoName},
    watch::Watch,
};
use crate::{
    BenchError,
    error::Result,
    measure::{Run, cpu_us, folder_bytes},
    replay::BackendName,
    report::{ChainFigures, ChainSample},
    rss::{Peak, Sampler},
    scratch::Scratch,
};

/// What one replay found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChainRun {
    /// What every measurement has.
    pub(crate) run: Run,
    /// What replays of a chain have beside it.
    pub(crate) figures: ChainFigures,
}

/// Does one replay in this process.
pub(super) fn run(job: &ChainJob) -> Result<ChainRun> {
    let genesis = job.genesis.iter().map(|file| Genesis::read(file)).collect::<std::result::Result<Vec<_>, _>>()?;
    check_network(job, &genesis)?;
    let checkpoints = job.checkpoints.as_deref().map(Checkpoints::read).transpose()?.unwrap_or_default();
    let options = ReplayOptions::default()
        .commit_every(job.commit_every)
        .commit_unchanged(job.commit_unchanged)
        .blocks(job.blocks)
        .time(job.seconds.map(Duration::from_secs_f64))
        .allow_missing(job.allow_missing)
        .checkpoints(checkpoints)
        .sample_every(Duration::from_secs_f64(job.sample_every));
    let (dir, scratch) = match &job.keep {
        Some(keep) => (keep.clone(), None),
        None => {
            let scratch = Scratch::for_replay(&job.dir)?;
            (scratch.dir.clone(), Some(scratch))
        }
    };
    fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
    let mut place = Places { job, dir, made: None, memory: None };
    let sampler = Sampler::start_counting(false);
    let (cpu, began) = (cpu_us(), Instant::now());
    let mut index = place.index()?;
    let mut set = place.set()?;
    let before = place.stats();
    let (ended, report) = replay(job, (&mut *index, &mut *set), options, &genesis, &sampler);
    // Digests take no part in the time of the work, but they do in both of these.
    let cpu = (cpu_us() - cpu) as f64 / 1e4 / began.elapsed().as_secs_f64().max(1e-9);
    let peak = sampler.finish();
    let after = place.stats();
    if let Some(tail) = &report.tail {
        say!("note: {tail}");
    }
    if let Some(IndexError::Damaged { name, part, number, reason }) = index.repaired() {
        say!("note: {part} {number} of {name} was damaged: {reason}; the table was made again from the records");
    }
    let closed = index.close();
    if let Err(error) = ended {
        if report.blocks > 0 {
            say!("replayed {} blocks before that; the set is at {}", report.blocks, report.tip);
        }
        drop(set);
        // What went wrong counts, not whether the store can be closed after it.
        let _ = place.close();
        return Err(error.into());
    }
    closed?;
    let digest = set.digest()?;
    drop(set);
    place.close()?;
    let wrong = place.look_again(&report, &digest)?.or_else(|| unmatched(job, &report));
    let run = Run { wrong, file_bytes: folder_bytes(&place.dir), ..of_report(&report, &before, &after, peak) };
    drop(scratch);
    Ok(ChainRun { run, figures: figures(job, &report, peak, cpu, &digest) })
}

/// Compares the network of genesis files with each other and with that of the folders.
fn check_network(job: &ChainJob, genesis: &[Genesis]) -> Result<()> {
    let mut known: Option<(u64, PathBuf)> = None;
    let named = genesis.iter().zip(&job.genesis).filter_map(|(genesis, file)| Some((genesis.magic?, file.clone())));
    let folders = job.sources.iter().filter(|source| source.is_dir()).flat_map(|dir| {
        let above = dir.parent().map(Path::to_owned);
        [Some(dir.clone()), above].into_iter().flatten().map(|dir| dir.join("protocolMagicId"))
    });
    let read = |file: PathBuf| Some((fs::read_to_string(&file).ok()?.trim().parse().ok()?, file));
    for (magic, file) in named.chain(folders.filter_map(read)) {
        match &known {
            Some((other, first)) if *other != magic => {
                return Err(BenchError::usage(format!(
                    "{} is of the network {other}, and {} of the network {magic}: name the genesis files of this chain",
                    first.display(),
                    file.display()
                )));
            }
            _ => known = Some((magic, file)),
        }
    }
    Ok(())
}

fn replay(
    job: &ChainJob,
    (index, set): (&mut dyn BlockIndex, &mut dyn UtxoStore),
    options: ReplayOptions,
    genesis: &[Genesis],
    sampler: &Sampler,
) -> (Result<(), ReplayError>, Report) {
    let mut replay = match Replay::new(index, set, options) {
        Ok(replay) => replay,
        Err(error) => return (Err(error), Report::default()),
    };
    let mut open = |from: Option<u64>| {
        if let Some(from) = from {
            say!("going on behind slot {from}");
        }
        let mut options = ReadOptions::default().start_slot(from.max(job.from)).tail(job.tail.into());
        if let Some(slots) = genesis.iter().find_map(|file| file.byron_epoch_slots) {
            options = options.byron_epoch_slots(slots);
        }
        Ok(ChainReader::open(&job.sources, options)?)
    };
    let ended = replay.begin(genesis).and_then(|()| {
        sampler.count(true);
        let ended = replay.run_opened(&mut open, &mut Watch::new(job.sample_every));
        sampler.count(false);
        ended
    });
    let report = replay.report().clone();
    (ended, report)
}

/// The stores of a replay.
struct Places<'j> {
    job: &'j ChainJob,
    dir: PathBuf,
    made: Option<AnyRepo>,
    memory: Option<Repo<Native>>,
}

impl Places<'_> {
    fn index(&self) -> Result<Box<dyn ClosedIndex>> {
        if self.job.index == IndexName::Memory {
            return Ok(Box::new(MemoryIndex::new()?));
        }
        let dir = self.dir.join("blocks.index");
        let none = std::iter::empty::<std::result::Result<(Point, BlockPlace), IndexError>>;
        let fresh = !dir.exists();
        let (index, opened) = MappedIndex::open_or_rebuild(&dir, none)?;
        match opened {
            Opened::Rebuilt(why) if !fresh => say!("{}: {why}; it is made again", dir.display()),
            Opened::Recovered => say!("{}: not closed when it was last used; recovered", dir.display()),
            _ => {}
        }
        Ok(Box::new(index))
    }

    fn set(&mut self) -> Result<Box<dyn UtxoStore>> {
        let job = self.job;
        if job.utxo == UtxoName::Lsm {
            let set = LsmUtxo::open(&self.dir.join("utxo.lsm"), job.profile.cache_bytes(), job.durability())?;
            return Ok(Box::new(set));
        }
        let repo = self.repo()?;
        Ok(Box::new(TreeUtxo::open(&repo, &job.branch, job.durability())?.sync_behind()?))
    }

    /// Opens the store of the tree, or makes it.
    fn repo(&mut self) -> Result<Repo<Native>> {
        let format = TreeUtxo::format();
        if self.job.backend == BackendName::Memory {
            let new = || Repo::with_backend(format, Arc::new(MemoryBackend::new()));
            return Ok(self.memory.get_or_insert_with(new).clone());
        }
        let dir = store_dir(&self.dir);
        fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
        let place = match self.job.backend {
            BackendName::Lsm => Place::Lsm(dir.clone()),
            BackendName::Lmdb => Place::Lmdb(dir.clone()),
            BackendName::Fs => Place::Fs(dir.clone()),
            BackendName::Memory | BackendName::Disk => Place::Disk(dir.clone()),
        };
        let profile = self.job.profile;
        let made = OpenOptions::new()
            .disk(profile.disk())
            .lsm(LsmOptions::default().cache_bytes(profile.cache_bytes()))
            .format(AnyFormat::from(format))
            .open_or_create(place)?;
        let (found, wanted) = (made.format().tag(), AnyFormat::from(format).tag());
        if found != wanted {
            return Err(BenchError::usage(format!(
                "{} is a store of the format {} {}, not {} {}; name another folder",
                dir.display(),
                found.name,
                found.options,
                wanted.name,
                wanted.options
            )));
        }
        let repo = Repo::with_backend(format, made.backend().clone());
        repo.set_head(&self.job.branch)?;
        self.made = Some(made);
        Ok(repo)
    }

    fn stats(&self) -> BackendStats {
        self.made.as_ref().map(|made| made.backend().stats()).unwrap_or_default()
    }

    fn close(&mut self) -> Result<()> {
        Ok(self.made.take().map_or(Ok(()), |made| made.close())?)
    }

    /// Opens the set again and compares it with what it was; returns what is wrong.
    fn look_again(&mut self, report: &Report, digest: &UtxoDigest) -> Result<Option<String>> {
        let set = self.set()?;
        let (tip, again) = (set.tip(), set.digest()?);
        drop(set);
        self.close()?;
        Ok(if tip != report.tip {
            Some(format!("the set is at {tip} after it was opened again, and was at {}", report.tip))
        } else if again != *digest || again.entries != report.entries {
            Some(format!("the set is another after it was opened again: {} entries, {}", again.entries, again.hex()))
        } else {
            None
        })
    }
}

/// An index that can be closed.
trait ClosedIndex: BlockIndex {
    /// Returns the damage that was mended.
    fn repaired(&self) -> Option<&IndexError>;
    fn close(self: Box<Self>) -> std::result::Result<(), IndexError>;
}

impl ClosedIndex for MemoryIndex {
    fn repaired(&self) -> Option<&IndexError> {
        None
    }

    fn close(self: Box<Self>) -> std::result::Result<(), IndexError> {
        Ok(())
    }
}

impl ClosedIndex for MappedIndex {
    fn repaired(&self) -> Option<&IndexError> {
        self.repaired()
    }

    fn close(self: Box<Self>) -> std::result::Result<(), IndexError> {
        (*self).close()
    }
}

/// Returns what is wrong where a whole replay met none of the checkpoints that it was given.
fn unmatched(job: &ChainJob, report: &Report) -> Option<String> {
    let file = job.checkpoints.as_ref().filter(|_| report.checkpoints == 0)?;
    let is_whole = job.blocks.is_none() && job.seconds.is_none() && !report.stopped;
    is_whole.then(|| format!("{} names none of the chunks that were replayed: nothing was compared", file.display()))
}

fn of_report(report: &Report, before: &BackendStats, after: &BackendStats, peak: Peak) -> Run {
    Run {
        ops: report.blocks,
        seconds: report.seconds,
        commits: report.commits,
        p50_us: (report.commits > 0).then_some(report.commit_p50_us),
        p99_us: (report.commits > 0).then_some(report.commit_p99_us),
        bytes_written: after.bytes_written - before.bytes_written,
        syncs: after.syncs - before.syncs,
        store_bytes: after.store_bytes,
        rss_anon_kb: peak.anon_kb,
        rss_file_kb: peak.file_kb,
        maxrss_kb: peak.max_kb,
        threads: 1,
        ..Run::default()
    }
}

fn figures(job: &ChainJob, report: &Report, peak: Peak, cpu_percent: f64, digest: &UtxoDigest) -> ChainFigures {
    let tip = match report.tip {
        UtxoTip::Empty => None,
        tip => Some(tip.to_string()),
    };
    let sample = |sample: &bristlecone_cardano::replay::Sample| ChainSample {
        seconds: sample.seconds,
        slot: sample.slot,
        blocks: sample.blocks,
        blocks_per_s: sample.blocks_per_s,
        entries: sample.entries,
        rss_anon_kb: sample.memory.anon_kb,
        rss_file_kb: sample.memory.file_kb,
        cpu_percent: sample.cpu_percent,
    };
    ChainFigures {
        profile: job.profile.name().into(),
        index: job.index.name().into(),
        utxo: job.utxo.name().into(),
        transactions: report.transactions,
        failed: report.failed,
        spent: report.spent,
        created: report.created,
        missing: report.missing,
        entries: report.entries,
        digest: Some(digest.hex()),
        checkpoints: report.checkpoints,
        compared: report.compared.map(|point| UtxoTip::Block(point).to_string()),
        tip,
        start_blocks_per_s: report.start_blocks_per_s,
        steady_blocks_per_s: report.steady_blocks_per_s,
        rss_anon_min_kb: peak.anon_min_kb,
        rss_anon_mean_kb: peak.anon_mean_kb,
        cpu_percent,
        block_bytes: report.block_bytes,
        stopped: report.stopped,
        series: report.samples.iter().map(sample).collect(),
    }
}
