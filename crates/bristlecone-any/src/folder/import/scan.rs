//! What is in a folder: directories with their files, and what a tree does not hold.

use std::{
    collections::HashSet,
    ffi::OsString,
    fs, io,
    ops::Range,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path as FilePath, PathBuf},
};

use bristlecone::{EntryKind, Format, Oid, Path, VALUE_BYTES_MAX};
use bristlecone_git::worktree::Submodule;

use super::{
    FolderError,
    read::{EXECUTABLE, is_unreadable, too_large},
    rules::{Rules, Scope, Verdict},
};
use crate::{
    AnyFormat,
    error::{Error, Result},
};

/// How many files are named that a format cannot keep.
const NAMED_MAX: usize = 3;

/// What the system counts the room of files in.
const BLOCK_BYTES: u64 = 512;

/// What could not be read is called.
pub(super) const UNREADABLE: &str = "unreadable";

/// Something that was left out, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// Where, from the top of the import.
    pub path: Path,
    /// What it is: `empty folder`, `pipe`, `socket`, `device`, `store`, `unreadable`, `repository without a commit`,
    /// `repository of another kind`, `unfinished file`.
    pub what: &'static str,
}

/// A repository that was taken as the id of its commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenSubmodule {
    /// Where, from the top of the import.
    pub path: Path,
    /// The commit that is checked out there, or that the index has.
    pub commit: Oid,
    /// Whether the index has it.
    pub registered: bool,
}

/// A folder and all below it.
pub(super) struct Scan {
    pub(super) top: PathBuf,
    /// The top folder is the first; parents come before children.
    pub(super) dirs: Vec<Dir>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) submodules: Vec<TakenSubmodule>,
}

/// One folder.
pub(super) struct Dir {
    pub(super) path: Path,
    pub(super) files: Vec<Entry>,
    pub(super) dirs: Vec<usize>,
    // Files here and below.
    files_below: usize,
    // Whether something in it was left out that is reported elsewhere.
    reported: bool,
}

/// What is taken of a folder.
pub(super) struct Entry {
    pub(super) name: OsString,
    pub(super) what: What,
}

/// What it is taken as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A file, which is an executable if the system says so.
    File,
    /// A file of this kind.
    Kind(EntryKind),
    /// A link.
    Link,
    /// A repository: the id of its commit.
    Submodule(Oid),
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
        Self { path, files: Vec::new(), dirs: Vec::new(), files_below: 0, reported: false }
    }

    /// Returns the folder's name for the system.
    pub(super) fn place(&self, top: &FilePath) -> PathBuf {
        if self.path.is_root() { top.to_owned() } else { top.join(os(self.path.as_bytes())) }
    }
}

fn os(bytes: &[u8]) -> &std::ffi::OsStr {
    std::os::unix::ffi::OsStrExt::from_bytes(bytes)
}

/// What a scan goes by.
pub(super) struct Scanner<'a> {
    pub(super) rules: &'a mut Rules,
    /// Whether what cannot be read is left out.
    pub(super) skip_unreadable: bool,
    /// Hears how many entries were seen.
    pub(super) tell: &'a mut dyn FnMut(u64),
    seen: u64,
    // Which folder is the store.
    store: Option<(u64, u64)>,
}

impl<'a> Scanner<'a> {
    /// Leaves out the folder `store`.
    pub(super) fn new(
        store: Option<&FilePath>,
        rules: &'a mut Rules,
        skip_unreadable: bool,
        tell: &'a mut dyn FnMut(u64),
    ) -> Self {
        let store = store.and_then(|store| fs::metadata(store).ok()).map(|found| (found.dev(), found.ino()));
        Self { rules, skip_unreadable, tell, seen: 0, store }
    }

    /// Scans `top`.
    pub(super) fn scan(mut self, top: &FilePath) -> Result<Scan> {
        let dirs = vec![Dir::new(Path::root())];
        let mut scan = Scan { top: top.to_owned(), dirs, left_out: Vec::new(), submodules: Vec::new() };
        // What counts in each folder.
        let mut scopes = vec![self.rules.top()];
        let mut index = 0;
        while index < scan.dirs.len() {
            self.read_dir(&mut scan, index, &mut scopes)?;
            index += 1;
        }
        scan.count();
        Ok(scan)
    }

    fn read_dir(&mut self, scan: &mut Scan, index: usize, scopes: &mut Vec<Scope>) -> Result<()> {
        let place = scan.dirs[index].place(&scan.top);
        let failed = |error: io::Error| Error::io("read the folder", &place, error);
        let mut entries = match fs::read_dir(&place) {
            Err(error) if index > 0 && self.skips(&error) => {
                scan.leave_out(index, scan.dirs[index].path.clone(), UNREADABLE);
                return Ok(());
            }
            entries => entries.map_err(failed)?,
        };
        // Once its entries were read, what counted here is needed no more.
        let scope = std::mem::replace(&mut scopes[index], Scope::Patterns(None));
        let scope = match scan.dirs[index].path.is_root() {
            true => scope,
            false => self.rules.below(&scope, &place, scan.dirs[index].path.as_bytes())?,
        };
        while let Some(entry) = entries.next().transpose().map_err(failed)? {
            self.seen += 1;
            if self.seen.is_multiple_of(256) {
                (self.tell)(self.seen);
            }
            self.entry(scan, index, scopes, &scope, &entry)?;
        }
        scan.dirs[index].files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        Ok(())
    }

