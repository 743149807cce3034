//! One store with some times as much garbage as live data, collected whole: how long that takes, and what is read before and after.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::Instant,
};

use bristlecone::{
    Branch, Durability, Format, Info, Native, Repo, Snapshot, SweepLimits,
    core::{Kind, ObjRef, Object},
    disk::DiskOptions,
};
use rustix::fs::{Advice, fadvise};

use super::{FORMAT, VALUE_BYTES, key, lines, load, mega, value};
use crate::{
    BenchError,
    error::Result,
    machine::Machine,
    measure::Run,
    report::{Row, middle},
    rss::Sampler,
    workload::Random,
};

/// After the load each commit replaces the values of one entry in so many.
const REPLACED: u64 = 1000;
/// So many commits do, which leaves about four times as much garbage as is live.
const COMMITS: u64 = 75;
/// Paths that are read, and how often.
const PATHS: usize = 20_000;
const ROUNDS: usize = 9;

/// Measures a store of so many entries.
pub(super) fn measure(dir: &Path, entries: u64, machine: &Machine) -> Result<Vec<Row>> {
    say_part!("{entries} entries, to be collected whole: load ");
    let mut whole = Whole::create(dir, entries)?;
    say_part!("lists ");
    let scattered = whole.list_cold()?;
    let before = whole.paths()?;
    say_part!("paths ");
    let fresh_before = whole.rounds(&before)?;
    say_part!("collects ");
    let collected = whole.collect()?;
    let after = whole.paths()?;
    say_part!("paths ");
    // Each by itself: what one leaves in the caches is no help to another, and no hindrance.
    let fresh = whole.rounds(&after)?;
    let one = whole.rounds(&mixed(&before, &after, 1))?;
    let all = whole.rounds(&before)?;
    let stale = whole.stale(&after);
    say_part!("lists ");
    let listed = whole.list_cold()?;
    say!("check");
    let wrong = whole.check(&before, &after)?;
    let live = collected.store_bytes;
    let told = [
        format!(
            "live {:.1} MB of {:.1} MB: collected at {:.0} MB of live bytes a second, with {:.1} MiB of memory more",
            mega(live),
            mega(whole.bytes_before),
            mega(live) / collected.seconds,
            collected.rss_anon_kb as f64 / 1024.0,
        ),
        format!(
            "paths read at {:.2} × the rate of before, with one stale hint {:.2} ×, with stale hints alone {:.2} ×; {:.1} % of hints are stale",
            fresh_before / fresh,
            fresh_before / one,
            fresh_before / all,
            stale * 100.0,
        ),
        format!("a listing from a cold page cache is {:.1} times as fast as before", scattered / listed),
    ];
    lines(wrong.as_deref(), told).iter().for_each(|line| say!("  {line}"));
    let paths = PATHS as u64;
    let parts = [
        ("whole", Run { ops: live, ..collected }),
        ("paths-before", of(paths, fresh_before)),
        ("paths-collected", of(paths, fresh)),
        ("paths-one-stale", of(paths, one)),
        ("paths-all-stale", of(paths, all)),
        ("list-cold-before", of(entries, scattered)),
        ("list-cold-collected", of(entries, listed)),
    ];
    let row = |(part, mut run): (&str, Run)| {
        (run.store_bytes, run.wrong) = (live, wrong.clone());
        let mut row = Row::of_runs(&run, std::slice::from_ref(&run), machine);
        row.backend = "disk".into();
        row.name = "disk".into();
        row.scenario = format!("gc-{part}-{entries}");
        row.value_bytes = VALUE_BYTES as u64;
        row.checked = row.wrong.is_none();
        row
    };
    Ok(parts.into_iter().map(row).collect())
}

fn of(ops: u64, seconds: f64) -> Run {
    Run { ops, seconds, threads: 1, ..Run::default() }
}

/// A path from the commit to a leaf, each object with the place by which the one above names it.
type ObjectPath = Vec<ObjRef>;

/// Returns the paths of after with the places of before for the first few objects that a hint leads to.
fn mixed(before: &[ObjectPath], after: &[ObjectPath], stale: usize) -> Vec<ObjectPath> {
    let mix = |(before, after): (&ObjectPath, &ObjectPath)| {
        after.iter().zip(before).enumerate().map(|(step, (new, old))| if step < stale { *old } else { *new }).collect()
    };
    before.iter().zip(after).map(mix).collect()
}

struct Whole {
    dir: PathBuf,
    // Absent only while the store is opened again.
    open: Option<(Repo<Native>, Branch<Native>)>,
    entries: u64,
    numbers: Vec<u32>,
    bytes_before: u64,
}

