//! From a folder of files to a tree: scanned first, then read and hashed on all cores.
//!
//! The folder is cut into units: some hundred files below one folder. A worker takes a unit, reads its files
//! into a tree of its own and writes that tree, which hashes it; the thread that puts the units together only binds
//! the finished subtrees by id. Files of a folder that is wide by itself travel as bytes, since a directory is
//! one tree. No ref moves before all of it is there, so that an import that ends early leaves nothing behind
//! but bytes that nothing leads to.

use std::{
    ffi::OsString,
    ops::Range,
    path::Path as FilePath,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use bristlecone::{EntryKind, Oid, Path};

use super::{Done, FolderError, Status, Step};
use crate::{AnyRepo, Repo, Tree, error::Result};

mod budget;
mod read;
mod rules;
mod scan;
mod sparse;

pub use rules::Ignored;
pub use scan::{LeftOut, TakenSubmodule};

use budget::Budget;
use read::{Bytes, EXECUTABLE, EXECUTABLE_BY_OWNER, Reader};
use rules::Rules;
use scan::{Scan, Scanner, UNREADABLE, Unit, What};

/// Bytes of files that are in memory at a time, but for one file that is larger.
const BYTES_IN_FLIGHT: u64 = 256 << 20;
/// Files of a wide directory are handed over when they have this many bytes together.
const LOT_BYTES: u64 = 8 << 20;
/// The most files of a unit.
const UNIT_FILES_MAX: usize = 1024;
const UNIT_FILES_MIN: usize = 16;
/// How many units each worker should have at least, so that all end at about the same time.
const UNITS_PER_WORKER: usize = 8;

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Plain files.
    pub files: u64,
    /// Files with an executable bit.
    pub executables: u64,
    /// Symbolic links.
    pub links: u64,
    /// Folders with something in them, the top one left out.
    pub dirs: u64,
    /// Executables and links that were taken as plain files, and are counted as such.
    pub plain: u64,
    /// Bytes of all files and links.
    pub bytes: u64,
    /// What the tree cannot hold, or must not.
    pub left_out: Vec<LeftOut>,
    /// Files that could not be read, and are among those left out.
    pub unreadable: u64,
    /// What patterns left out, by the file that has them; `None` is the caller's own.
    pub ignored: Vec<(Option<String>, Ignored)>,
    /// Repositories that were taken as the ids of their commits.
    pub submodules: Vec<TakenSubmodule>,
    /// Files that a sparse checkout leaves out, and that are as the index has them.
    pub sparse: u64,
}

/// How a folder is read. By default all that ignore files do not leave out is taken, as it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ImportOptions {
    /// Whether executables are taken as plain values, and so are links, as their targets. Without it, what the format cannot
    /// keep is refused before anything is read.
    pub plain: bool,
    /// Whether what clearly does not fit into the store's file system is refused before anything is read [default: true].
    pub check_room: bool,
    /// Whether what cannot be read is left out, and told; without, it is an error.
    pub skip_unreadable: bool,
    /// Whether also that is taken what ignore files leave out, and files that a killed export left unfinished.
    pub all: bool,
    /// Patterns of paths that are left out, as in a `.gitignore` of the folder. They count before those of files.
    pub exclude: Vec<OsString>,
}

bristlecone::setters! {
    ImportOptions {
        plain: bool,
        check_room: bool,
        skip_unreadable: bool,
        all: bool,
        exclude: Vec<OsString>,
    }
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { plain: false, check_room: true, skip_unreadable: false, all: false, exclude: Vec::new() }
    }
}

/// A file that was read.
struct File {
    // Where, from the top of the import.
    path: Path,
    contents: Contents,
    // How much of the budget to give back once it is in the tree.
    held: u64,
}

/// What is bound in a tree.
enum Contents {
    Value(EntryKind, Bytes),
    Submodule(Oid),
    /// It is left out.
    Nothing,
}

impl Contents {
    fn add_to(&self, tree: &mut Tree, path: &Path) -> Result<()> {
        match self {
            Self::Value(kind, Bytes::Here(bytes)) => tree.set_kind(path, *kind, bytes.as_slice())?,
            Self::Value(kind, Bytes::Written(value)) => tree.set_stored(path, *kind, value)?,
            Self::Submodule(commit) => tree.set_foreign(path, *commit)?,
            Self::Nothing => {}
        }
        Ok(())
    }
}

/// What a worker hands over.
enum Finished {
    /// Whole directories.
    Trees(Vec<(Path, Tree)>),
    /// Files of a wide directory.
    Files(Vec<File>),
}

