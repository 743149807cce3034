//! One replay: the store, the clocks around it, and what is looked at afterwards.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bristlecone::{Error, Format, LogEntry, LogOptions, MemoryBackend, Repo, SweepLimits, Tezos, disk::DiskOptions};
use bristlecone_any::{AnyFormat, AnyRepo, OpenOptions, Place, store_dir};
use bristlecone_tezos::{
    Reader,
    replay::{Replay, ReplayError, ReplayOptions, Report, ToOid, chunked, hashes_checkable},
};
use serde::{Deserialize, Serialize};

use super::{
    job::{BackendName, Chunking, FormatName, ReplayJob},
    record::{Recorded, Recorder},
    watch::Watch,
};
use crate::{
    BenchError, engine,
    error::Result,
    job::Switches,
    measure::{Run, cpu_us},
    report::ReplayFigures,
    rss::Sampler,
    scratch::Scratch,
};

/// What files may take beyond 1.3 times what is live: so many segments.
const SEGMENTS: u64 = 5;

/// What one replay found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReplayRun {
    /// What every measurement has.
    pub run: Run,
    /// What replays have beside it.
    pub figures: ReplayFigures,
}

/// Does one replay in this process.
pub(super) fn run(job: &ReplayJob) -> Result<ReplayRun> {
    match job.format {
        FormatName::Tezos => run_as(job, tezos(&job.switches)),
        FormatName::Native => run_as(job, engine::native(&job.switches)),
    }
}

/// Returns why commit hashes are not compared; `None` where they are.
pub(super) fn why_unchecked(job: &ReplayJob) -> Option<&'static str> {
    match job.format {
        FormatName::Tezos => check(job, &tezos(&job.switches)).err(),
        FormatName::Native => check(job, &engine::native(&job.switches)).err(),
    }
}

/// Returns the format with the switches, which change no hash here.
const fn tezos(switches: &Switches) -> Tezos {
    let format = Tezos::new().split(switches.split);
    if switches.inline { format } else { format.inline(0) }
}

fn check<F: Format>(job: &ReplayJob, format: &F) -> Result<ToOid, &'static str> {
    hashes_checkable(format, &options(job))
}

fn options(job: &ReplayJob) -> ReplayOptions {
    ReplayOptions::default()
        .commits(job.commits)
        .empty_blobs(job.empty_blobs)
        // A conversion that is none was refused with the options.
        .path_conversion(job.path_conversion.parse().unwrap_or_default())
        .durability(job.durability())
        .threads(job.threads)
        .strict(job.strict)
        .branch(&job.branch)
}

fn run_as<F: Format + Into<AnyFormat>>(job: &ReplayJob, format: F) -> Result<ReplayRun> {
    let sampler = Sampler::start();
    let check = check(job, &format);
    let store = Store::open(job, format)?;
    // One thread is one: large commits are not shared either.
    store.repo.set_threads(job.threads.max(1));
    let options = options(job).check_hashes(check.ok());
    let mut watch = Watch::new();
    let processor = cpu_us();
    if job.retain.is_some() {
        watch = watch.sizes(store.repo.backend().clone());
    }
    let (ended, report) = match job.chunked {
        None => in_order(&store.repo, job, options, &mut watch),
        Some(Chunking { domains: threads, fibers: each }) => {
            let pieces = chunked::Pieces { threads, each };
            match chunked::replay(&store.repo, &job.trace, &options, pieces, &mut watch) {
                Ok(report) => (Ok(()), report),
                Err(error) => (Err(error), Report::default()),
            }
        }
    };
    let processor = cpu_us() - processor;
    let peak = sampler.finish();
    if let Err(error) = ended {
        say!("replayed {} commits and {} rows before that", report.commits, report.rows.total());
        if let Some(retain) = job.retain.filter(|_| is_forgotten(&error)) {
            say!(
                "the store kept the last {retain} commits of the branch alone: where the trace goes back to another one, that may \
                 have been collected; replay with a larger --retain, or without"
            );
        }
        // What went wrong counts, not whether the store can be closed after it.
        let _ = store.close();
        return Err(error.into());
    }
    if let Some(cut) = &report.cut {
        say!("note: {cut}");
    }
    // A short replay may end before anybody has looked.
    let most = watch.file_bytes().max(report.file_bytes);
    let retained = job.retain.map(|retain| retained(&store.repo, job, retain, most)).transpose()?;
    let wrong = store.finish(job, &report)?.or_else(|| retained.as_ref().and_then(|found| found.wrong.clone()));
    let mut figures = ReplayFigures::of(&report);
    job.format.name().clone_into(&mut figures.format);
    figures.processor_s = Some(processor as f64 / 1e6);
    figures.hashes_unchecked = check.err().map(str::to_owned);
    let latencies = report.commits > 0 && job.chunked.is_none();
    let run = Run {
        ops: report.rows.total(),
        seconds: report.seconds,
        commits: report.commits,
        p50_us: latencies.then_some(report.commit_latency.p50_us),
        p99_us: latencies.then_some(report.commit_latency.p99_us),
        bytes_written: report.bytes_written,
        syncs: report.syncs,
        store_bytes: retained.as_ref().map_or(report.store_bytes, |found| found.live_bytes),
        file_bytes: retained.as_ref().map_or(report.file_bytes, |found| found.file_bytes),
        rss_anon_kb: peak.anon_kb,
        rss_file_kb: peak.file_kb,
        maxrss_kb: peak.max_kb,
        threads: job.chunked.map_or(job.threads, |pieces| pieces.domains) as u64,
        head: report.head.map(|(head, _)| head.oid().to_string()),
        wrong,
        ..Run::default()
    };
    Ok(ReplayRun { run, figures })
}

