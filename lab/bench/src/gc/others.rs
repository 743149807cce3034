//! The same commits to what people would take else, each as its own documentation advises.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use bristlecone::Durability;
use clap::ValueEnum;

use super::{GcArgs, VALUE_BYTES, git::GitHistory, lines, mega, samples::Samples, value};
use crate::{
    error::Result,
    machine::Machine,
    map::{EngineName, Key, MapEngine, Sum, key},
    measure::{Run, folder_bytes, percentile},
    report::{GcFigures, GcSample, Row},
    rss::Sampler,
    workload::Random,
};

/// They take commits for as many slices.
const SLICES: u64 = 3;
/// So often the garbage of a store is collected whose commits wait for that.
const COLLECTIONS: u32 = 10;
/// Entries are compared so many at a time.
const COMPARED: usize = 1000;

/// What takes the same commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Other {
    /// Plain LMDB, which keeps the last state and uses the pages of earlier ones again
    Lmdb,
    /// A repository of Git: `git fast-import` commits, and `git gc` removes what a shallow history of the last commits leaves
    Git,
    /// redb, which keeps the last state and uses the pages of earlier ones again; synced alone
    Redb,
}

impl Other {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Lmdb => "plain lmdb",
            Self::Git => "git",
            Self::Redb => "redb",
        }
    }

    /// Returns why it is left out, if it is.
    fn missing(self, entries: u64, durability: Durability) -> Option<&'static str> {
        match self {
            // Plain LMDB and Git would do without any sync, redb sync each commit.
            _ if durability == Durability::Grouped => Some("it has no commits that share syncs"),
            Self::Lmdb => None,
            Self::Git if crate::peers::program::find("git").is_none() => Some("git is not installed"),
            Self::Git if entries > super::git::ENTRIES_MAX => Some("its folders of 100 have room for 10,000 entries"),
            Self::Git => None,
            Self::Redb if !cfg!(feature = "rust-peers") => {
                Some("this program was built without the feature rust-peers")
            }
            // It frees the pages of earlier states once a commit is durable.
            Self::Redb if durability != Durability::Synced => Some("it frees no page before a commit is synced"),
            Self::Redb => None,
        }
    }
}

/// A store that takes the commits.
pub(super) trait OtherStore {
    /// Sets one entry, as one commit.
    fn set(&mut self, entry: u64, value: Vec<u8>) -> Result<()>;

    /// Removes garbage while commits wait; returns whether there is anything to do for it.
    fn collect(&mut self) -> Result<bool> {
        Ok(false)
    }

    /// Compares all entries with how often each was replaced; returns what is wrong.
    fn check(&mut self, numbers: &[u32]) -> Result<Option<String>>;

    /// Returns the bytes of what is live, after the last collection.
    fn live_bytes(&self) -> u64;

    /// Samples the memory of this process, and of those that it starts for the store.
    fn sampler(&self) -> Sampler {
        Sampler::start()
    }
}

/// Measures commits to another store; `None` if it is left out.
pub(super) fn measure(
    other: Other,
    dir: &Path,
    (entries, durability): (u64, Durability),
    args: &GcArgs,
    machine: &Machine,
) -> Result<Option<Row>> {
    if let Some(why) = other.missing(entries, durability) {
        say!("{entries} entries, {}, {}: left out: {why}", durability.name(), other.name());
        return Ok(None);
    }
    say_part!("{entries} entries, {}, {}: ", durability.name(), other.name());
    let mut store: Box<dyn OtherStore> = match other {
        Other::Git => Box::new(GitHistory::create(dir, entries, durability, args.retain)?),
        Other::Lmdb => Box::new(LastState::create(EngineName::Lmdb, dir, entries, durability)?),
        Other::Redb => Box::new(LastState::create(EngineName::Redb, dir, entries, durability)?),
    };
    let time = Duration::from_secs(args.slice * SLICES);
    let mut churned = churn(&mut *store, dir, entries, time)?;
    say!("check");
    let wrong = store.check(&churned.numbers)?;
    let live = store.live_bytes();
    churned.nanoseconds.sort_unstable();
    let longest = percentile(&churned.nanoseconds, 100).map_or(0.0, |ns| ns as f64 / 1e6);
    let told = [format!(
        "live {:.1} MB, largest files {:.1} MB ({:.1} ×); the longest commit, with what it waited for, {longest:.1} ms",
        mega(live),
        mega(churned.largest),
        churned.largest as f64 / live.max(1) as f64,
    )];
    lines(wrong.as_deref(), told).iter().for_each(|line| say!("  {line}"));
    let mut run = Run { ops: churned.nanoseconds.len() as u64, seconds: churned.seconds, threads: 1, ..churned.run };
    run.set_latencies(churned.nanoseconds);
    (run.store_bytes, run.file_bytes, run.wrong) = (live, churned.largest, wrong);
    let mut row = Row::of_runs(&run, std::slice::from_ref(&run), machine);
    row.backend = other.name().into();
    row.durability = durability.name().into();
    row.name = format!("{} {}", other.name(), durability.name());
    row.scenario = format!("gc-collected-{entries}");
    row.value_bytes = VALUE_BYTES as u64;
    row.checked = row.wrong.is_none();
    row.gc = Some(Box::new(GcFigures { live_bytes: live, bound_bytes: None, series: churned.series }));
    Ok(Some(row))
}

