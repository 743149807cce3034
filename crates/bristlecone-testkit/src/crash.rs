//! The crash suite: power is cut after every call of a workload, and again within every recovery.
//!
//! [`explore`] runs each [`Workload`] once over a [`SimStorage`] that keeps the disk after every numbered call.
//! For each of those moments it reboots under several policies and seeds, opens the store and checks the law:
//!
//! - it opens by itself;
//! - its refs are what some prefix of the acknowledged commits left, which includes every commit acknowledged as
//!   [`Synced`](bristlecone::Durability::Synced) and everything before a flush; the step that was
//!   under way may be there or not, but not in part; where a crash does not keep refs together
//!   ([`atomic_commits`](bristlecone::Capabilities::atomic_commits)), that is so of each ref on its own;
//! - every object reachable from them is there and right, and a walk over all objects finds no damage;
//! - it takes new commits, which survive;
//! - a second cut anywhere within that opening, or in the new commits, loses nothing either.
//!
//! [`explore_deaths`] stops one of two processes dead after every call it makes, lets the other go on, and cuts the power
//! then.
//!
//! A failure names workload, call, policies and seeds, which reproduce it: everything is deterministic as long
//! as the engine starts no threads. With threads a run makes its calls in one of many orders; the law is judged by what
//! was acknowledged within this run, so that it holds for any of them, and to see a failure again may take some runs.

mod run;
mod verify;
mod workload;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bristlecone::{Backend, Error, storage::Storage};

use crate::sim::{CallKind, Policy, SimStorage};
pub use run::{CrashRun, Event, RefValues};
pub use workload::{CrashStep, Workload, deaths, workloads};

/// How stores of the engine under test are made and opened.
pub trait Engine: Sync {
    /// Makes a new store in an empty storage. The store exists durably once this returns.
    ///
    /// # Errors
    /// Those of the engine.
    fn create(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error>;

    /// Opens a store for reading and writing, recovering it where needed.
    ///
    /// # Errors
    /// [`Error::NoStore`] if there is no store; others of the engine.
    fn open(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error>;

    /// Called before each step of a workload that runs on `storage`. An engine that works beside its callers may let that
    /// work come to its end here, so that steps meet it done as well as under way.
    fn rest(&self, storage: &SimStorage) {
        let _ = storage;
    }
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Seeds for every random policy at every call.
    pub seeds: u64,
    /// The first of them.
    pub seed_first: u64,
    /// After a call, one of so many pairs of a policy and a seed is tried, and after its neighbours others: 1 for all of
    /// them. Every call that is cut at all is cut at least once, whatever this is.
    pub draw_step: u64,
    /// The power is cut after one of so many calls of a workload, and of the next workload after others: 1 for all of them. With
    /// `draw_step` it has no divisor in common, or some policies are never tried.
    pub call_step: u64,
    /// Seeds for cuts within recoveries; 0: no such cuts.
    pub nested_seeds: u64,
    /// Within a recovery power is cut after every call of which the number, plus that of the first cut, is a multiple
    /// of this: 1 for each; more, and the recoveries from neighbouring cuts share the calls out among them.
    pub nested_step: u64,
    /// Threads; each takes whole workloads.
    pub threads: usize,
    /// Failures after which a workload is given up.
    pub failures_max: usize,
    /// Whether no workload is begun once one has failed.
    pub until_failure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seeds: 2,
            seed_first: 0,
            draw_step: 1,
            call_step: 1,
            nested_seeds: 1,
            nested_step: 1,
            threads: 2,
            failures_max: 1,
            until_failure: false,
        }
    }
}

/// One reboot: where the power was cut and what survived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The call after which the power was cut.
    pub call: u64,
    /// What survived.
    pub policy: Policy,
    /// And which draw of it.
    pub seed: u64,
}

