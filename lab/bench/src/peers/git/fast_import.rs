//! `git fast-import`, fed the history on its standard input. Nobody sees a commit of it before its end, when it syncs
//! its one pack and moves the ref.

use std::{
    io::Write,
    process::{Child, Stdio},
    time::Instant,
};

use super::library::{Edit, Home, MAIN, Plan};
use crate::{
    BenchError,
    error::Result,
    job::{Job, Work},
    measure::Run,
    peers::program::{git, said_by_git},
    rss::Sampler,
    workload::{Who, Workload, message},
};

/// Does one run of a job.
pub(super) fn run(job: &Job) -> Result<Vec<Run>> {
    let workload = Workload::new(job);
    let plan = Plan::new(job, &workload);
    let home = Home::new(job)?;
    said(&home, &["init", "--bare", "--quiet", "."])?;
    let mut parent = None;
    if !plan.base.is_empty() {
        let mut stream = Stream::default();
        stream.commit(&plan.paths, &Edit::Each(&plan.base), &message(0), None);
        let import = start(&home)?;
        feed(import, &stream.bytes)?;
        parent = Some(format!("{MAIN}^0"));
    }
    let mut stream = Stream::default();
    for (edit, message) in plan.edits() {
        // Within a stream the branch is where the commit before it left it.
        stream.commit(&plan.paths, &edit, message, parent.take().as_deref());
    }
    let started = Instant::now();
    let import = start(&home)?;
    let sampler = Sampler::others(vec![import.id()]);
    feed(import, &stream.bytes)?;
    let seconds = started.elapsed().as_secs_f64();
    let peak = sampler.finish_sampled();
    let commits = plan.commits.len() as u64;
    let ops = if job.work == Work::Commits { commits * workload.paths.len() as u64 } else { commits };
    let mut run = Run {
        ops,
        seconds,
        commits,
        threads: 1,
        rss_anon_kb: peak.anon_kb,
        rss_file_kb: peak.file_kb,
        maxrss_kb: peak.max_kb,
        file_bytes: home.bytes(),
        ..Run::default()
    };
    let head = (said(&home, &["rev-parse", MAIN])?, said(&home, &["rev-parse", &format!("{MAIN}^{{tree}}")])?);
    plan.check(&workload, head, &mut run)?;
    Ok(vec![run])
}

/// What the program reads, as `git help fast-import` describes it.
#[derive(Default)]
struct Stream {
    bytes: Vec<u8>,
    marks: usize,
}

impl Stream {
    fn commit(&mut self, paths: &[String], edit: &Edit<'_>, message: &str, parent: Option<&str>) {
        let first = self.marks + 1;
        match *edit {
            Edit::All(value) | Edit::One(_, value) => self.blob(value),
            Edit::Each(values) => values.iter().for_each(|value| self.blob(value)),
        }
        let who = format!("{} <{}> {} +0000", Who::NAME, Who::ADDRESS, Who::SECONDS);
        self.text(&format!("commit {MAIN}\nauthor {who}\ncommitter {who}\n"));
        self.data(message.as_bytes());
        if let Some(parent) = parent {
            self.text(&format!("from {parent}\n"));
        }
        let set = |path: &str, mark: usize| format!("M 100644 :{mark} {path}\n");
        match *edit {
            Edit::One(entry, _) => self.text(&set(&paths[entry], first)),
            Edit::All(_) => paths.iter().for_each(|path| self.text(&set(path, first))),
            Edit::Each(_) => paths.iter().enumerate().for_each(|(n, path)| self.text(&set(path, first + n))),
        }
    }

    fn blob(&mut self, value: &[u8]) {
        self.marks += 1;
        self.text(&format!("blob\nmark :{}\n", self.marks));
        self.data(value);
    }

    fn data(&mut self, bytes: &[u8]) {
        self.text(&format!("data {}\n", bytes.len()));
        self.bytes.extend_from_slice(bytes);
        self.text("\n");
    }

    fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }
}

fn start(home: &Home) -> Result<Child> {
    let mut command = git(&home.dir);
    command.args(["fast-import", "--quiet", "--done"]).stdin(Stdio::piped()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().map_err(|error| failed(error.to_string()))
}

/// Writes everything, says that it was all, and waits for the end.
fn feed(mut import: Child, bytes: &[u8]) -> Result<()> {
    let written = import.stdin.take().map_or(Ok(()), |mut input| {
        input.write_all(bytes)?;
        input.write_all(b"done\n")
    });
    let output = import.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())));
    }
    written.map_err(|error| failed(error.to_string()))
}

/// Runs git in the repository and returns what it says.
fn said(home: &Home, arguments: &[&str]) -> Result<String> {
    said_by_git(&home.dir, arguments).map_err(failed)
}

fn failed(reason: String) -> BenchError {
    BenchError::Peer { peer: "git fast-import", reason }
}
