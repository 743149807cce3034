//! Several stores as one: what is new goes to the upper one, over others that stay as they are.

#![deny(clippy::missing_trait_methods)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bristlecone_core::{Location, ObjRef, Object, Oid, OidPrefix};

use self::copies::Copies;
use super::{
    AbsentCommits, Backend, BackendStats, Batch, Capabilities, Damage, Durability, Expected, MemoryBackend, Position,
    RefMove, RefTarget, Retention, Roots, SHALLOW, Snapshot, SweepLimits, Swept, all_absent, gather::Answers,
};
use crate::{Error, pass_backend};

mod copies;
mod promote;

/// What a ref of the upper store names that hides one of the lower: the ref was removed.
const REMOVED: &str = "refs/layered/removed";
/// What no ref names: a move that expects it does not happen.
const NEVER: &str = "refs/layered/never";

/// An upper store that takes what is new, over lower ones that are only read.
///
/// In memory over a store it shows what would be and leaves no trace ([`Layered::new`]). On a near disk over a store that is
/// far, or can only be read, it is a place to work in ([`Layered::over`]).
///
/// **Law.**
/// - *Writing goes to the upper store alone*: objects, refs, derived files. Nothing is written through to a lower one.
/// - *Reading asks the upper store first*, then the lower ones in their order. An object that any of them has is there, and
///   a batch may leave it out. So the upper one alone is no whole store, unless [`Layered::promote_all`] made it one: what was
///   committed names what only a lower one has. Until then copy into the layers, and not into the upper store alone.
/// - *Refs* are those of the upper store and of the first lower one; where both have one, the upper one's counts. A ref of
///   the lower one is moved by one of the upper one with its name, and removed by one that names `refs/layered/removed`. No
///   other ref can name that. Refs below [`SHALLOW`], which say where history ends and whether it grew downwards, are those of all
///   lower ones.
/// - *The lower stores are frozen* as long as the layers are used: their refs do not move and they are not swept. Together they have
///   everything below each object of theirs. What is appended to them is found.
/// - *Promotion*, where asked for, copies what is read from a lower store into the upper one, once that has all that it names
///   ([`Layered::promoting`]). So what was promoted has everything below it in the upper store, as in any other.
/// - *A sweep* sweeps the upper store alone. What a ref that can be seen leads to stays, also if only a lower one has that ref.
///   Of what a lower store has as well the copy may go.
#[derive(Clone, Debug)]
pub struct Layered {
    upper: Arc<dyn Backend>,
    lower: Arc<[Arc<dyn Backend>]>,
    // Copies of what was read, not yet appended; `None` where nothing is copied.
    copies: Option<Arc<Copies>>,
}

impl Layered {
    /// Returns stores as one, with what is new in memory: it is gone with the result. `first` has the refs.
    #[must_use]
    pub fn new(first: Arc<dyn Backend>, others: impl IntoIterator<Item = Arc<dyn Backend>>) -> Self {
        Self::over(Arc::new(MemoryBackend::new()), std::iter::once(first).chain(others))
    }

    /// Returns an upper store over lower ones, of which the first has refs that show.
    ///
    /// If any of them keeps Git's objects, all must: what can be read is to be of one kind.
    #[must_use]
    pub fn over(upper: Arc<dyn Backend>, lower: impl IntoIterator<Item = Arc<dyn Backend>>) -> Self {
        Self { upper, lower: lower.into_iter().collect(), copies: None }
    }

    /// Returns the same stores as one that copies what is read from a lower store into the upper one: what is read again is
    /// read there. `children` says what an object names, as in [`Roots::children`].
    ///
    /// An object is copied once the upper store has all that it names, which was read before it or is read later. So a value is
    /// copied at once, a directory with the last of its entries, and a commit with the last of its history. What waits is held in
    /// memory, some megabytes of it, and is dropped where it takes more.
    ///
    /// Copies are appended some at a time, not durably, and on a [`Backend::flush`]. An upper store that refuses one leaves
    /// reading, and flushing, as it is.
    #[must_use]
    pub fn promoting(
        self,
        children: impl Fn(&Oid, &Object<'_>, &mut dyn FnMut(Oid)) -> Result<(), Error> + Send + Sync + 'static,
    ) -> Self {
        Self { copies: Some(Arc::new(Copies::new(Box::new(children)))), ..self }
    }

    fn layers(&self) -> impl Iterator<Item = &Arc<dyn Backend>> {
        std::iter::once(&self.upper).chain(&*self.lower)
    }

    /// Returns what a ref holds in the lower store whose refs show; one that says where history ends, in the first that has it.
    fn lower_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        let shown = if name.starts_with(SHALLOW) { self.lower.len() } else { 1 };
        for store in self.lower.iter().take(shown) {
            if let Some(target) = store.get_ref(name)? {
                return Ok(Some(target));
            }
        }
        Ok(None)
    }

