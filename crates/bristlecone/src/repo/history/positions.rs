//! The commit graph by positions: a number for each commit, larger than those of all its ancestors.
//!
//! Walks over positions touch a few bytes a commit, where reading commits takes hundreds, and follow a line of first parents
//! in logarithmic time, by jumps. The graph is derived: parts of 4,096 commits and a list of them, each of which may be lost at
//! any time. What is lost shortens the graph, and the next question that lacks it makes it again. `docs/formats/history.md`
//! sections 4 and 5 list the bytes.

use std::hash::Hasher;
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use bristlecone_core::{Format, Oid};
use twox_hash::XxHash3_64;

use self::{
    list::PartHead,
    part::{Link, NONE, PART_COMMITS, Part, prefix},
};
use crate::{AbsentCommits, Backend, DEEPENED, Error, Result, backend::Position, oid_map::OidSet, store::StoreView};

mod build;
mod list;
mod part;
mod reached;
mod sweep;

pub(super) use build::SAVED_MIN;
pub(super) use reached::Reached;
pub(super) use sweep::Sweep;

/// The derived file that lists the parts.
const LIST: &str = "graph";
/// So many parts stay in memory, 53 MB of ids of 32 bytes; others are read for each walk.
const KEPT_MAX: u32 = 256;

/// Why a question of the graph has no answer.
#[derive(Debug)]
pub(super) enum Stop {
    /// It failed for good.
    Failed(Error),
    /// This part is lost, and all above it.
    Lost(usize),
    /// Too much is not in the graph yet.
    Far,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// The graph of a store, as far as this process knows it.
#[derive(Debug, Default)]
pub(crate) struct StoredGraph {
    latest: Mutex<Option<Arc<Positions>>>,
    // Commits that retention has cut and that came back since, as of these rows and this move of refs.
    returned: Mutex<Option<Returned>>,
    // Held by who adds commits.
    building: Mutex<()>,
}

impl StoredGraph {
    /// Returns the graph, reading the list of its parts the first time. One that ended elsewhere than history ends now, in a
    /// shallow clone or by retention, is of no use.
    pub(super) fn latest<F: Format>(&self, store: &StoreView<F>) -> Result<Arc<Positions>> {
        let ends = self.history_ends(store)?;
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(graph) = latest.as_ref().filter(|graph| graph.ends == ends) {
            return Ok(graph.clone());
        }
        Ok(latest.insert(Arc::new(Positions::stored(&*store.backend, ends))).clone())
    }

    /// Returns a check of what ends history before commits without parents.
    fn history_ends<F: Format>(&self, store: &StoreView<F>) -> Result<u64> {
        let (shallow, absent) = (store.backend.shallow()?, store.absent()?);
        // Numbers in a graph from before are those that are believed no more.
        let deepened = store.backend.get_ref(DEEPENED)?.is_some();
        if shallow.is_empty() && absent.is_empty() && !deepened {
            return Ok(0);
        }
        let mut check = XxHash3_64::new();
        if deepened {
            check.write(DEEPENED.as_bytes());
        }
        shallow.iter().for_each(|oid| check.write(oid.padded()));
        check.write(b"/");
        let returned = self.returned(store, &absent)?;
        // With what history goes on behind it, which may be cut later.
        for (oid, row) in absent.iter().filter(|(oid, _)| !returned.contains(oid)) {
            check.write(oid.padded());
            check.write(row.next.as_ref().map_or(&[][..], |next| next.padded()));
            check.write(b"/");
        }
        Ok(check.finish() | 1)
    }

    /// Returns the commits of `absent` that are there again: rows stay when commits come back.
    fn returned<F: Format>(&self, store: &StoreView<F>, absent: &Arc<AbsentCommits>) -> Result<Arc<OidSet>> {
        let position = store.snapshot.position();
        let mut known = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_ref().filter(|known| Arc::ptr_eq(&known.absent, absent))
            && position.is_some()
            && known.position == position
        {
            return Ok(known.oids.clone());
        }
        let mut oids = OidSet::default();
        for oid in absent.keys() {
            if store.snapshot.read(&(*oid).into())?.is_some() {
                oids.insert(*oid);
            }
        }
        let found = Returned { absent: absent.clone(), position, oids: Arc::new(oids) };
        Ok(known.insert(found).oids.clone())
    }

