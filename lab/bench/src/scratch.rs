//! Where stores are made and removed again.
//!
//! A folder that a process makes for its stores bears a name of ours with the process's number, and the process holds a
//! lock of the folder (`flock`) as long as it lives. It removes the folder at its end, and when the user interrupts it. A
//! process that was killed removes nothing: the next one that makes such a folder beside it finds the lock free, and
//! sweeps what the dead one left.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, Once, PoisonError},
    thread,
    time::Duration,
};

use rustix::fs::{FlockOperation, flock};

use crate::{
    BenchError,
    error::Result,
    machine::{filesystem, is_memory},
};

/// What the folders are called, before the number of their process: of the suite and of imports, of replays, of raw reads.
const NAMES: [&str; 3] = ["bristlecone-bench", "bristlecone-replay", "bristlecone-io"];

/// So many folders are made and cannot be locked before that is an error: where a file system changes their numbers, none can.
const TRIES_MAX: u32 = 20;

/// The folders that this process is to remove, should it be interrupted.
static LIVE: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder for stores. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) dir: PathBuf,
    /// Locked; absent where the file system has no locks, and sweeping has nothing to go by.
    _lock: Option<File>,
}

impl Scratch {
    /// Makes the folder of the suite, or of an import, in `above` or where [`place`] says.
    ///
    /// # Errors
    /// As [`place`]; [`BenchError::Io`].
    pub(crate) fn new(above: Option<&Path>) -> Result<Self> {
        Self::make(&place(above)?, NAMES[0])
    }

    /// Makes the folder of a replay's store.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub(crate) fn for_replay(above: &Path) -> Result<Self> {
        Self::make(above, NAMES[1])
    }

    /// Makes the folder of the file that raw reads are made of.
    ///
    /// # Errors
    /// [`BenchError::Io`].
    pub(crate) fn for_reads(above: &Path) -> Result<Self> {
        Self::make(above, NAMES[2])
    }

    fn make(above: &Path, name: &str) -> Result<Self> {
        Self::make_with(above, name, lock)
    }

    fn make_with(above: &Path, name: &str, lock: fn(&Path) -> io::Result<Option<File>>) -> Result<Self> {
        remove_on_interrupt();
        sweep(above);
        let process = std::process::id();
        let (mut number, mut tries) = (0, 1);
        loop {
            let more = if number == 0 { String::new() } else { format!("-{number}") };
            let dir = above.join(format!("{name}-{process}{more}"));
            number += 1;
            match fs::create_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made.map_err(BenchError::io(&dir))?,
            }
            match lock(&dir) {
                Ok(lock) => {
                    spread(&dir);
                    live().push(dir.clone());
                    return Ok(Self { dir, _lock: lock });
                }
                Err(error) if tries == TRIES_MAX => return Err(BenchError::io(&dir)(error)),
                // Another process may have swept the folder before it was locked.
                Err(_) => tries += 1,
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        live().retain(|dir| *dir != self.dir);
        // What cannot be removed stays behind under a name that says what it is.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Returns the folder that scratch folders are made in: the one that the user names, else `target/bench` where a build has
/// made a folder `target`, else the system's temporary folder. A file system in memory is named in a warning.
///
/// # Errors
/// [`BenchError::Usage`] if the named folder is not there: a mistyped name should not fill another disk.
pub(crate) fn place(named: Option<&Path>) -> Result<PathBuf> {
    let above = match named {
        Some(dir) if !dir.is_dir() => {
            return Err(BenchError::usage(format!(
                "--dir {}: there is no such folder; make it, or name another",
                dir.display()
            )));
        }
        Some(dir) => dir.to_owned(),
        None => {
            let target = Path::new("target");
            let dir = if target.is_dir() { target.join("bench") } else { std::env::temp_dir() };
            fs::create_dir_all(&dir).map_err(BenchError::io(&dir))?;
            dir
        }
    };
    if let Some(kind) = filesystem(&above).filter(|kind| is_memory(kind)) {
        say!("warning: {} is a {kind}, which is memory: what is durable or cold means nothing here", above.display());
    }
    Ok(above)
}

/// Removes the folders of this process. What other threads and processes put there meanwhile is removed in further tries.
pub(crate) fn remove_live() {
    const TRIES: usize = 20;
    for dir in live().drain(..) {
        for _ in 0..TRIES {
            match fs::remove_dir_all(&dir) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => thread::sleep(Duration::from_millis(10)),
                _ => break,
            }
        }
    }
}

/// From now on this process, which works in the folder of another one, ends when that one ends: a
/// killed process can remove nothing, and what was written later would not be swept.
pub(crate) fn end_with_parent() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Signal, set_parent_process_death_signal};
        // Without it this process goes on to its end, which harms only by its use of the disk.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
}

