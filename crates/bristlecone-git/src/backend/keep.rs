//! Protection of packs that no ref leads to yet: a `.keep` file has every Git leave a pack alone.
//!
//! The file of ours is locked (`flock`) for as long as its process makes the pack or needs the protection. So one whose
//! lock can be taken protects nothing any more, and is removed with what was not finished of its pack. Numbers of
//! processes decide nothing: in containers and on other machines other processes have the same ones. What is found by a
//! name may be another file than the one that was locked, so its number is compared once the lock is held.
//!
//! A process may have no more than a thousand files open. So where many packs are protected, the files of most are closed:
//! behind the word they name another file of ours, which stays locked for as long as the process needs one of them.
//!
//! A file gets its words, durably, before it takes the name that protects, so that ours are never without any. One that
//! is no longer needed goes to the next process that needs one: file systems take long to make a file where many were
//! removed.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, Mutex},
};

use bristlecone::{
    Error, Result,
    storage::{OpenMode, Reach, StorageFile},
};

use super::{
    journal::OURS,
    pack_files::{PACKS, part_of},
};
use crate::repository::{
    files::{DAY, Files, ReadOutcome, below, is_absent, passing_name},
    mutex::lock,
    pack::REPACKED_PREFIX,
};

/// What `.keep` files of ours hold.
const LINE: &[u8] = b"bristlecone\n";
/// What they begin with, also those of earlier versions.
const WORD: &[u8] = b"bristlecone";
/// What the names of new files begin with, until they protect something.
const FRESH: &str = "bristlecone/keep-";
/// What the names of files begin with that protect nothing at the time.
const SPARE: &str = "bristlecone/spare-keep-";
/// How many of these there may be.
const SPARES_MAX: usize = 4;
/// How often a folder is made again that another process removes meanwhile.
const FOLDERS_MAX: usize = 20;
/// Protections from which on the files of further ones are closed.
const OPEN_MAX: usize = 64;
/// Bytes of a file that names another one, at most.
const NAMING_BYTES_MAX: usize = 128;

/// The protection of a pack, for as long as it lives or until its file is removed.
#[derive(Debug)]
pub(crate) struct Keep {
    name: String,
    // Locked; `None` where the file names another one that is.
    file: Option<Arc<dyn StorageFile>>,
}

/// Where protections come from.
#[derive(Debug)]
pub(crate) struct Keeps {
    files: Files,
    // Files of ours that protect nothing, under names of spares; others see that they are locked.
    spare: Mutex<Vec<Keep>>,
    // The file that those name which are closed.
    named: Mutex<Option<Keep>>,
}

impl Keeps {
    pub(crate) fn new(files: Files) -> Self {
        Self { files, spare: Mutex::default(), named: Mutex::default() }
    }