    fn entry(
        &mut self,
        scan: &mut Scan,
        index: usize,
        scopes: &mut Vec<Scope>,
        scope: &Scope,
        entry: &fs::DirEntry,
    ) -> Result<()> {
        let (name, place) = (entry.file_name(), entry.path());
        let failed = |error: io::Error| Error::io("read", &place, error);
        let path = scan.dirs[index].path.join(name.as_encoded_bytes());
        let path = path.map_err(|source| FolderError::Name { place: place.clone(), source })?;
        if self.rules.is_git() && name.eq_ignore_ascii_case(".git") {
            scan.leave_out(index, path, "store");
            return Ok(());
        }
        let kind = entry.file_type().map_err(failed)?;
        let below = match self.rules.verdict(scope, path.as_bytes(), kind.is_dir()) {
            Verdict::Taken => scope.clone(),
            Verdict::Partly(source) => Scope::Ignored(source),
            Verdict::Ignored(_) => {
                scan.dirs[index].reported = true;
                return Ok(());
            }
        };
        if kind.is_dir() {
            return self.dir(scan, index, (scopes, below), path, entry);
        }
        if self.rules.is_unfinished(name.as_encoded_bytes(), path.as_bytes()) {
            scan.leave_out(index, path, "unfinished file");
            return Ok(());
        }
        let what = match kind {
            kind if kind.is_symlink() => What::Link,
            kind if kind.is_file() => self.rules.kind_of_file(path.as_bytes()).map_or(What::File, What::Kind),
            kind => {
                let what = match kind {
                    kind if kind.is_fifo() => "pipe",
                    kind if kind.is_socket() => "socket",
                    _ => "device",
                };
                scan.left_out.push(LeftOut { path, what });
                return Ok(());
            }
        };
        scan.dirs[index].files.push(Entry { name, what });
        Ok(())
    }

    fn dir(
        &mut self,
        scan: &mut Scan,
        index: usize,
        (scopes, scope): (&mut Vec<Scope>, Scope),
        path: Path,
        entry: &fs::DirEntry,
    ) -> Result<()> {
        let place = entry.path();
        match entry.metadata() {
            Ok(found) if self.store == Some((found.dev(), found.ino())) => {
                scan.leave_out(index, path, "store");
                return Ok(());
            }
            Err(error) if !self.skips(&error) => return Err(Error::io("read the folder", place, error)),
            _ => {}
        }
        match self.rules.submodule(&place, path.as_bytes())? {
            Some((Submodule::At(commit), registered)) => {
                scan.submodules.push(TakenSubmodule { path, commit, registered });
                let name = entry.file_name();
                scan.dirs[index].files.push(Entry { name, what: What::Submodule(commit) });
            }
            Some((Submodule::Unborn, _)) => scan.leave_out(index, path, "repository without a commit"),
            Some((Submodule::Unfit(_), _)) => scan.leave_out(index, path, "repository of another kind"),
            None => {
                let child = scan.dirs.len();
                scan.dirs[index].dirs.push(child);
                scan.dirs.push(Dir::new(path));
                scopes.push(scope);
            }
        }
        Ok(())
    }

    fn skips(&self, error: &io::Error) -> bool {
        self.skip_unreadable && is_unreadable(error)
    }
}

impl Scan {
    /// Notes what is left out of a folder.
    fn leave_out(&mut self, index: usize, path: Path, what: &'static str) {
        self.dirs[index].reported = true;
        self.left_out.push(LeftOut { path, what });
    }

    /// Counts files from the leaves up, and notes empty folders.
    fn count(&mut self) {
        for index in (0..self.dirs.len()).rev() {
            let below: usize = self.dirs[index].dirs.iter().map(|&child| self.dirs[child].files_below).sum();
            self.dirs[index].files_below = self.dirs[index].files.len() + below;
        }
        // A folder in which something was left out is not empty, nor are those above it.
        for index in (0..self.dirs.len()).rev() {
            self.dirs[index].reported |= self.dirs[index].dirs.iter().any(|&child| self.dirs[child].reported);
        }
        for dir in self.dirs.iter().skip(1).filter(|dir| dir.files_below == 0 && !dir.reported) {
            self.left_out.push(LeftOut { path: dir.path.clone(), what: "empty folder" });
        }
        self.left_out.sort_by(|one, other| one.path.cmp(&other.path));
        self.submodules.sort_by(|one, other| one.path.cmp(&other.path));
    }

    /// Refuses executables and links if `format` cannot keep them.
    pub(super) fn check_kinds(&self, format: &AnyFormat) -> Result<()> {
        let holds = (format.holds(EntryKind::Executable), format.holds(EntryKind::Link));
        if holds == (true, true) {
            return Ok(());
        }
        let (mut executables, mut links, mut places) = (0, 0, Vec::new());
        for dir in &self.dirs {
            for file in &dir.files {
                let place = dir.place(&self.top).join(&file.name);
                let count = match file.what {
                    What::Link if !holds.1 => &mut links,
                    What::File if !holds.0 && is_executable(&place)? => &mut executables,
                    _ => continue,
                };
                *count += 1;
                if places.len() < NAMED_MAX {
                    places.push(place);
                }
            }
        }
        if places.is_empty() {
            return Ok(());
        }
        Err(FolderError::NotKept { executables, links, places, format: format.name() }.into())
    }

    /// Returns how many bytes the files have at least. Holes are not counted, nor files twice that have several names: it is
    /// stored once what is the same and near. Files that are larger than a value can be are refused.
    pub(super) fn bytes_min(&self) -> Result<u64> {
        let (mut bytes, mut seen) = (0, HashSet::new());
        for dir in &self.dirs {
            for file in dir.files.iter().filter(|file| matches!(file.what, What::File | What::Kind(_))) {
                let place = dir.place(&self.top).join(&file.name);
                // The thread that reads the file says better why it cannot be.
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
    let found = fs::symlink_metadata(place).map_err(|error| Error::io("read", place, error))?;
    Ok(found.mode() & EXECUTABLE != 0)
}
