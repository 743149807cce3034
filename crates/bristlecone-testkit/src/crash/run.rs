//! One run of a workload, and what each of its steps promised.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bristlecone::{Backend, Batch, Durability, Error, Expected, RefMove, RefTarget, Roots, SweepLimits};
use bristlecone_core::{Kind, Location, ObjRef, Object, Oid};

use super::{CrashStep, Engine, Workload};
use crate::{
    sample::{Child, Family, Sample, Samples, appended},
    sim::SimStorage,
};

/// What all refs hold.
pub type RefValues = BTreeMap<String, RefTarget>;

/// A step that changed what the store holds, and when.
#[derive(Clone, Debug)]
pub struct Event {
    /// How many calls there were when it began.
    pub began: u64,
    /// How many there were when it was acknowledged.
    pub acknowledged: u64,
    /// Whether it and all before it are durable from then on.
    pub durable: bool,
    /// The refs after it.
    pub state: RefValues,
    /// The objects that it appended.
    pub samples: Vec<Sample>,
    /// The refs that it moved; without any, its objects are unreferenced.
    pub moves: Vec<RefMove>,
    /// Whether it drops what nothing leads to.
    pub sweeps: bool,
}

impl Event {
    /// Returns the same event with other ids and bytes, of the same lengths.
    ///
    /// Its frame takes just the place of one that was cut, so that a stale frame behind it would fit on.
    #[must_use]
    pub fn twin(&self) -> (Vec<Sample>, Vec<RefMove>) {
        let mut twins: HashMap<Oid, Oid> = HashMap::new();
        let mut samples = Vec::new();
        // Children come before their parents.
        for sample in &self.samples {
            let twin = sample.twin(&twins);
            twins.insert(sample.oid, twin.oid);
            samples.push(twin);
        }
        let moves = self.moves.iter().cloned().map(|mut wanted| {
            if let Some(RefTarget::Object(to)) = &mut wanted.to {
                *to = twins.get(&to.oid).copied().unwrap_or(to.oid).into();
            }
            wanted
        });
        (samples, moves.collect())
    }
}

/// A run of a workload to its end.
#[derive(Debug)]
pub struct CrashRun {
    /// The workload's name.
    pub workload: &'static str,
    /// What the backend keeps.
    pub family: Family,
    /// Whether a power cut keeps what several refs held at one time; else each ref is on its own.
    pub atomic: bool,
    /// Its events in order; the first is the store's creation.
    pub events: Vec<Event>,
    /// Everything that was written.
    pub samples: Samples,
    /// Every value that each derived file had.
    pub derived: HashMap<String, Vec<Vec<u8>>>,
}

impl CrashRun {
    /// Runs a workload on a new store.
    ///
    /// # Errors
    /// What went wrong, as a sentence.
    pub fn of(engine: &dyn Engine, storage: SimStorage, workload: &Workload) -> Result<Self, String> {
        let (run, failed) = Self::until_error(engine, storage, workload);
        failed.map_or(Ok(run), |(step, error)| Err(format!("step {step}: {error}")))
    }

    /// Runs a workload on a new store until a step fails, and returns that step and its error.
    ///
    /// The run then ends with an event of what the failed step might have done.
    pub fn until_error(
        engine: &dyn Engine,
        storage: SimStorage,
        workload: &Workload,
    ) -> (Self, Option<(usize, Error)>) {
        let mut runner = Runner::new(engine, storage, workload);
        let failed = runner.create().err().map(|error| (0, error)).or_else(|| {
            let mut steps = workload.steps.iter().enumerate();
            steps.find_map(|(index, step)| runner.step(step).err().map(|error| (index, error)))
        });
        (runner.finish(), failed)
    }

