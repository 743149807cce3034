//! What must hold after a cut, and after a second one in the recovery from the first.

use std::{
    collections::{BTreeSet, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use bristlecone::{Backend, Durability, Error, Expected, RefMove, RefTarget};
use bristlecone_core::{Location, ObjRef};

use super::{
    CrashRun, Cut, Engine, Failure, Options, RefValues, Report, draws, last_calls,
    run::{Event, after_samples, append_samples},
};
use crate::{
    sample::Sample,
    sim::{Policy, SimStorage},
};

/// The states that a store may be in.
struct Allowed {
    /// In the order of the run.
    states: Vec<RefValues>,
    /// Whether there may be no store at all.
    absent: bool,
}

impl Allowed {
    /// Whether a store may be in a state: in one of these; or, where each ref is on its own, each ref in that of one.
    fn has(&self, run: &CrashRun, state: &RefValues) -> bool {
        if run.atomic {
            return self.states.contains(state);
        }
        let names: BTreeSet<&String> = self.states.iter().chain([state]).flat_map(|state| state.keys()).collect();
        names.into_iter().all(|name| self.states.iter().any(|allowed| allowed.get(name) == state.get(name)))
    }
}

/// Checks one cut of a run, and the cuts within the recovery from it.
pub(super) fn after_cut(
    engine: &dyn Engine,
    run: &CrashRun,
    moment: &SimStorage,
    cut: Cut,
    options: Options,
    report: &mut Report,
) -> Vec<Failure> {
    let allowed = match run.window(cut.call) {
        Some((first, last)) => Allowed {
            states: run.events[first..=last].iter().map(|event| event.state.clone()).collect(),
            absent: false,
        },
        // Nothing is durable yet, the store itself included.
        None => {
            let begun = run.events.iter().take_while(|event| event.began < cut.call);
            Allowed { states: begun.map(|event| event.state.clone()).chain([RefValues::new()]).collect(), absent: true }
        }
    };
    let first = run.window(cut.call).map(|(first, _)| first);
    let storage = moment.reboot(cut.seed, cut.policy);
    storage.keep_trace();
    storage.keep_moments();
    report.reboots += 1;
    let fail = |cuts: Vec<Cut>, reason: String, calls| Failure { workload: run.workload, cuts, reason, calls };
    let recovered = guarded(|| {
        let recovery = RecoveredStore::of(engine, run, &storage, &allowed)?;
        // What nothing leads to may have been dropped.
        let swept = run.events.iter().rposition(|event| event.sweeps && event.began < cut.call).unwrap_or(0);
        let last = first.map_or(0, |first| first + 1);
        let durable = run.events[swept.min(last)..last].iter();
        for sample in durable.filter(|event| event.moves.is_empty()).flat_map(|event| &event.samples) {
            sample.expect(&*recovery.backend, Location::NONE)?;
        }
        Ok(recovery)
    });
    let recovery = match recovered {
        Ok(recovery) => recovery,
        Err(reason) => return vec![fail(vec![cut], reason, after(&storage, storage.calls()))],
    };
    let opened = recovery.opened;
    let continued = match guarded(|| recovery.commit_more(&storage, first.unwrap_or(0), cut.seed)) {
        Ok(continued) => continued,
        Err(reason) => return vec![fail(vec![cut], reason, after(&storage, storage.calls()))],
    };
    let mut failures = Vec::new();
    // Without a store there was nothing to recover: creation is a workload of its own.
    if allowed.absent {
        return failures;
    }
    // The recovered store as it is must keep the commits that it took since.
    let last = *continued.last().map(|(call, _)| call).unwrap_or(&opened);
    let seeds = cut.seed..cut.seed + options.nested_seeds.max(1);
    let calls = if options.nested_seeds == 0 { last..=last } else { 1..=last };
    let step = options.nested_step.max(1);
    for call in calls.filter(|call| *call == last || (call + cut.call).is_multiple_of(step)) {
        let Some(moment) = storage.moment(call) else { break };
        let states = states_after(&recovery_state(&continued, opened), &continued, call);
        let allowed = Allowed { states, absent: false };
        for (policy, seed) in nested_draws(&moment, &seeds, call) {
            report.nested += 1;
            let second = moment.reboot(seed, policy);
            second.keep_trace();
            if let Err(reason) = guarded(|| RecoveredStore::of(engine, run, &second, &allowed)) {
                let reason = format!("{reason}, after a second cut (opening took calls 1 to {opened})");
                let calls = after(&storage, call);
                failures.push(fail(vec![cut, Cut { call, policy, seed }], reason, calls));
                return failures;
            }
        }
    }
    failures
}

fn after(storage: &SimStorage, call: u64) -> Vec<String> {
    let mut calls = vec!["after the cut:".to_owned()];
    calls.extend(last_calls(storage, call));
    calls
}

/// Within recoveries every call is cut under the two extremes and one random policy, in turn.
fn nested_draws(moment: &SimStorage, seeds: &std::ops::Range<u64>, call: u64) -> Vec<(Policy, u64)> {
    let all = draws(moment, seeds.clone());
    let random = [Policy::Prefix, Policy::Writes, Policy::Sectors][(call as usize + seeds.start as usize) % 3];
    all.into_iter().filter(|(policy, _)| !policy.is_random() || *policy == random).collect()
}

/// Runs a check; a panic in it is a failure like any other.
fn guarded<T>(check: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panic: {}", text.unwrap_or("without a message")))
    })
}

/// The states by the number of calls at which they were acknowledged; the first is the recovered one.
type Continued = Vec<(u64, RefValues)>;

