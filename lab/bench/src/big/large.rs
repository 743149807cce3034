//! One commit of very many new entries of one directory, in the order of their paths and in another one.

use std::{
    thread,
    time::{Duration, Instant},
};

use bristlecone::{Durability, Info, Path};

use crate::{
    engine::{Engine, native},
    error::Result,
    job::Job,
    measure::{Run, Written, commit_threads},
    rss::Sampler,
    workload::{MAIN, value},
};

/// Entries of one commit of the directory that is compared.
const COMMIT_ENTRIES: u64 = 100_000;
const VALUE_BYTES: usize = 20;
/// Scatters entries: a prime, so that each comes once, and no neighbour comes next.
const STRIDE: u64 = 2_654_435_761;
/// So much anonymous memory may stay after the commit that was not there before.
const KEPT_KB_MAX: u64 = 64 << 10;
/// Memory is given back five seconds after the commit, by a thread that may have to wait for its turn.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(15);
/// The branch of the directory that is compared.
const TWIN: &str = "twin";

/// In which order entries are set.
#[derive(Clone, Copy)]
enum Order {
    Ascending,
    Scattered,
}

pub(super) fn run(job: &Job, entries: u64) -> Result<Vec<Run>> {
    [Order::Ascending, Order::Scattered].into_iter().map(|order| commit(job, entries, order)).collect()
}

/// Commits all entries at once. The root is compared with that of a directory that many commits filled.
fn commit(job: &Job, entries: u64, order: Order) -> Result<Run> {
    let mut engine = Engine::create(job, native(&job.switches))?;
    let branch = engine.repo().branch(MAIN)?;
    let written = Written::since_now(&engine);
    let before = Sampler::start().finish();
    let sampler = Sampler::start();
    let started = Instant::now();
    let mut tree = branch.tree()?;
    for n in 0..entries {
        let n = match order {
            Order::Ascending => n,
            Order::Scattered => (u128::from(n) * u128::from(STRIDE) % u128::from(entries)) as u64,
        };
        tree.set(path_of(n), &value(n as usize, VALUE_BYTES)[..])?;
    }
    branch.commit(&mut tree, &unsynced())?;
    let seconds = started.elapsed().as_secs_f64();
    let peak = sampler.finish();
    drop((tree, branch));
    let kept_kb = kept_kb(before.anon_kb);
    let part = match order {
        Order::Ascending => "in-order",
        Order::Scattered => "scattered",
    };
    let threads = commit_threads(entries, entries);
    let mut run = Run { part: part.into(), ops: entries, seconds, commits: 1, threads, ..Run::default() };
    written.note(&engine, &mut run);
    run.set_sizes(&engine, peak);
    engine.reopen()?;
    run.wrong = wrong(&engine, entries)?;
    if kept_kb > KEPT_KB_MAX {
        run.wrong.get_or_insert_with(|| format!("{} MiB of memory are not given back after the commit", kept_kb >> 10));
    }
    Ok(run)
}

/// Returns how much more anonymous memory there is than before, once that is little enough, or it is no longer waited for.
fn kept_kb(before: u64) -> u64 {
    let started = Instant::now();
    loop {
        let kept = Sampler::start().finish().anon_kb.saturating_sub(before);
        if kept <= KEPT_KB_MAX || started.elapsed() > GIVEN_BACK_WITHIN {
            return kept;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn path_of(n: u64) -> Path {
    Path::from_bytes(format!("wide/{n:08}")).expect("numbers are steps")
}

fn unsynced() -> Info {
    Info::unsigned("entries").durability(Durability::None)
}

/// Returns what is wrong with the directory, if anything is.
fn wrong(engine: &Engine, entries: u64) -> Result<Option<String>> {
    let twin = engine.repo().branch(TWIN)?;
    for first in (0..entries).step_by(COMMIT_ENTRIES as usize) {
        let mut tree = twin.tree()?;
        for n in first..(first + COMMIT_ENTRIES).min(entries) {
            tree.set(path_of(n), &value(n as usize, VALUE_BYTES)[..])?;
        }
        twin.commit(&mut tree, &unsynced())?;
    }
    let root = |branch: &str| engine.repo().branch(branch)?.tree()?.root();
    let (found, wanted) = (root(MAIN)?, root(TWIN)?);
    Ok((found != wanted).then(|| format!("the root is {found}, and {wanted} if the same entries come in many commits")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        job::{Big, Sizes, Switches, Target, Work},
        measure::cores,
    };

    #[test]
    fn rows_of_large_commits_say_that_all_cores_worked() {
        for (entries, threads) in [(20_000, cores() as u64), (2000, 1)] {
            let job = Job {
                work: Work::Big(Big::Large { entries }),
                target: Target::Memory,
                value_bytes: VALUE_BYTES,
                sizes: Sizes::default(),
                switches: Switches::default(),
                dir: ".".into(),
                name: "test".into(),
                label: None,
                judged: false,
            };
            let runs = run(&job, entries).unwrap();
            assert_eq!(runs.iter().map(|run| run.threads).collect::<Vec<_>>(), [threads; 2]);
        }
    }
}