    /// Runs a workload on a new store while the process of handle 0 is stopped after its call `calls`, and those of the
    /// other handles go on with their steps. Returns the run, and the call after which the process was stopped.
    ///
    /// # Errors
    /// What went wrong, as a sentence: a survivor fails, or does not see just what the stopped process did.
    pub fn with_death(
        engine: &dyn Engine,
        storage: SimStorage,
        workload: &Workload,
        calls: u64,
    ) -> Result<(Self, Option<u64>), String> {
        let mut runner = Runner::new(engine, storage, workload);
        let victim = runner.process(VICTIM);
        victim.stop_after(calls);
        let mut buried = false;
        if let Err(error) = runner.create() {
            runner.bury(&victim, &error)?;
            buried = true;
        }
        for (index, step) in workload.steps.iter().enumerate() {
            if step.handle() == VICTIM && buried {
                continue;
            }
            match runner.step(step) {
                Ok(()) => {}
                Err(error) if step.handle() == VICTIM => {
                    runner.bury(&victim, &error)?;
                    buried = true;
                }
                Err(error) => return Err(format!("step {index} of a process that lives: {error}")),
            }
        }
        Ok((runner.finish(), victim.stopped()))
    }

    fn new(workload: &Workload) -> Self {
        Self {
            workload: workload.name,
            family: Family::default(),
            atomic: true,
            events: Vec::new(),
            samples: after_samples(Family::default()).into_iter().collect(),
            derived: HashMap::new(),
        }
    }

    /// Returns the events that may be the last to show after a cut after `call`: `first..=last`.
    /// `None` if the store need not exist.
    #[must_use]
    pub fn window(&self, call: u64) -> Option<(usize, usize)> {
        let last = self.events.iter().rposition(|event| event.began < call || event.acknowledged <= call)?;
        let first = self.events.iter().rposition(|event| event.durable && event.acknowledged <= call)?;
        Some((first, last))
    }
}

/// Returns what the last commit after a recovery holds.
pub(super) fn after_samples(family: Family) -> Vec<Sample> {
    // Far from the numbers of any workload.
    let node = family.sample(1 << 41, Kind::Node, &[], 60);
    let commit = family.sample(1 << 40, Kind::Commit, &[node.child()], 730);
    vec![node, commit]
}

/// Appends objects with moves of refs to them, and remembers where they are.
pub(super) fn append_samples(
    backend: &dyn Backend,
    samples: &[Sample],
    moves: &mut [RefMove],
    durability: Durability,
    known: &mut HashMap<Oid, Location>,
) -> Result<(), Error> {
    let mut batch = Batch::new();
    let places: HashMap<Oid, Location> =
        samples.iter().map(|sample| (sample.oid, sample.put(&mut batch, known))).collect();
    for wanted in &mut *moves {
        if let Some(RefTarget::Object(to)) = &mut wanted.to {
            *to = ObjRef::new(to.oid, places.get(&to.oid).copied().unwrap_or(Location::NONE));
        }
    }
    let base = backend.append(batch, moves, durability)?;
    known.extend(places.into_iter().map(|(oid, at)| (oid, appended(at, base))));
    Ok(())
}

struct Runner<'a> {
    engine: &'a dyn Engine,
    storage: SimStorage,
    run: CrashRun,
    /// One for each handle.
    processes: Vec<SimStorage>,
    handles: Vec<Option<Arc<dyn Backend>>>,
    state: RefValues,
    known: HashMap<Oid, Location>,
    /// Objects appended early that the next commit will refer to.
    early: Vec<Child>,
    number: u64,
    family: Family,
    /// Whether several refs can move in one step.
    several: bool,
}

/// What the system says is free while a sweep runs: some segments of the engines of crash tests.
const SWEEP_FREE_BYTES: u64 = 20_000;
/// The handle whose process is stopped, if one is, and the handle that goes on instead.
const VICTIM: usize = 0;
const SURVIVOR: usize = 1;

/// Of many refs in a step this many are taken where one ref moves at a time.
const SINGLE_REFS_MAX: usize = 5;

