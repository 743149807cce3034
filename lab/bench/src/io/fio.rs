//! The same job through fio, where it is installed.

use std::{fs, io, path::Path, process::Command};

use serde::Deserialize;

use super::{
    job::{Engine, Job},
    report::{Figures, ReadStats},
};
use crate::{BenchError, error::Result};

/// Returns the version of the fio that is installed, if one is.
pub(crate) fn version() -> Option<String> {
    let output = Command::new(PROGRAM).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && text.starts_with("fio")).then_some(text)
}

const PROGRAM: &str = "fio";

/// Does a job by fio. The job file is made in `dir` and removed again.
///
/// # Errors
/// [`BenchError::Child`] with what fio said, if it failed; [`BenchError::Io`].
pub(crate) fn measure(job: &Job, engine: Engine, version: &str, dir: &Path) -> Result<Figures> {
    let file = dir.join(format!("bristlecone-io-{}.fio", std::process::id()));
    fs::write(&file, job.to_fio(&[engine])).map_err(BenchError::io(&file))?;
    let output = Command::new(PROGRAM).args(["--output-format=json", "--eta=never"]).arg(&file).output();
    let _ = fs::remove_file(&file);
    let output = output.map_err(BenchError::io(Path::new(PROGRAM)))?;
    let failed = |reason: String| BenchError::Child { scenario: format!("{version} {}", engine.name()), reason };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(failed(if said.is_empty() { output.status.to_string() } else { said }));
    }
    let read = parse(&output.stdout).map_err(failed)?;
    Ok(Figures {
        by: version.to_owned(),
        engine: engine.name(),
        threads: job.threads,
        read,
        untimed: None,
        checksum: None,
    })
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

/// Reads the figures of the one job in fio's output, which may begin with remarks.
fn parse(output: &[u8]) -> Result<ReadStats, String> {
    let start = output.iter().position(|byte| *byte == b'{').ok_or("it printed no JSON")?;
    let mut stream = serde_json::Deserializer::from_slice(&output[start..]).into_iter::<Output>();
    let parsed = stream.next().ok_or(io::ErrorKind::UnexpectedEof.to_string())?;
    let mut jobs = parsed.map_err(|error| format!("its JSON is not understood: {error}"))?.jobs;
    let job = jobs.pop().ok_or("its JSON has no job")?;
    match job.error {
        0 if job.read.total_ios == 0 => Err("it read nothing".into()),
        0 => Ok(job.read),
        error => Err(io::Error::from_raw_os_error(error as i32).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What fio 3.33 printed, without the keys that are not read.
    const OUTPUT: &str = r#"fio: a remark
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "psync",
      "error" : 0,
      "read" : {
        "io_bytes" : 419430000, "io_kbytes" : 409599, "bw_bytes" : 128501838, "iops" : 944779.411765,
        "runtime" : 3264, "total_ios" : 3083760,
        "slat_ns" : { "min" : 0, "max" : 0, "mean" : 0.000000, "stddev" : 0.000000, "N" : 0 },
        "clat_ns" : {
          "min" : 490, "max" : 764046, "mean" : 859.157125, "stddev" : 2492.362448, "N" : 3083760,
          "percentile" : { "1.000000" : 532, "50.000000" : 724, "99.990000" : 78336 }
        },
        "bw_min" : 61544
      },
      "write" : { "io_bytes" : 0 }
    }
  ]
}
a remark at the end
"#;

    #[test]
    fn output_of_fio_is_read() {
        let read = parse(OUTPUT.as_bytes()).unwrap();
        assert_eq!((read.total_ios, read.runtime, read.clat_ns.max), (3_083_760, 3264, 764_046));
        assert_eq!(read.clat_ns.percentile, [(1.0, 532), (50.0, 724), (99.99, 78_336)]);
    }

    #[test]
    fn failures_of_fio_are_told() {
        let failed = OUTPUT.replace("\"error\" : 0", "\"error\" : 22");
        assert!(parse(failed.as_bytes()).unwrap_err().contains("nvalid argument"));
        let nothing = OUTPUT.replace("\"total_ios\" : 3083760", "\"total_ios\" : 0");
        assert!(parse(nothing.as_bytes()).unwrap_err().contains("nothing"));
        for text in ["", "fio", "{", "{}", r#"{"jobs":[]}"#, r#"{"jobs":[{"read":{"iops":"x"}}]}"#] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
