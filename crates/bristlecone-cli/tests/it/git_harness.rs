//! Repositories made by real Git, with `cone` beside it.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::harness::{Place, Run};

/// A folder with a Git repository in `work`.
pub(crate) struct GitPlace {
    place: Place,
    folder: PathBuf,
}

impl GitPlace {
    /// A repository with a first commit: files, a link, an executable, names that are odd.
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    /// The same, with options of `git init`.
    pub(crate) fn with(options: &[&str]) -> Self {
        let place = Self::unborn(options);
        place.file("fruit/apple", "red\n");
        place.file("fruit/plum", "blue\n");
        place.file("deep/er/file", "x\n");
        place.file("odd name\n\u{e9}", "odd\n");
        place.file("run", "#!/bin/sh\n");
        std::os::unix::fs::symlink("fruit/apple", place.path("link")).unwrap();
        place.git(["update-index", "--add", "--chmod=+x", "run"]);
        std::fs::set_permissions(place.path("run"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        place.git(["add", "-A"]);
        place.git(["commit", "-q", "-m", "one"]);
        place
    }

    /// A repository without commits.
    pub(crate) fn unborn(options: &[&str]) -> Self {
        let place = Place::empty();
        let folder = place.path("work");
        std::fs::create_dir(&folder).unwrap();
        let place = Self { place, folder };
        place.git(["init", "-q", "-b", "main"].into_iter().chain(options.iter().copied()));
        place.git(["config", "user.name", "Grace"]);
        place.git(["config", "user.email", "grace@example.org"]);
        place.git(["config", "gc.auto", "0"]);
        place
    }

    /// The same repository seen from another folder: below the top one, or beside the repository with `../`.
    pub(crate) fn at(self, folder: &str) -> Self {
        let folder = self.folder.join(folder);
        Self { folder, ..self }
    }

    /// Moves on to another folder, by its name from the top one.
    pub(crate) fn go(&mut self, folder: &str) {
        self.folder = self.place.path(folder);
    }

    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(name)
    }

    pub(crate) fn file(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub(crate) fn text(&self, name: impl AsRef<Path>) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Returns `git` with these arguments, which no settings but the repository's reach.
    pub(crate) fn git_command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        self.isolate(&mut command);
        command.env("GIT_AUTHOR_DATE", "1700000000 +0000").env("GIT_COMMITTER_DATE", "1700000000 +0000");
        command
    }

    /// Runs `git`, which must succeed, and returns what it printed.
    #[track_caller]
    pub(crate) fn git<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let run = Run::of(self.git_command(arguments));
        assert_eq!(run.code, 0, "{run:?}");
        String::from_utf8_lossy(&run.out).into_owned()
    }

    /// Returns `cone` with these arguments.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = self.place.command(arguments);
        command.current_dir(&self.folder).env_remove("BRISTLECONE_AUTHOR");
        self.isolate(&mut command);
        command
    }

    /// As [`Place::shell`].
    pub(crate) fn shell(&self, script: &str, arguments: &[&str]) -> Command {
        let mut shell = self.place.shell(script, arguments);
        shell.current_dir(&self.folder).env_remove("BRISTLECONE_AUTHOR");
        self.isolate(&mut shell);
        shell
    }

    fn isolate(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("GIT_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.place.path("home")).env("GIT_CONFIG_NOSYSTEM", "1").env_remove("XDG_CONFIG_HOME");
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        Run::of(self.command(arguments))
    }

    /// The same as somebody to whom permissions apply: see [`Place::run_as_somebody`].
    pub(crate) fn run_as_somebody(&self, arguments: &[&str]) -> Run {
        self.place.run_as_somebody(self.command(arguments))
    }

    /// Runs `cone`, which must succeed, and returns its output as text.
    #[track_caller]
    pub(crate) fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let run = self.run(arguments);
        assert_eq!(run.code, 0, "{run:?}");
        String::from_utf8_lossy(&run.out).into_owned()
    }

    #[track_caller]
    pub(crate) fn json<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> serde_json::Value {
        let mut command = self.command(["-o", "json"]);
        command.args(arguments);
        let run = Run::of(command);
        assert_eq!(run.code, 0, "{run:?}");
        serde_json::from_slice(&run.out).unwrap()
    }

    /// Runs `cone`, which must end with this code, say all of this, and leave everything as it was.
    #[track_caller]
    pub(crate) fn fails<S: AsRef<OsStr>>(&self, code: i32, says: &[&str], arguments: impl IntoIterator<Item = S>) {
        let before = self.state();
        self.run(arguments).failed(code, says);
        assert_eq!(self.state(), before);
    }

    /// As [`GitPlace::fails`] with code 2, of an import: the objects that it read stay, and nothing leads to them.
    #[track_caller]
    pub(crate) fn fails_after_import<S: AsRef<OsStr>>(&self, says: &[&str], arguments: impl IntoIterator<Item = S>) {
        let mut before = self.state();
        self.run(arguments).failed(2, says);
        let mut after = self.state();
        before.remove(1);
        after.remove(1);
        assert_eq!(after, before);
    }

    /// Everything that a refusal must leave untouched: refs, objects, index, and the state of the files.
    pub(crate) fn state(&self) -> Vec<String> {
        let index = std::fs::read(self.path(self.git(["rev-parse", "--git-path", "index"]).trim())).unwrap_or_default();
        let objects = self.git(["cat-file", "--batch-all-objects", "--batch-check"]);
        let lock = self.path(self.git(["rev-parse", "--git-path", "index.lock"]).trim()).exists();
        let refs = self.git(["for-each-ref"]);
        let status = match self.git_command(["status", "--porcelain=v2", "-z", "--no-renames"]).output() {
            Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
            Err(error) => error.to_string(),
        };
        vec![refs, objects, bristlecone::to_hex(&index), lock.to_string(), status]
    }

    /// Checks that Git finds the repository sound, and index and files as the last commit.
    #[track_caller]
    pub(crate) fn clean(&self) {
        // By what the index says of files, before `status` has looked into them and written it anew.
        assert_eq!(self.git(["diff-files", "--raw"]), "");
        assert_eq!(self.git(["diff-index", "--cached", "--raw", "HEAD"]), "");
        assert_eq!(self.git(["status", "--porcelain=v2", "-z", "--untracked-files=all"]), "");
        self.sound();
    }

    /// Checks that Git finds the repository sound.
    #[track_caller]
    pub(crate) fn sound(&self) {
        let run = Run::of(self.git_command(["fsck", "--strict", "--full"]));
        assert_eq!(run.code, 0, "{run:?}");
        let message = format!("{}{}", String::from_utf8_lossy(&run.out), run.err);
        let fine = |line: &&str| line.starts_with("dangling") || line.starts_with("notice: HEAD points");
        assert_eq!(message.lines().find(|line| !fine(line)), None);
    }
}