impl<'a> Runner<'a> {
    fn new(engine: &'a dyn Engine, storage: SimStorage, workload: &Workload) -> Self {
        Self {
            engine,
            storage,
            run: CrashRun::new(workload),
            processes: Vec::new(),
            handles: Vec::new(),
            state: RefValues::new(),
            known: HashMap::new(),
            early: Vec::new(),
            number: 0,
            family: Family::default(),
            several: true,
        }
    }

    /// Returns the run; what handles still do when they are dropped belongs to it.
    fn finish(self) -> CrashRun {
        let mut run = self.run;
        drop(self.handles);
        let twins: Vec<Sample> = run.events.iter().flat_map(|event| event.twin().0).collect();
        twins.into_iter().for_each(|twin| run.samples.insert(twin));
        run
    }

    /// Returns the storage as the process of a handle has it.
    fn process(&mut self, handle: usize) -> SimStorage {
        while self.processes.len() <= handle {
            self.processes.push(self.storage.process());
        }
        self.processes[handle].clone()
    }

    fn create(&mut self) -> Result<(), Error> {
        self.event(RefValues::new(), Vec::new(), Vec::new());
        let storage = self.process(VICTIM);
        let backend = self.engine.create(Arc::new(storage))?;
        self.created(VICTIM, backend);
        self.done(true);
        Ok(())
    }

    /// Takes over a new store.
    fn created(&mut self, handle: usize, backend: Arc<dyn Backend>) {
        let capabilities = backend.capabilities();
        (self.family, self.several) = (Family::of(&capabilities), capabilities.several_refs);
        (self.run.family, self.run.atomic) = (self.family, capabilities.atomic_commits);
        after_samples(self.family).into_iter().for_each(|sample| self.run.samples.insert(sample));
        self.handles.resize(handle + 1, None);
        self.handles[handle] = Some(backend);
    }

    /// Goes on after the process of handle 0 was stopped: what it had acknowledged shows to the next process, all of it,
    /// and what it was doing shows whole or not at all.
    fn bury(&mut self, victim: &SimStorage, error: &Error) -> Result<(), String> {
        if victim.stopped().is_none() {
            return Err(format!("a process fails that was not stopped: {error}"));
        }
        if let Some(handle) = self.handles.get_mut(VICTIM) {
            *handle = None;
        }
        self.early.clear();
        let creating = self.run.events.len() == 1 && self.run.events[0].acknowledged == u64::MAX;
        let survivor = match self.handle(SURVIVOR) {
            Err(Error::NoStore { .. }) if creating => {
                let storage = self.process(SURVIVOR);
                let made = self.engine.create(Arc::new(storage));
                let made =
                    made.map_err(|error| format!("no store can be made where a creation was stopped: {error}"))?;
                self.done(true);
                made
            }
            found => found.map_err(|error| format!("a store whose user was stopped does not open: {error}"))?,
        };
        if creating {
            self.created(SURVIVOR, survivor.clone());
        }
        let found = survivor.list_refs("").map_err(|error| format!("the refs cannot be listed: {error}"))?;
        let under_way = self.run.events.last().filter(|event| event.acknowledged == u64::MAX);
        match under_way {
            Some(event) if creating || !event.moves.is_empty() && event.state == found => self.done(false),
            Some(_) => _ = self.run.events.pop(),
            None => {}
        }
        if found == self.state {
            return Ok(());
        }
        Err(format!("{} refs show after the process was stopped, of no state that it can have left", found.len()))
    }

    /// Notes what the step that begins now may do.
    fn event(&mut self, state: RefValues, samples: Vec<Sample>, moves: Vec<RefMove>) {
        let began = self.storage.calls();
        self.run.events.push(Event {
            began,
            acknowledged: u64::MAX,
            durable: false,
            state,
            samples,
            moves,
            sweeps: false,
        });
    }

