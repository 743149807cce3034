//! Step 5: scenarios and the trace on Irmin, in turns with ours: ours, Irmin, ours, Irmin, and so on.
//!
//! What is compared is measured within the same seconds, so that what else the machine does meets both. Ours are
//! measured again for it, in rows of their own.

use std::time::{Duration, Instant};

use crate::{
    BenchError,
    error::Result,
    job::{Job, Target, Way, Work},
    peers::irmin::{Irmin, IrminStore, STORES},
    replay::{self, BackendName, DurabilityName, ReplayJob},
    report::{BESIDE_IRMIN, Row, table::rate},
    session::Session,
    unrest::worse,
};

/// Turns that have taken this long in all are the last, once there were three.
const TURNS_TIME: Duration = Duration::from_secs(20);
const TURNS_MIN: usize = 3;

/// Measures what Irmin can do of the suite, on each of its stores.
pub(super) fn suite(session: &mut Session, irmin: &Irmin, like: &Job, runs: usize, quick: bool) {
    for job in jobs(like, quick) {
        let stores = stores(job.target, quick);
        let done = in_turns(runs, &stores, |store| match store {
            None => session.once(&job),
            Some(store) => beside_probes(session, job.target, || Ok(sized(irmin.run(store, &job)?, &job))),
        });
        keep(session, done);
    }
}

/// Returns a row of Irmin with the sizes of a job that are not as usual, which its name says then.
fn sized(row: Row, job: &Job) -> Row {
    let sizes = job.unusual_sizes();
    Row { name: format!("{} {sizes}", row.name).trim_end().to_owned(), sizes, ..row }
}

/// Replays a trace on each of Irmin's stores.
///
/// # Errors
/// [`BenchError::Stopped`] if the user interrupted a replay.
pub(super) fn replays(session: &mut Session, irmin: &Irmin, job: &ReplayJob, runs: usize, quick: bool) -> Result<()> {
    for target in Target::NATIVE {
        let (backend, durability) = match target {
            Target::Memory => (BackendName::Memory, DurabilityName::None),
            Target::DiskSynced => (BackendName::Disk, DurabilityName::Synced),
            _ => (BackendName::Disk, DurabilityName::None),
        };
        let job = ReplayJob { backend, durability, ..job.clone() };
        let here = session.in_process();
        let done = in_turns(runs, &stores(target, quick), |store| {
            beside_probes(session, target, || match store {
                None => ours(&job, here),
                Some(store) => irmin.replay(store, &job),
            })
        });
        match done {
            Err(BenchError::Stopped) => return Err(BenchError::Stopped),
            done => keep(session, done),
        }
    }
    Ok(())
}

/// Replays a trace once onto ours.
fn ours(job: &ReplayJob, in_process: bool) -> Result<Row> {
    let row = replay::measure(job, 1, in_process)?;
    if row.replay.as_ref().is_some_and(|replay| replay.stopped) {
        return Err(BenchError::Stopped);
    }
    let (name, variant) = (format!("{} {BESIDE_IRMIN}", row.name), BESIDE_IRMIN.to_owned());
    Ok(Row { name, variant, ..row })
}

/// Measures a row, which says how unusual the machine was meanwhile.
fn beside_probes(session: &mut Session, target: Target, work: impl FnOnce() -> Result<Row>) -> Result<Row> {
    let (row, unrest) = session.beside_probes(target.is_synced(), work)?;
    Ok(Row { unrest, ..row? })
}

/// Returns the jobs that Irmin does, too.
fn jobs(like: &Job, quick: bool) -> Vec<Job> {
    let reads = |way, long| Work::Reads { way, threads: 1, long };
    let works = [
        Work::Commits,
        Work::Incremental { long: false, touch_all: false },
        reads(Way::InOrder, false),
        reads(Way::Walk, false),
        reads(Way::Walk, true),
    ];
    let mut jobs = Vec::new();
    for value_bytes in [20, 10_000] {
        for work in works {
            for target in Target::NATIVE {
                // What a sync costs shows at one size, and not where nothing is written.
                let needless = target.is_synced() && (value_bytes != 20 || !work.writes());
                let long = matches!(work, Work::Reads { long: true, .. }) || value_bytes != 20;
                if needless || (quick && long) {
                    continue;
                }
                let label = Some(BESIDE_IRMIN.to_owned());
                jobs.push(Job { work, target, value_bytes, label, ..like.clone() });
            }
        }
    }
    jobs
}

fn stores(beside: Target, quick: bool) -> Vec<&'static IrminStore> {
    STORES.iter().filter(|store| store.beside == beside && !(quick && store.minimal_index)).collect()
}