/// A crash after which the law does not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The workload's name.
    pub workload: &'static str,
    /// The cuts that lead there, the second within the recovery from the first.
    pub cuts: Vec<Cut>,
    /// What is wrong.
    pub reason: String,
    /// The calls before the last cut, the latest last.
    pub calls: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "workload \"{}\": {}", self.workload, self.reason)?;
        for cut in &self.cuts {
            writeln!(f, "  cut after call {}, policy {:?}, seed {}", cut.call, cut.policy, cut.seed)?;
        }
        for call in &self.calls {
            writeln!(f, "    {call}")?;
        }
        Ok(())
    }
}

/// What an exploration did and found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Workloads run.
    pub workloads: usize,
    /// Runs in which a process was stopped.
    pub deaths: u64,
    /// Calls after which power was cut.
    pub cuts: u64,
    /// Reboots from them, each with all checks.
    pub reboots: u64,
    /// Reboots from cuts within recoveries and the commits after them, each with all checks.
    pub nested: u64,
    /// How many of the calls after which power was cut were of each kind.
    pub kinds: BTreeMap<CallKind, u64>,
    /// What failed.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Returns how many crash points were tried: reboots whose outcome was checked.
    #[must_use]
    pub const fn crash_points(&self) -> u64 {
        self.reboots + self.nested
    }

    /// Checks that nothing failed.
    ///
    /// # Panics
    /// If something did, printing how to reproduce it.
    pub fn assert_sound(&self) {
        let texts: Vec<String> = self.failures.iter().map(ToString::to_string).collect();
        assert!(texts.is_empty(), "{self}\n{}", texts.join("\n"));
    }

    fn add(&mut self, other: Self) {
        self.workloads += other.workloads;
        self.deaths += other.deaths;
        self.cuts += other.cuts;
        self.reboots += other.reboots;
        self.nested += other.nested;
        for (kind, count) in other.kinds {
            *self.kinds.entry(kind).or_default() += count;
        }
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} crash points ({} workloads, {} processes stopped, {} calls {:?}, {} reboots, {} within recoveries), {} failures",
            self.crash_points(),
            self.workloads,
            self.deaths,
            self.cuts,
            self.kinds,
            self.reboots,
            self.nested,
            self.failures.len()
        )
    }
}

/// Returns the step in which a suite goes through points that share the work out among them: `short` where a change waits
/// for the answer, and `long` where the environment has `BRISTLECONE_THOROUGH`.
#[must_use]
pub fn step(short: u64, long: u64) -> u64 {
    if std::env::var_os("BRISTLECONE_THOROUGH").is_some() { long } else { short }
}

/// Cuts the power after every call of every workload, and checks what is left.
///
/// # Panics
/// If a workload fails without any cut.
pub fn explore(engine: &dyn Engine, workloads: &[Workload], options: Options) -> Report {
    share(workloads, options, |workload| explore_one(engine, workload, options))
}

/// Stops the process of handle 0 after every call it makes in every workload, lets the others go on, and cuts the power
/// after every `step`-th later call: nothing that a survivor acknowledged as durable is lost, nor what was before it.
///
/// # Panics
/// If a workload fails though no process is stopped.
pub fn explore_deaths(engine: &dyn Engine, workloads: &[Workload], step: u64, options: Options) -> Report {
    share(workloads, options, |workload| deaths_of(engine, workload, step, options))
}

/// Calls `explore` for every workload, on threads, and adds up what it reports.
fn share(workloads: &[Workload], options: Options, explore: impl Fn(&Workload) -> Report + Sync) -> Report {
    let next = AtomicUsize::new(0);
    let report = Mutex::new(Report::default());
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(|| {
                while let Some(workload) = workloads.get(next.fetch_add(1, Relaxed)) {
                    let one = explore(workload);
                    let mut report = report.lock().expect("no explorer panics");
                    report.add(one);
                    if options.until_failure && !report.failures.is_empty() {
                        break;
                    }
                }
            });
        }
    });
    report.into_inner().expect("no explorer panics")
}