fn open(dir: &Path, new: bool) -> Result<(Repo<Native>, Branch<Native>)> {
    let options = DiskOptions::default();
    let repo = if new { Repo::create(dir, FORMAT, options)? } else { Repo::open(dir, options)? };
    repo.set_collecting(false);
    let branch = repo.branch("main")?;
    Ok((repo, branch))
}

impl Whole {
    fn create(dir: &Path, entries: u64) -> Result<Self> {
        let (repo, branch) = open(dir, true)?;
        repo.set_retention(&"last 1 refs/heads/*".parse()?)?;
        let mut map = load(&repo, entries)?;
        let info = Info::unsigned("loaded").durability(Durability::None);
        map.commit(&branch, &info)?;
        let (mut random, mut numbers) = (Random::new(entries), vec![0; entries as usize]);
        for _ in 0..COMMITS {
            let mut edits = std::collections::BTreeMap::new();
            for _ in 0..entries / REPLACED {
                let entry = random.below(entries);
                let number: &mut u32 = &mut numbers[entry as usize];
                *number += 1;
                edits.insert(key(entry), value(entry, *number));
            }
            map.apply(edits.iter().map(|(key, value)| (&key[..], Some(&value[..]))))?;
            map.commit(&branch, &info)?;
        }
        drop(map);
        let bytes_before = repo.backend().stats().store_bytes;
        Ok(Self { dir: dir.to_owned(), open: Some((repo, branch)), entries, numbers, bytes_before })
    }

    fn repo(&self) -> &Repo<Native> {
        &self.open.as_ref().expect("it is open").0
    }

    fn branch(&self) -> &Branch<Native> {
        &self.open.as_ref().expect("it is open").1
    }

    /// Opens the store with nothing of it in the page cache and lists it; returns how many seconds that took.
    fn list_cold(&mut self) -> Result<f64> {
        self.repo().flush()?;
        // What a process has mapped stays in the page cache.
        self.open = None;
        forget_pages(&self.dir)?;
        let started = Instant::now();
        self.open = Some(open(&self.dir, false)?);
        let map = self.branch().map()?;
        let (mut cursor, mut count, mut sum) = (map.cursor()?, 0, 0_u64);
        while let Some(item) = cursor.next()? {
            count += 1;
            sum = sum.wrapping_add(item.value()?.iter().map(|byte| u64::from(*byte)).sum());
        }
        let seconds = started.elapsed().as_secs_f64();
        let wanted = (0..).zip(&self.numbers).map(|(entry, &number)| value(entry, number));
        let wanted: u64 = wanted.map(|value| value.iter().map(|byte| u64::from(*byte)).sum::<u64>()).sum();
        if (count, sum) != (self.entries, wanted) {
            return Err(wrong(format!("{count} entries are listed, or others than there should be")));
        }
        Ok(seconds)
    }

    fn collect(&self) -> Result<Run> {
        let anon_kb = || Sampler::start().finish_sampled().anon_kb;
        let (before, sampler, started) = (anon_kb(), Sampler::start(), Instant::now());
        self.repo().sweep(&[], &SweepLimits::default())?;
        let seconds = started.elapsed().as_secs_f64();
        let peak = sampler.finish_sampled();
        let store_bytes = self.repo().backend().stats().store_bytes;
        let rss_anon_kb = peak.anon_kb.saturating_sub(before);
        Ok(Run { seconds, threads: 1, store_bytes, rss_anon_kb, rss_file_kb: peak.file_kb, ..Run::default() })
    }

    /// Returns the same paths each time, with the places that the objects now name.
    fn paths(&self) -> Result<Vec<ObjectPath>> {
        let Some(head) = self.branch().head()? else { return Ok(Vec::new()) };
        let snapshot = self.repo().backend().snapshot(&[]);
        let mut random = Random::new(7);
        let mut paths = Vec::with_capacity(PATHS);
        for _ in 0..PATHS {
            let (mut path, mut at) = (Vec::new(), ObjRef::from(head.oid()));
            loop {
                let children = children(&*snapshot, &at)?;
                if children.is_empty() {
                    break;
                }
                at = children[random.below(children.len() as u64) as usize];
                path.push(at);
            }
            paths.push(path);
        }
        Ok(paths)
    }

    /// Reads the paths some times, and returns how many seconds that took at the median.
    fn rounds(&self, paths: &[ObjectPath]) -> Result<f64> {
        let rounds = (0..ROUNDS).map(|_| self.read(paths)).collect::<Result<Vec<_>>>()?;
        Ok(middle(rounds).unwrap_or_default())
    }

