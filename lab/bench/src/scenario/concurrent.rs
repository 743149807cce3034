//! `concurrent`: objects stored and read by many tasks, straight on the backend.

use bristlecone::{Backend, Batch, Durability, Format, Location, ObjRef, Snapshot};

use crate::{
    BenchError,
    check::{Expected, put},
    engine::Engine,
    error::Result,
    job::Job,
    measure::{Run, Written, together},
    workload::{Random, RisingValues, Workload, add_up, weight},
};

/// Objects that are stored beforehand, to be read.
pub(super) const STORED: usize = 1000;
/// The long form does so many times the rounds.
pub(super) const LONG: usize = 10;

pub(super) fn run<F: Format>(
    engine: &mut Engine<F>,
    job: &Job,
    workload: &Workload,
    batched: bool,
    long: bool,
    threads_max: usize,
) -> Result<(Run, Expected)> {
    let stored = store_first(engine, workload)?;
    engine.reopen()?;
    let tasks = job.sizes.tasks.max(1);
    let rounds = (job.sizes.nreads * if long { LONG } else { 1 } / tasks).max(1);
    let threads = threads_max.min(tasks);
    let (backend, format, durability) = (&**engine.backend(), engine.format(), job.target.durability());
    let written = Written::since_now(engine);
    let (seconds, sums) = together(threads, |thread| {
        let mut values = RisingValues::new(job.value_bytes);
        let (mut sum, snapshot) = (0_u64, backend.snapshot(&[]));
        for task in (thread..tasks).step_by(threads) {
            let first = STORED + task * rounds;
            let task = Task { backend, snapshot: &*snapshot, format, durability, stored: &stored, first, rounds };
            let found = if batched { task.batched(&mut values)? } else { task.each(&mut values)? };
            sum = found.wrapping_add(sum);
        }
        Ok(sum)
    })?;
    let mut run = Run { ops: 2 * (rounds * tasks) as u64, seconds, threads: threads as u64, ..Run::default() };
    written.note(engine, &mut run);
    let found = sums.into_iter().fold(0, u64::wrapping_add);
    if found != expected_sum(&*backend.snapshot(&[]), &stored, tasks, rounds)? {
        run.wrong = Some("reads found other objects than were stored".into());
    }
    Ok((run, Expected::Objects(0..STORED + rounds * tasks)))
}

/// Stores the objects that are read, and returns where they are.
fn store_first<F: Format>(engine: &Engine<F>, workload: &Workload) -> Result<Vec<ObjRef>> {
    let mut batch = Batch::new();
    let format = engine.format();
    let pending: Result<Vec<ObjRef>> = (0..STORED).map(|i| put(format, &mut batch, &workload.value(i))).collect();
    let base = engine.backend().append(batch, &[], Durability::None)?;
    engine.backend().flush()?;
    Ok(pending?.into_iter().map(|at| ObjRef::new(at.oid, at.at.resolve(base))).collect())
}

/// Returns the sum of what all tasks should read, from the objects as they are found by their ids alone.
fn expected_sum(snapshot: &dyn Snapshot, stored: &[ObjRef], tasks: usize, rounds: usize) -> Result<u64> {
    let weights: Result<Vec<u64>> = stored.iter().map(|at| read(snapshot, &ObjRef::from(at.oid))).collect();
    let weights = weights?;
    let of_task = |task: usize| {
        let mut random = Random::new((STORED + task * rounds) as u64);
        (0..rounds).fold(0, |sum, _| add_up(sum, weights[random.below(weights.len() as u64) as usize]))
    };
    Ok((0..tasks).map(of_task).fold(0, u64::wrapping_add))
}

struct Task<'a, F> {
    backend: &'a dyn Backend,
    snapshot: &'a dyn Snapshot,
    format: &'a F,
    durability: Durability,
    stored: &'a [ObjRef],
    first: usize,
    rounds: usize,
}

impl<F: Format> Task<'_, F> {
    /// New objects are hashed at once and given to the backend together, at the end of the task.
    fn batched(&self, values: &mut RisingValues) -> Result<u64> {
        let mut batch = Batch::new();
        let mut random = Random::new(self.first as u64);
        let mut sum = 0;
        for round in 0..self.rounds {
            put(self.format, &mut batch, values.get(self.first + round))?;
            sum = add_up(sum, self.read_one(&mut random)?);
        }
        self.backend.append(batch, &[], self.durability)?;
        Ok(sum)
    }

    /// Every new object is given to the backend by itself.
    fn each(&self, values: &mut RisingValues) -> Result<u64> {
        let mut random = Random::new(self.first as u64);
        let mut sum = 0;
        for round in 0..self.rounds {
            let mut batch = Batch::new();
            put(self.format, &mut batch, values.get(self.first + round))?;
            let _: Location = self.backend.append(batch, &[], self.durability)?;
            sum = add_up(sum, self.read_one(&mut random)?);
        }
        Ok(sum)
    }

    #[inline]
    fn read_one(&self, random: &mut Random) -> Result<u64> {
        read(self.snapshot, &self.stored[random.below(self.stored.len() as u64) as usize])
    }
}

/// Reads an object and returns what it adds to a sum.
#[inline]
fn read(snapshot: &dyn Snapshot, at: &ObjRef) -> Result<u64> {
    match snapshot.read(at)? {
        Some(object) => Ok(weight(object.body())),
        None => {
            Err(BenchError::Wrong { scenario: "concurrent".into(), reason: format!("object {} is missing", at.oid) })
        }
    }
}
