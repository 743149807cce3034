//! The two threads: one reads and compares, the other verifies, encodes and writes.
//!
//! What is missing is known to the second alone: whatever leads to a missing object is missing, too, and is not
//! written. So where an object is, all that it leads to is.

use std::{
    collections::{HashMap, HashSet},
    sync::atomic::Ordering::Relaxed,
    thread,
    time::Duration,
};

use bristlecone::{Kind, Location, ObjRef, Oid, core::git::Algorithm};

use super::{
    Status,
    channel::{Base, Inlet, Message, Named, Outlet, queue},
    error::{Lost, Origin, TransferError},
    ids::Ids,
    objects::Objects,
    reader::{Reader, Walker},
    table::Scratch,
    walk::{Halt, Meters, There},
};
use crate::odb::check_id;

/// Stack of the reading thread: it follows directories into each other.
const STACK_BYTES: usize = 32 << 20;
/// How often the caller is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How many missing objects are named.
const LOST_MAX: usize = 10_000;

/// Where objects go. Objects come children before parents, each once, with the numbers of [`Message`].
pub(super) trait Target: Send {
    fn blob(&mut self, number: u32, oid: &Oid, raw: Vec<u8>, base: u32, whole: bool) -> Result<(), TransferError>;
    fn tree(&mut self, tree: TreeIn<'_>) -> Result<Sound, TransferError>;
    fn there(&mut self, number: u32, at: Location) -> Result<(), TransferError>;
    fn commit(&mut self, commit: CommitIn<'_>) -> Result<Sound, TransferError>;
    fn commit_there(&mut self, number: u32, oid: &Oid) -> Result<(), TransferError>;
    fn tag(&mut self, number: u32, oid: &Oid, raw: &[u8], target: Named) -> Result<Sound, TransferError>;
    /// Makes an object of a value that is none by itself.
    fn whole(&mut self, number: u32) -> Result<(), TransferError>;
    /// Writes everything, durably.
    fn finish(&mut self) -> Result<(), TransferError>;
    /// Returns what stands for a commit, tree, value or tag.
    fn named(&mut self, named: Named, oid: &Oid) -> Result<ObjRef, TransferError>;
}

/// Whether an object makes sense; what is wrong with it if not.
pub(super) type Sound = Result<(), String>;

/// A tree on its way.
pub(super) struct TreeIn<'m> {
    pub(super) number: u32,
    pub(super) oid: &'m Oid,
    pub(super) raw: &'m [u8],
    pub(super) children: &'m [u32],
    pub(super) base: Option<&'m Base>,
    /// The commit that it was reached from.
    pub(super) from: Option<Oid>,
}

/// A commit on its way.
pub(super) struct CommitIn<'m> {
    pub(super) number: u32,
    pub(super) oid: &'m Oid,
    pub(super) raw: &'m [u8],
    pub(super) tree: u32,
    pub(super) parents: &'m [u32],
    pub(super) cut: bool,
}

/// What is to be transferred.
pub(super) struct Job<'a, O, F> {
    pub(super) objects: &'a O,
    pub(super) algorithm: Algorithm,
    /// Names and ids of refs.
    pub(super) tips: &'a [(String, Oid)],
    pub(super) cut: &'a HashSet<Oid>,
    pub(super) there: &'a dyn There,
    /// Commits that have numbers already.
    pub(super) commits: Ids,
    /// Makes what walks trees, on the thread that it is to work on.
    pub(super) walker: F,
    pub(super) scratch: &'a Scratch,
    pub(super) skip: bool,
    /// Whether ids are checked against bytes.
    pub(super) verify: bool,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) counts: Counts,
    /// What each tip leads to, in their order; the reason where it leads to something missing.
    pub(super) tips: Vec<Result<ObjRef, Lost>>,
    pub(super) lost: Vec<Lost>,
    pub(super) lost_more: u64,
    /// Commits whose parents were never fetched.
    pub(super) cut: Vec<(Oid, ObjRef)>,
}

/// How much was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Commits.
    pub commits: u64,
    /// Directories.
    pub trees: u64,
    /// Values.
    pub blobs: u64,
    /// Annotated tags.
    pub tags: u64,
    /// Bytes of all of these, as Git has them.
    pub bytes: u64,
}

impl Counts {
    /// Returns the number of objects.
    #[must_use]
    pub const fn objects(&self) -> u64 {
        self.commits + self.trees + self.blobs + self.tags
    }
}

