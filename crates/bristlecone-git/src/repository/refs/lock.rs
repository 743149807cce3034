//! Git's locks: `NAME.lock` exists for as long as a process changes `NAME`.
//!
//! Our own lock files say that they are ours. Only the holder of the store's lock (the `flock` on `bristlecone/lock`)
//! makes them, so a holder that meets one knows that a process died and left it, and removes it. They are durable
//! before they take the name of a lock, so that they say so after a power cut, too. Any other lock file, also an empty
//! one as Git makes them, belongs to another program, and a move waits for it. Only a recovery removes such a file, and
//! only if it is from before the machine was started.

use std::{
    io, process, thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, Reach},
};

use crate::repository::files::{self, DAY, Files, ReadOutcome, folder, is_absent, passing_name};

/// Lock files that are not in use: each is renamed again and again, since file systems take long to make a file where
/// many were removed. A move takes two at most, beside that of `packed-refs`.
const SPARES: [&str; 3] = ["bristlecone/spare-lock-0", "bristlecone/spare-lock-1", "bristlecone/spare-lock-2"];
/// What the names of new lock files begin with, until they lock something.
pub(super) const FRESH: &str = "bristlecone/lock-";
/// What our lock files begin with.
const OURS: &[u8] = b"bristlecone ";
/// How often a folder is made again that another process removes meanwhile.
const FOLDERS_MAX: usize = 20;
/// Bytes of a lock file that are looked at.
const HEAD_BYTES: usize = 64;

/// How long to wait for a lock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockWait {
    /// For a lock that another process holds, in milliseconds.
    pub(crate) held_ms: u64,
}

/// A lock file of ours, removed when dropped.
#[derive(Debug)]
pub(crate) struct RefLock {
    files: Files,
    // The lock file; empty once it was removed.
    name: String,
}

impl RefLock {
    /// Makes the lock file of `path`, and the folders that it is in. The lock of the store must be held.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process holds it for longer than allowed; [`Error::Io`], with
    /// [`io::ErrorKind::NotADirectory`] if a file is where a folder should be.
    pub(crate) fn take(files: &Files, path: &str, wait: LockWait) -> Result<Self> {
        let name = format!("{path}.lock");
        let mut waiting = None;
        let mut folders = 0;
        let mut fresh = None;
        let result = loop {
            match make(files, &name, &mut fresh) {
                Ok(()) => break Ok(Self { files: files.clone(), name: name.clone() }),
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::AlreadyExists => {
                    let waiting = waiting.get_or_insert_with(|| Waiting::new(wait));
                    if let Err(error) = waiting.step(files, &name) {
                        break Err(error);
                    }
                }
                // Git removes folders that become empty, also one that was made just now.
                Err(Error::Io { source, .. }) if is_absent(&source) && folders < FOLDERS_MAX => {
                    folders += 1;
                    if let Err(error) = make_dir(files, folder(path)) {
                        break Err(error);
                    }
                }
                Err(error) => break Err(error),
            }
        };
        // It did not become the lock, also where the lock was made in its place.
        if let Some(fresh) = fresh {
            files.remove(&fresh)?;
        }
        result
    }

    /// Removes the lock file.
    pub(crate) fn release(mut self) -> Result<()> {
        let name = std::mem::take(&mut self.name);
        if spares(&self.files).iter().any(|spare| self.files.rename_new_raw(&name, spare).is_ok()) {
            return Ok(());
        }
        self.files.remove(&name).map(drop)
    }
}

impl Drop for RefLock {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            // The next holder of the store's lock removes what stays.
            let _ = self.files.remove(&self.name);
        }
    }
}

/// Returns the names of spare lock files. Where the age of a lock says whose it is, every one is made anew.
fn spares(files: &Files) -> &'static [&'static str] {
    if files.reach() == Reach::Unknown { &[] } else { &SPARES }
}

/// Makes a lock file of this name, from a spare one or from one that is made now and waits as `fresh` until it can.
///
/// # Errors
/// [`Error::Io`], with [`io::ErrorKind::AlreadyExists`] if there is one.
fn make(files: &Files, name: &str, fresh: &mut Option<String>) -> Result<()> {
    if fresh.is_none() {
        for spare in spares(files) {
            match files.rename_new_raw(spare, name) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {}
                renamed => return files.named(name, renamed),
            }
        }
        *fresh = Some(make_fresh(files)?);
    }
    let Some(part) = fresh.as_ref() else { return Ok(()) };
    match files.rename_new_raw(part, name) {
        Err(error) if matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput) => {
            make_in_place(files, name)
        }
        renamed => {
            files.named(name, renamed)?;
            *fresh = None;
            Ok(())
        }
    }
}

