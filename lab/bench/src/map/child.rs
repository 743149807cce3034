//! The process of an engine: it does what it is told, a line each, and compares what it reads with a model.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, Write, stdin, stdout},
    path::{Path, PathBuf},
    time::Instant,
};

use bristlecone::Durability;
use serde::{Deserialize, Serialize};

use super::{
    engine::{EngineName, MapEngine},
    plan::{Answer, BATCH_ENTRIES, Command, Operation, Round},
    random::{Key, Numbers, Sum, first_value, key},
};
use crate::{BenchError, error::Result, scratch};

/// What the process is started with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) engine: EngineName,
    pub(super) synced: bool,
    /// A folder of its own.
    pub(super) dir: PathBuf,
}

/// Does what comes on standard input until that ends, and answers each line.
///
/// # Errors
/// [`BenchError::Usage`] for lines that are no commands; those of the system. Failures of the engine are answers.
pub(super) fn run(task: &str) -> Result<()> {
    scratch::end_with_parent();
    let bad = |error: serde_json::Error| BenchError::usage(format!("--child: {error}"));
    let task: Task = serde_json::from_str(task).map_err(bad)?;
    let mut child = Child::new(task)?;
    for line in stdin().lock().lines() {
        let line = line.map_err(BenchError::io(Path::new("standard input")))?;
        let command: Command = serde_json::from_str(&line).map_err(bad)?;
        let answer = child.answer(&command);
        let text = serde_json::to_string(&answer).map_err(bad)?;
        writeln!(stdout(), "{text}").map_err(BenchError::io(Path::new("standard output")))?;
    }
    Ok(())
}

struct Child {
    task: Task,
    durability: Durability,
    engine: Option<Box<dyn MapEngine>>,
    /// What the map should hold.
    model: BTreeMap<Key, Vec<u8>>,
    /// Transactions that changed the map, the load among them.
    versions: u64,
    /// The map changed since it was compared.
    changed: bool,
    stores: u64,
}

impl Child {
    fn new(task: Task) -> Result<Self> {
        let durability = if task.synced { Durability::Synced } else { Durability::None };
        fs::create_dir_all(&task.dir).map_err(BenchError::io(&task.dir))?;
        Ok(Self { task, durability, engine: None, model: BTreeMap::new(), versions: 0, changed: false, stores: 0 })
    }

    fn answer(&mut self, command: &Command) -> Answer {
        let done = match command {
            Command::Load { entries } => self.load(*entries),
            Command::Do(round) => self.round(round),
            Command::Compare if self.changed => self.compared(Answer::default()),
            Command::Compare => Ok(Answer::default()),
            Command::Finish => self.finish(),
        };
        done.unwrap_or_else(|error| Answer { wrong: Some(bristlecone::report(&error)), ..Answer::default() })
    }

    /// Puts a new, empty map in the place of the one that is there, and returns what was wrong with that one.
    fn renew(&mut self) -> Result<Option<String>> {
        let wrong = if self.changed { self.compared(Answer::default())?.wrong } else { None };
        self.engine = None;
        let old = self.dir();
        if old.exists() {
            fs::remove_dir_all(&old).map_err(BenchError::io(&old))?;
        }
        self.stores += 1;
        self.engine = Some(self.task.engine.create(&self.dir(), self.durability)?);
        self.model.clear();
        self.versions = 0;
        Ok(wrong)
    }

    fn dir(&self) -> PathBuf {
        self.task.dir.join(self.stores.to_string())
    }

    fn engine(&mut self) -> Result<&mut dyn MapEngine> {
        match &mut self.engine {
            Some(engine) => Ok(&mut **engine),
            None => Err(BenchError::usage("a map is made before it is used")),
        }
    }

    fn load(&mut self, entries: u64) -> Result<Answer> {
        let wrong = self.renew()?;
        let entries: Vec<(Key, Vec<u8>)> =
            (0..entries).map(|number| (key(number), first_value(key(number)).to_vec())).collect();
        let started = Instant::now();
        self.engine()?.load(&entries)?;
        let seconds = started.elapsed().as_secs_f64();
        (self.model, self.versions, self.changed) = (entries.into_iter().collect(), 1, true);
        Ok(Answer { seconds, wrong })
    }

