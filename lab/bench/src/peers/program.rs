//! Programs that are installed: where they are, which version they are, and git as the bench runs it.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Returns the program git, to be run in a repository, with none of the user's settings.
pub(crate) fn git(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(repository).stdin(Stdio::null());
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"] {
        command.env_remove(name);
    }
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_TERMINAL_PROMPT", "0");
    command
}

/// Runs git in a repository and returns what it says, without the end of the line.
///
/// # Errors
/// What it said of a failure.
pub(crate) fn said_by_git(repository: &Path, arguments: &[&str]) -> std::result::Result<String, String> {
    let said = written_by_git(repository, arguments)?;
    Ok(String::from_utf8_lossy(&said).trim_end().to_owned())
}

/// Runs git in a repository and returns what it writes to standard output.
///
/// # Errors
/// What it said of a failure.
pub(crate) fn written_by_git(repository: &Path, arguments: &[&str]) -> std::result::Result<Vec<u8>, String> {
    let output = git(repository).args(arguments).output().map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("git {}: {}: {}", arguments.join(" "), output.status, String::from_utf8_lossy(&said).trim()))
}

/// Returns the file of a program in the folders of `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Returns the first line that a program says of its version.
pub(crate) fn version(file: &PathBuf, arguments: &[&str]) -> Option<String> {
    let output = Command::new(file).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}
