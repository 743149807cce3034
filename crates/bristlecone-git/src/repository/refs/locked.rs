//! One ref under its lock: read, then moved or released.

use std::{
    io,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use bristlecone::{
    Error, RefTarget, Result,
    storage::{StorageFile, retry},
};

use super::{
    Loose, RefSlot, Refs,
    lock::{self, LockWait, RefLock},
    packed, reflog,
    reflog::{LogLine, LogRules},
    value,
};
use crate::repository::files::{Unsynced, below, folder, is_not_empty, passing_name};

/// What the names of files begin with in which the new values of refs wait. A number of this process and one of the
/// file follow, so that no other process has the name.
pub(super) const STAGED: &str = "bristlecone/ref-";
/// A file that waits for longer than this was left by a process that ended.
pub(super) const STAGED_MAX: Duration = Duration::from_secs(60);

/// How long a process that has one lock waits for another, in milliseconds.
const SHORT_MS: u64 = 20;

/// How refs are moved.
#[derive(Clone, Debug)]
pub(crate) struct MoveRules {
    pub(crate) wait: LockWait,
    pub(crate) log: LogRules,
}

/// A new value of a ref, written and waiting. A file that is no longer needed is left to [`Refs::empty_trash`]: one
/// that was not used, and after a move the one that was the ref's before.
#[derive(Debug)]
pub(crate) struct Staged<'r> {
    refs: &'r Refs,
    name: String,
    target: RefTarget,
    file: Arc<dyn StorageFile>,
    since: Instant,
}

impl Staged<'_> {
    /// Whether no process can have taken the file for one that was left behind: [`Refs::sweep`] needs the store's lock,
    /// which the caller holds.
    pub(crate) fn is_fresh(&self) -> bool {
        self.since.elapsed() < STAGED_MAX / 2
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        self.refs.trash().push(std::mem::take(&mut self.name));
    }
}

/// A ref whose lock is held, and what it holds. The lock ends with it.
#[derive(Debug)]
pub(crate) struct LockedRef<'r> {
    refs: &'r Refs,
    name: String,
    path: String,
    slot: RefSlot,
    // A ref with this name, or a folder of it, but for the case of letters, where both would be one file and this one has none.
    other: Option<String>,
    // The store's own HEAD has no lock: only the holder of the store's lock changes it.
    lock: Option<RefLock>,
    // Git's HEAD, where it names this ref: its reflog has the same lines.
    head: Option<RefLock>,
    rules: &'r MoveRules,
}

impl Refs {
    /// Writes the value that a ref will hold, and returns it with its file, which is not durable.
    pub(crate) fn stage(&self, target: &RefTarget) -> Result<(Staged<'_>, Unsynced)> {
        loop {
            let name = passing_name(STAGED);
            // The name is taken all the same, for instance by a process that was forked.
            let Some(file) = self.files.write_new(&name, &value::encode(target))? else { continue };
            let (target, since) = (target.clone(), Instant::now());
            let staged = Staged { refs: self, name: name.clone(), target, file: file.clone(), since };
            return Ok((staged, (name, file)));
        }
    }

