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

use bristlecone::{
    Kind, Location, ObjRef, Oid,
    core::git::{self, Algorithm},
};

use super::{
    Status,
    channel::{Base, Inlet, Message, NO_NUMBER, Named, queue},
    error::{Lost, Origin, TransferError},
    graph::{Bounds, Graph, State},
    ids::Ids,
    objects::{Objects, id_line},
    table::Scratch,
    walk::{Halt, Meters, There, Walk},
};
use crate::odb::check_id;

/// Stack of the reading thread: it follows directories into each other.
const STACK_BYTES: usize = 32 << 20;
/// How often the caller is told how far it is.
const TELL_EVERY: Duration = Duration::from_millis(100);
/// How many tags may name each other in a row.
const TAGS_MAX: usize = 1024;
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
pub(super) struct Job<'a, O> {
    pub(super) objects: &'a O,
    pub(super) algorithm: Algorithm,
    /// Names and ids of refs.
    pub(super) tips: &'a [(String, Oid)],
    pub(super) cut: &'a HashSet<Oid>,
    pub(super) there: &'a dyn There,
    /// Commits and other objects that have numbers already.
    pub(super) commits: Ids,
    pub(super) others: Ids,
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
    pub(super) cut: Vec<Oid>,
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
pub(super) fn run<O: Objects, T: Target>(
    job: Job<'_, O>,
    target: &mut T,
    progress: &mut dyn FnMut(Status),
) -> Result<Outcome, TransferError> {
    let meters = Meters::default();
    let (outlet, inlet) = queue();
    let algorithm = job.algorithm;
    let (skip, verify, tips) = (job.skip, job.verify, job.tips);
    let mut writer = Writer {
        target,
        algorithm,
        objects: job.objects,
        skip,
        verify,
        outcome: Outcome::default(),
        lost: HashSet::new(),
        lost_commits: HashSet::new(),
        roots: HashMap::new(),
    };
    let (named, written) = thread::scope(|scope| {
        let meters = &meters;
        let reader = thread::Builder::new().name("read".to_owned()).stack_size(STACK_BYTES);
        let reader = reader.spawn_scoped(scope, move || {
            let there = job.there;
            let walk = Walk::new(job.objects, algorithm, there, job.others, outlet, meters, skip);
            Reader { walk, tips: job.tips, cut: job.cut, chains: HashMap::new() }.run(job.commits, job.scratch)
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
                Err(Halt::Failed(bristlecone::Error::Io { file, source }.into()))
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
    for ((_, oid), named) in tips.iter().zip(named) {
        let tip = writer.tip(named, oid)?;
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

/// The thread that reads.
struct Reader<'a, O> {
    walk: Walk<'a, O>,
    tips: &'a [(String, Oid)],
    cut: &'a HashSet<Oid>,
    // What tags lead to in the end, and the tags on the way, outermost first.
    chains: HashMap<Oid, Chain>,
}

/// What a tip leads to.
#[derive(Clone)]
struct Chain {
    tags: Vec<Oid>,
    end: End,
}

#[derive(Clone)]
enum End {
    Object(Kind, Oid),
    Lost(Kind, Oid, Option<String>, Origin),
}

impl<O: Objects> Reader<'_, O> {
    fn run(mut self, ids: Ids, scratch: &Scratch) -> Result<Vec<Named>, Halt> {
        let mut graph = Graph::new(ids, self.walk.algorithm.oid_bytes(), scratch);
        let chains = self.find(&mut graph)?;
        let order = graph.order();
        self.walk.meters.commits_total.store(order.len() as u64, Relaxed);
        let mut trees = vec![NO_NUMBER; order.len()];
        for (place, &number) in order.iter().enumerate() {
            if graph.state(number) != State::Lost {
                let (tree, oid) = (graph.tree(number)?, graph.ids.oid(number)?);
                trees[place] = self.walk.commit_tree(oid, &tree)?;
            }
            self.walk.meters.commits.fetch_add(1, Relaxed);
        }
        self.commits(&mut graph, &order, &trees)?;
        let mut named = Vec::with_capacity(chains.len());
        for chain in &chains {
            named.push(self.tip(&graph, chain)?);
        }
        self.walk.outlet.flush()?;
        Ok(named)
    }

    /// Finds all commits, and what tips lead to.
    fn find(&mut self, graph: &mut Graph) -> Result<Vec<Chain>, Halt> {
        let mut chains = Vec::with_capacity(self.tips.len());
        for (name, oid) in self.tips {
            chains.push(self.chain(name, oid)?);
        }
        let there = self.walk.there;
        let mut bring = Vec::new();
        {
            let meters = self.walk.meters;
            let mut known = |number: u32, oid: &Oid| -> Result<bool, TransferError> {
                let found = there.commit(number, oid)?;
                if found {
                    bring.push((number, *oid));
                }
                Ok(found)
            };
            let mut bounds = Bounds {
                there: &mut known,
                cut: self.cut,
                progress: &mut |count| meters.commits_found.store(count, Relaxed),
            };
            for ((name, _), chain) in self.tips.iter().zip(&chains) {
                if let End::Object(Kind::Commit, oid) = &chain.end {
                    let from = || chain.tags.last().map_or_else(|| Origin::Ref(name.clone()), |tag| Origin::Tag(*tag));
                    graph.tip(self.walk.objects, &mut bounds, oid, from)?;
                }
            }
            graph.follow(self.walk.objects, &mut bounds)?;
        }
        for (number, oid) in bring {
            self.walk.outlet.send(Message::CommitThere { number, oid })?;
        }
        for (number, lost) in graph.take_lost() {
            if !self.walk.skip {
                return Err(TransferError::Lost(Box::new(lost)).into());
            }
            self.walk.outlet.send(Message::CommitLost { number, lost })?;
        }
        Ok(chains)
    }

    /// Follows tags to what they name in the end.
    fn chain(&mut self, name: &str, oid: &Oid) -> Result<Chain, Halt> {
        if let Some(chain) = self.chains.get(oid) {
            return Ok(chain.clone());
        }
        let mut tags: Vec<Oid> = Vec::new();
        let (mut at, mut expected) = (*oid, None);
        let mut raw = Vec::new();
        let end = loop {
            let from = || tags.last().map_or_else(|| Origin::Ref(name.to_owned()), |tag| Origin::Tag(*tag));
            let kind = match read_any(self.walk.objects, &at, &mut raw)? {
                Ok(kind) => kind,
                Err(damage) => break End::Lost(expected.unwrap_or(Kind::Commit), at, damage, from()),
            };
            if let Some(expected) = expected.filter(|&expected| expected != kind) {
                let damage = format!("it is a {}, and the tag says {}", type_name(kind), type_name(expected));
                break End::Lost(expected, at, Some(damage), from());
            }
            if kind != Kind::Tag {
                break End::Object(kind, at);
            }
            let Some((target, kind)) = tag_target(self.walk.algorithm, &raw) else {
                break End::Lost(Kind::Tag, at, Some("its first lines are not those of a tag".to_owned()), from());
            };
            if tags.len() == TAGS_MAX {
                let reason = format!("more than {TAGS_MAX} tags name each other in a row");
                return Err(TransferError::refused(name, reason).into());
            }
            tags.push(at);
            (at, expected) = (target, Some(kind));
        };
        let chain = Chain { tags, end };
        self.chains.insert(*oid, chain.clone());
        Ok(chain)
    }

    /// Sends the commits, parents first.
    fn commits(&mut self, graph: &mut Graph, order: &[u32], trees: &[u32]) -> Result<(), Halt> {
        for (&number, &tree) in order.iter().zip(trees).rev() {
            let state = graph.state(number);
            if state == State::Lost {
                continue;
            }
            let (mut raw, oid) = (Vec::new(), graph.ids.oid(number)?);
            if let Err(damage) = graph.bytes(self.walk.objects, number, &mut raw)? {
                let lost = Lost { kind: Kind::Commit, oid, damage, from: Origin::History };
                return Err(TransferError::Lost(Box::new(lost)).into());
            }
            let parents = graph.parents(number).collect();
            let cut = state == State::Cut;
            self.walk.outlet.send(Message::Commit { number, oid, raw, tree, parents, cut })?;
        }
        Ok(())
    }

    /// Sends what a tip leads to and was not sent yet.
    fn tip(&mut self, graph: &Graph, chain: &Chain) -> Result<Named, Halt> {
        let mut named = match &chain.end {
            End::Object(Kind::Commit, oid) => Named::Commit(graph.ids.get(oid)?.expect("tips are in the graph")),
            End::Object(Kind::Node, oid) => Named::Tree(self.walk.lone_tree(oid)?),
            End::Object(_, oid) => Named::Blob(self.walk.lone_blob(oid)?),
            End::Lost(kind, oid, damage, from) => {
                let number = match self.walk.known(oid)? {
                    Some(number) => number,
                    None => self.walk.lost(*kind, oid, damage.clone(), from.clone())?,
                };
                Named::Tag(number)
            }
        };
        for oid in chain.tags.iter().rev() {
            let number = match self.walk.known(oid)? {
                Some(number) => number,
                None => self.tag(oid, named)?,
            };
            named = Named::Tag(number);
        }
        Ok(named)
    }

    fn tag(&mut self, oid: &Oid, target: Named) -> Result<u32, Halt> {
        let number = self.walk.ids.insert(oid)?;
        if let Some(at) = self.walk.there.find(Kind::Tag, oid)?.filter(|_| self.walk.there.closed()) {
            self.walk.outlet.send(Message::There { number, at, children: Vec::new() })?;
            return Ok(number);
        }
        let mut raw = Vec::new();
        if let Err(damage) = super::graph::read(self.walk.objects, oid, Kind::Tag, &mut raw)? {
            // It was read a moment ago.
            let lost = Lost { kind: Kind::Tag, oid: *oid, damage, from: Origin::Tag(*oid) };
            return Err(TransferError::Lost(Box::new(lost)).into());
        }
        self.walk.meters.objects.fetch_add(1, Relaxed);
        self.walk.outlet.send(Message::Tag { number, oid: *oid, raw, target })?;
        Ok(number)
    }
}

fn type_name(kind: Kind) -> &'static str {
    git::type_name(kind).unwrap_or("object")
}

/// Reads an object of any kind. What is wrong with it: `None` if it is missing.
fn read_any(
    objects: &impl Objects,
    oid: &Oid,
    out: &mut Vec<u8>,
) -> Result<Result<Kind, Option<String>>, TransferError> {
    use bristlecone::Error;
    match objects.read(oid, out) {
        Ok(Some(kind)) => Ok(Ok(kind)),
        Ok(None) => Ok(Err(None)),
        Err(Error::Corrupt { file, offset, reason, .. }) => Ok(Err(Some(format!("{file}, byte {offset}: {reason}")))),
        Err(Error::BadObject { source, .. }) => Ok(Err(Some(source.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// Returns what the first two lines of a tag name.
pub(super) fn tag_target(algorithm: Algorithm, raw: &[u8]) -> Option<(Oid, Kind)> {
    let mut rest = raw;
    let oid = id_line(&mut rest, b"object ", algorithm.oid_bytes())?;
    let line = rest.strip_prefix(b"type ")?.split(|&byte| byte == b'\n').next()?;
    Some((oid, git::kind_of(line)?))
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
            Message::Tag { number, oid, raw, target } => {
                if self.sound(number, Kind::Tag, &oid, &raw, None)? {
                    if let Some(&root) = self.root_of(target) {
                        self.leads(u64::from(number), root);
                        return Ok(());
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
        if cut {
            self.outcome.cut.push(*oid);
        }
        match self.target.commit(CommitIn { number, oid, raw, tree, parents, cut })? {
            Ok(()) => {
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