fn explore_one(engine: &dyn Engine, workload: &Workload, options: Options) -> Report {
    let storage = SimStorage::new();
    storage.keep_trace();
    storage.keep_moments();
    let run = CrashRun::of(engine, storage.clone(), workload)
        .unwrap_or_else(|reason| panic!("workload \"{}\" fails without a cut: {reason}", workload.name));
    let mut report = Report { workloads: 1, ..Report::default() };
    let (step, last) = (options.call_step.max(1), storage.calls());
    let calls = (0..=last).filter(|call| *call == last || (call + workload.name.len() as u64).is_multiple_of(step));
    cut_after_each(engine, &run, &storage, calls, options, &mut report);
    report
}

fn deaths_of(engine: &dyn Engine, workload: &Workload, step: u64, options: Options) -> Report {
    let mut report = Report { workloads: 1, ..Report::default() };
    for death in 1.. {
        let storage = SimStorage::new();
        storage.keep_trace();
        storage.keep_moments();
        let fail = |reason| {
            let calls = last_calls(&storage, storage.calls());
            Failure { workload: workload.name, cuts: Vec::new(), reason, calls }
        };
        let before = report.failures.len();
        match CrashRun::with_death(engine, storage.clone(), workload, death) {
            Ok((_, None)) => break,
            Ok((run, Some(stopped))) => {
                report.deaths += 1;
                // Other calls after each death, and always the first and the last.
                let (first, last) = (stopped, storage.calls());
                let calls = (first..=last).filter(|call| [first, last].contains(call) || (call + death) % step == 0);
                cut_after_each(engine, &run, &storage, calls, options, &mut report);
            }
            Err(reason) => report.failures.push(fail(reason)),
        }
        for failure in &mut report.failures[before..] {
            failure.reason.push_str(&format!(" (the first process was stopped after its call {death})"));
        }
        if report.failures.len() >= options.failures_max {
            break;
        }
    }
    report
}

/// Cuts the power after each of these calls of a run, until there are too many failures.
fn cut_after_each(
    engine: &dyn Engine,
    run: &CrashRun,
    storage: &SimStorage,
    calls: impl IntoIterator<Item = u64>,
    options: Options,
    report: &mut Report,
) {
    for call in calls {
        report.cuts += 1;
        if let Some(call) = storage.call(call) {
            *report.kinds.entry(call.kind).or_default() += 1;
        }
        let moment = storage.moment(call).expect("moments are kept from the start");
        let draws = draws(&moment, options.seed_first..options.seed_first + options.seeds);
        let step = options.draw_step.clamp(1, draws.len() as u64);
        for (policy, seed) in (call..).zip(draws).filter(|(turn, _)| turn.is_multiple_of(step)).map(|(_, draw)| draw) {
            let cut = Cut { call, policy, seed };
            let mut failures = verify::after_cut(engine, run, &moment, cut, options, report);
            for failure in &mut failures {
                failure.calls.splice(0..0, last_calls(storage, call));
            }
            report.failures.extend(failures);
            if report.failures.len() >= options.failures_max {
                return;
            }
        }
    }
}

/// Returns the reboots worth trying: one where nothing is pending, else every policy, random ones often.
fn draws(moment: &SimStorage, seeds: std::ops::Range<u64>) -> Vec<(Policy, u64)> {
    if moment.unsynced() == 0 {
        return vec![(Policy::Lost, seeds.start)];
    }
    let mut draws = Vec::new();
    for policy in Policy::ALL {
        let last = if policy.is_random() { seeds.end } else { seeds.start + 1 };
        draws.extend((seeds.start..last).map(|seed| (policy, seed)));
    }
    draws
}

/// Returns the calls up to `number`, the latest last, for people to read.
fn last_calls(storage: &SimStorage, number: u64) -> Vec<String> {
    let first = number.saturating_sub(11).max(1);
    (first..=number).filter_map(|n| Some(format!("{n}: {}", storage.call(n)?))).collect()
}
