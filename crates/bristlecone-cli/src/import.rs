//! From a folder of files to a tree: scanned first, then read and hashed on all cores.
//!
//! The folder is cut into units: some hundred files below one folder. A worker takes a unit, reads its files
//! into a tree of its own and writes that tree, which hashes it; whoever puts the units together only binds
//! the finished subtrees by id. Files of a folder that is wide by itself travel as bytes, since a directory is
//! one tree. No ref moves before all of it is there, so that an import that ends early leaves nothing behind
//! but bytes that nothing leads to.

use std::{
    ops::Range,
    path::{Path as FilePath, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering::Relaxed},
        mpsc,
    },
    thread,
    time::Duration,
};

use bristlecone::{EntryKind, Path};

use crate::{
    failure::{Failure, Result},
    formats::{Repo, Tree},
    open::{Opened, Store},
    progress::{Done, Progress},
};

mod budget;
mod read;
mod scan;

pub(crate) use scan::LeftOut;

use budget::Budget;
use scan::{Scan, Unit};

/// Bytes of files that are in memory at a time, but for one file that is larger.
const BYTES_IN_FLIGHT: u64 = 256 << 20;
/// Files of a wide directory are handed over when they are so many bytes together.
const LOT_BYTES: u64 = 8 << 20;
/// The most files of a unit.
const UNIT_FILES_MAX: usize = 1024;
const UNIT_FILES_MIN: usize = 16;
/// How many units each worker should have at least, so that all end at about the same time.
const UNITS_PER_WORKER: usize = 8;

/// What was imported.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Plain files.
    pub(crate) files: u64,
    /// Files with an executable bit.
    pub(crate) executables: u64,
    /// Symbolic links.
    pub(crate) links: u64,
    /// Folders with something in them, the top one left out.
    pub(crate) dirs: u64,
    /// Executables and links that were taken as plain files, and are counted as such.
    pub(crate) plain: u64,
    /// Bytes of all files and links.
    pub(crate) bytes: u64,
    /// What the tree cannot hold, or must not.
    pub(crate) left_out: Vec<LeftOut>,
}

/// A file that was read.
struct File {
    // Where, from the top of the import.
    path: Path,
    kind: EntryKind,
    bytes: Vec<u8>,
    // How much of the budget to give back once it is in the tree.
    held: u64,
}

/// What a worker hands over.
enum Finished {
    /// Whole directories.
    Trees(Vec<(Path, Tree)>),
    /// Files of a wide directory.
    Files(Vec<File>),
}

/// Counts of what was read, kept by each worker.
#[derive(Clone, Copy, Default)]
struct Counts {
    files: u64,
    executables: u64,
    links: u64,
    plain: u64,
    bytes: u64,
}

/// Reads the folder `dir` into a tree of the store, leaving out the store's own folder; and in a Git repository all that
/// has the name of Git's.
///
/// `plain`: executables are taken as plain values and so are links, as their targets. Without it, what the format
/// cannot keep is refused before anything is read. `check_room`: so is what clearly does not fit into the store's file
/// system.
pub(crate) fn folder(opened: &Opened, dir: &FilePath, plain: bool, check_room: bool) -> Result<(Tree, Summary)> {
    let repo = &opened.repo;
    let mut progress = Progress::new("scanned", None);
    let done = Done::default();
    let git = matches!(opened.store, Store::Git { .. });
    let scan = Scan::of(dir, &opened.dir, git, &mut |count| {
        done.items.store(count, Relaxed);
        progress.tick(&done);
    })?;
    drop(progress);
    if !plain {
        scan.check_kinds(repo.format())?;
    }
    let bytes = scan.bytes_min()?;
    if let (Store::Disk { backend, .. }, true) = (&opened.store, check_room) {
        backend.check_room(bytes)?;
    }
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let target = (scan.files() / (workers * UNITS_PER_WORKER)).clamp(UNIT_FILES_MIN, UNIT_FILES_MAX);
    let units = scan.units(target);
    let (tree, counts) = read_units(repo, &scan, plain, units, workers)?;
    let summary = Summary {
        files: counts.files,
        executables: counts.executables,
        links: counts.links,
        plain: counts.plain,
        dirs: scan.dirs_kept(),
        bytes: counts.bytes,
        left_out: scan.left_out,
    };
    Ok((tree, summary))
}

