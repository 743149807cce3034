//! The file `unsynced`: what some process put into the store and no process has made durable yet.
//!
//! A process adds lines before it does what they say, so the system's cache has them whatever becomes of the process. A line
//! counts for this start of the machine alone: its checksum is seeded with that. After a power cut the file says one thing,
//! that objects may be torn or lack others: its first line is durable before the first object gets its name. Only the holder of the
//! store's lock touches the file.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use bristlecone_core::{Oid, to_hex};
use twox_hash::XxHash3_64;

use super::files::Files;
use crate::{
    Error,
    storage::{OpenMode, StorageFile, read_exact_at, write_all_at},
};

pub(super) const UNSYNCED: &str = "unsynced";
const FIRST: &str = "bristlecone unsynced 1 of ";
const FOLDER: &str = "folder";
const REFS: &str = "refs";
/// Stands between an object and the number of the damaged file in whose place it is put.
const OVER: &str = " over ";
/// What stands in place of lines that were lost. It has no check.
const LOST: &str = "lost";
/// No list is longer: it would be of a hundred million objects.
const BYTES_MAX: u64 = 1 << 33;

/// An object that is not durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnsyncedObject {
    pub(super) oid: Oid,
    /// The number of the damaged file that the object had before.
    pub(super) damaged: Option<u64>,
}

/// What is not durable.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Unsynced {
    /// Objects, whose names in their folders are not durable either.
    pub(super) objects: Vec<UnsyncedObject>,
    /// Whether a folder of objects was made.
    pub(super) folder: bool,
    /// Whether refs moved.
    pub(super) refs: bool,
    /// Whether lines are damaged, so that any object may be among them.
    pub(super) all: bool,
}

impl Unsynced {
    /// Whether everything is durable.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && !self.folder && !self.refs && !self.all
    }
}

/// The file, as this process knows it.
#[derive(Debug)]
pub(super) struct UnsyncedFile {
    files: Arc<Files>,
    boot: String,
    file: Option<Arc<dyn StorageFile>>,
    now: Unsynced,
    // Where the next line goes.
    end: u64,
    // Whether the first line is durable.
    marked: bool,
}

impl UnsyncedFile {
    pub(super) fn new(files: Arc<Files>, boot: String) -> Self {
        Self { files, boot, file: None, now: Unsynced::default(), end: 0, marked: false }
    }

    /// Opens the file, and returns whether it is of an earlier start of the machine: then objects may be torn.
    pub(super) fn open(&mut self) -> Result<bool, Error> {
        let is_lost = self.files.stat(UNSYNCED)?.is_none();
        let file = self.files.open(UNSYNCED, OpenMode::Create)?;
        self.file = Some(file.clone());
        if is_lost {
            // What it said is not known: with a line that is none, every object counts.
            self.files.sync_dir("")?;
            let text = format!("{}{LOST}\n", self.first());
            self.write(&text)?;
        }
        let bytes = self.files.read_open(UNSYNCED, &*file, BYTES_MAX)?;
        let is_earlier = !bytes.is_empty() && !self.is_of_this_start(&bytes);
        if !is_earlier {
            self.take(&bytes)?;
        }
        Ok(is_earlier)
    }

    /// Returns what is not durable, as of the last [`UnsyncedFile::refresh`] or change.
    pub(super) fn now(&self) -> &Unsynced {
        &self.now
    }

    /// Whether nothing was written to the file since everything was durable and no process had the store open.
    pub(super) fn is_blank(&self) -> bool {
        self.end == 0
    }

    /// Whether this process made durable that objects may be torn.
    pub(super) fn is_marked(&self) -> bool {
        self.marked
    }

    /// Takes in what other processes did, and returns whether they changed the file. `again`: one of them may have made
    /// everything durable.
    pub(super) fn refresh(&mut self, again: bool) -> Result<bool, Error> {
        let file = self.file()?;
        let len = self.files.call(UNSYNCED, || file.len())?;
        let is_changed = len != self.end;
        if again || len < self.end || is_changed && self.end == 0 {
            let bytes = self.files.read_open(UNSYNCED, &*file, BYTES_MAX)?;
            (self.now, self.marked) = (Unsynced::default(), false);
            self.take(&bytes)?;
        } else if is_changed {
            let mut more = vec![0; (len - self.end).min(BYTES_MAX) as usize];
            self.files.call(UNSYNCED, || read_exact_at(&*file, &mut more, self.end))?;
            self.take_lines(&more, self.end)?;
        }
        Ok(is_changed)
    }

