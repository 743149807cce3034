//! The processes of the engines, and rounds in turns.

use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command as Process, ExitStatus, Stdio},
};

use bristlecone::Durability;
use rustix::process::Signal;

use super::{
    MapPlan,
    child::Task,
    engine::EngineName,
    plan::{Answer, Command, Operation, Round},
};
use crate::{
    BenchError,
    error::Result,
    limits::sync_now,
    machine::Machine,
    measure::{Run, commit_threads},
    report::{MapFigures, Row, table::rate},
};

/// One process for each engine, with a map of the same entries.
pub(super) struct Turns {
    engines: Vec<EngineProcess>,
    entries: u64,
    synced: bool,
    dir: PathBuf,
}

impl Turns {
    /// Starts the processes and has each make its map.
    pub(super) fn start(plan: &MapPlan, dir: &Path, synced: bool, entries: u64) -> Result<Self> {
        let mut engines = Vec::new();
        for &engine in &plan.engines {
            say_part!("{} makes a map of {entries} entries … ", engine.name());
            let mut process =
                EngineProcess::start(engine, dir.join(format!("map-{engine:?}-{synced}-{entries}")), synced)?;
            process.ask(&Command::Load { entries })?;
            say!("");
            engines.push(process);
        }
        Ok(Self { engines, entries, synced, dir: dir.to_owned() })
    }

    /// Does the rounds of a row, and returns a row for each engine.
    pub(super) fn row(&mut self, plan: &MapPlan, operation: Operation, machine: &Machine) -> Result<Vec<Row>> {
        let durability = if self.synced { Durability::Synced } else { Durability::None };
        let transactions = operation.transactions(self.entries, durability, plan.quick);
        let count = transactions * operation.entries(self.entries);
        say_part!("{} of {} entries, {}: ", operation.name(), self.entries, durability.name());
        let mut runs = vec![Vec::new(); self.engines.len()];
        // The first round is not counted: caches fill.
        let rounds = if plan.quick || operation.is_fresh() { 0..plan.rounds } else { 0..plan.rounds + 1 };
        let warm = rounds.len() - plan.rounds;
        let (mut syncs, mut wrong) = (Vec::new(), vec![None; self.engines.len()]);
        for number in rounds {
            let seed = number as u64 + 1;
            let round = Round { operation, entries: self.entries, transactions, seed };
            for turn in 0..self.engines.len() {
                let index = (turn + number) % self.engines.len();
                let answer = self.engines[index].ask(&Command::Do(round))?;
                // Whatever is wrong in a round that is not counted is wrong in the row.
                wrong[index] = wrong[index].take().or(answer.wrong);
                let threads = threads(self.engines[index].engine, operation, self.entries);
                let run = Run { ops: count, seconds: answer.seconds, threads, ..Run::default() };
                if number >= warm {
                    runs[index].push(run);
                }
            }
            if self.synced {
                syncs.push(sync_now(&self.dir)?);
            }
        }
        for (index, engine) in self.engines.iter_mut().enumerate() {
            // What changed is compared before the row is kept; fresh maps were compared in each round.
            let answer = engine.ask(&Command::Compare)?;
            let wrong = wrong[index].take().or(answer.wrong);
            if let Some(run) = runs[index].last_mut() {
                run.wrong = wrong;
            }
        }
        if operation.is_fresh() {
            // The next row works on the usual map.
            for engine in &mut self.engines {
                engine.ask(&Command::Load { entries: self.entries })?;
            }
        }
        let rows = self.rows(operation, &runs, &mut syncs, machine);
        for row in &rows {
            let wrong = row.wrong.as_ref().map_or_else(String::new, |wrong| format!(" WRONG: {wrong}"));
            say_part!("{} {}/s{wrong}  ", row.backend, rate(row.ops_per_sec));
        }
        say!("");
        Ok(rows)
    }