    /// Notes that the step is acknowledged.
    fn done(&mut self, durable: bool) {
        let event = self.run.events.last_mut().expect("a step began");
        (event.acknowledged, event.durable) = (self.storage.calls(), durable);
        self.state = event.state.clone();
    }

    fn handle(&mut self, index: usize) -> Result<Arc<dyn Backend>, Error> {
        if self.handles.len() <= index {
            self.handles.resize(index + 1, None);
        }
        if self.handles[index].is_none() {
            let storage = self.process(index);
            self.handles[index] = Some(self.engine.open(Arc::new(storage))?);
        }
        Ok(self.handles[index].clone().expect("opened above"))
    }

    fn step(&mut self, step: &CrashStep) -> Result<(), Error> {
        self.engine.rest(&self.storage);
        match step {
            CrashStep::Commit { handle, refs, sizes, durability } => self.commit(*handle, refs, sizes, *durability),
            CrashStep::Remove { handle, refs, durability } => {
                for refs in self.steps_of(refs) {
                    let moves = refs.iter().map(|name| self.expecting(name, None)).collect();
                    self.append(*handle, Vec::new(), moves, *durability)?;
                }
                Ok(())
            }
            CrashStep::Symbolic { handle, name, to, durability } => {
                let to = self.family.ref_name(to);
                let moves = vec![self.expecting(name, Some(RefTarget::Symbolic(to)))];
                self.append(*handle, Vec::new(), moves, *durability)
            }
            CrashStep::Early { handle, sizes } => {
                let samples: Vec<Sample> = sizes.iter().map(|&bytes| self.sample(Kind::Contents, &[], bytes)).collect();
                self.early.extend(samples.iter().map(Sample::child));
                self.append(*handle, samples, Vec::new(), Durability::None)
            }
            CrashStep::Conflict { handle, name } => self.conflict(*handle, name),
            CrashStep::Flush { handle } => {
                let backend = self.handle(*handle)?;
                self.event(self.state.clone(), Vec::new(), Vec::new());
                backend.flush()?;
                self.done(true);
                Ok(())
            }
            CrashStep::Sweep { handle } => self.sweep(*handle),
            CrashStep::Derived { handle, name, bytes } => {
                let backend = self.handle(*handle)?;
                self.number += 1;
                let value = crate::generate::Rng::new(self.number).bytes(*bytes);
                self.run.derived.entry((*name).to_owned()).or_default().push(value.clone());
                backend.write_derived(name, &value)
            }
            CrashStep::Open { handle } => self.handle(*handle).map(drop),
            CrashStep::Close { handle } => {
                self.handles[*handle] = None;
                Ok(())
            }
        }
    }

