//! The same job through fio, where it is installed.

use std::{fs, io, path::Path, process::Command};

use serde::Deserialize;

use super::{
    figures::{Figures, ReadStats},
    job::{Engine, ReadJob},
};
use crate::{BenchError, error::Result};

const PROGRAM: &str = "fio";

/// Returns the version of the fio that is installed, if one is.
pub(crate) fn version() -> Option<String> {
    let output = Command::new(PROGRAM).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && text.starts_with("fio")).then_some(text)
}

/// Does a job by fio. The job file is made in `dir`.
///
/// # Errors
/// [`BenchError::Child`] with what fio said, if it failed; [`BenchError::Io`].
pub(crate) fn measure(job: &ReadJob, engine: Engine, version: &str, dir: &Path) -> Result<Figures> {
    let file = dir.join(format!("bristlecone-io-{}.fio", std::process::id()));
    fs::write(&file, job.to_fio(&[engine])).map_err(BenchError::io(&file))?;
    let output = Command::new(PROGRAM).args(["--output-format=json", "--eta=never"]).arg(&file).output();
    let _ = fs::remove_file(&file);
    let output = output.map_err(BenchError::io(Path::new(PROGRAM)))?;
    let failed = |reason: String| BenchError::Child { scenario: format!("{version} {}", engine.name()), reason };
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failed(if message.is_empty() { output.status.to_string() } else { message }));
    }
    let read = parse(&output.stdout).map_err(failed)?;
    let (by, engine, threads) = (version.to_owned(), engine.name(), job.threads);
    Ok(Figures { by, engine, threads, read, untimed: None, checksum: None })
}

/// What we want of fio's JSON.
#[derive(Deserialize)]
struct Output {
    jobs: Vec<OutputJob>,
}

#[derive(Deserialize)]
struct OutputJob {
    #[serde(default)]
    error: i64,
    read: ReadStats,
}

/// Reads the figures of the one job in fio's output, which may begin and end with remarks.
pub(super) fn parse(output: &[u8]) -> Result<ReadStats, String> {
    let start = output.iter().position(|byte| *byte == b'{').ok_or("it printed no JSON")?;
    let mut stream = serde_json::Deserializer::from_slice(&output[start..]).into_iter::<Output>();
    let parsed = stream.next().ok_or("its JSON ends too early")?;
    let mut jobs = parsed.map_err(|error| format!("its JSON is not understood: {error}"))?.jobs;
    let job = jobs.pop().ok_or("its JSON has no job")?;
    match job.error {
        0 if job.read.total_ios == 0 => Err("it read nothing".into()),
        0 => Ok(job.read),
        error => Err(io::Error::from_raw_os_error(error as i32).to_string()),
    }
}
