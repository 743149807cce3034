//! A process for each replay: this program again, with the job as a hidden argument and the run as a line on its standard output.

use std::{
    env,
    process::{Command, Stdio},
};

use serde::{Serialize, de::DeserializeOwned};

use super::watch;
use crate::{BenchError, error::Result, scratch};

/// Does a replay of this kind, as the command `replay` names it, in a process of its own, which says on standard error how far it is.
pub(crate) fn process<R: DeserializeOwned>(kind: &str, job: &impl Serialize) -> Result<R> {
    let failed = |reason: String| BenchError::Child { scenario: "replay".into(), reason };
    let program = env::current_exe().map_err(|error| failed(format!("this program is not found: {error}")))?;
    let output = Command::new(&program)
        .args(["replay", kind, "--child", &value(job)?])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(BenchError::io(&program))?;
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string())),
        // It has said what is wrong.
        Some(1) => Err(BenchError::Wrong { scenario: "replay".into(), reason: "see above".into() }),
        Some(2) => Err(BenchError::usage("see above")),
        Some(130) => Err(BenchError::Stopped),
        _ => Err(failed(format!("see above ({})", output.status))),
    }
}

/// Does what a process of [`process`] was started for: runs the job and prints the run.
pub(crate) fn child<J: DeserializeOwned, R: Serialize>(job: &str, run: fn(&J) -> Result<R>) -> Result<()> {
    scratch::end_with_parent();
    let job: J = serde_json::from_str(job).map_err(|error| BenchError::usage(format!("--child: {error}")))?;
    watch::stop_on_interrupt();
    println!("{}", value(&run(&job)?)?);
    Ok(())
}

/// Returns something as JSON.
pub(crate) fn value(what: &impl Serialize) -> Result<String> {
    serde_json::to_string(what).map_err(|error| BenchError::usage(error.to_string()))
}