/// Whether a replay ended with something that a collection may have removed.
fn is_forgotten(error: &ReplayError) -> bool {
    matches!(
        error.store(),
        Some(Error::Missing { .. } | Error::Gone { .. } | Error::Expired { .. } | Error::Absent { .. })
    )
}

/// What a store that cuts its history holds at the end of a replay.
struct Retained {
    live_bytes: u64,
    file_bytes: u64,
    wrong: Option<String>,
}

/// Collects what the store did not collect by itself, and looks whether it keeps what it should.
fn retained<F: Format>(repo: &Repo<F>, job: &ReplayJob, retain: u32, most: u64) -> Result<Retained> {
    repo.wait_for_collection()?;
    repo.sweep(&[], &SweepLimits::default())?;
    let live_bytes = repo.backend().stats().store_bytes;
    let segment_bytes = DiskOptions::default().segment_bytes;
    let bound = live_bytes * 13 / 10 + SEGMENTS * segment_bytes;
    let mega = |bytes: u64| bytes as f64 / 1e6;
    say!(
        "live {:.1} MB, largest files {:.1} MB ({} 1.3 × live + {SEGMENTS} segments = {:.1} MB)",
        mega(live_bytes),
        mega(most),
        if most <= bound { "within" } else { "beyond" },
        mega(bound),
    );
    let head = repo.branch(&job.branch)?.head()?;
    let kept = repo.log(head.as_slice(), LogOptions::default()).collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(Retained { live_bytes, file_bytes: most, wrong: miskept(&kept, retain) })
}

/// Returns what is wrong with the history that a branch keeps, newest first, by a rule that keeps the last so many commits. Fewer
/// are right where nothing was cut: what the branch has left behind on other lines is not in it.
fn miskept(kept: &[LogEntry], retain: u32) -> Option<String> {
    let (count, wanted) = (kept.len() as u64, u64::from(retain));
    let is_whole = kept.last().is_none_or(|first| first.commit.parents.is_empty());
    let right = count == wanted || (count < wanted && is_whole);
    (!right).then(|| format!("{count} commits are kept, and there should be {wanted}"))
}

/// Replays the rows one after another.
fn in_order<F: Format>(
    repo: &Repo<F>,
    job: &ReplayJob,
    options: ReplayOptions,
    watch: &mut Watch,
) -> (Result<(), ReplayError>, Report) {
    let replay = Reader::open(&job.trace)
        .map_err(ReplayError::from)
        .and_then(|reader| Ok((reader, Replay::new(repo, options)?)));
    match replay {
        Ok((mut reader, mut replay)) => (replay.run(&mut reader, watch), replay.report()),
        Err(error) => (Err(error), Report::default()),
    }
}

/// A store to replay into.
struct Store<F: Format> {
    repo: Repo<F>,
    // Of a store that has files.
    made: Option<(AnyRepo, PathBuf)>,
    recorder: Option<Arc<Recorder>>,
    // Removed at the end.
    scratch: Option<Scratch>,
}

impl<F: Format + Into<AnyFormat>> Store<F> {
    fn open(job: &ReplayJob, format: F) -> Result<Self> {
        if job.backend == BackendName::Memory {
            let repo = Repo::with_backend(format, Arc::new(MemoryBackend::new()));
            return Ok(Self { repo, made: None, recorder: None, scratch: None });
        }
        let (dir, scratch) = match &job.keep {
            Some(keep) => (store_dir(keep), None),
            None => {
                let scratch = Scratch::for_replay(&job.dir)?;
                (scratch.dir.clone(), Some(scratch))
            }
        };
        fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
        let made = open_store(job, format.clone().into(), &dir)?;
        let mut backend = made.backend().clone();
        let mut recorder = None;
        if let Some(file) = &job.record {
            let to = Arc::new(Recorder::create(file, &dir)?);
            backend = Arc::new(Recorded::new(backend, to.clone()));
            recorder = Some(to);
        }
        let repo = Repo::with_backend(format, backend);
        repo.set_head(&job.branch)?;
        if let Some(retain) = job.retain {
            repo.set_retention(&format!("last {retain} refs/heads/*").parse()?)?;
        }
        Ok(Self { repo, made: Some((made, dir)), recorder, scratch })
    }