    fn rows(&self, operation: Operation, runs: &[Vec<Run>], syncs: &mut [f64], machine: &Machine) -> Vec<Row> {
        let (mut rows, base) = (Vec::new(), &runs[0]);
        syncs.sort_by(f64::total_cmp);
        for (engine, runs) in self.engines.iter().zip(runs) {
            let Some(run) = crate::report::median(runs) else { continue };
            let durability = match (operation.writes(), self.synced) {
                (false, _) => "",
                (true, true) => Durability::Synced.name(),
                (true, false) => Durability::None.name(),
            };
            let [ratio, ratio_min, ratio_max] = ratios(runs, base);
            let mut row = Row::of_runs(run, runs, machine);
            row.name = format!("map {} {durability}", engine.engine.name()).trim_end().to_owned();
            row.scenario = match operation {
                Operation::Batches { .. } => format!("map-{}", operation.name()),
                _ => format!("map-{}-{}", operation.name(), self.entries),
            };
            row.backend = engine.engine.name().to_owned();
            row.durability = durability.to_owned();
            row.value_bytes = operation.value_bytes() as u64;
            row.wrong = runs.iter().find_map(|run| run.wrong.clone());
            row.fdatasync_us = syncs.get(syncs.len() / 2).filter(|_| operation.writes()).map(|seconds| seconds * 1e6);
            row.map = Some(Box::new(MapFigures {
                // A map that a round makes of batches has what they brought.
                entries: if matches!(operation, Operation::Batches { .. }) { run.ops } else { self.entries },
                keeps: engine.engine.keeps().to_owned(),
                ratio,
                ratio_min,
                ratio_max,
            }));
            rows.push(row);
        }
        rows
    }

    /// Has every process compare its map with what was written, and ends them. Returns the engines of which something was wrong, and
    /// what.
    ///
    /// # Errors
    /// [`BenchError::Stopped`] if the user interrupted a process: nothing is known of its map.
    pub(super) fn finish(self) -> Result<Vec<(EngineName, String)>> {
        let mut wrong = Vec::new();
        for mut process in self.engines {
            let engine = process.engine;
            let reason = match process.ask(&Command::Finish) {
                Ok(Answer { wrong: Some(reason), .. }) => Ok(Some(reason)),
                Ok(_) => process.end().map(|()| None),
                Err(error) => Err(error),
            };
            let reason = match reason {
                Err(BenchError::Stopped) => return Err(BenchError::Stopped),
                Err(error) => Some(bristlecone::report(&error)),
                Ok(reason) => reason,
            };
            wrong.extend(reason.map(|reason| (engine, reason)));
        }
        Ok(wrong)
    }
}

/// Returns the rates by those of plain LMDB in the same rounds: the median, the least and the greatest; zeros where no round was done
/// by both. One that failed has no time.
fn ratios(runs: &[Run], base: &[Run]) -> [f64; 3] {
    let both = runs.iter().zip(base).filter(|(run, base)| run.seconds > 0.0 && base.seconds > 0.0);
    let mut ratios: Vec<f64> = both.map(|(run, base)| base.seconds / run.seconds).collect();
    ratios.sort_by(f64::total_cmp);
    let (Some(&least), Some(&greatest)) = (ratios.first(), ratios.last()) else { return [0.0; 3] };
    [ratios[(ratios.len() - 1) / 2], least, greatest]
}

/// Returns how many threads do an operation on a map of so many entries. Those by which engines do other things meanwhile are not
/// counted.
fn threads(engine: EngineName, operation: Operation, entries: u64) -> u64 {
    match (engine, operation) {
        (EngineName::Native, Operation::Set(edits)) => commit_threads(edits, entries),
        _ => 1,
    }
}

/// The process of an engine.
struct EngineProcess {
    engine: EngineName,
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// The folder of its maps, which goes with it.
    dir: PathBuf,
}

