//! Other programs and libraries: what is found, what it is measured for, and what it could be compared with.
//!
//! Those that keep Git repositories are measured beside ours ([`git`](mod@git)). The others are not run: it says so.

use std::{
    env,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) mod git;

/// A program that measures, or does, something that the suite does.
struct Peer {
    program: &'static str,
    /// How it is asked for its version.
    version: &'static [&'static str],
    /// What it would be run for.
    use_for: &'static str,
}

const PEERS: [Peer; 5] = [
    Peer {
        program: "fio",
        version: &["--version"],
        use_for: "random reads of 50 to 300 B and syncs of 4 KB, the limits",
    },
    Peer {
        program: "git",
        version: &["--version"],
        use_for: "commits and incremental, through fast-import into a bare repository; import of whole histories",
    },
    Peer {
        program: "irmin",
        version: &["--version"],
        use_for: "commits, reads and incremental, on its pack and fs backends",
    },
    Peer { program: "mdb_stat", version: &["-V"], use_for: "reads and sets on plain LMDB" },
    Peer { program: "sqlite3", version: &["-version"], use_for: "sets and reads of rows" },
];

/// Says which peers are installed and what they would be run for.
pub(crate) fn look(out: &mut dyn Write) {
    for peer in &PEERS {
        let line = match find(peer.program) {
            None => format!("{}: not installed", peer.program),
            Some(file) => {
                let version = version(&file, peer.version).unwrap_or_else(|| "version unknown".into());
                let (file, use_for) = (file.display(), peer.use_for);
                format!("{}: {version}, {file}; not run by this version (it would be for {use_for})", peer.program)
            }
        };
        // Whoever closed standard error does not want to know.
        let _ = writeln!(out, "  {line}");
    }
}

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
    let output = git(repository).args(arguments).output().map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let said = [output.stdout, output.stderr].concat();
    Err(format!("git {}: {}: {}", arguments.join(" "), output.status, String::from_utf8_lossy(&said).trim()))
}

/// Returns the file of a program in the folders of `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Returns the first line that a program says of its version.
fn version(file: &PathBuf, arguments: &[&str]) -> Option<String> {
    let output = Command::new(file).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_peer_is_named_and_nothing_is_claimed() {
        let mut said = Vec::new();
        look(&mut said);
        let said = String::from_utf8(said).unwrap();
        assert_eq!(said.lines().count(), PEERS.len());
        for line in said.lines() {
            assert!(line.ends_with("not installed") || line.contains("not run by this version"), "{line}");
        }
    }
}