    /// Protects a pack that is about to be written; no other process writes one of this name.
    pub(crate) fn protect(&self, pack: &str) -> Result<Keep> {
        let name = format!("{PACKS}/{pack}.keep");
        let mut folders = 0;
        loop {
            let spare = lock(&self.spare).pop();
            let keep = match spare {
                Some(keep) => keep,
                None => self.obtain()?,
            };
            match self.files.rename(&keep.name, &name) {
                Ok(()) => return Ok(Keep { name, ..keep }),
                // The folder of packs is gone, or the spare with everything of ours.
                Err(Error::Io { source, .. }) if is_absent(&source) && folders < FOLDERS_MAX => {
                    folders += 1;
                    self.files.remove(&keep.name)?;
                    self.files.create_dir(PACKS)?;
                    self.files.sync_dir("objects")?;
                    self.files.sync_dir("")?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Closes the file of a protection beside `others`, if these are many. Where that fails it stays open.
    pub(crate) fn close_beyond(&self, others: usize, keep: &mut Keep) {
        let Some(file) = keep.file.as_ref().filter(|_| others >= OPEN_MAX) else { return };
        let closing = self.name_of_named().and_then(|named| {
            let words = format!(" {named}\n");
            // Behind the word, which stays as it is.
            self.files.write_at(&keep.name, &**file, words.as_bytes(), WORD.len() as u64)
        });
        if closing.is_ok() {
            keep.file = None;
        }
    }

    /// Returns the name of the file that those name which are closed, making it if there is none.
    fn name_of_named(&self) -> Result<String> {
        let mut named = lock(&self.named);
        let keep = match named.take() {
            Some(keep) => keep,
            None => self.make()?,
        };
        Ok(named.insert(keep).name.clone())
    }

    /// Ends a protection.
    pub(super) fn release(&self, keep: Keep) -> Result<()> {
        // Where its age says whether a file is still needed, none is used again.
        let spares = if self.files.reach() == Reach::Unknown || keep.file.is_none() { 0 } else { SPARES_MAX };
        for name in (0..spares).map(|n| format!("{SPARE}{n}")) {
            if self.files.rename_new_raw(&keep.name, &name).is_ok() {
                lock(&self.spare).push(Keep { name, file: keep.file });
                return Ok(());
            }
        }
        self.files.remove(&keep.name).map(drop)
    }

    /// Ends a protection, and leaves no spare file.
    pub(crate) fn remove(&self, keep: Keep) -> Result<()> {
        self.files.remove(&keep.name).map(drop)
    }

    /// Leaves the spare files to others, once the protections have ended.
    pub(crate) fn close(&self) {
        lock(&self.spare).clear();
        if let Some(named) = lock(&self.named).take() {
            // The next opening removes it otherwise.
            let _ = self.files.remove(&named.name);
        }
    }

    /// Takes a spare file that no process has locked, or makes one.
    fn obtain(&self) -> Result<Keep> {
        for name in (0..SPARES_MAX).map(|n| format!("{SPARE}{n}")) {
            if let Some(file) = open_to_lock(&self.files, &name)?
                && self.files.lock_named(&name, &*file)?
            {
                return Ok(Keep { name, file: Some(file) });
            }
        }
        self.make()
    }

    fn make(&self) -> Result<Keep> {
        loop {
            let name = passing_name(FRESH);
            let file = match self.files.write_new(&name, LINE) {
                Err(Error::Io { source, .. }) if is_absent(&source) => {
                    self.files.create_dir(OURS)?;
                    // Only where the folder is do openings look for what was left.
                    self.files.sync_dir("")?;
                    continue;
                }
                written => written?,
            };
            let Some(file) = file else { continue };
            // A process that opened the repository just now may have taken it for one that was left.
            if !self.files.lock_named(&name, &*file)? {
                continue;
            }
            match self.files.sync_open(&name, &*file) {
                Ok(()) => return Ok(Keep { name, file: Some(file) }),
                Err(error) => {
                    self.files.remove(&name)?;
                    return Err(error);
                }
            }
        }
    }
}

/// Opens a file whose lock is to be taken; `None` if it is absent, may not be written to, or is a folder, which no process of ours
/// makes. Some file systems lock only what is open for writing.
fn open_to_lock(files: &Files, name: &str) -> Result<Option<Arc<dyn StorageFile>>> {
    match files.open_raw(name, OpenMode::Write) {
        Err(error)
            if is_absent(&error)
                || matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::IsADirectory) =>
        {
            Ok(None)
        }
        opened => files.named(name, opened).map(Some),
    }
}

/// Removes the protections that no process needs any more, and what is not finished of their packs. Returns how many
/// stay because a process on another machine may need them: locks do not tell there, and they are younger than a day.
pub(super) fn sweep(files: &Files) -> Result<usize> {
    let mut left = 0;
    for name in files.list(OURS)? {
        let name = below(OURS, &name);
        if name.starts_with(FRESH) {
            left += usize::from(!remove_left(files, &name, None)?);
        }
    }
    let names: HashSet<String> = files.list(PACKS)?.into_iter().collect();
    for name in names.iter().filter(|name| name.starts_with(REPACKED_PREFIX)) {
        let name = format!("{PACKS}/{name}");
        left += usize::from(!remove_left(files, &name, None)?);
    }
    for pack in names.iter().filter_map(|name| name.strip_suffix(".keep")) {
        let name = format!("{PACKS}/{pack}.keep");
        // Without a word of ours it is the user's, or that of a Git: their packs stay, also one that has lost its index.
        left += usize::from(is_ours(files, pack)? && !remove_left(files, &name, Some(pack))?);
    }
    Ok(left)
}

/// Removes a file if its lock can be taken, and what is not finished of the pack that it protects. Returns `false` if
/// it stays because another machine may need it.
fn remove_left(files: &Files, name: &str, pack: Option<&str>) -> Result<bool> {
    let Some(file) = open_to_lock(files, name)? else { return Ok(true) };
    if !files.lock_named(name, &*file)? {
        return Ok(true);
    }
    if files.reach() == Reach::Unknown && !files.is_older(name, DAY)? {
        return Ok(false);
    }
    if names_locked(files, name)? {
        return Ok(true);
    }
    // Whether it is finished is certain only now.
    if let Some(pack) = pack
        && files.stat(&format!("{PACKS}/{pack}.idx"))?.is_none()
    {
        files.remove(&format!("{PACKS}/{pack}.pack"))?;
        files.remove(&part_of(pack))?;
    }
    files.remove(name)?;
    Ok(true)
}

/// Whether a file of ours names another one, for which a process has the lock.
fn names_locked(files: &Files, name: &str) -> Result<bool> {
    let ReadOutcome::Bytes(bytes) = files.read_up_to(name, NAMING_BYTES_MAX)? else { return Ok(false) };
    let named = str::from_utf8(&bytes).ok().and_then(|text| text.strip_prefix("bristlecone ")?.strip_suffix('\n'));
    // The file may be anybody's, and not all text is the name of a file.
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let is_fresh = |name: &&str| name.strip_prefix(FRESH).is_some_and(|rest| rest.bytes().all(fits));
    let Some(named) = named.filter(is_fresh) else { return Ok(false) };
    match open_to_lock(files, named)? {
        Some(file) => Ok(!files.named(named, file.try_lock())?),
        None => Ok(false),
    }
}

/// Whether a file holds nothing, or zeroes, as a power cut leaves one.
fn is_wordless(files: &Files, name: &str) -> Result<bool> {
    let found = files.read_up_to(name, LINE.len() + 1)?;
    Ok(matches!(found, ReadOutcome::Bytes(bytes) if bytes.iter().all(|&byte| byte == 0)))
}

/// Whether a pack is under the protection of a process of ours.
pub(super) fn is_ours(files: &Files, pack: &str) -> Result<bool> {
    let found = files.read_up_to(&format!("{PACKS}/{pack}.keep"), WORD.len())?;
    Ok(matches!(found, ReadOutcome::Bytes(bytes) if bytes == WORD))
}

/// Ends the protection of a pack by any process of ours.
pub(super) fn end(files: &Files, pack: &str) -> Result<()> {
    if is_ours(files, pack)? { files.remove(&format!("{PACKS}/{pack}.keep")).map(drop) } else { Ok(()) }
}

/// Ends the protection of a pack that a process of ours wrote before a power cut, where it lost its words.
pub(super) fn end_wordless(files: &Files, pack: &str) -> Result<()> {
    let name = format!("{PACKS}/{pack}.keep");
    if is_wordless(files, &name)? { remove_left(files, &name, Some(pack)).map(drop) } else { Ok(()) }
}