/// Does a run of ours and one on each store, again and again: `run` is called with the store, or without one for ours.
/// Returns the rows of the medians, ours first.
fn in_turns(
    runs: usize,
    stores: &[&IrminStore],
    mut run: impl FnMut(Option<&IrminStore>) -> Result<Row>,
) -> Result<Vec<Row>> {
    let started = Instant::now();
    let mut turns = vec![Vec::new(); 1 + stores.len()];
    while turns[0].len() < runs {
        turns[0].push(run(None)?);
        for (store, rows) in stores.iter().zip(&mut turns[1..]) {
            rows.push(run(Some(store))?);
        }
        if turns[0].len() >= TURNS_MIN && started.elapsed() > TURNS_TIME {
            break;
        }
    }
    let mut rows: Vec<Row> = turns.iter().filter_map(|rows| median(rows)).collect();
    if let Some((ours, theirs)) = rows.split_first_mut() {
        let mut first: Option<&Row> = None;
        for row in theirs {
            compare(row, ours, first);
            first = first.or(Some(row));
        }
    }
    Ok(rows)
}

/// Returns the row in the middle by its rate, of two in the middle the slower, with what is said of all of them.
fn median(rows: &[Row]) -> Option<Row> {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|one, other| one.ops_per_sec.total_cmp(&other.ops_per_sec));
    let middle = *sorted.get(sorted.len().saturating_sub(1) / 2)?;
    // Runs of a replay whose hashes cannot be checked are compared with each other.
    let (differs, compared) = replay::agree::rows(rows);
    let wrong = rows.iter().find_map(|row| row.wrong.clone()).or(differs);
    let most = |memory: fn(&Row) -> u64| rows.iter().map(memory).max().unwrap_or(0);
    Some(Row {
        runs: rows.len() as u64,
        ops_per_sec_min: sorted.first()?.ops_per_sec,
        ops_per_sec_max: sorted.last()?.ops_per_sec,
        maxrss_kb: most(|row| row.maxrss_kb),
        rss_anon_kb: most(|row| row.rss_anon_kb),
        rss_file_kb: most(|row| row.rss_file_kb),
        checked: wrong.is_none() && (compared || rows.iter().all(|row| row.checked)),
        wrong,
        unrest: rows.iter().map(|row| row.unrest).fold(None, worse),
        ..middle.clone()
    })
}

/// Compares a row of Irmin with ours, and with that of another of its stores that has the same ids: they must have done
/// the same work with the same answers.
fn compare(row: &mut Row, ours: &Row, other: Option<&Row>) {
    let figures = |row: &Row| {
        let replay = row.replay.as_deref()?;
        Some((replay.rows, replay.answers_checked, replay.value_sum, replay.recorded_head.clone()))
    };
    let wrong = if row.total_ops != ours.total_ops {
        Some(format!("it did {} operations, ours did {}", row.total_ops, ours.total_ops))
    } else if figures(row) != figures(ours) {
        Some("it read other values than ours".to_owned())
    } else {
        other
            .filter(|other| other.head != row.head || other.root != row.root)
            .map(|other| format!("the last commit is not that of {}", other.name))
    };
    if row.wrong.is_none() && wrong.is_some() {
        row.wrong = wrong;
    }
    row.checked = row.checked && row.wrong.is_none();
}

/// Takes rows in, ours first, and says how many times as fast ours is.
fn keep(session: &mut Session, done: Result<Vec<Row>>) {
    let rows = match done {
        Ok(rows) => rows,
        Err(error) => return session.fail(error),
    };
    let Some((ours, theirs)) = rows.split_first() else { return };
    for row in theirs {
        say!("{}", told(row, ours));
    }
    let machine = session.machine.clone();
    rows.into_iter().for_each(|row| session.keep(row.on(&machine)));
}

/// Says how fast a store of Irmin and ours are; where one of them is wrong, that in place of a ratio.
fn told(row: &Row, ours: &Row) -> String {
    let Row { scenario, name, .. } = row;
    let rates = format!("{scenario}: {name} {}/s, ours {}/s", rate(row.ops_per_sec), rate(ours.ops_per_sec));
    match row.wrong.as_ref().or(ours.wrong.as_ref()) {
        Some(reason) => format!("{rates}; WRONG: {reason}"),
        None => format!("{rates}, {:.1} times as fast", ours.ops_per_sec / row.ops_per_sec.max(f64::MIN_POSITIVE)),
    }
}

#[cfg(test)]
mod tests;