    fn round(&mut self, round: &Round) -> Result<Answer> {
        match round.operation {
            Operation::Get(count) => self.get(round, count),
            Operation::Iterate => self.iterate(round),
            Operation::Set(count) => {
                let mut numbers = Numbers::new(round.seed);
                let mut batch = || -> Vec<(Key, Vec<u8>)> {
                    let entry = |_| (key(numbers.below(round.entries)), numbers.next().to_le_bytes().to_vec());
                    (0..count).map(entry).collect()
                };
                let batches: Vec<_> = (0..round.transactions).map(|_| batch()).collect();
                self.set(batches)
            }
            Operation::Load => self.load(round.entries).and_then(|answer| self.compared(answer)),
            Operation::Batches { ascending } => {
                let wrong = self.renew()?;
                let batches = new_batches(round, ascending);
                self.set(batches).and_then(|answer| self.compared(Answer { wrong, ..answer }))
            }
        }
    }

    fn get(&mut self, round: &Round, count: u64) -> Result<Answer> {
        let mut numbers = Numbers::new(round.seed);
        let keys: Vec<Key> = (0..round.transactions * count).map(|_| key(numbers.below(round.entries))).collect();
        let (mut found, engine) = (Sum::default(), self.engine()?);
        let started = Instant::now();
        for keys in keys.chunks(count as usize) {
            engine.get(keys, &mut found)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        let mut expected = Sum::default();
        keys.iter().filter_map(|key| self.model.get(key)).for_each(|value| expected.value(value));
        Ok(Answer { seconds, wrong: differs(found, expected) })
    }

    fn iterate(&mut self, round: &Round) -> Result<Answer> {
        let (mut all, engine) = (Vec::new(), self.engine()?);
        let started = Instant::now();
        for _ in 0..round.transactions {
            let mut found = Sum::default();
            engine.iterate(&mut found)?;
            all.push(found);
        }
        let seconds = started.elapsed().as_secs_f64();
        let expected = self.expected();
        let wrong = all.into_iter().find_map(|found| differs(found, expected));
        Ok(Answer { seconds, wrong })
    }

    /// Sets batches, a transaction each.
    fn set(&mut self, batches: Vec<Vec<(Key, Vec<u8>)>>) -> Result<Answer> {
        self.changed = true;
        let engine = self.engine()?;
        let started = Instant::now();
        for batch in &batches {
            engine.set(batch)?;
        }
        let seconds = started.elapsed().as_secs_f64();
        self.versions += batches.len() as u64;
        self.model.extend(batches.into_iter().flatten());
        Ok(Answer { seconds, ..Answer::default() })
    }

    fn expected(&self) -> Sum {
        let mut expected = Sum::default();
        self.model.iter().for_each(|(key, value)| expected.entry(key, value));
        expected
    }

    /// Compares every entry, the root and the number of versions with what they should be.
    fn compared(&mut self, answer: Answer) -> Result<Answer> {
        let mut found = Sum::default();
        self.engine()?.iterate(&mut found)?;
        let mut wrong = answer.wrong.or_else(|| differs(found, self.expected()));
        if let Some(root) = self.engine()?.root()? {
            let model: Vec<(Key, Vec<u8>)> = self.model.iter().map(|(key, value)| (*key, value.clone())).collect();
            let expected = self.engine()?.expected_root(&model)?;
            let other = || format!("the root is {root}, that of the same entries loaded is {expected:?}");
            wrong = wrong.or_else(|| (expected.as_ref() != Some(&root)).then(other));
        }
        if let Some(kept) = self.engine()?.versions()?.filter(|kept| *kept != self.versions) {
            wrong = wrong.or_else(|| Some(format!("{kept} versions are kept of {}", self.versions)));
        }
        self.changed = false;
        Ok(Answer { wrong, ..answer })
    }

    fn finish(&mut self) -> Result<Answer> {
        let answer = self.compared(Answer::default())?;
        self.engine = None;
        Ok(answer)
    }
}

/// Returns batches of entries that are not there yet.
fn new_batches(round: &Round, ascending: bool) -> Vec<Vec<(Key, Vec<u8>)>> {
    let mut numbers = Numbers::new(round.seed);
    let all = round.transactions * BATCH_ENTRIES;
    let mut order: Vec<u64> = (0..all).collect();
    if !ascending {
        for index in (1..order.len()).rev() {
            order.swap(index, numbers.below(index as u64 + 1) as usize);
        }
    }
    let bytes = round.operation.value_bytes();
    let entries: Vec<(Key, Vec<u8>)> = order.into_iter().map(|number| (key(number), numbers.value(bytes))).collect();
    entries.chunks(BATCH_ENTRIES as usize).map(<[_]>::to_vec).collect()
}

fn differs(found: Sum, expected: Sum) -> Option<String> {
    let what = |sum: Sum| format!("{} entries with the sum {:016x}", sum.entries, sum.total);
    (found != expected).then(|| format!("{} were read, {} were written", what(found), what(expected)))
}

#[cfg(test)]
mod tests;
