//! What one thread and all cores do in turns: a check of a whole store, and a commit of very many new entries.

use std::{num::NonZero, path::Path as FilePath, time::Instant};

use bristlecone::{Durability, Info, Native, Oid, Path, Repo};
use bristlecone_any::{AnyRepo, Place, check::check_with};

use super::{Measured, ObjectsArgs};
use crate::{
    error::Result,
    job::count_name,
    measure::{Run, cores},
    rss::Sampler,
    workload::{MAIN, RisingValues},
};

/// Entries of one directory, where there are many.
const DIR_ENTRIES: u64 = 1000;
/// Entries of a commit, where there are many commits.
const COMMIT_ENTRIES: u64 = 10_000;
/// Bytes of a value that is checked, which is an object of its own.
const CHECKED_BYTES: usize = 100;

/// Checks a store of entries that came in many commits: frames, hashes of all objects, all references.
pub(super) fn check(args: &ObjectsArgs, dir: &FilePath) -> Result<Vec<Measured>> {
    let entries = args.entries;
    say_part!("{entries} entries: make");
    let place = Place::Disk(dir.to_owned());
    let repo = AnyRepo::create(place.clone(), Native::new().into())?;
    for first in (0..entries).step_by(COMMIT_ENTRIES as usize) {
        let mut tree = repo.branch(MAIN)?.tree()?;
        set(first..(first + COMMIT_ENTRIES).min(entries), DIR_ENTRIES, CHECKED_BYTES, |path, value| {
            tree.set(path, value)
        })?;
        repo.branch(MAIN)?.commit(&mut tree, &unsynced())?;
    }
    repo.close()?;
    let mut rows = in_turns(&format!("check-{}", count_name(entries)), "disk", CHECKED_BYTES);
    let mut first = None;
    for round in 0..args.rounds {
        say_part!(", round {}", round + 1);
        for (threads, row) in &mut rows {
            let repo = AnyRepo::open_read_only(place.clone())?;
            let (sampler, started) = (Sampler::start(), Instant::now());
            let report = check_with(&repo, *threads, &mut |_, _| ())?;
            let seconds = started.elapsed().as_secs_f64();
            let mut run = run_of(report.objects, seconds, *threads, sampler);
            let stats = repo.backend().stats();
            (run.store_bytes, run.file_bytes) = (stats.store_bytes, stats.file_bytes);
            let counted = (report.engine.clone(), report.objects, report.references, report.refs);
            run.wrong = match &first {
                _ if !report.findings.is_empty() => {
                    Some(format!("{} findings in a sound store", report.findings.len()))
                }
                Some(first) if *first != counted => Some("one thread and several count something else".into()),
                _ if report.objects < entries => Some(format!("{} objects were checked", report.objects)),
                _ => None,
            };
            first.get_or_insert(counted);
            row.runs.push(run);
        }
    }
    if let Some((_, objects, references, _)) = first {
        say!("\n  {objects} objects, {references} references: {}", times(&rows));
    }
    Ok(rows.into_iter().map(|(_, row)| row).collect())
}

/// Commits new entries at once, in memory: many directories and one, values within the directory and objects of their own.
pub(super) fn commit(args: &ObjectsArgs) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for (what, dir_entries) in [("directories", DIR_ENTRIES), ("directory", args.entries)] {
        for value_bytes in [20, 100] {
            let scenario = format!("whole-commit-{}-{what}-{value_bytes}B", count_name(args.entries));
            say_part!("{scenario}");
            let mut rows = in_turns(&scenario, "memory", value_bytes);
            let mut root = None;
            for round in 0..args.rounds {
                say_part!(", round {}", round + 1);
                for (threads, row) in &mut rows {
                    let (run, found) = commit_once(args.entries, dir_entries, value_bytes, *threads)?;
                    let wanted = *root.get_or_insert(found);
                    let wrong = (found != wanted).then(|| format!("the root is {found}, and was {wanted} before"));
                    row.runs.push(Run { wrong, root: Some(found.to_string()), ..run });
                }
            }
            say!("\n  {}", times(&rows));
            all.extend(rows.into_iter().map(|(_, row)| row));
        }
    }
    Ok(all)
}

/// Sets all entries, and commits them. The clock runs from the call that commits until it returns.
fn commit_once(entries: u64, dir_entries: u64, value_bytes: usize, threads: NonZero<usize>) -> Result<(Run, Oid)> {
    let repo = Repo::memory();
    repo.set_threads(threads.get());
    let branch = repo.branch(MAIN)?;
    let mut tree = branch.tree()?;
    set(0..entries, dir_entries, value_bytes, |path, value| tree.set(path, value))?;
    let sampler = Sampler::start();
    let started = Instant::now();
    branch.commit(&mut tree, &unsynced())?;
    let seconds = started.elapsed().as_secs_f64();
    let run = Run { commits: 1, ..run_of(entries, seconds, threads, sampler) };
    Ok((run, branch.tree()?.root()?.into()))
}

/// Makes a row for one thread, and one for all cores where there are several.
fn in_turns(scenario: &str, backend: &'static str, value_bytes: usize) -> Vec<(NonZero<usize>, Measured)> {
    let all = NonZero::new(cores()).unwrap_or(NonZero::<usize>::MIN);
    let mut threads = vec![NonZero::<usize>::MIN, all];
    threads.dedup();
    let row = |threads| (threads, Measured::new(format!("{scenario}-{threads}t"), backend, value_bytes as u64));
    threads.into_iter().map(row).collect()
}

/// Says how many times as fast all cores are as one thread.
fn times(rows: &[(NonZero<usize>, Measured)]) -> String {
    let (Some((_, one)), Some((threads, all))) = (rows.first(), rows.last()) else { return String::new() };
    format!("{threads} threads are {} times as fast as one", all.times(one))
}

/// Sets entries, whose values all differ.
fn set<E>(
    numbers: std::ops::Range<u64>,
    dir_entries: u64,
    value_bytes: usize,
    mut set: impl FnMut(Path, &[u8]) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut values = RisingValues::new(value_bytes);
    numbers.into_iter().try_for_each(|n| {
        let path = format!("{:06}/{:08}", n / dir_entries, n % dir_entries);
        set(Path::from_bytes(path).expect("numbers are steps"), values.get(n as usize))
    })
}

fn unsynced() -> Info {
    Info::unsigned("entries").durability(Durability::None)
}

fn run_of(ops: u64, seconds: f64, threads: NonZero<usize>, sampler: Sampler) -> Run {
    let peak = sampler.finish_sampled();
    Run {
        ops,
        seconds,
        threads: threads.get() as u64,
        rss_anon_kb: peak.anon_kb,
        rss_file_kb: peak.file_kb,
        maxrss_kb: peak.max_kb,
        ..Run::default()
    }
}