impl EngineProcess {
    fn start(engine: EngineName, dir: PathBuf, synced: bool) -> Result<Self> {
        let program = env::current_exe()
            .map_err(|error| BenchError::usage(format!("this program's own file cannot be found ({error})")))?;
        let task = serde_json::to_string(&Task { engine, synced, dir: dir.clone() });
        let task = task.map_err(|error| BenchError::usage(error.to_string()))?;
        let mut process = Process::new(&program)
            .args(["bench", "map", "--child", &task])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(BenchError::io(&program))?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(BenchError::usage("a process without its pipes"));
        };
        Ok(Self { engine, process, input: Some(input), output: BufReader::new(output), dir })
    }

    /// Tells the process what to do and waits for the answer. What was wrong is in it.
    fn ask(&mut self, command: &Command) -> Result<Answer> {
        let engine = self.engine;
        let failed = |reason: String| failed(engine, reason);
        let text = serde_json::to_string(command).map_err(|error| failed(error.to_string()))?;
        let told = match &mut self.input {
            Some(input) => writeln!(input, "{text}"),
            None => Ok(()),
        };
        let mut line = String::new();
        if told.is_err() || self.output.read_line(&mut line).map_err(|error| failed(error.to_string()))? == 0 {
            // It has ended, or is about to.
            self.input = None;
            return Err(ended(engine, self.process.wait()));
        }
        let answer: Answer = serde_json::from_str(&line).map_err(|error| failed(format!("{error}: {line:?}")))?;
        match &answer.wrong {
            // A map that could not be made has nothing to measure.
            Some(reason) if matches!(command, Command::Load { .. }) => Err(failed(reason.clone())),
            _ => Ok(answer),
        }
    }

    fn end(mut self) -> Result<()> {
        self.input = None;
        match self.process.wait() {
            Ok(status) if status.success() => Ok(()),
            status => Err(ended(self.engine, status)),
        }
    }
}

fn failed(engine: EngineName, reason: String) -> BenchError {
    BenchError::Child { scenario: format!("map, {}", engine.name()), reason }
}

/// Returns what it means that a process ended when it should not, or so. An interrupt from a terminal reaches all processes.
fn ended(engine: EngineName, status: io::Result<ExitStatus>) -> BenchError {
    match status {
        Ok(status) if status.signal() == Some(Signal::INT.as_raw()) => BenchError::Stopped,
        Ok(status) => failed(engine, status.to_string()),
        Err(error) => failed(engine, error.to_string()),
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        self.input = None;
        if matches!(self.process.try_wait(), Ok(None)) {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
        // The folder above is removed at the end, should this fail.
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::cores;

    #[test]
    fn ratios_are_of_rounds_that_both_did() {
        let runs = |seconds: &[f64]| -> Vec<Run> {
            seconds.iter().map(|&seconds| Run { seconds, ..Run::default() }).collect()
        };
        assert_eq!(ratios(&runs(&[1.0, 4.0, 2.0]), &runs(&[2.0, 2.0, 2.0])), [1.0, 0.5, 2.0]);
        // The second failed, and plain LMDB in the third.
        assert_eq!(ratios(&runs(&[1.0, 0.0, 2.0, 1.0]), &runs(&[2.0, 2.0, 0.0, 3.0])), [2.0, 2.0, 3.0]);
        assert_eq!(ratios(&runs(&[0.0, 1.0]), &runs(&[1.0, 0.0])), [0.0; 3]);
    }

    #[test]
    fn a_process_that_ends_says_how() {
        for (script, said) in [("kill -9 $$", "signal: 9 (SIGKILL)"), ("exit 3", "exit status: 3")] {
            let mut process = Process::new("sh");
            process.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = process.spawn().unwrap();
            let (input, output) = (process.stdin.take(), BufReader::new(process.stdout.take().unwrap()));
            let dir = tempfile::tempdir().unwrap().path().to_owned();
            let mut process = EngineProcess { engine: EngineName::Okra, process, input, output, dir };
            let error = process.ask(&Command::Compare).unwrap_err().to_string();
            assert!(error.starts_with("map, okra map: ") && error.ends_with(said), "{error}");
        }
        // Whoever interrupts learns nothing of a map.
        assert!(matches!(ended(EngineName::Okra, Ok(ExitStatus::from_raw(2))), BenchError::Stopped));
    }

    #[test]
    fn large_transactions_of_the_native_map_alone_have_all_cores() {
        let all = cores() as u64;
        for (engine, operation, entries, expected) in [
            (EngineName::Native, Operation::Set(50_000), 1_000_000, all),
            // Of so few entries there is nothing to be shared out.
            (EngineName::Native, Operation::Set(50_000), 1000, 1),
            (EngineName::Native, Operation::Set(1000), 1_000_000, 1),
            (EngineName::Native, Operation::Load, 1_000_000, 1),
            (EngineName::Okra, Operation::Set(50_000), 1_000_000, 1),
        ] {
            assert_eq!(threads(engine, operation, entries), expected, "{engine:?} {operation:?} {entries}");
        }
    }
}