/// Counts of what was read, kept by each worker.
#[derive(Default)]
struct Counts {
    files: u64,
    executables: u64,
    links: u64,
    plain: u64,
    bytes: u64,
    unreadable: Vec<Path>,
}

/// Reads the folder `dir` into a tree of the store, leaving out the store's own folder; and in a Git repository all that
/// has the name of Git's. No ref moves; the caller commits the tree. `tell` hears how far it is, now and then.
///
/// # Errors
/// A [`FolderError`]; [`crate::Error::Io`] names the file; those of the backend.
pub fn import(
    repo: &AnyRepo,
    dir: &FilePath,
    options: &ImportOptions,
    tell: &mut dyn FnMut(Status),
) -> Result<(Tree, Imported)> {
    let mut rules = Rules::of(repo, dir, options)?;
    let mut scanned = |items| tell(Status { step: Step::Scan, items, items_total: None, bytes: 0 });
    let scan = Scanner::new(repo.dir(), &mut rules, options.skip_unreadable, &mut scanned).scan(dir)?;
    if !options.plain {
        scan.check_kinds(repo.format())?;
    }
    let bytes = scan.bytes_min()?;
    if let (Some(disk), true) = (repo.disk(), options.check_room) {
        disk.check_room(bytes)?;
    }
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let target = (scan.files() / (workers * UNITS_PER_WORKER)).clamp(UNIT_FILES_MIN, UNIT_FILES_MAX);
    let units = scan.units(target);
    let executable = if rules.is_git() { EXECUTABLE_BY_OWNER } else { EXECUTABLE };
    let work = Work {
        repo,
        scan: &scan,
        plain: options.plain,
        reader: Reader { repo, executable, skip_unreadable: options.skip_unreadable },
        units: Mutex::new(units.into_iter()),
        budget: Budget::new(BYTES_IN_FLIGHT),
        done: Done::default(),
        stop: AtomicBool::new(false),
    };
    let (mut tree, counts) = work.read_units(workers, tell)?;
    let sparse = sparse::add(repo, dir, &rules, &mut tree)?;
    Ok((tree, summary(scan, counts, rules, sparse)))
}

fn summary(scan: Scan, counts: Counts, rules: Rules, sparse: u64) -> Imported {
    let dirs = scan.dirs_kept();
    let mut left_out = scan.left_out;
    left_out.extend(counts.unreadable.into_iter().map(|path| LeftOut { path, what: UNREADABLE }));
    left_out.sort_by(|one, other| one.path.cmp(&other.path));
    Imported {
        files: counts.files,
        executables: counts.executables,
        links: counts.links,
        plain: counts.plain,
        dirs,
        bytes: counts.bytes,
        unreadable: left_out.iter().filter(|left_out| left_out.what == UNREADABLE).count() as u64,
        left_out,
        ignored: rules.into_ignored(),
        submodules: scan.submodules,
        sparse,
    }
}

impl Counts {
    fn add(&mut self, part: Self) {
        self.files += part.files;
        self.executables += part.executables;
        self.links += part.links;
        self.plain += part.plain;
        self.bytes += part.bytes;
        self.unreadable.extend(part.unreadable);
    }
}

struct Work<'a> {
    repo: &'a Repo,
    scan: &'a Scan,
    plain: bool,
    reader: Reader<'a>,
    units: Mutex<std::vec::IntoIter<Unit>>,
    budget: Budget,
    done: Done,
    stop: AtomicBool,
}