    /// The same, durable if `synced`.
    pub(crate) fn stage_now(&self, target: &RefTarget, synced: bool) -> Result<Staged<'_>> {
        let (staged, file) = self.stage(target)?;
        if synced {
            self.files.sync_all(&[file])?;
        }
        Ok(staged)
    }

    /// Removes locks that a power cut left of these refs, and those that are taken beside them. The lock of the store
    /// must be held.
    pub(crate) fn remove_wordless_locks<'n>(&self, names: impl Iterator<Item = &'n String>) -> Result<()> {
        let beside = [self.path("HEAD"), packed::PACKED_REFS.to_owned()];
        let paths = names.filter(|name| *name != super::STORE_HEAD).map(|name| self.path(name)).chain(beside);
        paths.into_iter().try_for_each(|path| lock::remove_wordless(&self.files, &path))
    }

    /// Takes the lock of a ref and reads it. The lock of the store must be held.
    ///
    /// # Errors
    /// [`Error::RefClash`] if another ref is in the way; [`Error::Locked`], [`Error::Io`].
    pub(crate) fn lock_ref<'r>(&'r self, name: &str, rules: &'r MoveRules) -> Result<LockedRef<'r>> {
        let path = self.path(name);
        // The lock makes folders, which stay.
        let beside = self.folder_in_other_case(name, &path)?;
        if let Some(other) = &beside
            && !self.packed()?.by_name.contains_key(name)
        {
            return Err(Error::RefClash { name: name.to_owned(), other: other.clone() });
        }
        let (lock, head) = self.take_locks(name, &path, rules)?;
        let slot = self.slot(name)?;
        let other = if beside.is_some() { beside } else { self.file_in_other_case(name, &path)? };
        // What was read is the file of the other one. Where both are packed this one can be removed.
        if let Some(other) = &other
            && matches!(slot.loose, Loose::Value | Loose::Broken(_))
        {
            return Err(Error::RefClash { name: name.to_owned(), other: other.clone() });
        }
        Ok(LockedRef { refs: self, name: name.to_owned(), path, slot, other, lock: Some(lock), head, rules })
    }

    /// Takes the lock of a ref, and that of Git's HEAD where it names the ref.
    ///
    /// Git takes the two in either order, and gives up after a tenth of a second. So a process that has one of
    /// them waits for the other only shortly, then releases both and begins with the other one.
    fn take_locks(&self, name: &str, path: &str, rules: &MoveRules) -> Result<(RefLock, Option<RefLock>)> {
        let own = |wait| {
            RefLock::take(&self.files, path, wait).map_err(|error| match error {
                Error::Io { source, .. } if source.kind() == io::ErrorKind::NotADirectory => self.clash_above(name),
                error => error,
            })
        };
        let heads = self.path("HEAD");
        let head = |wait| RefLock::take(&self.files, &heads, wait);
        let (long, short) = (rules.wait, LockWait { held_ms: SHORT_MS.min(rules.wait.held_ms) });
        let began = Instant::now();
        loop {
            // Git's HEAD is locked for the sake of its reflog alone.
            let logged = rules.log.begin || self.files.stat(&self.log_path("HEAD"))?.is_some();
            if !logged || !self.head_names(name)? {
                return Ok((own(long)?, None));
            }
            let first = own(long)?;
            match head(short) {
                Ok(second) => return Ok((first, Some(second))),
                Err(error @ Error::Locked { .. }) if began.elapsed().as_millis() >= u128::from(long.held_ms) => {
                    return Err(error);
                }
                Err(Error::Locked { .. }) => drop(first),
                Err(error) => return Err(error),
            }
            let first = head(long)?;
            match own(short) {
                Ok(second) => return Ok((second, Some(first))),
                Err(Error::Locked { .. }) => drop(first),
                Err(error) => return Err(error),
            }
        }
    }

    /// The same for the store's own HEAD.
    pub(crate) fn lock_store_head<'r>(&'r self, rules: &'r MoveRules) -> Result<LockedRef<'r>> {
        let (slot, other) = (self.store_head_slot()?, None);
        let path = self.store_head_path();
        if !self.head_dir.is_empty() {
            self.files.create_dir(folder(&path))?;
        }
        let name = super::STORE_HEAD.to_owned();
        Ok(LockedRef { refs: self, name, path, slot, other, lock: None, head: None, rules })
    }

    /// Says which ref is where a folder should be.
    fn clash_above(&self, name: &str) -> Error {
        let above = name.match_indices('/').map(|(at, _)| &name[..at]);
        let other = above.filter(|dir| self.slot(dir).is_ok_and(|slot| slot.value.is_some())).last();
        Error::RefClash { name: name.to_owned(), other: other.unwrap_or(folder(name)).to_owned() }
    }
}

