//! What is in a folder: directories with their files, and what a tree does not hold.

use std::{
    collections::HashSet,
    ffi::OsString,
    fs,
    ops::Range,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path as FilePath, PathBuf},
};

use bristlecone::{EntryKind, Format, Path, VALUE_BYTES_MAX};

use super::read::{EXECUTABLE, too_large};
use crate::{
    failure::{Failure, Result},
    formats::AnyFormat,
    text::{self, show},
};

/// How many files are named that a format cannot keep.
const NAMED_MAX: usize = 3;

/// What the system counts the room of files in.
const BLOCK_BYTES: u64 = 512;

/// Something that was left out, and why.
#[derive(Debug)]
pub(crate) struct LeftOut {
    /// Where, from the top of the import.
    pub(crate) path: Path,
    /// What it is: `empty folder`, `pipe`, `socket`, `device`, `store`.
    pub(crate) what: &'static str,
}

/// A folder and all below it.
pub(super) struct Scan {
    pub(super) top: PathBuf,
    /// The top folder is the first; parents come before children.
    pub(super) dirs: Vec<Dir>,
    pub(super) left_out: Vec<LeftOut>,
}

/// One folder.
pub(super) struct Dir {
    pub(super) path: Path,
    pub(super) files: Vec<Entry>,
    pub(super) dirs: Vec<usize>,
    // Files here and below.
    files_below: usize,
}

/// One file or link.
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) link: bool,
}

/// A piece of work for one thread.
pub(super) enum Unit {
    /// Whole directories below one parent.
    Dirs { parent: Path, dirs: Vec<usize> },
    /// Some files of one directory.
    Files { dir: usize, names: Range<usize> },
}

impl Dir {
    fn new(path: Path) -> Self {
        Self { path, files: Vec::new(), dirs: Vec::new(), files_below: 0 }
    }

    /// Returns the folder's name for the system.
    pub(super) fn place(&self, top: &FilePath) -> PathBuf {
        if self.path.is_root() { top.to_owned() } else { top.join(os(self.path.as_bytes())) }
    }
}

fn os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

impl Scan {
    /// Scans `top`, leaving out the folder `store`, and with `git` all that is named `.git`; `tell` hears how many entries
    /// were seen.
    pub(super) fn of(top: &FilePath, store: &FilePath, git: bool, tell: &mut dyn FnMut(u64)) -> Result<Self> {
        let store = fs::metadata(store).map(|found| (found.dev(), found.ino())).ok();
        let mut scan = Self { top: top.to_owned(), dirs: vec![Dir::new(Path::root())], left_out: Vec::new() };
        let mut index = 0;
        let mut seen = 0;
        while index < scan.dirs.len() {
            scan.read_dir(index, (store, git), &mut seen, tell)?;
            index += 1;
        }
        scan.count();
        Ok(scan)
    }

