//! The simulated disk behind the byte seam.

use std::{
    collections::hash_map::Entry,
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::storage::{FileMap, OpenMode, Reach, Stat, Storage, StorageFile};

use super::{
    CallKind, Fault, SimStorage, file::FileState, maps::Twin, names::NameNode, names::folder, state::SimState,
};

impl SimStorage {
    /// Runs a numbered call on names.
    fn call_names(
        &self,
        kind: CallKind,
        name: &str,
        run: impl FnOnce(&mut SimState) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut state = self.lock();
        let fault = state.enter(self.process, kind, &name.into(), 0, 0)?;
        let done = match fault.and_then(Fault::error) {
            Some(error) => {
                if (kind, fault) == (CallKind::SyncDir, Some(Fault::Forgotten)) {
                    state.disk.forget_names(name);
                }
                Err(error)
            }
            None => run(&mut state),
        };
        state.leave(self.process);
        done
    }

    fn handle(&self, name: &str, id: u64, writable: bool) -> Arc<dyn StorageFile> {
        let mut state = self.lock();
        state.handle_next += 1;
        let handle = state.handle_next;
        let seen = AtomicU64::new(state.sync_failures.get(&id).copied().unwrap_or(0));
        Arc::new(SimFile { storage: self.clone(), name: name.into(), id, handle, writable, seen })
    }
}

impl Storage for SimStorage {
    fn open(&self, name: &str, mode: OpenMode) -> io::Result<Arc<dyn StorageFile>> {
        let found = {
            let state = self.lock();
            state.powered(self.process)?;
            state.disk.find(name)
        };
        let absent = matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound);
        let id = match mode {
            OpenMode::CreateNew | OpenMode::CreateSealed if found.is_ok() => {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            OpenMode::CreateNew | OpenMode::CreateSealed | OpenMode::Create if absent => {
                self.call_names(CallKind::Create, name, |state| state.disk.create(name).map(drop))?;
                self.lock().disk.find(name)?
            }
            _ => found?,
        };
        Ok(self.handle(name, id, mode != OpenMode::Read))
    }

    fn create_dir(&self, name: &str) -> io::Result<()> {
        if name.is_empty() {
            return self.lock().powered(self.process);
        }
        for (end, _) in name.match_indices('/').chain([(name.len(), "")]) {
            let dir = &name[..end];
            if self.lock().disk.names().get(dir) != Some(NameNode::Dir) {
                self.call_names(CallKind::CreateDir, dir, |state| state.disk.create_dir(dir))?;
            }
        }
        Ok(())
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let state = self.lock();
        state.powered(self.process)?;
        if !state.disk.names().is_dir(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let names = state.disk.names().below(dir).filter(|name| folder(name) == dir);
        Ok(names.map(|name| name[dir.len()..].trim_start_matches('/').to_owned()).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.call_names(CallKind::Rename, from, |state| state.disk.rename(from, to))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<()> {
        {
            let state = self.lock();
            state.powered(self.process)?;
            state.disk.find(from)?;
            if state.disk.names().get(to).is_some() {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
        }
        self.call_names(CallKind::Rename, from, |state| state.disk.rename(from, to))
    }

    fn exchange(&self, one: &str, other: &str) -> io::Result<()> {
        self.call_names(CallKind::Exchange, one, |state| state.disk.exchange(one, other))
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.call_names(CallKind::RemoveDir, dir, |state| state.disk.remove_dir(dir))
    }

    fn stat(&self, name: &str) -> io::Result<Stat> {
        let state = self.lock();
        state.powered(self.process)?;
        state.disk.stat(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.call_names(CallKind::Remove, name, |state| state.disk.remove(name))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.call_names(CallKind::SyncDir, dir, |state| state.disk.sync_dir(dir))
    }

    fn free_bytes(&self) -> io::Result<Option<u64>> {
        let state = self.lock();
        state.powered(self.process)?;
        Ok(state.told_free.or_else(|| state.bytes_max.map(|bytes_max| bytes_max.saturating_sub(state.disk.bytes()))))
    }

    fn boot(&self) -> Option<String> {
        Some(format!("start {}", self.lock().disk.starts()))
    }

    fn reach(&self) -> Reach {
        Reach::Local
    }

    fn describe(&self, name: &str) -> String {
        name.to_owned()
    }
}

/// One handle to a simulated file.
struct SimFile {
    storage: SimStorage,
    name: Arc<str>,
    id: u64,
    handle: u64,
    writable: bool,
    /// How many failures of write-back this handle knows of, or need not: those before it was opened.
    seen: AtomicU64,
}

impl SimFile {
    fn may_write(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }
}

impl SimFile {
    /// Does what a sync does where no fault comes, and tells of failures.
    fn sync_as(&self, done: impl FnOnce(&mut FileState)) -> io::Result<()> {
        let mut state = self.storage.lock();
        let fault = state.enter(self.storage.process, CallKind::Sync, &self.name, 0, 0)?;
        let mut error = fault.and_then(Fault::error);
        if error.is_some() {
            let mut rng = state.rng();
            state.disk.file_mut(self.id).fail_sync(|| rng.chance(1, 2));
            *state.sync_failures.entry(self.id).or_default() += 1;
        } else {
            done(state.disk.file_mut(self.id));
        }
        // As on Linux, every handle that was open at a failure reports it once.
        let failures = state.sync_failures.get(&self.id).copied().unwrap_or(0);
        if self.seen.swap(failures, Relaxed) < failures {
            error = error.or_else(|| Fault::Io.error());
        }
        state.leave(self.storage.process);
        error.map_or(Ok(()), Err)
    }
}

impl StorageFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.storage.lock();
        let fault = state.enter(self.storage.process, CallKind::Read, &self.name, offset, buffer.len() as u64)?;
        let wanted = match fault {
            None => buffer.len(),
            Some(Fault::Short) => buffer.len().div_ceil(2),
            Some(fault) => {
                state.leave(self.storage.process);
                return Err(fault.error().expect("only a short read has no error"));
            }
        };
        let count = state.disk.file(self.id).read(&mut buffer[..wanted], offset);
        if state.number_reads {
            state.leave(self.storage.process);
        }
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.may_write()?;
        let mut state = self.storage.lock();
        let fault = state.enter(self.storage.process, CallKind::Write, &self.name, offset, bytes.len() as u64)?;
        let room = state.room(state.disk.file(self.id).len(), offset, bytes.len() as u64) as usize;
        // A failing write may still have gone part of the way.
        let count = match fault {
            None => room,
            Some(Fault::Short) => room.min(bytes.len().div_ceil(2)),
            Some(Fault::Interrupted) => 0,
            Some(Fault::Io | Fault::Forgotten | Fault::NoSpace) => state.rng().index(room + 1),
        };
        if count > 0 {
            state.write(self.id, &bytes[..count], offset);
        }
        state.leave(self.storage.process);
        match fault.and_then(Fault::error) {
            Some(error) => Err(error),
            None if count == 0 && !bytes.is_empty() => Err(Fault::NoSpace.error().expect("an error")),
            None => Ok(count),
        }
    }

    fn len(&self) -> io::Result<u64> {
        let state = self.storage.lock();
        state.powered(self.storage.process)?;
        Ok(state.disk.file(self.id).len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.may_write()?;
        let mut state = self.storage.lock();
        let fault = state.enter(self.storage.process, CallKind::SetLen, &self.name, bytes, 0)?;
        let len = state.disk.file(self.id).len();
        let growth = bytes.saturating_sub(len);
        let error = fault.and_then(Fault::error);
        let error = error.or_else(|| if state.room(len, len, growth) < growth { Fault::NoSpace.error() } else { None });
        if error.is_none() {
            state.set_len(self.id, bytes);
        }
        state.leave(self.storage.process);
        error.map_or(Ok(()), Err)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync_as(|file| file.sync())
    }

    /// Promises nothing where it succeeds; a failure is told here, and the sync that follows says nothing of it.
    fn begin_next_sync(&self) -> io::Result<()> {
        self.sync_as(|_| ())
    }

    fn map(&self, bytes: u64) -> io::Result<Option<FileMap>> {
        let mut state = self.storage.lock();
        let fault = state.enter(self.storage.process, CallKind::Map, &self.name, 0, bytes)?;
        let state = &mut *state;
        if state.number_reads {
            state.leave(self.storage.process);
        }
        if let Some(error) = fault.and_then(Fault::error) {
            return Err(error);
        }
        let file = state.disk.file(self.id);
        if bytes == 0 || file.len() < bytes {
            return Ok(None);
        }
        let twin = match state.twins.entry(self.id) {
            Entry::Occupied(twin) => twin.into_mut(),
            Entry::Vacant(place) => place.insert(Twin::of(file)?),
        };
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        twin.map(bytes).map(Some)
    }

    fn try_lock(&self) -> io::Result<bool> {
        let mut state = self.storage.lock();
        state.powered(self.storage.process)?;
        let own = (self.handle, self.storage.process);
        Ok(*state.locks.entry(self.id).or_insert(own) == own)
    }

    fn unlock(&self) -> io::Result<()> {
        let mut state = self.storage.lock();
        if state.locks.get(&self.id).is_some_and(|(handle, _)| *handle == self.handle) {
            state.locks.remove(&self.id);
        }
        state.powered(self.storage.process)
    }

    fn touch(&self) -> io::Result<()> {
        let mut state = self.storage.lock();
        state.powered(self.storage.process)?;
        state.disk.touch(self.id);
        Ok(())
    }

    fn id(&self) -> io::Result<u64> {
        self.storage.lock().powered(self.storage.process)?;
        Ok(self.id)
    }

    fn lock_holder(&self) -> Option<String> {
        let state = self.storage.lock();
        state.locks.get(&self.id).map(|(handle, _)| format!("simulated handle {handle}"))
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        let mut state = self.storage.lock();
        if state.locks.get(&self.id).is_some_and(|(handle, _)| *handle == self.handle) {
            state.locks.remove(&self.id);
        }
    }
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimFile({}, handle {})", self.name, self.handle)
    }
}