impl LockedRef<'_> {
    /// Returns what the ref holds.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its file makes no sense.
    pub(crate) fn value(&self) -> Result<Option<&RefTarget>> {
        self.refs.check_readable(&self.path, &self.slot)?;
        Ok(self.slot.value.as_ref())
    }

    /// Checks that a ref may have a file: no other is in the way.
    ///
    /// # Errors
    /// [`Error::RefClash`].
    pub(crate) fn check_free(&self) -> Result<()> {
        if let Some(other) = &self.other {
            return Err(Error::RefClash { name: self.name.clone(), other: other.clone() });
        }
        if !matches!(self.slot.loose, Loose::Absent | Loose::Dir) || self.lock.is_none() {
            return Ok(());
        }
        // Also where the ref is packed: whoever was refused a ref below it may have left a folder.
        let is_dir = matches!(self.slot.loose, Loose::Dir);
        let emptied = if is_dir { self.refs.remove_empty_dirs(&self.path) } else { Ok(true) };
        if !matches!(emptied, Ok(true)) {
            let inside = self.refs.list(&format!("{}/", self.name))?;
            let other = match inside.into_keys().next() {
                // Whatever the system said, the folder has to stay.
                Some(other) => other,
                None => emptied.map(|_| format!("{}/…", self.name))?,
            };
            return Err(Error::RefClash { name: self.name.clone(), other });
        }
        if self.slot.value.is_some() {
            return Ok(());
        }
        match self.refs.packed_clash(&self.name)? {
            Some(other) => Err(Error::RefClash { name: self.name.clone(), other }),
            None => Ok(()),
        }
    }

    /// Moves the ref to what was staged, with lines in its reflog, and releases it.
    pub(crate) fn set(mut self, staged: Staged<'_>, synced: bool, lines: &[LogLine]) -> Result<()> {
        self.check_free()?;
        self.log(lines)?;
        let files = &self.refs.files;
        let fresh = !matches!(self.slot.loose, Loose::Value | Loose::Broken(_));
        if fresh {
            files.rename(&staged.name, &self.path)?
        } else {
            files.replace(&staged.name, &self.path)?
        }
        if self.name == "HEAD" {
            self.refs.forget_head();
        }
        self.slot.value = Some(staged.target.clone());
        let path = std::mem::take(&mut self.path);
        let refs = self.refs;
        refs.note_unsynced(&path, (!synced).then(|| staged.file.clone()));
        refs.note_letters(&path);
        self.release()?;
        if synced { refs.sync_names(&path, fresh) } else { Ok(()) }
    }

    /// Removes the ref with its reflog and releases it.
    pub(crate) fn remove(mut self, synced: bool) -> Result<()> {
        let refs = self.refs;
        let git = self.lock.is_some();
        let packed = if git { Some(packed::remove(&refs.files, self.rules.wait, &self.name)?) } else { None };
        let log = refs.log_path(&self.name);
        // The reflog may be that of the other one.
        if git && (self.other.is_none() || refs.is_in_own_letters(&log)?) {
            reflog::remove(&refs.files, &log)?;
        }
        if matches!(self.slot.loose, Loose::Value | Loose::Broken(_)) {
            refs.files.remove(&self.path)?;
        }
        packed.map_or(Ok(()), RefLock::release)?;
        let path = std::mem::take(&mut self.path);
        refs.note_unsynced(&path, None);
        self.release()?;
        if synced {
            refs.sync_names(&path, false)?;
        }
        // What Git keeps too: refs/heads and its like.
        if git { reflog::remove_empty_parents(&refs.files, &path, refs.head_depth(&path) + 2) } else { Ok(()) }
    }

    fn log(&self, lines: &[LogLine]) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        let refs = self.refs;
        let own = refs.log_path(&self.name);
        reflog::append(&refs.files, &self.rules.log, refs.algorithm, (&self.name, &own), lines)?;
        if self.head.is_some() {
            let head = refs.log_path("HEAD");
            reflog::append(&refs.files, &self.rules.log, refs.algorithm, ("HEAD", &head), lines)?;
        }
        Ok(())
    }

    fn release(self) -> Result<()> {
        if let Some(head) = self.head {
            head.release()?;
        }
        self.lock.map_or(Ok(()), RefLock::release)
    }
}