fn recovery_state(continued: &Continued, opened: u64) -> (u64, RefValues) {
    continued.first().cloned().unwrap_or((opened, RefValues::new()))
}

/// Returns the states that are right if power is cut after `call` of a recovery and the commits after it.
fn states_after(first: &(u64, RefValues), continued: &Continued, call: u64) -> Vec<RefValues> {
    let acknowledged = continued.iter().rposition(|(at, _)| *at <= call);
    let from = acknowledged.unwrap_or(0);
    // Within the opening only the recovered state is right; within a commit the one before it too.
    let to = if call <= first.0 { 0 } else { from + 1 };
    let to = to.min(continued.len().saturating_sub(1)).max(from);
    continued[from..=to].iter().map(|(_, state)| state.clone()).collect()
}

/// A store that was opened after a cut and found right.
struct RecoveredStore<'a> {
    run: &'a CrashRun,
    backend: Arc<dyn Backend>,
    state: RefValues,
    /// The calls that opening took.
    opened: u64,
}

impl<'a> RecoveredStore<'a> {
    fn of(engine: &dyn Engine, run: &'a CrashRun, storage: &SimStorage, allowed: &Allowed) -> Result<Self, String> {
        let backend = match engine.open(Arc::new(storage.clone())) {
            Err(Error::NoStore { .. }) if allowed.absent => engine
                .create(Arc::new(storage.clone()))
                .map_err(|error| format!("no store can be made where a creation was cut: {error}"))?,
            opened => opened.map_err(|error| format!("the store does not open: {error}"))?,
        };
        let opened = storage.calls();
        let state = backend.list_refs("").map_err(|error| format!("the refs cannot be listed: {error}"))?;
        if !allowed.has(run, &state) {
            return Err(format!("the refs are of no allowed state: {}", describe(&state, allowed)));
        }
        check_objects(run, &*backend, &state)?;
        check_derived(run, &*backend)?;
        Ok(Self { run, backend, state, opened })
    }

    /// Commits, and returns the state after the opening and after each commit with the calls until then.
    ///
    /// The first commit is the twin of the event after the recovered one, the second like no other.
    fn commit_more(self, storage: &SimStorage, first: usize, seed: u64) -> Result<Continued, String> {
        let mut continued = vec![(self.opened, self.state.clone())];
        let mut events: Vec<_> =
            self.next_events(first).map(Event::twin).filter(|(twins, _)| self.holds_children(twins)).collect();
        if !events.is_empty() {
            events = vec![events.swap_remove(seed as usize % events.len())];
        }
        let after = after_samples(self.run.family);
        let to = after.last().map(|commit| RefTarget::Object(commit.oid.into()));
        let name = self.run.family.ref_name("after");
        events.push((after, vec![RefMove { name, expected: Expected::Any, to }]));
        let mut known = HashMap::new();
        let mut state = self.state;
        for (samples, mut moves) in events {
            for wanted in &mut moves {
                wanted.expected = state.get(&wanted.name).cloned().map_or(Expected::Absent, Expected::Is);
                match wanted.to.clone() {
                    Some(to) => state.insert(wanted.name.clone(), to),
                    None => state.remove(&wanted.name),
                };
            }
            append_samples(&*self.backend, &samples, &mut moves, Durability::Synced, &mut known)
                .map_err(|error| format!("a commit after the recovery fails: {error}"))?;
            continued.push((storage.calls(), state.clone()));
        }
        check_objects(self.run, &*self.backend, &state)?;
        Ok(continued)
    }

    /// Whether the objects that these refer to are among them or in the store: early ones may be lost.
    fn holds_children(&self, samples: &[Sample]) -> bool {
        let mut children = samples.iter().flat_map(|sample| &sample.children);
        children.all(|child| {
            samples.iter().any(|sample| sample.oid == child.oid)
                || self.backend.read(&child.oid.into()).is_ok_and(|found| found.is_some())
        })
    }

    /// Returns the events that may have come next, were it not for the cut.
    fn next_events(&self, first: usize) -> impl Iterator<Item = &'a Event> {
        let events = &self.run.events;
        let recovered = (first..events.len()).filter(|&index| events[index].state == self.state);
        recovered.filter_map(|index| events[index + 1..].iter().find(|event| !event.samples.is_empty()))
    }
}

/// Everything reachable is there and right, everything there is right, nothing is damaged.
fn check_objects(run: &CrashRun, backend: &dyn Backend, state: &RefValues) -> Result<(), String> {
    let from: Vec<ObjRef> = state
        .values()
        .filter_map(|target| match target {
            RefTarget::Object(at) => Some(*at),
            RefTarget::Symbolic(_) => None,
        })
        .collect();
    run.samples.expect_reachable(backend, &from)?;
    run.samples.expect_sound(backend).map(drop)
}

fn check_derived(run: &CrashRun, backend: &dyn Backend) -> Result<(), String> {
    for (name, values) in &run.derived {
        let found = backend.read_derived(name).map_err(|error| format!("the derived file {name}: {error}"))?;
        if let Some(found) = found
            && !values.contains(&found)
        {
            return Err(format!("the derived file {name} holds what was never written to it"));
        }
    }
    Ok(())
}

fn describe(found: &RefValues, allowed: &Allowed) -> String {
    let short = |state: &RefValues| {
        let mut text: Vec<String> = state.iter().take(6).map(|(name, target)| format!("{name}={target:?}")).collect();
        text.push(format!("({} refs)", state.len()));
        text.join(" ")
    };
    let wanted: Vec<String> = allowed.states.iter().rev().take(4).map(short).collect();
    format!("found {}; allowed, the latest first: {}", short(found), wanted.join(" | "))
}