impl Work<'_> {
    /// Reads all units and puts them together.
    fn read_units(&self, workers: usize, tell: &mut dyn FnMut(Status)) -> Result<(Tree, Counts)> {
        thread::scope(|scope| {
            let (sender, finished) = mpsc::sync_channel(workers * 2);
            let threads: Vec<_> = (0..workers)
                .map(|_| {
                    let sender = sender.clone();
                    scope.spawn(move || self.run(&sender).inspect_err(|_| self.stop()))
                })
                .collect();
            drop(sender);
            let joined = self.join(&finished, tell).inspect_err(|_| self.stop());
            // Threads that wait to hand something over are let go.
            drop(finished);
            let mut counts = Counts::default();
            for thread in threads {
                counts.add(thread.join().expect("a worker does not panic")?);
            }
            Ok((joined?, counts))
        })
    }

    fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.budget.open();
    }

    fn next(&self) -> Option<Unit> {
        if self.stop.load(Relaxed) {
            return None;
        }
        self.units.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next()
    }

    /// Takes units until there are none.
    fn run(&self, sender: &mpsc::SyncSender<Finished>) -> Result<Counts> {
        let mut counts = Counts::default();
        while let Some(unit) = self.next() {
            let finished = match unit {
                Unit::Dirs { parent, dirs } => self.read_dirs(&parent, &dirs, &mut counts)?,
                Unit::Files { dir, names } => self.read_files(dir, names, &mut counts, sender)?,
            };
            if sender.send(finished).is_err() {
                break;
            }
        }
        Ok(counts)
    }

    /// Reads whole directories below one parent into one tree, writes it and takes the directories out.
    fn read_dirs(&self, parent: &Path, dirs: &[usize], counts: &mut Counts) -> Result<Finished> {
        let mut tree = self.repo.tree();
        let mut stack = dirs.to_vec();
        while let Some(index) = stack.pop() {
            let dir = &self.scan.dirs[index];
            stack.extend_from_slice(&dir.dirs);
            let above = Path::from_steps(dir.path.steps().skip(parent.len()))?;
            for name in 0..dir.files.len() {
                if self.stop.load(Relaxed) {
                    return Ok(Finished::Files(Vec::new()));
                }
                let file = self.read_file(index, name, counts, &mut |bytes| self.budget.take(bytes))?;
                let step = file.path.split_last().map_or(&[][..], |(_, step)| step);
                file.contents.add_to(&mut tree, &above.join(step)?)?;
                self.budget.give(file.held);
            }
        }
        tree.write()?;
        let mut trees = Vec::with_capacity(dirs.len());
        for &index in dirs {
            let path = &self.scan.dirs[index].path;
            let below = Path::from_steps(path.steps().skip(parent.len()))?;
            if let Some(subtree) = tree.get_tree(&below)? {
                trees.push((path.clone(), subtree));
            }
        }
        Ok(Finished::Trees(trees))
    }

    /// Reads files of one directory, handing them over now and then, and before waiting for the budget.
    fn read_files(
        &self,
        dir: usize,
        names: Range<usize>,
        counts: &mut Counts,
        sender: &mpsc::SyncSender<Finished>,
    ) -> Result<Finished> {
        let (mut files, mut bytes) = (Vec::new(), 0);
        for name in names {
            if self.stop.load(Relaxed) {
                break;
            }
            let hand_over = |files: &mut Vec<File>| _ = sender.send(Finished::Files(std::mem::take(files)));
            let file = self.read_file(dir, name, counts, &mut |bytes| {
                self.budget.try_take(bytes).unwrap_or_else(|| {
                    hand_over(&mut files);
                    self.budget.take(bytes)
                })
            })?;
            bytes += file.held;
            files.push(file);
            if bytes >= LOT_BYTES {
                hand_over(&mut files);
                bytes = 0;
            }
        }
        Ok(Finished::Files(files))
    }

    fn read_file(
        &self,
        dir: usize,
        name: usize,
        counts: &mut Counts,
        take: &mut dyn FnMut(u64) -> u64,
    ) -> Result<File> {
        let dir = &self.scan.dirs[dir];
        let entry = &dir.files[name];
        let path = dir.path.join(entry.name.as_encoded_bytes())?;
        let place = dir.place(&self.scan.top).join(&entry.name);
        if let What::Submodule(commit) = entry.what {
            return Ok(File { path, contents: Contents::Submodule(commit), held: 0 });
        }
        let read = self.reader.read(&place, entry.what == What::Link, take)?;
        let Some((found, bytes)) = read.value else {
            counts.unreadable.push(path.clone());
            return Ok(File { path, contents: Contents::Nothing, held: read.held });
        };
        let kind = match entry.what {
            What::Kind(kind) => kind,
            _ => found,
        };
        let kind = match kind {
            EntryKind::Executable | EntryKind::Link if self.plain => {
                counts.plain += 1;
                EntryKind::Value
            }
            kind => kind,
        };
        match kind {
            EntryKind::Link => counts.links += 1,
            EntryKind::Executable => counts.executables += 1,
            _ => counts.files += 1,
        }
        counts.bytes += bytes.len();
        self.done.add(bytes.len());
        Ok(File { path, contents: Contents::Value(kind, bytes), held: read.held })
    }

    /// Puts together what workers hand over.
    fn join(&self, finished: &mpsc::Receiver<Finished>, tell: &mut dyn FnMut(Status)) -> Result<Tree> {
        let mut tree = self.repo.tree();
        loop {
            tell(self.done.status(Step::Import, self.scan.files() as u64));
            match finished.recv_timeout(Duration::from_millis(100)) {
                Ok(Finished::Trees(trees)) => {
                    for (path, subtree) in trees {
                        tree.set_tree(&path, &subtree)?;
                    }
                }
                Ok(Finished::Files(files)) => {
                    for file in files {
                        file.contents.add_to(&mut tree, &file.path)?;
                        self.budget.give(file.held);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(tree),
            }
        }
    }
}
