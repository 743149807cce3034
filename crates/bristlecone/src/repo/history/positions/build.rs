//! How commits get positions.

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use bristlecone_core::{Format, ObjRef, Oid};
use smallvec::SmallVec;

use super::{
    super::{
        circle::circular,
        graph::{CommitGraph, Parents},
        run::stored_check,
    },
    LIST, Link, PART_COMMITS, PartHead, Positions, Reader, Slot, Stop, StoredGraph, list,
    part::{NONE, POSITIONS_MAX, Part},
    part_name,
};
use crate::{Backend, Error, Result, oid_map::OidMap, store::StoreView};

/// So many commits may wait for their parents; below a longer line the walk begins anew.
const STACK_MAX: usize = 1 << 14;
/// After so many parts a walk is interrupted, to keep what it has.
const PARTS_MAX: usize = 64;
/// Fewer commits than this are not worth a file, unless that is asked for.
pub(in super::super) const SAVED_MIN: u32 = 1024;
/// How many links are remembered, to find jumps.
const LINKS_MAX: usize = 1 << 12;

impl StoredGraph {
    /// Gives positions to these commits and all that led to them; `false` where that cannot be, or `stop` says to end. Where
    /// `saved_min` commits or more are in no file, they are written.
    ///
    /// # Errors
    /// As [`crate::Repo::read_commit`]. What cannot be written stays in memory.
    pub(crate) fn extend<F: Format>(
        &self,
        store: &Arc<StoreView<F>>,
        tips: &[ObjRef],
        saved_min: u32,
        stop: &AtomicBool,
    ) -> Result<bool> {
        let _building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        self.adopt(store)?;
        let mut roots = tips.to_vec();
        while !roots.is_empty() {
            // It keeps where history ends, which may be elsewhere by the next turn.
            let mut graph = CommitGraph::new(store.clone());
            let before = self.latest(store)?;
            match before.extended(&mut graph, &mut roots, stop) {
                // What was walked while history came to end elsewhere is neither of the one nor of the other.
                Ok(Some(_)) if self.history_ends(store)? != before.ends => roots = tips.to_vec(),
                Ok(Some(more)) => self.set(Arc::new(more.saved(&*store.backend, saved_min))),
                Ok(None) => {}
                Err(Stop::Lost(part)) => self.forget(&before, part),
                Err(Stop::Far) => return Ok(false),
                Err(Stop::Failed(error)) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Takes the stored graph where another process made a longer one.
    fn adopt<F: Format>(&self, store: &StoreView<F>) -> Result<()> {
        let known = self.latest(store)?;
        let stored = Positions::stored(&*store.backend, known.ends);
        if stored.len() > known.len() {
            self.set(Arc::new(stored));
        }
        Ok(())
    }
}

impl Positions {
    /// Returns the graph with more commits: the last of `roots`, which are taken off as they are done, and what led to them;
    /// `None` if they all were there.
    fn extended<F: Format>(
        &self,
        graph: &mut CommitGraph<F>,
        roots: &mut Vec<ObjRef>,
        stop: &AtomicBool,
    ) -> Result<Option<Self>, Stop> {
        let store = graph.store.clone();
        let mut builder = Builder::new(self, &*store.backend)?;
        while let Some(root) = roots.last().copied() {
            match builder.add(graph, &root, stop)? {
                Some(deeper) => roots.push(deeper),
                None => _ = roots.pop(),
            }
            if builder.fresh.len() > PARTS_MAX {
                break;
            }
        }
        if builder.new.is_empty() {
            return Ok(None);
        }
        let mut parts = self.parts[..builder.whole].to_vec();
        parts.extend(builder.fresh.into_iter().filter(|part| part.len() > 0).map(|part| Arc::new(Slot::made(part))));
        Ok(Some(Self::new(self.ends, parts)))
    }

    /// Writes what is in no file yet, if it is worth one. What cannot be written is tried again with the next commits.
    fn saved(mut self, backend: &dyn Backend, saved_min: u32) -> Self {
        if self.unsaved() >= saved_min {
            let _ = self.save(backend);
        }
        self
    }

    fn save(&mut self, backend: &dyn Backend) -> Result<(), Error> {
        let mut saved = self.parts.clone();
        for (index, slot) in saved.iter_mut().enumerate().filter(|(_, slot)| !slot.saved) {
            let Some(part) = slot.part.get().cloned() else { continue };
            let bytes = part.encode();
            backend.write_derived(&part_name(index), &bytes)?;
            let head = PartHead { check: stored_check(&bytes), ..slot.head };
            let stored = Slot::stored(head);
            // What is full is seldom needed soon.
            if part.len() < PART_COMMITS {
                let _ = stored.part.set(part);
            }
            *slot = Arc::new(stored);
        }
        let heads: Vec<PartHead> = saved.iter().map(|slot| slot.head).collect();
        backend.write_derived(LIST, &list::encode(self.ends, &heads))?;
        *self = Self::new(self.ends, saved);
        empty_parts(backend, heads.len());
        Ok(())
    }
}

/// Gives back the room of parts from a number on: a graph that begins anew after a collection is shorter than the one before. It is
/// saved by then, so what cannot be emptied stays, as it would without.
fn empty_parts(backend: &dyn Backend, from: usize) {
    for name in (from..).map(part_name) {
        let there = backend.read_derived(&name).is_ok_and(|bytes| bytes.is_some_and(|bytes| !bytes.is_empty()));
        if !there || backend.write_derived(&name, &[]).is_err() {
            return;
        }
    }
}

/// Adds commits to a graph.
struct Builder<'a> {
    reader: Reader<'a>,
    // How many of the parts that there were stay as they are.
    whole: usize,
    // Those above.
    fresh: Vec<Part>,
    // The positions of the commits that were added; `NONE` for those that wait for what led to them.
    new: OidMap<u32>,
    // Depths and jumps that were looked up.
    links: HashMap<u32, (u32, u32)>,
}

/// A commit whose parents get their positions first.
struct Waiting {
    oid: Oid,
    generation: Option<u64>,
    parents: Parents,
    positions: SmallVec<[u32; 2]>,
}

/// What is known of a commit.
enum Seen {
    At(u32),
    New(Waiting),
}

impl<'a> Builder<'a> {
    fn new(graph: &'a Positions, backend: &'a dyn Backend) -> Result<Self, Stop> {
        let partly = graph.parts.last().is_some_and(|slot| (slot.head.commits as usize) < PART_COMMITS);
        let whole = graph.parts.len() - usize::from(partly);
        let fresh = if partly { vec![(*graph.part(backend, whole)?).clone()] } else { Vec::new() };
        let reader = Reader::new(backend, graph);
        Ok(Self { reader, whole, fresh, new: OidMap::default(), links: HashMap::new() })
    }

    /// Adds a commit and what led to it; returns a commit that is to be added first where the way is long.
    fn add<F: Format>(
        &mut self,
        graph: &mut CommitGraph<F>,
        root: &ObjRef,
        stop: &AtomicBool,
    ) -> Result<Option<ObjRef>, Stop> {
        // It may have been put off, for a commit that is deeper.
        if self.new.get(&root.oid) == Some(&NONE) {
            self.new.remove(&root.oid);
        }
        let mut stack = Vec::new();
        match self.look(graph, root)? {
            Seen::At(_) => return Ok(None),
            Seen::New(waiting) => self.wait(&mut stack, waiting),
        }
        let full = stack.len() + STACK_MAX;
        while let Some(top) = stack.last_mut() {
            if let Some(parent) = top.parents.get(top.positions.len()).copied() {
                match self.look(graph, &parent)? {
                    Seen::At(position) => top.positions.push(position),
                    Seen::New(_) if stack.len() == full => {
                        // Of those that are put off the root alone goes on waiting.
                        stack[1..].iter().for_each(|waiting| _ = self.new.remove(&waiting.oid));
                        return Ok(Some(parent));
                    }
                    Seen::New(waiting) => self.wait(&mut stack, waiting),
                }
                if stop.load(Relaxed) {
                    return Err(Stop::Far);
                }
                continue;
            }
            let Some(done) = stack.pop() else { break };
            let position = self.push(&done)?;
            if let Some(child) = stack.last_mut() {
                child.positions.push(position);
            }
        }
        Ok(None)
    }

    /// Puts a commit on the stack of those that wait for their parents.
    fn wait(&mut self, stack: &mut Vec<Waiting>, waiting: Waiting) {
        self.new.insert(waiting.oid, NONE);
        stack.push(waiting);
    }

    fn look<F: Format>(&mut self, graph: &mut CommitGraph<F>, at: &ObjRef) -> Result<Seen, Stop> {
        match self.new.get(&at.oid) {
            Some(&NONE) => return Err(circular(at.oid).into()),
            Some(&position) => return Ok(Seen::At(position)),
            None => {}
        }
        let numbered = graph.numbered()?;
        if !numbered && let Some(position) = self.reader.find(&at.oid, None)? {
            return Ok(Seen::At(position));
        }
        let (generation, parents) = graph.links(at)?;
        // In a store whose commits carry their numbers some may have come without.
        if numbered && let Some(position) = self.reader.find(&at.oid, generation)? {
            return Ok(Seen::At(position));
        }
        Ok(Seen::New(Waiting { oid: at.oid, generation, parents, positions: SmallVec::new() }))
    }

    /// Gives a commit the next position.
    fn push(&mut self, commit: &Waiting) -> Result<u32, Stop> {
        let mut above = 0;
        for &parent in &commit.positions {
            above = above.max(self.link(parent)?.generation);
        }
        let generation = commit.generation.unwrap_or_else(|| u64::from(above) + 1);
        let generation = u32::try_from(generation).map_err(|_| Stop::Far)?;
        let (mut depth, mut jump) = (0, None);
        if let Some(&first) = commit.positions.first() {
            let (down, over) = self.depth_and_jump(first)?;
            let (over_depth, further) = self.depth_and_jump(over)?;
            let (further_depth, _) = self.depth_and_jump(further)?;
            depth = down.saturating_add(1);
            // Two jumps of the same length become one that is twice as long.
            let (last, before) = (down.wrapping_sub(over_depth), over_depth.wrapping_sub(further_depth));
            jump = Some(if last == before { further } else { first });
        }
        let id_bytes = commit.oid.as_bytes().len();
        if self.fresh.last().is_none_or(|part| part.len() == PART_COMMITS) {
            let base = (self.whole + self.fresh.len()) * PART_COMMITS;
            self.fresh.push(Part::new(base as u32, id_bytes));
        }
        let Some(part) = self.fresh.last_mut().filter(|part| part.id_bytes() == id_bytes) else {
            return Err(Stop::Far);
        };
        let position = part.base() + part.len() as u32;
        if position >= POSITIONS_MAX {
            return Err(Stop::Far);
        }
        part.push(&commit.oid, generation, &commit.positions, depth, jump.unwrap_or(position));
        self.new.insert(commit.oid, position);
        Ok(position)
    }

    fn link(&mut self, position: u32) -> Result<Link, Stop> {
        let index = position as usize / PART_COMMITS;
        let fresh = index.checked_sub(self.whole).and_then(|index| self.fresh.get(index));
        match fresh {
            Some(part) => part.link(position).copied().ok_or(Stop::Lost(index)),
            None => self.reader.link(position),
        }
    }

    /// Returns the depth of a commit and its jump. The same few are asked for again and again.
    fn depth_and_jump(&mut self, position: u32) -> Result<(u32, u32), Stop> {
        if let Some(&known) = self.links.get(&position) {
            return Ok(known);
        }
        let link = self.link(position)?;
        if self.links.len() == LINKS_MAX {
            self.links.clear();
        }
        self.links.insert(position, (link.depth, link.jump));
        Ok((link.depth, link.jump))
    }
}