    /// Adds what will be done. Not durable, and there whatever becomes of this process.
    pub(super) fn add(&mut self, objects: &[UnsyncedObject], folder: bool, refs: bool) -> Result<(), Error> {
        let mut text = String::new();
        for object in objects {
            let mut word = to_hex(object.oid.as_bytes());
            if let Some(file) = object.damaged {
                word.push_str(&format!("{OVER}{file}"));
            }
            self.put_line(&mut text, &word);
        }
        for (word, wanted) in [(FOLDER, folder && !self.now.folder), (REFS, refs && !self.now.refs)] {
            if wanted {
                self.put_line(&mut text, word);
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        if self.end == 0 {
            text.insert_str(0, &self.first());
        }
        self.write(&text)?;
        self.now.objects.extend_from_slice(objects);
        self.now.folder |= folder;
        self.now.refs |= refs;
        Ok(())
    }

    /// Adds a line that says nothing new, so that other processes notice an append of objects that are all there: a sweep of
    /// theirs would know of it by nothing else.
    pub(super) fn tell(&mut self) -> Result<(), Error> {
        self.now.refs = false;
        self.add(&[], false, true)
    }

    /// Makes durable that objects may be torn, or lack what they name, from now on.
    pub(super) fn mark(&mut self) -> Result<(), Error> {
        if self.marked {
            return Ok(());
        }
        if self.end == 0 {
            let first = self.first();
            self.write(&first)?;
        }
        let file = self.file()?;
        self.files.sync(UNSYNCED, &*file)?;
        self.marked = true;
        Ok(())
    }

    /// Forgets everything, since it is durable. The first line stays where it was durable, for what comes next.
    pub(super) fn clear(&mut self) -> Result<(), Error> {
        let bytes = if self.marked { self.first().len() as u64 } else { 0 };
        self.cut(bytes)?;
        self.now = Unsynced::default();
        Ok(())
    }

    /// Empties the file: nothing that is not durable comes soon.
    pub(super) fn empty(&mut self) -> Result<(), Error> {
        self.marked = false;
        self.clear()
    }

    /// Makes the whole file system durable; returns whether the system can. A write that failed since this process opened the
    /// store is told.
    pub(super) fn sync_file_system(&self) -> Result<bool, Error> {
        let file = self.file()?;
        self.files.syncs.fetch_add(1, Relaxed);
        file.sync_file_system().map_err(|error| Error::io(self.files.describe(UNSYNCED), error))
    }

    fn file(&self) -> Result<Arc<dyn StorageFile>, Error> {
        self.file.clone().ok_or(Error::ReadOnly)
    }

    fn cut(&mut self, bytes: u64) -> Result<(), Error> {
        let file = self.file()?;
        self.files.call(UNSYNCED, || file.set_len(bytes))?;
        self.end = bytes;
        Ok(())
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        let file = self.file()?;
        self.files.call(UNSYNCED, || write_all_at(&*file, text.as_bytes(), self.end))?;
        self.end += text.len() as u64;
        Ok(())
    }

    fn first(&self) -> String {
        format!("{FIRST}{}\n", self.boot)
    }

    fn check(&self, word: &str) -> u64 {
        XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(self.boot.as_bytes()), word.as_bytes())
    }

    fn put_line(&self, text: &mut String, word: &str) {
        text.push_str(&format!("{word} {:016x}\n", self.check(word)));
    }

    /// Returns what a line says, if it is one of this start of the machine.
    fn word<'l>(&self, line: &'l [u8]) -> Option<&'l str> {
        let (word, check) = str::from_utf8(line).ok()?.rsplit_once(' ')?;
        (check == format!("{:016x}", self.check(word))).then_some(word)
    }

    /// Whether bytes are of this start of the machine: the first line says so, or another does.
    fn is_of_this_start(&self, bytes: &[u8]) -> bool {
        bytes.starts_with(self.first().as_bytes())
            || bytes.split(|&byte| byte == b'\n').skip(1).any(|line| self.word(line).is_some())
    }

    /// Takes in all bytes of the file.
    fn take(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let first = self.first();
        if bytes.is_empty() {
            self.end = 0;
            return Ok(());
        }
        if !bytes.starts_with(first.as_bytes()) {
            // A process was stopped while it wrote the first line, and so before it did anything; or the line is damaged.
            if !bytes.contains(&b'\n') && first.as_bytes().starts_with(bytes) {
                return self.cut(0);
            }
            self.now.all = true;
        }
        let first_bytes = bytes.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |at| at + 1);
        self.take_lines(&bytes[first_bytes..], first_bytes as u64)
    }

    /// Takes in lines that begin at `at`. What a process that was stopped left of a line is cut off.
    fn take_lines(&mut self, bytes: &[u8], at: u64) -> Result<(), Error> {
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        for line in bytes[..whole].split_inclusive(|&byte| byte == b'\n') {
            match self.word(&line[..line.len() - 1]) {
                Some(FOLDER) => self.now.folder = true,
                Some(REFS) => self.now.refs = true,
                Some(word) => match object_of(word) {
                    Some(object) => self.now.objects.push(object),
                    None => self.now.all = true,
                },
                None => self.now.all = true,
            }
        }
        self.end = at + whole as u64;
        let rest = &bytes[whole..];
        match rest.split_last() {
            None => Ok(()),
            // A whole line, but for the byte that ends it: that is damaged.
            Some((_, line)) if self.word(line).is_some() => {
                let mended = [line, b"\n"].concat();
                let file = self.file()?;
                self.files.call(UNSYNCED, || write_all_at(&*file, b"\n", self.end + line.len() as u64))?;
                self.take_lines(&mended, self.end)
            }
            Some(_) => self.cut(self.end),
        }
    }
}

/// Returns the object that a word names, if it names one.
fn object_of(word: &str) -> Option<UnsyncedObject> {
    let (oid, damaged) = match word.split_once(OVER) {
        Some((oid, file)) => (oid, Some(file.parse().ok()?)),
        None => (word, None),
    };
    Some(UnsyncedObject { oid: oid.parse().ok()?, damaged })
}