    /// Reads every object of the paths, and returns how many seconds that took.
    fn read(&self, paths: &[ObjectPath]) -> Result<f64> {
        let snapshot = self.repo().backend().snapshot(&[]);
        let (started, mut bytes) = (Instant::now(), 0);
        for at in paths.iter().flatten() {
            bytes += read(&*snapshot, at)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        std::hint::black_box(bytes);
        Ok(seconds)
    }

    /// Returns the share of hints on the paths that lead elsewhere.
    fn stale(&self, paths: &[ObjectPath]) -> f64 {
        let snapshot = self.repo().backend().snapshot(&[]);
        let (mut stale, mut all) = (0_u64, 0_u64);
        for at in paths.iter().flatten() {
            all += 1;
            stale += u64::from(snapshot.peek(at.oid.as_bytes(), at.at).is_none());
        }
        stale as f64 / all.max(1) as f64
    }

    /// Compares the objects of both and all entries; returns what is wrong.
    fn check(&self, before: &[ObjectPath], after: &[ObjectPath]) -> Result<Option<String>> {
        let oids = |paths: &[ObjectPath]| paths.iter().flatten().map(|at| at.oid).collect::<Vec<_>>();
        if before.is_empty() || oids(before) != oids(after) {
            return Ok(Some("paths lead to other objects than before".into()));
        }
        let moved = before.iter().flatten().zip(after.iter().flatten()).filter(|(old, new)| old.at != new.at).count();
        if moved * 10 < before.iter().flatten().count() * 9 {
            return Ok(Some("most objects are where they were: their hints are not stale".into()));
        }
        let map = self.branch().map()?;
        for (entry, &number) in (0..).zip(&self.numbers) {
            if map.get(&key(entry))?.as_deref() != Some(&value(entry, number)[..]) {
                return Ok(Some(format!("entry {entry} holds something else")));
            }
        }
        Ok(None)
    }
}

fn wrong(reason: String) -> BenchError {
    BenchError::Wrong { scenario: "gc-whole".into(), reason }
}

fn there<'s>(snapshot: &'s dyn Snapshot, at: &ObjRef) -> Result<Object<'s>> {
    snapshot.read(at)?.ok_or_else(|| wrong(format!("object {} is missing", at.oid)))
}

/// Reads an object as lookups do; returns its length.
fn read(snapshot: &dyn Snapshot, at: &ObjRef) -> Result<usize> {
    if let Some(record) = snapshot.peek(at.oid.as_bytes(), at.at) {
        return Ok(record.len());
    }
    Ok(there(snapshot, at)?.read_bytes())
}

/// Returns the children of an object but for commits, with the places that it names.
fn children(snapshot: &dyn Snapshot, at: &ObjRef) -> Result<Vec<ObjRef>> {
    let object = there(snapshot, at)?;
    let mut children = Vec::new();
    let mut index = 0;
    let decoded = FORMAT.children(object.kind(), object.body(), &mut |kind, oid| {
        if kind != Kind::Commit {
            children.push(ObjRef::new(oid, object.child(index)));
        }
        index += 1;
    });
    decoded.map_err(|source| bristlecone::Error::BadObject { oid: at.oid, source })?;
    Ok(children)
}

/// Has the system forget what it keeps of the files in a folder.
fn forget_pages(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(BenchError::io(dir))? {
        let path = entry.map_err(BenchError::io(dir))?.path();
        if path.is_dir() {
            forget_pages(&path)?;
            continue;
        }
        let forgets = File::open(&path).and_then(|file| {
            // What is still to be written stays otherwise.
            file.sync_all()?;
            Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
        });
        forgets.map_err(BenchError::io(&path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_collected_and_read_before_and_after() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::here(dir.path());
        let rows = measure(&dir.path().join("store"), 20_000, &machine).unwrap();
        assert_eq!(rows.len(), 7);
        for row in &rows {
            assert!(row.is_right() && row.ops_per_sec > 0.0, "{}: {:?}", row.scenario, row.wrong);
        }
        assert!(rows[0].scenario == "gc-whole-20000" && rows[0].store_bytes > 2_000_000);
    }

    #[test]
    fn places_of_before_are_mixed_in_from_the_top() {
        let at =
            |number: u64| ObjRef::new(bristlecone::core::Oid::from_array([7; 32]), bristlecone::core::Location(number));
        let (before, after) = (vec![vec![at(1), at(2)]], vec![vec![at(10), at(20)]]);
        assert_eq!(mixed(&before, &after, 1), [[at(1), at(20)]]);
        assert_eq!(mixed(&before, &after, 2), before);
        assert_eq!(mixed(&before, &after, 0), after);
    }
}