    /// Forgets a part of a graph that turned out to be lost, and all above it.
    pub(super) fn forget(&self, graph: &Positions, part: usize) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = graph.parts.get(..part).unwrap_or(&graph.parts).to_vec();
        *latest = Some(Arc::new(Positions::new(graph.ends, kept)));
    }

    fn set(&self, graph: Arc<Positions>) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(graph);
    }
}

/// Commits that retention has cut and that are there again.
#[derive(Debug)]
struct Returned {
    absent: Arc<AbsentCommits>,
    position: Option<Position>,
    oids: Arc<OidSet>,
}

/// The graph at one moment.
#[derive(Debug)]
pub(super) struct Positions {
    ends: u64,
    // All full but the last.
    parts: Vec<Arc<Slot>>,
    // The highest generation number.
    highest: u32,
    // How many parts that could be read again are in memory.
    kept: AtomicU32,
    // For formats whose commits do not carry their generation numbers: first bytes of ids above positions, in order.
    by_prefix: OnceLock<Vec<u64>>,
}

/// Where a part is.
#[derive(Debug)]
struct Slot {
    head: PartHead,
    // Whether it is stored.
    saved: bool,
    part: OnceLock<Arc<Part>>,
}

impl Slot {
    const fn stored(head: PartHead) -> Self {
        Self { head, saved: true, part: OnceLock::new() }
    }

    fn made(part: Part) -> Self {
        let (lowest, highest) = part.generations();
        let head = PartHead { check: 0, commits: part.len() as u32, lowest, highest };
        Self { head, saved: false, part: OnceLock::from(Arc::new(part)) }
    }
}

impl Positions {
    fn new(ends: u64, parts: Vec<Arc<Slot>>) -> Self {
        let kept = parts.iter().filter(|slot| slot.part.get().is_some()).count() as u32;
        let highest = parts.iter().map(|slot| slot.head.highest).max().unwrap_or(0);
        Self { ends, parts, highest, kept: AtomicU32::new(kept), by_prefix: OnceLock::new() }
    }

    /// Returns what is stored; nothing where that cannot be read.
    fn stored(backend: &dyn Backend, ends: u64) -> Self {
        let listed = backend.read_derived(LIST).ok().flatten().and_then(|bytes| list::decode(&bytes));
        let heads = listed.filter(|(found, _)| *found == ends).map_or_else(Vec::new, |(_, heads)| heads);
        Self::new(ends, heads.into_iter().map(|head| Arc::new(Slot::stored(head))).collect())
    }

    /// Returns how many commits have positions.
    pub(super) fn len(&self) -> u32 {
        let full = self.parts.len().saturating_sub(1) * PART_COMMITS;
        full as u32 + self.parts.last().map_or(0, |slot| slot.head.commits)
    }

    /// Returns the highest generation number.
    pub(super) const fn highest(&self) -> u64 {
        self.highest as u64
    }

    /// Returns how many commits are in no file yet.
    fn unsaved(&self) -> u32 {
        self.parts.iter().filter(|slot| !slot.saved).map(|slot| slot.head.commits).sum()
    }

    fn part(&self, backend: &dyn Backend, index: usize) -> Result<Arc<Part>, Stop> {
        let slot = self.parts.get(index).ok_or(Stop::Lost(index))?;
        if let Some(part) = slot.part.get() {
            return Ok(part.clone());
        }
        let bytes = backend.read_derived(&part_name(index)).ok().flatten();
        let part = bytes.and_then(|bytes| Part::decode(&bytes, (index * PART_COMMITS) as u32, slot.head.check));
        let part = part.filter(|part| part.len() == slot.head.commits as usize).map(Arc::new);
        let part = part.ok_or(Stop::Lost(index))?;
        if self.kept.fetch_add(1, Relaxed) < KEPT_MAX {
            let _ = slot.part.set(part.clone());
        }
        Ok(part)
    }
}

fn part_name(index: usize) -> String {
    format!("{LIST}-{index}")
}

