//! A repository of Git under commits of one entry each: `git fast-import` commits, each one there for others before the next, and
//! in between the history is made shallow, so that `git gc` removes what is older.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use bristlecone::Durability;

use super::{others::OtherStore, value};
use crate::{
    BenchError,
    error::Result,
    measure::folder_bytes,
    peers::program::{git, said_by_git, written_by_git},
    rss::Sampler,
};

/// Each folder has so many entries, and there are as many folders at most.
const FOLDER: u64 = 100;
pub(super) const ENTRIES_MAX: u64 = FOLDER * FOLDER;
const MAIN: &str = "refs/heads/main";

pub(super) struct GitHistory {
    dir: PathBuf,
    retain: usize,
    commits: usize,
    // The program that commits, if it runs.
    import: Option<Import>,
}

/// `git fast-import`, and what it reads and says.
struct Import {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    // Whether the branch is known to it.
    has_begun: bool,
}

fn path(entry: u64) -> String {
    format!("{:02}/{:02}", entry / FOLDER, entry % FOLDER)
}

fn failed(reason: impl ToString) -> BenchError {
    BenchError::Peer { peer: "git", reason: reason.to_string() }
}

impl GitHistory {
    pub(super) fn create(dir: &Path, entries: u64, durability: Durability, retain: usize) -> Result<Self> {
        fs::create_dir_all(dir).map_err(BenchError::io(dir))?;
        let mut history = Self { dir: dir.to_owned(), retain, commits: 0, import: None };
        let fsync = if durability == Durability::Synced { "all" } else { "none" };
        for arguments in [&["init", "--bare", "--quiet", "."][..], &["config", "core.fsync", fsync]] {
            history.said(arguments)?;
        }
        history.commit((0..entries).map(|entry| (entry, value(entry, 0))))?;
        Ok(history)
    }

    fn said(&self, arguments: &[&str]) -> Result<String> {
        said_by_git(&self.dir, arguments).map_err(failed)
    }

    /// Commits values, and returns once the branch leads to them.
    fn commit(&mut self, values: impl Iterator<Item = (u64, Vec<u8>)>) -> Result<()> {
        let import = match &mut self.import {
            Some(import) => import,
            none => none.insert(Import::start(&self.dir)?),
        };
        let mut stream = format!("commit {MAIN}\ncommitter A <a@example.org> 1700000000 +0000\ndata 0\n").into_bytes();
        if !import.has_begun && self.commits > 0 {
            stream.extend_from_slice(format!("from {MAIN}^0\n").as_bytes());
        }
        for (entry, value) in values {
            stream.extend_from_slice(format!("M 100644 inline {}\ndata {}\n", path(entry), value.len()).as_bytes());
            stream.extend_from_slice(&value);
            stream.push(b'\n');
        }
        stream.extend_from_slice(b"\ncheckpoint\nprogress done\n");
        import.has_begun = true;
        self.commits += 1;
        import.feed(&stream)
    }

    /// Ends the program that commits.
    fn end(&mut self) -> Result<()> {
        let Some(Import { mut process, mut input, .. }) = self.import.take() else { return Ok(()) };
        let written = input.write_all(b"done\n");
        drop(input);
        let status = process.wait().map_err(failed)?;
        if status.success() { written.map_err(failed) } else { Err(failed(format!("git fast-import: {status}"))) }
    }
}

impl Import {
    fn start(dir: &Path) -> Result<Self> {
        let mut command: Command = git(dir);
        command.args(["fast-import", "--quiet", "--done"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::inherit()).spawn().map_err(failed)?;
        let (Some(input), Some(output)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed("git fast-import has no input or output"));
        };
        Ok(Self { process, input, output: BufReader::new(output), has_begun: false })
    }

    /// Writes commands, of which the last has it say something, and waits for that.
    fn feed(&mut self, stream: &[u8]) -> Result<()> {
        self.input.write_all(stream).and_then(|()| self.input.flush()).map_err(failed)?;
        let mut said = String::new();
        self.output.read_line(&mut said).map_err(failed)?;
        if said == "progress done\n" { Ok(()) } else { Err(failed(format!("git fast-import said {said:?}"))) }
    }
}

impl Drop for GitHistory {
    fn drop(&mut self) {
        // Else it would go on after a failure.
        if let Some(import) = &mut self.import {
            let _ = import.process.kill();
            let _ = import.process.wait();
        }
    }
}

impl OtherStore for GitHistory {
    fn set(&mut self, entry: u64, value: Vec<u8>) -> Result<()> {
        self.commit(std::iter::once((entry, value)))
    }

    fn collect(&mut self) -> Result<bool> {
        // What is written and no ref leads to yet would be removed, so nobody writes meanwhile.
        self.end()?;
        let oldest = format!("--skip={}", self.retain - 1);
        let oldest = self.said(&["rev-list", "--max-count=1", &oldest, MAIN])?;
        if !oldest.is_empty() {
            let file = self.dir.join("shallow");
            fs::write(&file, format!("{oldest}\n")).map_err(BenchError::io(&file))?;
        }
        self.said(&["gc", "--quiet", "--prune=now"])?;
        Ok(true)
    }

    fn check(&mut self, numbers: &[u32]) -> Result<Option<String>> {
        self.end()?;
        if let Err(reason) = said_by_git(&self.dir, &["fsck", "--strict"]) {
            return Ok(Some(reason));
        }
        let kept = self.said(&["rev-list", "--count", MAIN])?;
        let wanted = self.commits.min(self.retain);
        if kept != wanted.to_string() {
            return Ok(Some(format!("{kept} commits are kept, and there should be {wanted}")));
        }
        let archive = match written_by_git(&self.dir, &["archive", "--format=tar", MAIN]) {
            Ok(archive) => archive,
            Err(reason) => return Ok(Some(reason)),
        };
        for (entry, &number) in (0..).zip(numbers) {
            if file_in(&archive, &path(entry)) != Some(&value(entry, number)[..]) {
                return Ok(Some(format!("entry {entry} holds something else")));
            }
        }
        Ok(None)
    }

    fn live_bytes(&self) -> u64 {
        folder_bytes(&self.dir)
    }

    fn sampler(&self) -> Sampler {
        Sampler::others(vec![std::process::id()])
    }
}

/// Returns what a file holds in an archive of small files with short names.
fn file_in<'a>(archive: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut at = 0;
    while let Some(head) = archive.get(at..at + 512).filter(|head| head[0] != 0) {
        let octal = head[124..135].iter().fold(0, |sum, digit| sum * 8 + usize::from(digit.saturating_sub(b'0')));
        if head.starts_with(name.as_bytes()) && head[name.len()] == 0 {
            return archive.get(at + 512..at + 512 + octal);
        }
        at += 512 + octal.next_multiple_of(512);
    }
    None
}