    /// Closes the store, opens it again and looks whether it is on the last commit; returns what is wrong.
    fn finish(mut self, job: &ReplayJob, report: &Report) -> Result<Option<String>> {
        let Some((_, dir)) = &self.made else {
            let head = self.repo.branch(&job.branch)?.head()?;
            return Ok(differs(head, report));
        };
        let dir = dir.clone();
        let scratch = self.scratch.take();
        self.close()?;
        let again = AnyRepo::open_read_only(&dir)?;
        let head = again.branch(&job.branch)?.head()?;
        drop((again, scratch));
        Ok(differs(head, report))
    }

    fn close(self) -> Result<()> {
        if let Some(recorder) = &self.recorder {
            let reads = recorder.finish()?;
            say!("recorded {reads} reads; `cone bench io --job FILE` has fio do them again");
        }
        if let Some((made, _)) = &self.made {
            made.close()?;
        }
        Ok(())
    }
}

fn differs(found: Option<bristlecone::CommitId>, report: &Report) -> Option<String> {
    let (found, made) = (found.map(|at| at.oid()), report.head.map(|(at, _)| at.oid()));
    (found != made).then(|| format!("the branch is on {found:?}, the last commit made is {made:?}"))
}

/// Makes a store, or opens one of the same format that has no commits yet.
fn open_store(job: &ReplayJob, format: AnyFormat, dir: &Path) -> Result<AnyRepo> {
    let mut options = DiskOptions::default().maps(job.switches.maps).locations(job.switches.direct);
    options.cache_bytes = job.switches.cache_bytes.unwrap_or(options.cache_bytes);
    let (wanted, shown) = (format.tag(), dir.display());
    let place = match job.backend {
        BackendName::Lsm => Place::Lsm(dir.to_owned()),
        BackendName::Lmdb => Place::Lmdb(dir.to_owned()),
        BackendName::Fs => Place::Fs(dir.to_owned()),
        BackendName::Memory | BackendName::Disk => Place::Disk(dir.to_owned()),
    };
    let repo = OpenOptions::new().disk(options).format(format).open_or_create(place)?;
    let found = repo.format().tag();
    if found != wanted {
        return Err(BenchError::usage(format!(
            "{shown} is a store of the format {} {}, not {} {}; name another folder",
            found.name, found.options, wanted.name, wanted.options
        )));
    }
    if !repo.branches()?.is_empty() {
        return Err(BenchError::usage(format!("{shown} is a store that has commits already; name a new or empty one")));
    }
    Ok(repo)
}

#[cfg(test)]
mod tests {
    use bristlecone::{CommitId, Info};

    use super::*;

    #[test]
    fn what_a_collection_may_have_removed_is_told_apart() {
        let repo = Repo::memory();
        let mut tree = repo.tree();
        tree.set("a", "1").unwrap();
        let commit = repo.commit_tree(&mut tree, &[], &Info::unsigned("1")).unwrap();
        let Err(missing) = Repo::memory().checkout(commit) else { panic!("it was made elsewhere") };
        assert!(is_forgotten(&missing.into()));
        let other = Error::NoRef { name: "main".into() };
        assert!(!is_forgotten(&other.into()));
    }

    #[test]
    fn a_line_that_is_whole_may_be_shorter_than_the_rule_and_one_that_is_cut_may_not() {
        let repo = Repo::memory();
        let (mut tree, mut line) = (repo.tree(), Vec::<CommitId>::new());
        for value in ["1", "2", "3"] {
            tree.set("a", value).unwrap();
            let parents: Vec<_> = line.last().copied().into_iter().collect();
            line.push(repo.commit_tree(&mut tree, &parents, &Info::unsigned(value)).unwrap());
        }
        let log: Vec<LogEntry> = repo.log(&line[2..], LogOptions::default()).map(|entry| entry.unwrap()).collect();
        assert_eq!(log.len(), 3);
        for retain in [3, 4, 100] {
            assert_eq!(miskept(&log, retain), None, "{retain}");
        }
        assert_eq!(miskept(&log, 2).unwrap(), "3 commits are kept, and there should be 2");
        assert_eq!(miskept(&log[..2], 3).unwrap(), "2 commits are kept, and there should be 3");
        assert_eq!((miskept(&log[..2], 2), miskept(&[], 7)), (None, None));
    }
}