    fn read_dir(
        &mut self,
        index: usize,
        (store, git): (Option<(u64, u64)>, bool),
        seen: &mut u64,
        tell: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let place = self.dirs[index].place(&self.top);
        let failed = |error| Failure::file("read the folder", show(&place), &error);
        for entry in fs::read_dir(&place).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            *seen += 1;
            if seen.is_multiple_of(256) {
                tell(*seen);
            }
            let name = entry.file_name();
            let kind = entry.file_type().map_err(failed)?;
            if git && name.eq_ignore_ascii_case(".git") {
                let path = self.dirs[index].path.join(name.as_encoded_bytes())?;
                self.left_out.push(LeftOut { path, what: "store" });
                continue;
            }
            if kind.is_file() || kind.is_symlink() {
                self.dirs[index].files.push(Entry { name, link: kind.is_symlink() });
                continue;
            }
            let path = self.dirs[index].path.join(name.as_encoded_bytes()).map_err(|error| {
                Failure::from(error).about(format!("cannot import {}; move it elsewhere", show(place.join(&name))))
            })?;
            if kind.is_dir() {
                let found = entry.metadata().map_err(failed)?;
                if store == Some((found.dev(), found.ino())) {
                    self.left_out.push(LeftOut { path, what: "store" });
                    continue;
                }
                let child = self.dirs.len();
                self.dirs[index].dirs.push(child);
                self.dirs.push(Dir::new(path));
                continue;
            }
            let what = match kind {
                kind if kind.is_fifo() => "pipe",
                kind if kind.is_socket() => "socket",
                _ => "device",
            };
            self.left_out.push(LeftOut { path, what });
        }
        let dir = &mut self.dirs[index];
        dir.files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(())
    }

    /// Counts files from the leaves up, and notes empty folders.
    fn count(&mut self) {
        for index in (0..self.dirs.len()).rev() {
            let below: usize = self.dirs[index].dirs.iter().map(|&child| self.dirs[child].files_below).sum();
            self.dirs[index].files_below = self.dirs[index].files.len() + below;
        }
        for dir in self.dirs.iter().skip(1).filter(|dir| dir.files_below == 0) {
            self.left_out.push(LeftOut { path: dir.path.clone(), what: "empty folder" });
        }
        self.left_out.sort_by(|one, other| one.path.cmp(&other.path));
    }

    /// Refuses executables and links if `format` cannot keep them.
    pub(super) fn check_kinds(&self, format: &AnyFormat) -> Result<()> {
        let holds = (format.holds(EntryKind::Executable), format.holds(EntryKind::Link));
        if holds == (true, true) {
            return Ok(());
        }
        let (mut executables, mut links, mut named) = (0, 0, Vec::new());
        for dir in &self.dirs {
            for file in &dir.files {
                let place = dir.place(&self.top).join(&file.name);
                let count = match file.link {
                    true if !holds.1 => &mut links,
                    false if !holds.0 && is_executable(&place)? => &mut executables,
                    _ => continue,
                };
                *count += 1;
                if named.len() < NAMED_MAX {
                    named.push(show(&place));
                }
            }
        }
        let found = match (executables, links) {
            (0, 0) => return Ok(()),
            (_, 0) => text::count(executables, "executable", "executables"),
            (0, _) => text::count(links, "link", "links"),
            _ => text::count(executables, "executable", "executables") + " and " + &text::count(links, "link", "links"),
        };
        let more = if executables + links > named.len() as u64 { ", ..." } else { "" };
        let (named, name) = (named.join(", "), format.name());
        let way = "take them as plain values with --plain, links as their targets, or leave them out";
        Err(Failure::usage(format!("{found} ({named}{more}) cannot be kept by the format {name}; {way}")))
    }

    /// Returns how many bytes the files have at least. Holes are not counted, nor files twice that have several names: it is
    /// stored once what is the same and near. Files that are larger than a value can be are refused.
    pub(super) fn bytes_min(&self) -> Result<u64> {
        let (mut bytes, mut seen) = (0, HashSet::new());
        for dir in &self.dirs {
            for file in dir.files.iter().filter(|file| !file.link) {
                let place = dir.place(&self.top).join(&file.name);
                // Whoever reads the file says better why it cannot be.
                let Ok(found) = fs::symlink_metadata(&place) else { continue };
                if found.is_file() && found.len() > VALUE_BYTES_MAX {
                    return Err(too_large(&place, found.len()));
                }
                if found.nlink() < 2 || seen.insert((found.dev(), found.ino())) {
                    bytes += found.len().min(found.blocks().saturating_mul(BLOCK_BYTES));
                }
            }
        }
        Ok(bytes)
    }

    /// Returns the number of files and links.
    pub(super) fn files(&self) -> usize {
        self.dirs[0].files_below
    }

    /// Returns the number of folders below the top with something in them.
    pub(super) fn dirs_kept(&self) -> u64 {
        self.dirs.iter().skip(1).filter(|dir| dir.files_below > 0).count() as u64
    }

    /// Cuts the work into units of about `target` files.
    pub(super) fn units(&self, target: usize) -> Vec<Unit> {
        let mut units = Vec::new();
        let mut stack = vec![0];
        while let Some(index) = stack.pop() {
            let dir = &self.dirs[index];
            for from in (0..dir.files.len()).step_by(target) {
                units.push(Unit::Files { dir: index, names: from..dir.files.len().min(from + target) });
            }
            let (mut group, mut files) = (Vec::new(), 0);
            for &child in &dir.dirs {
                let below = self.dirs[child].files_below;
                if below > target {
                    stack.push(child);
                    continue;
                }
                if below == 0 {
                    continue;
                }
                group.push(child);
                files += below;
                if files >= target {
                    units.push(Unit::Dirs { parent: dir.path.clone(), dirs: std::mem::take(&mut group) });
                    files = 0;
                }
            }
            if !group.is_empty() {
                units.push(Unit::Dirs { parent: dir.path.clone(), dirs: group });
            }
        }
        units
    }
}

fn is_executable(place: &FilePath) -> Result<bool> {
    let found = fs::symlink_metadata(place).map_err(|error| Failure::file("read", show(place), &error))?;
    Ok(found.mode() & EXECUTABLE != 0)
}