/// Makes a lock file that locks nothing yet, and makes it durable.
fn make_fresh(files: &Files) -> Result<String> {
    loop {
        let name = passing_name(FRESH);
        let file = match files.write_new(&name, &line()) {
            Err(Error::Io { source, .. }) if is_absent(&source) => {
                make_dir(files, folder(&name))?;
                continue;
            }
            written => written?,
        };
        let Some(file) = file else { continue };
        files.sync_open(&name, &*file)?;
        return Ok(name);
    }
}

/// Makes a lock file where files cannot be renamed unless there is another.
fn make_in_place(files: &Files, name: &str) -> Result<()> {
    let file = files.open(name, OpenMode::CreateNew)?;
    let done = files.write_at(name, &*file, &line(), 0).and_then(|()| files.sync_open(name, &*file));
    if done.is_err() {
        files.remove(name)?;
    }
    done
}

fn line() -> Vec<u8> {
    [OURS, format!("{}\n", process::id()).as_bytes()].concat()
}

/// Makes a folder; says so if a file is where it should be.
fn make_dir(files: &Files, dir: &str) -> Result<()> {
    match files.create_dir(dir) {
        Err(Error::Io { file, source })
            if matches!(source.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory) =>
        {
            Err(Error::io(file, io::ErrorKind::NotADirectory.into()))
        }
        made => made,
    }
}

/// A wait for the lock of another process.
struct Waiting {
    wait: LockWait,
    began: Instant,
    pause: Duration,
}

impl Waiting {
    fn new(wait: LockWait) -> Self {
        // Git holds the lock of a ref for a fraction of a millisecond.
        Self { wait, began: Instant::now(), pause: Duration::from_micros(50) }
    }

    /// Removes a lock that a process of ours left, or waits a little.
    fn step(&mut self, files: &Files, name: &str) -> Result<()> {
        let bytes = match files.read_up_to(name, HEAD_BYTES)? {
            ReadOutcome::Bytes(bytes) => bytes,
            // No program makes one: it would be waited for in vain.
            ReadOutcome::Dir => return Err(folder_error(files, name, self.began.elapsed())),
            // Nor is a link that leads nowhere a lock of ours.
            ReadOutcome::Absent => Vec::new(),
        };
        if is_left(files, name, &bytes)? {
            return files.remove(name).map(drop);
        }
        let waited = self.began.elapsed();
        let left = Duration::from_millis(self.wait.held_ms).saturating_sub(waited);
        if left.is_zero()
            && let Some(error) = held_error(files, name, waited)?
        {
            return Err(error);
        }
        thread::sleep(if left.is_zero() { self.pause } else { self.pause.min(left) });
        self.pause = (self.pause * 2).min(Duration::from_millis(10));
        Ok(())
    }
}

/// Returns the error of a lock file that could not be made since there is one; `None` if it was given up just now.
pub(crate) fn held_error(files: &Files, name: &str, waited: Duration) -> Result<Option<Error>> {
    Ok(match files.read_up_to(name, HEAD_BYTES)? {
        ReadOutcome::Bytes(bytes) => Some(locked_error(files, name, &bytes, waited)),
        ReadOutcome::Dir => Some(folder_error(files, name, waited)),
        ReadOutcome::Absent => is_listed(files, name)?.then(|| locked_error(files, name, &[], waited)),
    })
}

/// Whether a folder has an entry of this name, also a link that leads nowhere.
fn is_listed(files: &Files, name: &str) -> Result<bool> {
    let (dir, own) = name.rsplit_once('/').unwrap_or(("", name));
    Ok(files.list(dir)?.iter().any(|entry| entry == own))
}

/// Returns the error of a wait that ended: the lock file begins with these bytes.
fn locked_error(files: &Files, name: &str, bytes: &[u8], waited: Duration) -> Error {
    let file = files.describe(name);
    let age = files.stat(name).ok().flatten().map_or(Duration::ZERO, |stat| files::age(&stat));
    let holder = holder(&file, bytes, age);
    Error::Locked { file, holder, waited_ms: waited.as_millis() as u64 }
}

/// Returns the error of a folder that has the name of a lock file.
fn folder_error(files: &Files, name: &str, waited: Duration) -> Error {
    let file = files.describe(name);
    let holder =
        format!("nobody: it is a folder, where locks are files; `rmdir {}` ends it once it is empty", quoted(&file));
    Error::Locked { file, holder, waited_ms: waited.as_millis() as u64 }
}

/// Whether a lock file that begins with these bytes was left by a killed process of ours. The lock of the store must be
/// held.
fn is_left(files: &Files, name: &str, bytes: &[u8]) -> Result<bool> {
    // Where another machine may not have seen that the store's lock is ours, its locks look like these too.
    Ok(bytes.starts_with(OURS) && (files.reach() != Reach::Unknown || files.is_older(name, DAY)?))
}

