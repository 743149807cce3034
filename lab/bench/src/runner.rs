//! Doing the runs of a job, each in a process of its own.
//!
//! A run in a process of its own has the memory of its scenario alone, and no heap that an earlier one has
//! torn to pieces. The process is this program again, with the job as a hidden argument and the result as a
//! line on its standard output.

use std::{
    env,
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::{BenchError, big, error::Result, job::Job, measure::Run, scenario, scratch};

/// A job that has taken so long in all is not run again, once it has run three times.
const JOB_TIME: Duration = Duration::from_secs(5);
const RUNS_MIN: usize = 3;

/// Where runs take place.
#[derive(Clone, Debug)]
pub enum Runner {
    /// In this process, as tests and profilers want it.
    Here,
    /// In a process of this program: its path, and what comes before the hidden arguments.
    Processes(PathBuf, Vec<String>),
}

impl Runner {
    /// Returns the runner that starts the command `bench` of this program.
    ///
    /// # Errors
    /// [`BenchError::Usage`] if the system does not say what this program is.
    pub fn this_program() -> Result<Self> {
        let program = env::current_exe().map_err(|error| {
            BenchError::usage(format!("this program's own file cannot be found ({error}); add --in-process"))
        })?;
        Ok(Self::Processes(program, vec!["bench".into()]))
    }

    /// Runs a job `runs` times, less often if it takes long. Each run gives one or more results. `between` is called after
    /// each run.
    ///
    /// # Errors
    /// Those of the scenario and of `between`; [`BenchError::Child`].
    pub fn runs(&self, job: &Job, runs: usize, mut between: impl FnMut() -> Result<()>) -> Result<Vec<Vec<Run>>> {
        let started = Instant::now();
        let mut all = Vec::with_capacity(runs);
        while all.len() < runs {
            all.push(self.once(&Job { judged: all.is_empty(), ..job.clone() })?);
            between()?;
            if all.len() >= RUNS_MIN && started.elapsed() > JOB_TIME {
                break;
            }
        }
        Ok(all)
    }

    fn once(&self, job: &Job) -> Result<Vec<Run>> {
        match self {
            Self::Here => scenario::run(job),
            Self::Processes(program, arguments) => child(program, arguments, job),
        }
    }
}

fn child(program: &PathBuf, arguments: &[String], job: &Job) -> Result<Vec<Run>> {
    let failed = |reason: String| BenchError::Child { scenario: job.scenario(), reason };
    let text = serde_json::to_string(job).map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .args(arguments)
        .args(["--child", &text])
        .stdin(Stdio::null())
        .output()
        .map_err(BenchError::io(program))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        let reason = if said.is_empty() { output.status.to_string() } else { said.to_owned() };
        return Err(failed(reason));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}

/// Does what a process of [`Runner::Processes`] was started for: runs the job and prints its results.
///
/// # Errors
/// [`BenchError::Usage`] if `job` is none; those of the scenario.
pub(crate) fn run_child(job: &str) -> Result<()> {
    scratch::end_with_parent();
    let job: Job = serde_json::from_str(job).map_err(|error| BenchError::usage(format!("--child: {error}")))?;
    let mut runs = scenario::run(&job)?;
    big::judge_memory(&job, &mut runs);
    let text = serde_json::to_string(&runs).map_err(|error| BenchError::usage(error.to_string()))?;
    println!("{text}");
    Ok(())
}