impl Refs {
    /// Makes the name of a ref's file durable; of a new one also those of the folders above, which may be new too, and so where the
    /// folder is one of which that was not done: a Git may have made it.
    pub(crate) fn sync_names(&self, path: &str, fresh: bool) -> Result<()> {
        let mut dir = folder(path);
        let found = self.files.stat(dir)?.map(|stat| stat.id);
        let durable = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        let known = found.is_some() && durable().get(dir).copied() == found;
        // Folders may be gone, with everything that was in them.
        let mut synced = self.files.sync_dir(dir)?;
        while !dir.is_empty() && (fresh || !known || !synced) {
            dir = folder(dir);
            synced = self.files.sync_dir(dir)?;
        }
        if let Some(id) = found.filter(|_| !known) {
            durable().insert(folder(path).to_owned(), id);
        }
        Ok(())
    }

    /// Remembers the file of a ref that is not synced, so that it is synced as it was written.
    fn note_unsynced(&self, path: &str, file: Option<Arc<dyn StorageFile>>) {
        let mut unsynced = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        match file {
            Some(file) => _ = unsynced.insert(path.to_owned(), file),
            None => _ = unsynced.remove(path),
        }
    }

    /// Returns how many files of refs are open until they are synced.
    pub(crate) fn unsynced(&self) -> usize {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Makes those refs durable that this process moved, as it wrote them.
    pub(crate) fn sync_own(&self) -> Result<()> {
        let open: Vec<Unsynced> = self.unsynced.lock().unwrap_or_else(PoisonError::into_inner).drain().collect();
        self.files.sync_all(&open)
    }

    /// Makes a ref durable as it is: its file, or else the file of packed refs, and its name.
    pub(crate) fn sync(&self, name: &str) -> Result<()> {
        let path = if name == super::STORE_HEAD { self.store_head_path() } else { self.path(name) };
        let own = match self.files.sync(&path) {
            Ok(own) => own,
            // A folder is where the ref was.
            Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::IsADirectory => false,
            Err(error) => return Err(error),
        };
        // A Git that packed the ref meanwhile syncs that file no more than others, and the names that are synced below take
        // the ref's own file away.
        if !own {
            self.files.sync(packed::PACKED_REFS)?;
        }
        self.sync_names(&path, true)
    }

    /// Removes a folder and those in it, if there are no files; returns whether it is gone. A link to a folder is none: what it
    /// leads to may lie outside of the repository.
    pub(super) fn remove_empty_dirs(&self, dir: &str) -> Result<bool> {
        match retry(|| self.files.storage().remove_dir(dir)) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
            // A file, or a link wherever it leads.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(false),
            // So it is a folder. Where the system refuses otherwise, as in a folder of another user, it may be a link.
            Err(error) if is_not_empty(&error) => {}
            refused => self.files.named(dir, refused)?,
        }
        for name in self.files.list(dir)? {
            if !self.remove_empty_dirs(&below(dir, &name))? {
                return Ok(false);
            }
        }
        self.files.remove_dir(dir)
    }

    /// Returns a packed ref that has this name as a folder, or is one of this name's; also in other letters, where files ignore case.
    fn packed_clash(&self, name: &str) -> Result<Option<String>> {
        let packed = self.packed()?;
        let in_other_case = || if self.ignore_case { packed.place_in_other_case(name) } else { None };
        Ok(value::clash(&packed.by_name, name).or_else(in_other_case).map(str::to_owned))
    }
}
