//! One directory of very many entries: adding, removing, finding one, and listing a page of 100.

use bristlecone::{Durability, Info, Listing, Path};

use crate::{
    engine::{Engine, native},
    error::Result,
    job::Job,
    measure::{Laps, Run},
    rss::Sampler,
    workload::{MAIN, Random, add_up, value, weight},
};

/// Entries of one commit while the directory is filled.
const COMMIT_ENTRIES: u64 = 100_000;
/// One-entry commits that add, and as many that remove.
const EDITS: u64 = 1000;
const FINDS: u64 = 100_000;
const PAGES: u64 = 1000;
const PAGE_ENTRIES: usize = 100;
const VALUE_BYTES: usize = 20;
const DIR: &str = "wide";

pub(super) fn run(job: &Job, entries: u64) -> Result<Vec<Run>> {
    let mut engine = Engine::create(job, native(&job.switches))?;
    fill(&engine, entries)?;
    engine.reopen()?;
    let sampler = Sampler::start();
    let mut runs =
        vec![find(&engine, entries)?, list(&engine, entries)?, add(&engine, entries)?, remove(&engine, entries)?];
    let peak = sampler.finish();
    engine.reopen()?;
    let wrong = wrong(&engine, entries)?;
    for run in &mut runs {
        run.set_sizes(&engine, peak);
        run.wrong = run.wrong.take().or_else(|| wrong.clone());
    }
    Ok(runs)
}

/// The name of entry `n` of the filled directory; between any two there is room for one that is added.
fn name_of(n: u64) -> String {
    format!("{n:08}")
}

fn path_of(n: u64) -> Path {
    Path::from_bytes(format!("{DIR}/{}", name_of(n))).expect("numbers are steps")
}

fn added_path(n: u64) -> Path {
    Path::from_bytes(format!("{DIR}/{}-added", name_of(n))).expect("numbers are steps")
}

fn unsynced(message: &str) -> Info {
    Info::unsigned(message).durability(Durability::None)
}

fn fill(engine: &Engine, entries: u64) -> Result<()> {
    let repo = engine.repo();
    let branch = repo.branch(MAIN)?;
    for first in (0..entries).step_by(COMMIT_ENTRIES as usize) {
        let mut tree = branch.tree()?;
        for n in first..(first + COMMIT_ENTRIES).min(entries) {
            tree.set(path_of(n), &value(n as usize, VALUE_BYTES)[..])?;
        }
        branch.commit(&mut tree, &unsynced("fill"))?;
    }
    repo.flush()?;
    Ok(())
}

fn find(engine: &Engine, entries: u64) -> Result<Run> {
    let mut random = Random::new(1);
    let numbers: Vec<u64> = (0..FINDS).map(|_| random.below(entries)).collect();
    let paths: Vec<Path> = numbers.iter().map(|&n| path_of(n)).collect();
    let tree = engine.repo().branch(MAIN)?.tree()?;
    let mut laps = Laps::start(paths.len());
    let mut sum = 0;
    for path in &paths {
        sum = add_up(sum, tree.get(path)?.map_or(0, |value| weight(&value)));
        laps.lap();
    }
    let mut run = laps.into_part("find");
    let wanted = numbers.iter().fold(0, |sum, &n| add_up(sum, weight(&value(n as usize, VALUE_BYTES))));
    run.wrong = (sum != wanted).then(|| "an entry was not found, or another one".into());
    Ok(run)
}

fn list(engine: &Engine, entries: u64) -> Result<Run> {
    let mut random = Random::new(2);
    let last = entries.saturating_sub(PAGE_ENTRIES as u64) + 1;
    let starts: Vec<u64> = (0..PAGES).map(|_| random.below(last)).collect();
    let listings: Vec<Listing> =
        starts.iter().map(|&n| Listing::new().starting_at(name_of(n).as_bytes()).limit(PAGE_ENTRIES)).collect();
    let tree = engine.repo().branch(MAIN)?.tree()?;
    let mut laps = Laps::start(listings.len());
    let mut sum = 0;
    for listing in &listings {
        for entry in tree.list_with(DIR, listing)? {
            sum = add_up(sum, weight(entry?.step()));
        }
        laps.lap();
    }
    let mut run = laps.into_part("list");
    let listed = starts.iter().flat_map(|&n| n..(n + PAGE_ENTRIES as u64).min(entries));
    let wanted = listed.fold(0, |sum, n| add_up(sum, weight(name_of(n).as_bytes())));
    run.wrong = (sum != wanted).then(|| "a page has other entries than it should".into());
    Ok(run)
}

fn add(engine: &Engine, entries: u64) -> Result<Run> {
    let branch = engine.repo().branch(MAIN)?;
    let mut random = Random::new(3);
    let info = unsynced("add");
    let mut laps = Laps::start(EDITS as usize);
    for _ in 0..EDITS {
        let path = added_path(random.below(entries));
        let mut tree = branch.tree()?;
        tree.set(&path, b"added")?;
        branch.commit(&mut tree, &info)?;
        laps.lap();
    }
    Ok(laps.into_part("add"))
}

/// Removes what `add` added, so that the directory ends as it was.
fn remove(engine: &Engine, entries: u64) -> Result<Run> {
    let branch = engine.repo().branch(MAIN)?;
    let mut random = Random::new(3);
    let info = unsynced("remove");
    let mut laps = Laps::start(EDITS as usize);
    for _ in 0..EDITS {
        let path = added_path(random.below(entries));
        let mut tree = branch.tree()?;
        tree.remove(&path)?;
        branch.commit(&mut tree, &info)?;
        laps.lap();
    }
    Ok(laps.into_part("remove"))
}

/// Returns what is wrong with the directory at the end, if anything is.
fn wrong(engine: &Engine, entries: u64) -> Result<Option<String>> {
    let tree = engine.repo().branch(MAIN)?.tree()?;
    let count = tree.count(DIR)?;
    if count != entries {
        return Ok(Some(format!("the directory has {count} entries in place of {entries}")));
    }
    for n in (0..entries).step_by((entries / 1000).max(1) as usize) {
        if tree.get(path_of(n))?.as_deref() != Some(&value(n as usize, VALUE_BYTES)[..]) {
            return Ok(Some(format!("entry {n} does not hold its value")));
        }
    }
    Ok(None)
}