/// Removes the lock of `path` if a killed process of ours left it. The lock of the store must be held.
pub(super) fn remove_left(files: &Files, path: &str) -> Result<()> {
    let name = format!("{path}.lock");
    match files.read_up_to(&name, HEAD_BYTES)? {
        ReadOutcome::Bytes(bytes) if is_left(files, &name, &bytes)? => files.remove(&name).map(drop),
        _ => Ok(()),
    }
}

/// Says of a lock file, which begins with these bytes, which program holds it and how a user ends that.
fn holder(file: &str, bytes: &[u8], age: Duration) -> String {
    let (who, says) = if bytes.starts_with(OURS) {
        ("a writer of this store, perhaps on another machine", String::new())
    } else if wordless(bytes) {
        ("another program, as Git does it", "is empty, names no process, and ".to_owned())
    } else {
        ("another program, as Git does it", "names no process and ".to_owned())
    };
    format!("{who}: the file {says}is {} old; once none is at work here, `rm {}` ends it", text_of(age), quoted(file))
}

/// Returns the name of a file for a shell.
fn quoted(file: &str) -> String {
    format!("'{}'", file.replace('\'', r"'\''"))
}

/// Returns a length of time for people.
fn text_of(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds / 60),
        seconds @ 7_200..172_800 => format!("{} h", seconds / 3_600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

/// Whether a lock says nothing: as Git's do, or as a power cut leaves one.
fn wordless(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// Removes the lock of `path`, on a file system of this machine alone, if it says nothing and is from before the
/// machine was started: its holder is gone.
pub(super) fn remove_wordless(files: &Files, path: &str) -> Result<()> {
    let name = format!("{path}.lock");
    let (Reach::Local, Some(started)) = (files.reach(), started()) else { return Ok(()) };
    let ReadOutcome::Bytes(bytes) = files.read_up_to(&name, HEAD_BYTES)? else { return Ok(()) };
    let Some(stat) = files.stat(&name)? else { return Ok(()) };
    if wordless(&bytes) && UNIX_EPOCH + Duration::from_nanos(stat.modified_ns) < started {
        files.remove(&name)?;
    }
    Ok(())
}

/// Returns when the machine was started, where the system says so.
fn started() -> Option<SystemTime> {
    #[cfg(target_os = "linux")]
    {
        let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let since = Duration::new(u64::try_from(since.tv_sec).ok()?, u32::try_from(since.tv_nsec).ok()?);
        SystemTime::now().checked_sub(since)
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bristlecone::storage::{Stat, Storage, StorageFile};
    use bristlecone_testkit::sim::SimStorage;

    use super::*;

    /// A storage whose renames replace whatever is there, as on every system but Linux.
    #[derive(Debug)]
    struct Replacing(SimStorage);

    impl Storage for Replacing {
        fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
            self.0.open(name, mode)
        }

        fn create_dir(&self, name: &str) -> io::Result<()> {
            self.0.create_dir(name)
        }

        fn list(&self, dir: &str) -> io::Result<Vec<String>> {
            self.0.list(dir)
        }

        fn rename(&self, from: &str, to: &str) -> io::Result<()> {
            self.0.rename(from, to)
        }

        fn remove(&self, name: &str) -> io::Result<()> {
            self.0.remove(name)
        }

        fn stat(&self, name: &str) -> io::Result<Stat> {
            self.0.stat(name)
        }

        fn sync_dir(&self, dir: &str) -> io::Result<()> {
            self.0.sync_dir(dir)
        }

        fn reach(&self) -> Reach {
            Reach::Local
        }

        fn describe(&self, name: &str) -> String {
            self.0.describe(name)
        }
    }

    #[test]
    fn nothing_stays_beside_a_lock_that_was_made_in_its_place() {
        let sim = SimStorage::new();
        let files = Files::new(Arc::new(Replacing(sim.clone())));
        let names = || sim.files().into_iter().map(|(name, _)| name).collect::<Vec<String>>();
        let lock = RefLock::take(&files, "refs/heads/x", LockWait { held_ms: 0 }).unwrap();
        assert_eq!(names(), ["refs/heads/x.lock"]);
        lock.release().unwrap();
        assert!(names().is_empty(), "{:?}", names());
    }

    #[test]
    fn a_holder_is_told_with_the_way_out() {
        let text = holder("/a'b/x.lock", b"", Duration::from_secs(200));
        assert_eq!(
            text,
            r"another program, as Git does it: the file is empty, names no process, and is 3 min old; once none is at work here, `rm '/a'\''b/x.lock'` ends it"
        );
        assert!(holder("x", b"bristlecone 7\n", Duration::ZERO).starts_with("a writer of this store"));
        for (seconds, text) in [(0, "0 s"), (119, "119 s"), (7_199, "119 min"), (172_799, "47 h"), (172_800, "2 days")]
        {
            assert_eq!(text_of(Duration::from_secs(seconds)), text);
        }
    }
}
