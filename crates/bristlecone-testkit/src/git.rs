//! Real `git` as the judge: running it, and making repositories with it.
//!
//! Nothing of the machine's configuration has a say: there is a home of its own, and dates are fixed, so that the same
//! script makes the same ids everywhere. Tests that need it say so by `#[needs(git)]`, of `bristlecone-needs`.

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

mod shapes;

pub use shapes::{Shapes, long_chain, shapes};

/// When the first command happens, in seconds since 1970; each later one is a minute after the one before.
const FIRST_SECOND: u64 = 1_700_000_000;

/// Runs `git` in a folder.
#[derive(Debug)]
pub struct Git {
    dir: PathBuf,
    clock: AtomicU64,
}

impl Git {
    /// Returns what runs `git` in `dir`, which exists.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), clock: AtomicU64::new(FIRST_SECOND) }
    }

    /// Makes a repository in `dir` (created if absent) with more arguments for `git init`, and returns what runs there.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn init(dir: impl Into<PathBuf>, arguments: &[&str]) -> Self {
        let git = Self::new(dir);
        std::fs::create_dir_all(&git.dir).expect("a folder can be made");
        git.run(&[&["init", "-q", "-b", "main"], arguments].concat());
        git
    }

    /// Returns the folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the command `git` with arguments, ready to be changed and run.
    pub fn command<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Command {
        let seconds = self.clock.fetch_add(60, Relaxed);
        let date = format!("{seconds} +0100");
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command
            .current_dir(&self.dir)
            // A folder that does not exist: no user's configuration is read.
            .env("HOME", "/nonexistent")
            .env("XDG_CONFIG_HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_AUTHOR_NAME", "A U Thor")
            .env("GIT_AUTHOR_EMAIL", "author@example.com")
            .env("GIT_AUTHOR_DATE", &date)
            .env("GIT_COMMITTER_NAME", "C O Mitter")
            .env("GIT_COMMITTER_EMAIL", "committer@example.com")
            .env("GIT_COMMITTER_DATE", &date)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .args(["-c", "protocol.file.allow=always", "-c", "gc.auto=0", "-c", "safe.directory=*"])
            .args(arguments)
            .stdin(Stdio::null());
        command
    }

    /// Runs `git` and returns what it printed.
    ///
    /// # Panics
    /// With its complaints, if it fails.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Vec<u8> {
        let output = self.command(arguments).output().expect("git starts");
        success(arguments, output)
    }

    /// As [`Git::run`], returning text without the end of the last line.
    ///
    /// # Panics
    /// As [`Git::run`]; if that is no UTF-8.
    pub fn text<S: AsRef<OsStr>>(&self, arguments: &[S]) -> String {
        let output = self.run(arguments);
        let text = std::str::from_utf8(&output).unwrap_or_else(|error| panic!("git prints no text: {error}"));
        text.trim_end_matches('\n').to_owned()
    }

    /// As [`Git::run`], with these bytes as its input.
    ///
    /// # Panics
    /// As [`Git::run`].
    pub fn feed<S: AsRef<OsStr>>(&self, arguments: &[S], input: &[u8]) -> Vec<u8> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("git starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command that fails stops reading; its message is what is wanted then.
                let _ = stdin.write_all(input);
            });
            child.wait_with_output().expect("git ends")
        });
        success(arguments, output)
    }

    /// Runs `git`, which may fail, and returns whether it succeeded and what it printed and complained.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn attempt<S: AsRef<OsStr>>(&self, arguments: &[S]) -> (bool, String) {
        let output = self.command(arguments).output().expect("git starts");
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }

    /// Stores an object as it is, unchecked, and returns its id in hexadecimal.
    ///
    /// # Panics
    /// As [`Git::run`].
    pub fn hash_object(&self, kind: &str, raw: &[u8]) -> String {
        let id = self.feed(&["hash-object", "-w", "-t", kind, "--stdin", "--literally"], raw);
        String::from_utf8(id).expect("an id").trim_end().to_owned()
    }

    /// Writes a file of the working tree, making folders as needed.
    ///
    /// # Panics
    /// If that fails.
    pub fn write(&self, path: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.dir.join(path);
        std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("a folder can be made");
        std::fs::write(path, bytes).expect("a file can be written");
    }

    /// Commits all that changed in the working tree, and returns the commit's id.
    ///
    /// # Panics
    /// As [`Git::run`].
    pub fn commit_all(&self, message: &str) -> String {
        self.run(&["add", "-A"]);
        self.run(&["commit", "-q", "--allow-empty", "-m", message]);
        self.text(&["rev-parse", "HEAD"])
    }

    /// Returns all objects as `git cat-file --batch` has them: id in hexadecimal, type and bytes, in order of ids.
    ///
    /// # Panics
    /// As [`Git::run`].
    pub fn objects(&self) -> Vec<(String, String, Vec<u8>)> {
        let all = self.run(&["cat-file", "--batch-all-objects", "--batch"]);
        let mut objects = Vec::new();
        let mut rest = &all[..];
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').expect("a line");
            let line = std::str::from_utf8(&rest[..end]).expect("text");
            let mut words = line.split(' ');
            let mut word = || words.next().expect("id, type, size").to_owned();
            let (id, kind, size) = (word(), word(), word());
            let size: usize = size.parse().expect("a number");
            objects.push((id, kind, rest[end + 1..end + 1 + size].to_vec()));
            rest = &rest[end + 1 + size + 1..];
        }
        objects
    }

    /// Runs `git fsck --strict` over everything.
    ///
    /// # Panics
    /// With its complaints.
    pub fn fsck(&self) {
        let (sound, text) = self.attempt(&["fsck", "--strict", "--full", "--no-dangling"]);
        assert!(sound, "git fsck --strict: {text}");
    }
}

fn success<S: AsRef<OsStr>>(arguments: &[S], output: Output) -> Vec<u8> {
    let words: Vec<_> = arguments.iter().map(|word| word.as_ref().to_string_lossy()).collect();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {}: {}: {complaint}", words.join(" "), output.status);
    output.stdout
}