/// Runs both threads to their end.
pub(super) fn run<'m, O, W, F, T>(
    job: Job<'m, O, F>,
    meters: &'m Meters,
    target: &mut T,
    progress: &mut dyn FnMut(Status),
) -> Result<Outcome, TransferError>
where
    O: Objects,
    W: Walker,
    F: FnOnce(Outlet, &'m Meters) -> W + Send,
    T: Target,
{
    let (outlet, inlet) = queue();
    let algorithm = job.algorithm;
    let (skip, verify) = (job.skip, job.verify);
    let mut writer = Writer {
        target,
        algorithm,
        objects: job.objects,
        skip,
        verify,
        outcome: Outcome::default(),
        lost: HashSet::new(),
        lost_commits: HashSet::new(),
        cut: Vec::new(),
        roots: HashMap::new(),
    };
    let (named, written) = thread::scope(|scope| {
        let reader = thread::Builder::new().name("read".to_owned()).stack_size(STACK_BYTES);
        let reader = reader.spawn_scoped(scope, move || {
            let (commits, scratch) = (job.commits, job.scratch);
            let reader = Reader {
                objects: job.objects,
                algorithm,
                there: job.there,
                tips: job.tips,
                cut: job.cut,
                skip,
                meters,
                walk: (job.walker)(outlet, meters),
                chains: HashMap::new(),
            };
            reader.run(commits, scratch)
        });
        let writing = scope.spawn(|| writer.run(inlet));
        while !writing.is_finished() {
            thread::park_timeout(if meters.objects.load(Relaxed) == 0 { TELL_EVERY / 20 } else { TELL_EVERY / 4 });
            progress(meters.status());
        }
        let written = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let named = match reader {
            Ok(reader) => reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(source) => {
                let file = "the reading thread".to_owned();
                Err(Halt::Failed(bristlecone::Error::io(file, source).into()))
            }
        };
        (named, written)
    });
    progress(meters.status());
    let named = match (named, written) {
        (Err(Halt::Failed(error)), _) | (_, Err(error)) => return Err(error),
        (Err(Halt::Closed), Ok(())) => unreachable!("the writing thread ends first only if it fails"),
        (Ok(named), Ok(())) => named,
    };
    writer.target.finish()?;
    for (oid, number) in std::mem::take(&mut writer.cut) {
        let at = writer.target.named(Named::Commit(number), &oid)?;
        writer.outcome.cut.push((oid, at));
    }
    for (named, oid) in named {
        let tip = writer.tip(named, &oid)?;
        writer.outcome.tips.push(tip);
    }
    Ok(writer.outcome)
}

impl Meters {
    fn status(&self) -> Status {
        Status {
            commits_found: self.commits_found.load(Relaxed),
            commits_total: self.commits_total.load(Relaxed),
            commits: self.commits.load(Relaxed),
            objects: self.objects.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

/// The thread that writes.
struct Writer<'t, 'o, T, O> {
    target: &'t mut T,
    algorithm: Algorithm,
    objects: &'o O,
    skip: bool,
    verify: bool,
    outcome: Outcome,
    // Numbers of what is missing, or leads to something missing; of that, one is remembered for each.
    lost: HashSet<u32>,
    lost_commits: HashSet<u32>,
    cut: Vec<(Oid, u32)>,
    // Why: numbers of `outcome.lost`, commits with the highest bit set.
    roots: HashMap<u64, usize>,
}

/// Sets apart the numbers of commits.
const OF_COMMITS: u64 = 1 << 32;

impl<T: Target, O: Objects> Writer<'_, '_, T, O> {
    fn run(&mut self, inlet: Inlet) -> Result<(), TransferError> {
        inlet.drain(|message| self.take(message))
    }

    fn take(&mut self, message: Message) -> Result<(), TransferError> {
        match message {
            Message::Blob { number, oid, raw, base, whole, from } => {
                if self.sound(number, Kind::Contents, &oid, &raw, from)? {
                    self.outcome.counts.blobs += 1;
                    self.outcome.counts.bytes += raw.len() as u64;
                    self.target.blob(number, &oid, raw, base, whole)?;
                }
                Ok(())
            }
            Message::Tree { number, oid, raw, children, base, from } => {
                if self.sound(number, Kind::Node, &oid, &raw, from)? && self.whole(u64::from(number), &children) {
                    // What was left out may have been in the newer version.
                    let base = base.as_ref().filter(|base| !self.lost.contains(&base.number));
                    let tree = TreeIn { number, oid: &oid, raw: &raw, children: &children, base, from };
                    match self.target.tree(tree)? {
                        Ok(()) => {
                            self.outcome.counts.trees += 1;
                            self.outcome.counts.bytes += raw.len() as u64;
                        }
                        Err(damage) => self.note_lost(u64::from(number), Kind::Node, &oid, Some(damage), from)?,
                    }
                }
                Ok(())
            }
            Message::There { number, at, children } => {
                if self.whole(u64::from(number), &children) {
                    self.target.there(number, at)
                } else {
                    Ok(())
                }
            }
            Message::Lost { number, lost } => self.add_lost(u64::from(number), lost),
            Message::Commit { number, oid, raw, tree, parents, cut } => {
                self.commit(number, &oid, &raw, tree, &parents, cut)
            }
            Message::CommitThere { number, oid } => self.target.commit_there(number, &oid),
            Message::CommitLost { number, lost } => self.add_lost(OF_COMMITS | u64::from(number), lost),
            Message::Tag { number, oid, raw, target, there } => {
                if self.sound(number, Kind::Tag, &oid, &raw, None)? {
                    if let Some(&root) = self.root_of(target) {
                        self.leads(u64::from(number), root);
                        return Ok(());
                    }
                    if let Some(at) = there {
                        return self.target.there(number, at);
                    }
                    match self.target.tag(number, &oid, &raw, target)? {
                        Ok(()) => {
                            self.outcome.counts.tags += 1;
                            self.outcome.counts.bytes += raw.len() as u64;
                        }
                        Err(damage) => self.note_lost(u64::from(number), Kind::Tag, &oid, Some(damage), None)?,
                    }
                }
                Ok(())
            }
            Message::Whole { number } if self.lost.contains(&number) => Ok(()),
            Message::Whole { number } => self.target.whole(number),
        }
    }

    fn commit(
        &mut self,
        number: u32,
        oid: &Oid,
        raw: &[u8],
        tree: u32,
        parents: &[u32],
        cut: bool,
    ) -> Result<(), TransferError> {
        let key = OF_COMMITS | u64::from(number);
        if self.verify
            && let Err(damage) = check_id(self.algorithm, oid, Kind::Commit, raw)
        {
            return self.note_lost(key, Kind::Commit, oid, Some(damage), None);
        }
        let tree_root = self.roots.get(&u64::from(tree)).copied();
        let root = tree_root.or_else(|| {
            let mut above = parents.iter().filter(|parent| self.lost_commits.contains(parent));
            above.find_map(|&parent| self.roots.get(&(OF_COMMITS | u64::from(parent))).copied())
        });
        if let Some(root) = root {
            self.leads(key, root);
            return Ok(());
        }
        match self.target.commit(CommitIn { number, oid, raw, tree, parents, cut })? {
            Ok(()) => {
                if cut {
                    self.cut.push((*oid, number));
                }
                self.outcome.counts.commits += 1;
                self.outcome.counts.bytes += raw.len() as u64;
                Ok(())
            }
            Err(damage) => self.note_lost(key, Kind::Commit, oid, Some(damage), None),
        }
    }

    /// Whether the bytes have this id.
    fn sound(
        &mut self,
        number: u32,
        kind: Kind,
        oid: &Oid,
        raw: &[u8],
        from: Option<Oid>,
    ) -> Result<bool, TransferError> {
        if !self.verify {
            return Ok(true);
        }
        match check_id(self.algorithm, oid, kind, raw) {
            Ok(()) => Ok(true),
            Err(damage) => {
                self.note_lost(u64::from(number), kind, oid, Some(damage), from)?;
                Ok(false)
            }
        }
    }

    /// Whether nothing of these is missing; then neither is what holds them.
    fn whole(&mut self, key: u64, children: &[u32]) -> bool {
        if self.lost.is_empty() {
            return true;
        }
        let Some(child) = children.iter().find(|child| self.lost.contains(child)) else { return true };
        let root = self.roots[&u64::from(*child)];
        self.leads(key, root);
        false
    }

    fn leads(&mut self, key: u64, root: usize) {
        self.roots.insert(key, root);
        if key & OF_COMMITS == 0 {
            self.lost.insert(key as u32)
        } else {
            self.lost_commits.insert(key as u32)
        };
    }

    fn root_of(&self, named: Named) -> Option<&usize> {
        self.roots.get(&match named {
            Named::Commit(number) => OF_COMMITS | u64::from(number),
            Named::Tree(number) | Named::Blob(number) | Named::Tag(number) => u64::from(number),
        })
    }

    /// Notes an object that turned out to be damaged on its way; where it was met is looked up.
    fn note_lost(
        &mut self,
        key: u64,
        kind: Kind,
        oid: &Oid,
        damage: Option<String>,
        from: Option<Oid>,
    ) -> Result<(), TransferError> {
        let from = match kind {
            Kind::Commit => Origin::History,
            Kind::Tag => Origin::Tag(*oid),
            _ => super::find::origin(self.objects, self.algorithm, from.as_ref(), oid),
        };
        self.add_lost(key, Lost { kind, oid: *oid, damage, from })
    }

    fn add_lost(&mut self, key: u64, lost: Lost) -> Result<(), TransferError> {
        if !self.skip {
            return Err(TransferError::Lost(Box::new(lost)));
        }
        if self.outcome.lost.len() < LOST_MAX {
            self.outcome.lost.push(lost);
        } else {
            self.outcome.lost_more += 1;
        }
        let root = self.outcome.lost.len() - 1;
        self.leads(key, root);
        Ok(())
    }

    fn tip(&mut self, named: Named, oid: &Oid) -> Result<Result<ObjRef, Lost>, TransferError> {
        if let Some(&root) = self.root_of(named) {
            return Ok(Err(self.outcome.lost[root].clone()));
        }
        self.target.named(named, oid).map(Ok)
    }
}