    /// Drops what nothing leads to, where the backend can. Another handle may be in the way.
    fn sweep(&mut self, handle: usize) -> Result<(), Error> {
        let backend = self.handle(handle)?;
        if !backend.capabilities().sweep {
            return Ok(());
        }
        self.event(self.state.clone(), Vec::new(), Vec::new());
        self.run.events.last_mut().expect("the event of this step").sweeps = true;
        // Early objects are dropped with the rest.
        self.early.clear();
        let samples = &self.run.samples;
        let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
            samples.get(oid).into_iter().flat_map(|sample| &sample.children).for_each(|child| each(child.oid));
            Ok(())
        };
        // In turns all; what is dead hidden alone; what is new; and some of what is dead copied away.
        let limits = match backend.sweeps() % 4 {
            0 => SweepLimits::default(),
            1 => SweepLimits::default().slack(100),
            2 => SweepLimits::default().partial(true),
            _ => SweepLimits::default().slack(40),
        };
        // With little room a long log is emptied in parts, or not at all.
        let roots = Roots::new(&[], &children);
        self.storage.tell_free(Some(SWEEP_FREE_BYTES));
        let swept = backend.sweep(&roots, &limits);
        self.storage.tell_free(None);
        let swept = match swept {
            Err(Error::NoRoom { .. }) => backend.sweep(&roots, &limits),
            swept => swept,
        };
        match swept {
            Err(Error::Locked { .. }) | Ok(_) => {}
            Err(error) => return Err(error),
        }
        self.done(false);
        Ok(())
    }

    /// Returns the refs of a step, in as many steps as the backend needs.
    fn steps_of<'n>(&self, refs: &'n [String]) -> Vec<&'n [String]> {
        if self.several {
            return vec![refs];
        }
        refs.chunks(1).take(SINGLE_REFS_MAX).collect()
    }

    fn sample(&mut self, kind: Kind, children: &[Child], bytes: usize) -> Sample {
        self.number += 1;
        let sample = self.family.sample(self.number, kind, children, bytes);
        self.run.samples.insert(sample.clone());
        sample
    }

    /// A move of a ref from what it holds now.
    fn expecting(&self, name: &str, to: Option<RefTarget>) -> RefMove {
        let name = self.family.ref_name(name);
        let expected = self.state.get(&name).cloned().map_or(Expected::Absent, Expected::Is);
        RefMove { name, expected, to }
    }

    /// Commits values, a node above them, and per ref a commit above the node and the ref's last commit.
    fn commit(&mut self, handle: usize, refs: &[String], sizes: &[usize], durability: Durability) -> Result<(), Error> {
        let mut samples: Vec<Sample> = sizes.iter().map(|&bytes| self.sample(Kind::Contents, &[], bytes)).collect();
        let mut children = std::mem::take(&mut self.early);
        children.extend(samples.iter().map(Sample::child));
        let node = self.sample(Kind::Node, &children, 40);
        samples.push(node.clone());
        for refs in self.steps_of(refs) {
            let mut moves = Vec::new();
            for name in refs {
                let mut children = vec![node.child()];
                if let Some(RefTarget::Object(parent)) = self.state.get(&self.family.ref_name(name)) {
                    children.push(Child { kind: Kind::Commit, oid: parent.oid });
                }
                let commit = self.sample(Kind::Commit, &children, 60);
                moves.push(self.expecting(name, Some(RefTarget::Object(commit.oid.into()))));
                samples.push(commit);
            }
            self.append(handle, std::mem::take(&mut samples), moves, durability)?;
        }
        Ok(())
    }

    fn append(
        &mut self,
        handle: usize,
        samples: Vec<Sample>,
        mut moves: Vec<RefMove>,
        durability: Durability,
    ) -> Result<(), Error> {
        let backend = self.handle(handle)?;
        let mut state = self.state.clone();
        for wanted in &moves {
            match wanted.to.clone() {
                Some(to) => state.insert(wanted.name.clone(), to),
                None => state.remove(&wanted.name),
            };
        }
        self.event(state, samples.clone(), moves.clone());
        append_samples(&*backend, &samples, &mut moves, durability, &mut self.known)?;
        self.done(durability == Durability::Synced);
        Ok(())
    }

    /// Tries to move a ref from what it does not hold, and must fail.
    fn conflict(&mut self, handle: usize, name: &str) -> Result<(), Error> {
        let backend = self.handle(handle)?;
        let lost = self.sample(Kind::Contents, &[], 200);
        let mut batch = Batch::new();
        let at = lost.put(&mut batch, &self.known);
        let wrong = self.family.no_object(0xee);
        let wanted = RefMove {
            name: self.family.ref_name(name),
            expected: Expected::Is(RefTarget::Object(wrong.into())),
            to: Some(RefTarget::Object(ObjRef::new(lost.oid, at))),
        };
        match backend.append(batch, &[wanted], Durability::Synced) {
            Err(Error::RefMoved { .. }) => Ok(()),
            Ok(_) => panic!("a compare-and-set on \"{name}\" succeeds with the wrong expectation"),
            Err(error) => Err(error),
        }
    }
}