    fn shown_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        match self.upper.get_ref(name)? {
            Some(target) => Ok(Some(target).filter(|target| !is_removed(target))),
            None => self.lower_ref(name),
        }
    }

    /// Returns the move of the upper store's ref that happens just if this one may: the upper store alone decides between
    /// threads and processes.
    fn upper_move(&self, wanted: &RefMove) -> Result<RefMove, Error> {
        if let Some(RefTarget::Symbolic(to)) = &wanted.to
            && [REMOVED, NEVER].contains(&to.as_str())
        {
            return Err(Error::RefName { name: to.clone() });
        }
        let (upper, lower) = (self.upper.get_ref(&wanted.name)?, self.lower_ref(&wanted.name)?);
        let removed = RefTarget::Symbolic(REMOVED.to_owned());
        let to = wanted.to.clone().or_else(|| lower.is_some().then(|| removed.clone()));
        let expected = match (&wanted.expected, upper, lower) {
            (Expected::Absent, Some(held), _) if is_removed(&held) => Expected::Is(removed),
            (Expected::Absent, None, Some(_)) => Expected::Is(RefTarget::Symbolic(NEVER.to_owned())),
            (Expected::Is(wanted), None, Some(held)) if *wanted == held => Expected::Absent,
            (expected, ..) => expected.clone(),
        };
        Ok(RefMove { name: wanted.name.clone(), expected, to })
    }

    fn upper_moves(&self, moves: &[RefMove]) -> Result<Vec<RefMove>, Error> {
        moves.iter().map(|wanted| self.upper_move(wanted)).collect()
    }

    /// Returns the moves of the upper store's refs for batches that are appended together; `None` if one after another has to
    /// be looked at: what a later one expects may be what an earlier one leaves.
    fn all_upper_moves(&self, batches: &mut [(Batch, Vec<RefMove>)]) -> Option<Vec<Vec<RefMove>>> {
        let mut names = BTreeSet::new();
        if batches.iter().flat_map(|(_, moves)| moves).any(|wanted| !names.insert(&wanted.name)) {
            return None;
        }
        let prepare = |(batch, moves): &mut (Batch, Vec<RefMove>)| {
            self.leave_to_lower(batch, moves).ok()?;
            self.upper_moves(moves).ok()
        };
        batches.iter_mut().map(prepare).collect()
    }

    /// Notes which of the objects that a batch and its moves need lower stores have: the upper one need not have them. It
    /// looks only if there was a sweep since, and so do we.
    fn leave_to_lower(&self, batch: &mut Batch, moves: &[RefMove]) -> Result<(), Error> {
        let needed = batch.needed(moves, self.upper.sweeps());
        if needed.is_empty() {
            return Ok(());
        }
        let lower: Vec<Arc<dyn Snapshot>> = self.lower.iter().map(|store| store.snapshot(&[])).collect();
        for oid in needed {
            for store in &lower {
                if store.locate(&oid).is_some() || store.read(&ObjRef::from(oid))?.is_some() {
                    batch.note_elsewhere(oid);
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns an error of the upper store as one of the layers.
    fn error(&self, error: Error) -> Error {
        match error {
            Error::RefMoved { name, found } => match self.shown_ref(&name) {
                Ok(shown) => Error::RefMoved { name, found: shown },
                Err(_) => Error::RefMoved { name, found },
            },
            error => error,
        }
    }

    /// Copies an object of a lower store to the upper one, sooner or later, if that is asked for.
    fn copy(&self, oid: Oid, object: &Object<'_>) {
        if let Some(copies) = &self.copies {
            copies.add(&*self.upper, oid, object);
        }
    }
}

/// Whether what a ref of the upper store holds says that the ref is not there.
fn is_removed(target: &RefTarget) -> bool {
    matches!(target, RefTarget::Symbolic(to) if to == REMOVED)
}

impl Backend for Layered {
    /// What the upper store promises, as far as all of them have what it takes.
    fn capabilities(&self) -> Capabilities {
        let upper = self.upper.capabilities();
        let lower = || self.lower.iter().map(|store| store.capabilities());
        Capabilities {
            positions: upper.positions && lower().all(|store| store.positions),
            metadata_words: upper.metadata_words && lower().all(|store| store.metadata_words),
            retention: false,
            git: upper.git.or_else(|| lower().find_map(|store| store.git)),
            ..upper
        }
    }

    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        let layers = self.layers().map(|store| store.snapshot(roots)).collect();
        Arc::new(LayeredSnapshot { layers, stores: self.clone() })
    }

    fn read(&self, at: &ObjRef) -> Result<Option<Object<'static>>, Error> {
        for store in self.layers().filter(|store| store.capabilities().processes) {
            // Learns whether another process has swept.
            store.position()?;
        }
        Ok(self.snapshot(&[]).read(at)?.map(Object::into_static))
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.layers().find_map(|store| store.locate(oid))
    }

    fn sweep(&self, roots: &Roots<'_>, limits: &SweepLimits) -> Result<Swept, Error> {
        let shown = self.list_refs("")?.into_values().filter_map(|target| match target {
            RefTarget::Object(at) => Some(at.oid),
            RefTarget::Symbolic(_) => None,
        });
        let oids: Vec<Oid> = roots.oids.iter().copied().chain(shown).collect();
        self.upper.sweep(&Roots { watch: roots.watch, ..Roots::new(&oids, roots.children) }, limits)
    }

    fn append(&self, mut batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        self.leave_to_lower(&mut batch, moves)?;
        let moves = self.upper_moves(moves)?;
        self.upper.append(batch, &moves, durability).map_err(|error| self.error(error))
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, Error> {
        self.leave_to_lower(batch, &[])?;
        self.upper.append_keeping(batch)
    }

    fn append_many(&self, batches: Vec<(Batch, Vec<RefMove>)>, durability: Durability) -> Vec<Result<Location, Error>> {
        let mut batches = batches;
        match self.all_upper_moves(&mut batches) {
            Some(moves) => {
                let batches = batches.into_iter().zip(moves).map(|((batch, _), moves)| (batch, moves)).collect();
                let appended = self.upper.append_many(batches, durability);
                appended.into_iter().map(|one| one.map_err(|error| self.error(error))).collect()
            }
            None => batches.into_iter().map(|(batch, moves)| self.append(batch, &moves, durability)).collect(),
        }
    }

    fn get_ref(&self, name: &str) -> Result<Option<RefTarget>, Error> {
        self.shown_ref(name)
    }

    fn list_refs(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>, Error> {
        let mut refs = BTreeMap::new();
        // Of several that have one, the first counts.
        for (index, store) in self.lower.iter().enumerate().rev() {
            let shown = match index {
                0 => Some(prefix),
                _ if prefix.starts_with(SHALLOW) => Some(prefix),
                _ => SHALLOW.starts_with(prefix).then_some(SHALLOW),
            };
            if let Some(shown) = shown {
                refs.append(&mut store.list_refs(shown)?);
            }
        }
        refs.append(&mut self.upper.list_refs(prefix)?);
        refs.retain(|_, target| !is_removed(target));
        Ok(refs)
    }

    fn shallow(&self) -> Result<BTreeSet<Oid>, Error> {
        let mut all = BTreeSet::new();
        for store in self.layers() {
            all.append(&mut store.shallow()?);
        }
        // Refs that were removed are named in the upper store, too.
        for (name, target) in self.upper.list_refs(SHALLOW)? {
            if is_removed(&target)
                && let Ok(oid) = name[SHALLOW.len()..].parse()
            {
                all.remove(&oid);
            }
        }
        Ok(all)
    }

    fn absent(&self) -> Result<Arc<AbsentCommits>, Error> {
        let all: Vec<_> = self.layers().map(|store| store.absent()).collect::<Result<_, _>>()?;
        Ok(all_absent(all))
    }

    fn retention(&self) -> Result<Retention, Error> {
        Ok(Retention::default())
    }

    fn replace_retention(&self, _: Option<&Retention>, _: &Retention) -> Result<bool, Error> {
        Err(Error::Usage { reason: "stores in layers keep all commits that refs lead to" })
    }

    fn note_absent(&self, absent: &AbsentCommits) -> Result<(), Error> {
        self.upper.note_absent(absent)
    }

    fn promised_to(&self) -> Result<Option<String>, Error> {
        for store in self.layers() {
            if let Some(folder) = store.promised_to()? {
                return Ok(Some(folder));
            }
        }
        Ok(None)
    }

    fn flush(&self) -> Result<(), Error> {
        if let Some(copies) = &self.copies {
            copies.flush(&*self.upper);
        }
        self.upper.flush()
    }

    /// An object that several stores have is met in each.
    fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<(), Error> {
        self.layers().try_for_each(|store| store.each_object(each, damage))
    }

    fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.layers().try_for_each(|store| store.each_with_prefix(prefix, each))
    }

    fn clear_caches(&self) {
        self.layers().for_each(|store| store.clear_caches());
    }

    /// What is written is the upper store's; sizes are those of all.
    fn stats(&self) -> BackendStats {
        let add = |sum: BackendStats, store: BackendStats| BackendStats {
            store_bytes: sum.store_bytes + store.store_bytes,
            file_bytes: sum.file_bytes + store.file_bytes,
            memory_bytes: sum.memory_bytes + store.memory_bytes,
            mapped_bytes: sum.mapped_bytes + store.mapped_bytes,
            ..sum
        };
        self.lower.iter().map(|store| store.stats()).fold(self.upper.stats(), add)
    }

    fn read_derived(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match (self.upper.read_derived(name)?, self.lower.first()) {
            (None, Some(first)) => first.read_derived(name),
            (found, _) => Ok(found),
        }
    }

    fn position(&self) -> Result<Option<Position>, Error> {
        let mut sum = Some(Position(0));
        for store in self.layers() {
            sum = later(sum, store.position()?);
        }
        Ok(sum)
    }

    pass_backend! { upper: name, sweeps, sweep_due, write_derived }
}

/// Returns the position among the moves of several stores: no ref of any of them moves without its rising. `None` where one
/// of them has none.
fn later(sum: Option<Position>, next: Option<Position>) -> Option<Position> {
    Some(Position(sum?.0.saturating_add(next?.0)))
}

/// What is read from several stores, of which the upper one is first.
#[derive(Debug)]
struct LayeredSnapshot {
    layers: Vec<Arc<dyn Snapshot>>,
    stores: Layered,
}

impl Snapshot for LayeredSnapshot {
    /// A hint is of one store, and leads nowhere in the others: each looks for itself.
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>, Error> {
        for (index, store) in self.layers.iter().enumerate() {
            if let Some(object) = store.read(at)? {
                if index > 0 {
                    self.stores.copy(at.oid, &object);
                }
                return Ok(Some(object));
            }
        }
        Ok(None)
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        // What is to be copied is read.
        let layers = if self.stores.copies.is_some() { &self.layers[..1] } else { &self.layers[..] };
        layers.iter().find_map(|store| store.peek(oid, at))
    }

    fn read_many(&self, at: &[ObjRef], bytes_max: usize) -> Result<Vec<Option<Object<'_>>>, Error> {
        let mut answers = Answers::new(vec![None; at.len()], bytes_max);
        for (index, store) in self.layers.iter().enumerate() {
            answers.ask(&**store, at, |at, object| {
                if index > 0 {
                    self.stores.copy(at.oid, object);
                }
            })?;
        }
        Ok(answers.finish())
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.layers.iter().find_map(|store| store.locate(oid))
    }

    fn position(&self) -> Option<Position> {
        self.layers.iter().map(|store| store.position()).fold(Some(Position(0)), later)
    }

    fn sweeps(&self) -> Option<u64> {
        self.layers[0].sweeps()
    }

    fn absent(&self) -> Result<Option<Arc<AbsentCommits>>, Error> {
        let told: Vec<_> = self.layers.iter().map(|layer| layer.absent()).collect::<Result<_, _>>()?;
        if told.iter().all(Option::is_none) {
            return Ok(None);
        }
        let stores = told.into_iter().zip(self.stores.layers());
        let all: Vec<_> =
            stores.map(|(told, store)| told.map_or_else(|| store.absent(), Ok)).collect::<Result<_, _>>()?;
        Ok(Some(all_absent(all)))
    }

    fn keep(&self, root: &Oid) {
        self.layers.iter().for_each(|store| store.keep(root));
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        // The lower ones stay as they are: nothing is dropped there.
        Arc::get_mut(&mut self.layers[0]).is_some_and(|upper| upper.refresh(roots))
    }
}