fn live() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on an interrupt removes the folders and ends the process, unless something else is done on interrupts already.
fn remove_on_interrupt() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let handler = || {
            remove_live();
            std::process::exit(130);
        };
        // A replay has its own way to end, which comes here as well.
        let _ = ctrlc::set_handler(handler);
    });
}

/// Locks a folder; returns nothing where the file system has no locks.
///
/// # Errors
/// Another process holds the lock, or the folder at this path is not the one that was locked.
fn lock(dir: &Path) -> io::Result<Option<File>> {
    let folder = File::open(dir)?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(io::ErrorKind::WouldBlock.into()),
        Err(_) => return Ok(None),
    }
    let (locked, here) = (folder.metadata()?, fs::metadata(dir)?);
    if (locked.dev(), locked.ino()) == (here.dev(), here.ino()) {
        Ok(Some(folder))
    } else {
        Err(io::Error::other("the folder that was locked is no longer there, or the file system changes its number"))
    }
}

/// Removes the folders of processes that are dead: those whose lock is free.
fn sweep(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(is_scratch_name);
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let dir = entry.path();
        // The lock is held while the folder goes, so that a process which has just made it makes another.
        if let Ok(Some(_lock)) = lock(&dir)
            && fs::remove_dir_all(&dir).is_ok()
        {
            say!("removed {}, which a process that was killed had left", dir.display());
        }
    }
}

/// Whether a folder's name is one of ours: a name, the number of a process, and further numbers.
fn is_scratch_name(name: &str) -> bool {
    let number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    NAMES.iter().any(|start| {
        let numbers = name.strip_prefix(start).and_then(|rest| rest.strip_prefix('-'));
        numbers.is_some_and(|numbers| numbers.split('-').all(number))
    })
}

/// Has ext4 begin each folder in `dir` in a part of the disk of its own, as it does below the root (`chattr +T`). Without a
/// journal it looks, for minutes, at every file that was removed in a part before it makes another one there: each row
/// would be measured in what the rows before it removed. Other file systems have no such flag, and no such need.
fn spread(dir: &Path) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
        let Ok(folder) = File::open(dir) else { return };
        let _ = ioctl_getflags(&folder).and_then(|flags| ioctl_setflags(&folder, flags | IFlags::TOPDIR));
    }
    #[cfg(not(target_os = "linux"))]
    let _ = dir;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_processes_are_swept_and_no_others() {
        let above = tempfile::tempdir().unwrap();
        let path = |name: &str| above.path().join(name);
        let dead = ["bristlecone-bench-4711", "bristlecone-replay-4711-0", "bristlecone-io-12"].map(path);
        let others = ["bristlecone-bench", "bristlecone-bench-x", "bristlecone-bench-1-", "bench-4711"].map(path);
        for dir in dead.iter().chain(&others) {
            fs::create_dir_all(dir.join("store")).unwrap();
        }
        fs::write(path("bristlecone-io-13"), "a file").unwrap();
        let first = Scratch::new(Some(above.path())).unwrap();
        let second = Scratch::new(Some(above.path())).unwrap();
        assert!(dead.iter().all(|dir| !dir.exists()), "what dead processes left is gone");
        assert!(others.iter().all(|dir| dir.join("store").is_dir()), "what is not ours stays");
        assert!(path("bristlecone-io-13").is_file());
        assert!(first.dir.is_dir() && second.dir.is_dir() && first.dir != second.dir, "what is in use stays");
        let dir = first.dir.clone();
        drop(first);
        assert!(!dir.exists() && second.dir.is_dir());
    }

    #[test]
    fn folders_none_of_which_can_be_locked_are_an_error() {
        let above = tempfile::tempdir().unwrap();
        let error = Scratch::make_with(above.path(), NAMES[0], |_| Err(io::Error::other("another"))).unwrap_err();
        assert!(matches!(&error, BenchError::Io { source, .. } if source.to_string() == "another"), "{error}");
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), TRIES_MAX as usize);
    }

    #[test]
    fn a_folder_that_is_not_there_is_refused() {
        let above = tempfile::tempdir().unwrap();
        let missing = above.path().join("missing");
        let error = Scratch::new(Some(&missing)).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("there is no such folder"), "{error}");
        assert!(!missing.exists(), "nothing is made");
    }
}