/// What commits to a store came to.
struct Churned {
    // What each commit took, with what it waited for.
    nanoseconds: Vec<u64>,
    seconds: f64,
    // How often each entry was replaced.
    numbers: Vec<u32>,
    largest: u64,
    series: Vec<GcSample>,
    // Memory alone.
    run: Run,
}

fn churn(store: &mut dyn OtherStore, dir: &Path, entries: u64, time: Duration) -> Result<Churned> {
    let (mut random, mut numbers) = (Random::new(entries), vec![0; entries as usize]);
    let (mut nanoseconds, mut largest, mut looked) = (Vec::new(), 0, Duration::ZERO);
    // Of very many files that takes a while, which is none of the store's.
    let mut look = || {
        let started = Instant::now();
        let bytes = folder_bytes(dir);
        looked += started.elapsed();
        largest = bytes.max(largest);
        bytes
    };
    let (sampler, mut samples, began) = (store.sampler(), Samples::over(time), Instant::now());
    // The commit that comes next waits for a collection, and for the last one none does.
    let mut waited = Duration::ZERO;
    for turn in 1..=COLLECTIONS {
        loop {
            let entry = random.below(entries);
            let number: &mut u32 = &mut numbers[entry as usize];
            *number += 1;
            let value = value(entry, *number);
            let started = Instant::now();
            store.set(entry, value)?;
            let took = (started.elapsed() + std::mem::take(&mut waited)).as_nanos() as u64;
            nanoseconds.push(took);
            samples.commit(took, &mut look);
            if began.elapsed() >= time * turn / COLLECTIONS {
                break;
            }
        }
        look();
        let started = Instant::now();
        if store.collect()? {
            waited = started.elapsed();
        }
        say_part!(".");
    }
    let all = began.elapsed();
    let peak = sampler.finish_sampled();
    let series = samples.finish(|| folder_bytes(dir));
    let seconds = all.saturating_sub(looked).as_secs_f64();
    let run = Run { rss_anon_kb: peak.anon_kb, rss_file_kb: peak.file_kb, maxrss_kb: peak.max_kb, ..Run::default() };
    say_part!(" ");
    Ok(Churned { nanoseconds, seconds, numbers, largest, series, run })
}

/// A database that keeps the last state alone. Its keys have 4 bytes.
struct LastState {
    engine: Box<dyn MapEngine>,
    live_bytes: u64,
}

impl LastState {
    fn create(name: EngineName, dir: &Path, entries: u64, durability: Durability) -> Result<Self> {
        let mut engine = name.create(dir, durability)?;
        let all: Vec<(Key, Vec<u8>)> = (0..entries).map(|entry| (key(entry), value(entry, 0))).collect();
        engine.load(&all)?;
        Ok(Self { engine, live_bytes: entries * (size_of::<Key>() + VALUE_BYTES) as u64 })
    }
}

impl OtherStore for LastState {
    fn set(&mut self, entry: u64, value: Vec<u8>) -> Result<()> {
        self.engine.set(&[(key(entry), value)])
    }