/// Reads a graph, with the part that was used last at hand.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    backend: &'a dyn Backend,
    pub(super) graph: &'a Positions,
    last: Option<Arc<Part>>,
}

impl<'a> Reader<'a> {
    pub(super) const fn new(backend: &'a dyn Backend, graph: &'a Positions) -> Self {
        Self { backend, graph, last: None }
    }

    /// Returns the part in which a position is.
    #[inline]
    fn part_of(&mut self, position: u32) -> Result<&Part, Stop> {
        self.part(position as usize / PART_COMMITS)
    }

    fn part(&mut self, index: usize) -> Result<&Part, Stop> {
        if self.last.as_ref().is_none_or(|last| last.base() as usize / PART_COMMITS != index) {
            self.last = Some(self.graph.part(self.backend, index)?);
        }
        self.last.as_deref().ok_or(Stop::Lost(index))
    }

    fn link(&mut self, position: u32) -> Result<Link, Stop> {
        let lost = Stop::Lost(position as usize / PART_COMMITS);
        self.part_of(position)?.link(position).copied().ok_or(lost)
    }

    /// Returns the id of the commit at a position.
    pub(super) fn oid(&mut self, position: u32) -> Result<Oid, Stop> {
        let lost = Stop::Lost(position as usize / PART_COMMITS);
        self.part_of(position)?.oid(position).ok_or(lost)
    }

    /// Returns the generation number of the commit at a position.
    pub(super) fn generation(&mut self, position: u32) -> Result<u64, Stop> {
        Ok(self.link(position)?.generation.into())
    }

    /// Returns the position of a commit: by its generation number where commits carry it.
    pub(super) fn find(&mut self, oid: &Oid, generation: Option<u64>) -> Result<Option<u32>, Stop> {
        let Some(generation) = generation else { return self.find_by_prefix(oid) };
        let Ok(generation) = u32::try_from(generation) else { return Ok(None) };
        if generation > self.graph.highest {
            return Ok(None);
        }
        for (index, slot) in self.graph.parts.iter().enumerate().rev() {
            if (slot.head.lowest..=slot.head.highest).contains(&generation)
                && let Some(position) = self.part(index)?.find(oid, generation)
            {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    fn find_by_prefix(&mut self, oid: &Oid) -> Result<Option<u32>, Stop> {
        let sorted = match self.graph.by_prefix.get() {
            Some(sorted) => sorted,
            None => {
                let mut words = Vec::with_capacity(self.graph.len() as usize);
                for index in 0..self.graph.parts.len() {
                    self.part(index)?.each_prefix(|position, prefix| {
                        words.push(u64::from(prefix) << 32 | u64::from(position));
                    });
                }
                words.sort_unstable();
                self.graph.by_prefix.get_or_init(|| words)
            }
        };
        let wanted = u64::from(prefix(oid.as_bytes())) << 32;
        let from = sorted.partition_point(|&word| word < wanted);
        for position in sorted[from..].iter().take_while(|&&word| word >> 32 == wanted >> 32).map(|&word| word as u32) {
            if self.oid(position)? == *oid {
                return Ok(Some(position));
            }
        }
        Ok(None)
    }

    /// Returns the parents of the commit at a position, with their positions.
    pub(super) fn parents(&mut self, position: u32) -> Result<Vec<(Oid, u32)>, Stop> {
        let link = self.link(position)?;
        let mut positions = Vec::new();
        self.part_of(position)?.each_parent(&link, |parent| positions.push(parent));
        positions.into_iter().map(|parent| Ok((self.oid(parent)?, parent))).collect()
    }

    /// Whether the first parents of the commit at `from` lead to the one at `to`, or they are the same.
    pub(super) fn on_first_parents(&mut self, to: u32, from: u32) -> Result<bool, Stop> {
        let depth = self.link(to)?.depth;
        let mut at = from;
        while at > to {
            let link = self.link(at)?;
            if link.depth <= depth || link.first == NONE {
                return Ok(false);
            }
            // On one line positions fall as depths do, so a jump that is not too far ends no lower than the target.
            at = if link.jump >= to { link.jump } else { link.first };
        }
        Ok(at == to)
    }
}
