//! Running `cone` in a folder that goes when the test ends.

use std::{
    ffi::OsStr,
    fs::{self, Permissions},
    io::Write,
    os::unix::{
        fs::{PermissionsExt, lchown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use bristlecone::{Repo, disk::DiskOptions};
use bristlecone_testkit::scratch::scratch_parent;
use serde_json::Value;
use tempfile::TempDir;

/// A folder to run `cone` in.
pub(crate) struct Place {
    dir: PathBuf,
    // The folder, if it goes with the test.
    _kept: Option<TempDir>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Place {
    /// An empty folder.
    pub(crate) fn empty() -> Self {
        let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
        Self { dir: dir.path().to_owned(), _kept: Some(dir) }
    }

    /// A folder that is there, and stays.
    pub(crate) fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), _kept: None }
    }

    /// A folder with an empty store.
    pub(crate) fn with_store() -> Self {
        let place = Self::empty();
        place.ok(["init"]);
        place
    }

    /// Returns a path in the folder.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a file in the folder, and the folders above it.
    pub(crate) fn file(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the command, with a fixed author and date.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cone"));
        command.args(arguments).current_dir(&self.dir).stdin(Stdio::null());
        command.env("BRISTLECONE_AUTHOR", "Ann <ann@example.org>").env("SOURCE_DATE_EPOCH", "1700000000");
        command
    }

    /// Runs `cone` as somebody to whom permissions apply. Where this is root, that is user 65534, who owns the
    /// command's folder for so long.
    pub(crate) fn run_as_somebody(&self, command: Command) -> Run {
        if !rustix::process::geteuid().is_root() {
            return Run::of(command);
        }
        // The binary may stand where only root comes.
        let binary = self.path("cone");
        if !binary.exists() {
            // By another process: a child that any thread here starts meanwhile would hold the file open for writing, and it
            // could not be run.
            assert!(Command::new("cp").arg(command.get_program()).arg(&binary).status().unwrap().success());
        }
        fs::set_permissions(self.path(""), Permissions::from_mode(0o755)).unwrap();
        let folder = command.get_current_dir().unwrap();
        let mut theirs = Command::new(binary);
        theirs.args(command.get_args()).current_dir(folder).stdin(Stdio::null()).uid(65534);
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => theirs.env(name, value),
                None => theirs.env_remove(name),
            };
        }
        give(folder, 65534);
        let run = Run::of(theirs);
        give(folder, 0);
        run
    }

    /// Runs `cone`.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        Run::of(self.command(arguments))
    }

    /// Returns a script of a shell that runs the command as `"$0" "$@"`.
    pub(crate) fn shell(&self, script: &str, arguments: &[&str]) -> Command {
        let cone = self.command(arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).arg(cone.get_program()).args(cone.get_args()).current_dir(&self.dir);
        shell.stdin(Stdio::null());
        for (name, value) in cone.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        shell
    }

    /// Runs `cone` with something on standard input.
    pub(crate) fn feed<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>, input: &[u8]) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Run::from(child.wait_with_output().unwrap())
    }

    /// Runs `cone`, which must succeed, and returns its output as text.
    #[track_caller]
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "{run:?}");
        String::from_utf8(run.out).unwrap()
    }

    /// Runs `cone -o json`, which must succeed, and returns what it printed.
    #[track_caller]
    pub(crate) fn json<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Value {
        let mut command = self.command(["-o", "json"]);
        command.args(arguments);
        let run = Run::of(command);
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_slice(&run.out).unwrap()
    }

    /// Runs `cone`, which must end with this code and say all of this on standard error.
    #[track_caller]
    pub(crate) fn fails<S: AsRef<OsStr>>(
        &self,
        code: i32,
        says: &[&str],
        arguments: impl IntoIterator<Item = S>,
    ) -> Run {
        let run = self.run(arguments);
        run.failed(code, says);
        run
    }

    /// Flips a bit of the first copy of `wanted` in the store's segments.
    pub(crate) fn flip(&self, wanted: &[u8]) {
        for entry in fs::read_dir(self.path(".bristlecone/segments")).unwrap() {
            let path = entry.unwrap().path();
            let mut bytes = fs::read(&path).unwrap();
            if let Some(at) = bytes.windows(wanted.len()).position(|window| window == wanted) {
                bytes[at] ^= 1;
                fs::write(&path, bytes).unwrap();
                return;
            }
        }
        panic!("the store does not hold these bytes");
    }

    /// Opens the store through the library.
    pub(crate) fn repo(&self) -> Repo {
        Repo::open(self.path(".bristlecone"), DiskOptions::default()).unwrap()
    }
}

impl Run {
    pub(crate) fn of(mut command: Command) -> Self {
        Self::from(command.output().unwrap())
    }

    /// Checks the code, and that standard error has one sentence of ours with all of this.
    #[track_caller]
    pub(crate) fn failed(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, code, "{self:?}");
        for part in says {
            assert!(self.err.contains(part), "{:?} lacks {part:?}", self.err);
        }
        // Before it stands at most the warning of a folder that is in memory.
        let said = match self.err.split_once('\n') {
            Some((warning, said))
                if warning.ends_with("which is memory: what is durable or cold means nothing here") =>
            {
                said
            }
            _ => &self.err,
        };
        assert!(said.starts_with("error: "), "{:?}", self.err);
        assert!(!self.err.contains("panicked"), "{:?}", self.err);
    }
}

impl From<std::process::Output> for Run {
    fn from(output: std::process::Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Makes a folder and all that is in it a user's.
fn give(path: &Path, user: u32) {
    lchown(path, Some(user), None).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path(), user);
        }
    }
}