    fn check(&mut self, numbers: &[u32]) -> Result<Option<String>> {
        for first in (0..numbers.len()).step_by(COMPARED) {
            let some = first..(first + COMPARED).min(numbers.len());
            let keys: Vec<Key> = some.clone().map(|entry| key(entry as u64)).collect();
            let (mut wanted, mut found) = (Sum::default(), Sum::default());
            some.for_each(|entry| wanted.value(&value(entry as u64, numbers[entry])));
            self.engine.get(&keys, &mut found)?;
            if found != wanted {
                return Ok(Some(format!("of the {} entries from {first} on one holds something else", keys.len())));
            }
        }
        Ok(None)
    }

    fn live_bytes(&self) -> u64 {
        self.live_bytes
    }
}

#[cfg(test)]
mod tests {
    use bristlecone_needs::needs;

    use super::*;

    #[test]
    fn plain_lmdb_takes_the_commits_and_what_is_wrong_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = LastState::create(EngineName::Lmdb, dir.path(), 1500, Durability::None).unwrap();
        let churned = churn(&mut store, dir.path(), 1500, Duration::from_millis(200)).unwrap();
        assert!(churned.nanoseconds.len() >= 10 && churned.largest > 150_000);
        assert_eq!(store.check(&churned.numbers).unwrap(), None);
        assert_eq!(churned.numbers.iter().sum::<u32>() as usize, churned.nanoseconds.len());
        assert_eq!(churned.series.iter().map(|sample| sample.commits).sum::<u64>() as usize, churned.nanoseconds.len());
        let mut numbers = churned.numbers;
        numbers[1400] += 1;
        let wrong = "of the 500 entries from 1000 on one holds something else";
        assert_eq!(store.check(&numbers).unwrap().as_deref(), Some(wrong));
    }

    #[test]
    fn commits_that_share_syncs_are_not_compared_with_others() {
        for other in Other::value_variants() {
            let missing = other.missing(1000, Durability::Grouped);
            assert_eq!(missing, Some("it has no commits that share syncs"), "{other:?}");
        }
        assert_eq!(Other::Lmdb.missing(1000, Durability::None), None);
        assert_eq!(Other::Lmdb.missing(1000, Durability::Synced), None);
    }

    /// Has very many files, and does nothing.
    struct Files;

    impl OtherStore for Files {
        fn set(&mut self, _: u64, _: Vec<u8>) -> Result<()> {
            Ok(())
        }

        fn check(&mut self, _: &[u32]) -> Result<Option<String>> {
            Ok(None)
        }

        fn live_bytes(&self) -> u64 {
            0
        }
    }

    #[test]
    fn looking_at_files_is_no_time_of_the_commits() {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..3000 {
            std::fs::write(dir.path().join(number.to_string()), "").unwrap();
        }
        let timed = || {
            let began = Instant::now();
            folder_bytes(dir.path());
            began.elapsed()
        };
        let once = (0..5).map(|_| timed()).min().unwrap();
        let began = Instant::now();
        let churned = churn(&mut Files, dir.path(), 1000, Duration::from_millis(100)).unwrap();
        // It was looked at ten times at least, and once more when all was over.
        assert!(churned.seconds + once.as_secs_f64() * 7.0 < began.elapsed().as_secs_f64(), "{once:?}");
    }

    #[needs(git)]
    #[test]
    fn git_takes_the_commits_and_forgets_what_is_older() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = GitHistory::create(dir.path(), 300, Durability::None, 5).unwrap();
        // The program that commits has memory of its own; other tests of this process take some, too, and let it go.
        let more = || store.sampler().finish_sampled().file_kb > Sampler::start().finish_sampled().file_kb;
        assert!((0..21).filter(|_| more()).count() > 10);
        let churned = churn(&mut store, dir.path(), 300, Duration::from_millis(500)).unwrap();
        assert!(churned.nanoseconds.len() >= 10);
        assert_eq!(store.check(&churned.numbers).unwrap(), None);
        assert!(store.live_bytes() > 30_000 && store.live_bytes() <= churned.largest);
        let mut numbers = churned.numbers;
        numbers[299] += 1;
        assert_eq!(store.check(&numbers).unwrap().as_deref(), Some("entry 299 holds something else"));
        crate::peers::program::said_by_git(dir.path(), &["config", "tar.umask", "none"]).unwrap();
        let wrong = store.check(&numbers).unwrap().unwrap();
        assert!(wrong.starts_with("git archive --format=tar refs/heads/main: exit status: 128: fatal: "), "{wrong}");
    }
}