/// Reads all units and puts them together.
fn read_units(repo: &Repo, scan: &Scan, plain: bool, units: Vec<Unit>, workers: usize) -> Result<(Tree, Counts)> {
    let mut progress = Progress::new("imported", Some(scan.files() as u64));
    let work = Work {
        repo,
        scan,
        plain,
        units: Mutex::new(units.into_iter()),
        budget: Budget::new(BYTES_IN_FLIGHT),
        done: Done::default(),
        stop: AtomicBool::new(false),
    };
    let work = &work;
    thread::scope(|scope| {
        let (sender, finished) = mpsc::sync_channel(workers * 2);
        let threads: Vec<_> = (0..workers)
            .map(|_| {
                let sender = sender.clone();
                scope.spawn(move || work.run(&sender).inspect_err(|_| work.stop()))
            })
            .collect();
        drop(sender);
        let joined = work.join(&finished, &mut progress).inspect_err(|_| work.stop());
        // Whoever waits to hand something over is let go.
        drop(finished);
        let mut counts = Counts::default();
        for thread in threads {
            let part = thread.join().expect("a worker does not panic")?;
            counts.files += part.files;
            counts.executables += part.executables;
            counts.links += part.links;
            counts.plain += part.plain;
            counts.bytes += part.bytes;
        }
        Ok((joined?, counts))
    })
}

struct Work<'a> {
    repo: &'a Repo,
    scan: &'a Scan,
    plain: bool,
    units: Mutex<std::vec::IntoIter<Unit>>,
    budget: Budget,
    done: Done,
    stop: AtomicBool,
}

impl Work<'_> {
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
                tree.add_kind(&above.join(step)?, file.kind, file.bytes.as_slice())?;
                self.budget.give(file.held);
            }
        }
        tree.write()?;
        let mut trees = Vec::with_capacity(dirs.len());
        for &index in dirs {
            let path = &self.scan.dirs[index].path;
            let below = Path::from_steps(path.steps().skip(parent.len()))?;
            if let Some(subtree) = tree.find_tree(&below)? {
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
        let (kind, bytes, held) = read::entry(&place, entry.link, take)?;
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
        counts.bytes += bytes.len() as u64;
        self.done.add(bytes.len() as u64);
        Ok(File { path, kind, bytes, held })
    }

    /// Puts together what workers hand over.
    fn join(&self, finished: &mpsc::Receiver<Finished>, progress: &mut Progress) -> Result<Tree> {
        let mut tree = self.repo.tree();
        loop {
            progress.tick(&self.done);
            match finished.recv_timeout(Duration::from_millis(100)) {
                Ok(Finished::Trees(trees)) => {
                    for (path, subtree) in trees {
                        tree.add_tree(&path, &subtree)?;
                    }
                }
                Ok(Finished::Files(files)) => {
                    for file in files {
                        tree.add_kind(&file.path, file.kind, file.bytes.as_slice())?;
                        self.budget.give(file.held);
                    }
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(tree),
            }
        }
    }
}

/// Returns the folder as the system knows it, which must be one.
pub(crate) fn checked_folder(dir: &FilePath) -> Result<PathBuf> {
    let shown = crate::text::show(dir);
    let found = std::fs::metadata(dir).map_err(|error| Failure::file("read", &shown, &error))?;
    if !found.is_dir() {
        let way = "name a folder, or set one value with `cone set PATH - < FILE`";
        return Err(Failure::usage(format!("{shown} is no folder; {way}")));
    }
    Ok(dir.to_owned())
}
