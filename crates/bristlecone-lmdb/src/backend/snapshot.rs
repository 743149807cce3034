//! Reading: objects by id, and what snapshots keep.

use std::sync::{
    Arc, PoisonError, RwLockReadGuard,
    atomic::Ordering::{AcqRel, Acquire},
};

use bristlecone::{
    Damage, Error, Location, ObjRef, Object, Oid, Pin, Position, Result, Snapshot,
    storage::{OpenMode, retry},
};

use super::{
    opened::{DATA_NAME, OBJECTS, OpenStore},
    rows::{self, State},
};
use crate::env::{
    DATA,
    layout::Meta,
    pages::{EachEntry, PageFault, PageWalk},
};

/// A walk over all objects copies this many bytes of them at a time, and holds no transaction while its caller looks.
const WALK_BYTES: usize = 1 << 20;

/// What can be read, and what is not to be dropped.
#[derive(Debug)]
pub(super) struct LmdbSnapshot {
    store: Arc<OpenStore>,
    pin: Pin,
}

impl LmdbSnapshot {
    pub(super) fn take(store: &Arc<OpenStore>, roots: &[Oid]) -> Self {
        let dropping = (!roots.is_empty()).then(|| store.keep_all());
        // Pinned first, no later than now, and then moved on: what refs leave in between stays.
        let (position, appends) = (store.position.load(Acquire), store.appends.load(Acquire));
        let mut pin = store.pins.pin(Position(position), appends, roots);
        drop(dropping);
        // A failure shows again when something is read; until then more is kept than need be.
        if let Ok(state) = store.state() {
            store.note_snapshot(&state);
            pin.move_to(Position(state.position), state.appends, roots);
        }
        Self { store: store.clone(), pin }
    }
}

impl Snapshot for LmdbSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        self.store.read(&at.oid)
    }

    /// Returns "nowhere in particular" for an object that is there: it need not be written again.
    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.store.locate(oid)
    }

    fn position(&self) -> Option<Position> {
        Some(self.pin.position())
    }

    fn keep(&self, root: &Oid) {
        let _dropping = self.store.keep_all();
        self.pin.keep(root);
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        // What was pinned until now keeps all that this looks at.
        let Ok(state) = self.store.state() else { return false };
        let _dropping = (!roots.is_empty()).then(|| self.store.keep_all());
        self.store.note_snapshot(&state);
        self.pin.move_to(Position(state.position), state.appends, roots);
        true
    }
}

impl OpenStore {
    /// Keeps a sweep from dropping more as long as the guard is held.
    fn keep_all(&self) -> RwLockReadGuard<'_, ()> {
        self.dropping.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_snapshot(&self, state: &State) {
        self.snapshot_appends.fetch_max(state.appends, AcqRel);
    }

    pub(super) fn read(&self, oid: &Oid) -> Result<Option<Object<'static>>> {
        let txn = self.env.read()?;
        let Some(value) = txn.get(self.objects, oid.as_bytes()).map_err(|code| self.env.error(code))? else {
            return Ok(None);
        };
        match rows::decode_object(oid.as_bytes(), value) {
            Ok(row) => Ok(Some(row.to_object())),
            Err(reason) => Err(self.corrupt(&txn, value, Some(*oid), reason)),
        }
    }

    pub(super) fn locate(&self, oid: &Oid) -> Option<Location> {
        let txn = self.env.read().ok()?;
        txn.get(self.objects, oid.as_bytes()).ok().flatten().map(|_| Location::NONE)
    }

    /// Calls `each` for every object. Pages are looked through first, since LMDB ends the process at some that are damaged;
    /// if there are such, what the others have is found without LMDB.
    pub(super) fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        let faults = self.walk_pages(None)?;
        if !faults.is_empty() {
            return self.each_object_left(faults, each, damage);
        }
        let mut from = Vec::new();
        loop {
            let found = self.objects_from(&from, damage)?;
            for (oid, object) in &found.objects {
                each(*oid, object)?;
            }
            match found.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Reports damaged pages, and calls `each` for the objects that are on others.
    fn each_object_left(
        &self,
        faults: Vec<PageFault>,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        let file = self.env.describe(DATA);
        for PageFault { offset, reason } in faults {
            damage(Damage { file: file.clone(), offset, oid: None, reason: reason.to_owned() });
        }
        let mut result = Ok(());
        let mut entry = |key: &[u8], value: &[u8], offset: u64| match (Oid::new(key), rows::decode_object(key, value)) {
            _ if result.is_err() => {}
            (Ok(oid), Ok(row)) => result = each(oid, &row.to_object()),
            (oid, row) => damage(object_damage(file.clone(), offset, oid.ok(), row.err())),
        };
        self.walk_pages(Some(&mut entry))?;
        result
    }

    /// Goes through all pages of the last commit and returns the damaged ones; calls `each` for the entries of the objects.
    fn walk_pages(&self, mut each: Option<EachEntry<'_>>) -> Result<Vec<PageFault>> {
        let failed = |error| Error::io(self.env.describe(DATA), error);
        let file = retry(|| self.storage.open(DATA_NAME, OpenMode::Read)).map_err(failed)?;
        let mut guard = None;
        loop {
            // As long as it is open its pages are not used again.
            let txn = self.env.read()?;
            let metas = Meta::read_both(&*file).map_err(failed)?;
            if let Ok(metas) = metas
                && let Some(meta) = metas.into_iter().find(|meta| meta.txn == txn.id())
            {
                return PageWalk::new(&*file, meta).and_then(|walk| walk.run(OBJECTS, each.take())).map_err(failed);
            }
            if guard.is_some() || self.env.is_read_only() {
                let reason = "the first pages are not those of the last commit; put the file back from a backup";
                return Err(self.corrupt(&txn, &[], None, reason));
            }
            // Two commits came between.
            drop(txn);
            guard = Some(self.lock.take()?);
        }
    }

    /// Returns the objects from a key on, some of them.
    fn objects_from(&self, from: &[u8], damage: &mut dyn FnMut(Damage)) -> Result<FoundObjects> {
        let failed = |code| self.env.error(code);
        let txn = self.env.read()?;
        let mut scan = txn.scan(self.objects, from).map_err(failed)?;
        let (mut objects, mut bytes) = (Vec::new(), 0);
        while let Some((key, value)) = scan.next().map_err(failed)? {
            if bytes > WALK_BYTES {
                return Ok(FoundObjects { objects, next: Some(key.to_vec()) });
            }
            bytes += value.len();
            match (Oid::new(key), rows::decode_object(key, value)) {
                (Ok(oid), Ok(row)) => objects.push((oid, row.to_object())),
                (oid, row) => {
                    damage(object_damage(self.env.describe(DATA), txn.offset_of(value), oid.ok(), row.err()));
                }
            }
        }
        Ok(FoundObjects { objects, next: None })
    }

    /// Fails with an error of reading, where a walk needs an object that is there.
    pub(super) fn read_bytes(&self, oid: &Oid) -> Result<Option<u64>, Error> {
        let txn = self.env.read()?;
        let value = txn.get(self.objects, oid.as_bytes()).map_err(|code| self.env.error(code))?;
        Ok(value.map(rows::record_bytes))
    }
}

/// Returns the damage of an object that is on a sound page.
fn object_damage(file: String, offset: u64, oid: Option<Oid>, reason: Option<&str>) -> Damage {
    Damage { file, offset, oid, reason: reason.unwrap_or("an object's key is no id").to_owned() }
}

/// A part of all objects.
struct FoundObjects {
    objects: Vec<(Oid, Object<'static>)>,
    /// The key with which the next part begins.
    next: Option<Vec<u8>>,
}
