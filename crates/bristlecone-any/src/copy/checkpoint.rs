//! Refs that lead to what was copied so far, so that a copy that is stopped goes on from there.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use bristlecone::{Batch, Durability, Expected, ObjRef, Oid, RefMove, RefTarget};

use crate::{error::Result, repo::AnyRepo};

/// Refs whose names start with this, and end with the id of a commit of the original, lead to the commit that stands for it
/// in a copy that is under way, or was stopped. They are no part of what a store holds: a copy from it leaves them out.
pub const CHECKPOINTS: &str = "refs/copy/";

/// After this time the copy is made durable, even if little was copied.
const EVERY: Duration = Duration::from_secs(10);

/// What a copy has brought since it was made durable last.
pub(super) struct Checkpoint<'c> {
    to: &'c AnyRepo,
    // Whether anything is kept beyond this process.
    lasts: bool,
    bytes_max: u64,
    bytes: u64,
    since: Instant,
    // Commits that were copied and have no copied child: the original, and what stands for it.
    tips: HashMap<Oid, Oid>,
    // Those that refs lead to, by the original.
    saved: BTreeSet<Oid>,
}

impl<'c> Checkpoint<'c> {
    pub(super) fn new(to: &'c AnyRepo, bytes_max: u64) -> Self {
        let lasts = to.backend().capabilities().persistent;
        let (tips, saved) = (HashMap::new(), BTreeSet::new());
        Self { to, lasts, bytes_max, bytes: 0, since: Instant::now(), tips, saved }
    }

    /// Notes that a commit stands for one of the original, whose parents were noted before.
    pub(super) fn add(&mut self, original: Oid, copy: Oid, parents: &[Oid]) {
        parents.iter().for_each(|parent| _ = self.tips.remove(parent));
        self.tips.insert(original, copy);
    }

    /// Notes bytes that were copied; returns whether it is time to save.
    pub(super) fn is_due(&mut self, bytes: u64) -> bool {
        self.bytes += bytes;
        self.lasts && (self.bytes >= self.bytes_max || self.since.elapsed() >= EVERY)
    }

    /// Makes what was copied durable.
    pub(super) fn flush(&mut self) -> Result<()> {
        (self.bytes, self.since) = (0, Instant::now());
        Ok(self.to.flush()?)
    }

    /// Makes what was copied durable, and lets refs lead to it.
    pub(super) fn save(&mut self) -> Result<()> {
        let wanted: BTreeSet<Oid> = self.tips.keys().copied().collect();
        let new = wanted.difference(&self.saved).map(|oid| RefMove {
            name: format!("{CHECKPOINTS}{oid}"),
            expected: Expected::Any,
            to: Some(RefTarget::Object(ObjRef::from(self.tips[oid]))),
        });
        let old = self.saved.difference(&wanted).map(|oid| removal(format!("{CHECKPOINTS}{oid}")));
        let moves: Vec<RefMove> = new.chain(old).collect();
        // First what they lead to: a backend may keep files apart.
        self.flush()?;
        self.move_refs(&moves)?;
        self.saved = wanted;
        Ok(())
    }

    /// Removes these refs and those that earlier copies left: refs of the store lead to what was copied.
    pub(super) fn end(self) -> Result<()> {
        let left = self.to.backend().list_refs(CHECKPOINTS)?;
        let moves: Vec<RefMove> = left.into_keys().map(removal).collect();
        self.move_refs(&moves)
    }

    fn move_refs(&self, moves: &[RefMove]) -> Result<()> {
        if moves.is_empty() {
            return Ok(());
        }
        let backend = self.to.backend();
        if backend.capabilities().several_refs {
            backend.append(Batch::new(), moves, Durability::Synced)?;
            return Ok(());
        }
        for one in moves {
            backend.append(Batch::new(), std::slice::from_ref(one), Durability::None)?;
        }
        Ok(backend.flush()?)
    }
}

/// Returns what earlier copies noted: originals, and what stands for them.
pub(super) fn noted(to: &AnyRepo) -> Result<Vec<(Oid, Oid)>> {
    let left = to.backend().list_refs(CHECKPOINTS)?;
    let pairs = left.into_iter().filter_map(|(name, target)| match target {
        RefTarget::Object(at) => Some((name.strip_prefix(CHECKPOINTS)?.parse().ok()?, at.oid)),
        RefTarget::Symbolic(_) => None,
    });
    Ok(pairs.collect())
}

fn removal(name: String) -> RefMove {
    RefMove { name, expected: Expected::Any, to: None }
}
