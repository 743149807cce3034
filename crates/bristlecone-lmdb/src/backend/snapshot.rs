//! Reading: objects by id, and what snapshots keep.

use std::sync::{
    Arc, PoisonError, RwLockReadGuard,
    atomic::Ordering::{AcqRel, Acquire},
};

use bristlecone::{
    Damage, Error, Location, ObjRef, Object, Oid, OidPrefix, Pin, Pins, Position, Result, Snapshot,
    storage::{OpenMode, StorageFile, retry},
};

use super::{
    opened::{DATA_NAME, OBJECTS, OpenStore},
    rows::{self, State},
};
use crate::env::{
    DATA, ReadTxn,
    layout::Meta,
    pages::{EachEntry, PageFault, PageWalk},
};

/// A walk over all objects copies this many bytes of them at a time, and holds no transaction while its caller looks.
const WALK_BYTES: usize = 1 << 20;

/// What can be read, and what is not to be dropped.
#[derive(Debug)]
pub(super) struct LmdbSnapshot(Pin<OpenStore>);

impl AsRef<Pins> for OpenStore {
    fn as_ref(&self) -> &Pins {
        &self.pins
    }
}

impl LmdbSnapshot {
    pub(super) fn take(store: &Arc<OpenStore>, roots: &[Oid]) -> Self {
        let dropping = (!roots.is_empty()).then(|| store.keep_all());
        // Pinned first, no later than now, and then moved on: what refs leave in between stays.
        let (position, appends) = (store.position.load(Acquire), store.appends.load(Acquire));
        let mut pin = Pin::new(store.clone(), Position(position), appends, roots);
        drop(dropping);
        // A failure shows again when something is read; until then more is kept than need be.
        if let Ok(state) = store.state() {
            store.note_snapshot(&state);
            pin.move_to(Position(state.position), state.appends, roots);
        }
        Self(pin)
    }
}

impl Snapshot for LmdbSnapshot {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        self.0.store().read(&at.oid)
    }

    /// Returns "nowhere in particular" for an object that is there: it need not be written again.
    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.0.store().locate(oid)
    }

    fn position(&self) -> Option<Position> {
        Some(self.0.position())
    }

    fn keep(&self, root: &Oid) {
        let _dropping = self.0.store().keep_all();
        self.0.keep(root);
    }

    fn refresh(&mut self, roots: &[Oid]) -> bool {
        // What was pinned until now keeps all that this looks at.
        let store = self.0.store().clone();
        let Ok(state) = store.state() else { return false };
        let _dropping = (!roots.is_empty()).then(|| store.keep_all());
        store.note_snapshot(&state);
        self.0.move_to(Position(state.position), state.appends, roots);
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
            let found = self.objects_from(&from, None, damage)?;
            for (oid, object) in &found.objects {
                each(*oid, object)?;
            }
            match found.next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Calls `each` for every object whose id begins with these digits. Ids are the keys, so that these lie together, and LMDB is asked
    /// for their pages alone, as by a read. Where it refuses one of them, what others have is found without it.
    pub(super) fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut each = |oid, object: &Object<'_>| if prefix.matches(&oid) { each(oid, object) } else { Ok(()) };
        let mut from = Some(prefix.least().to_vec());
        while let Some(key) = from {
            let found = match self.objects_from(&key, Some(prefix), &mut |_| ()) {
                Err(Error::Corrupt { .. }) => return self.each_object(&mut each, &mut |_| ()),
                found => found?,
            };
            for (oid, object) in &found.objects {
                each(*oid, object)?;
            }
            from = found.next;
        }
        Ok(())
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
    fn walk_pages(&self, each: Option<EachEntry<'_>>) -> Result<Vec<PageFault>> {
        let opened = retry(|| self.storage.open(DATA_NAME, OpenMode::Read));
        let file = opened.map_err(|error| Error::io(self.env.describe(DATA), error))?;
        self.walk_file(&*file, each)
    }

    fn walk_file(&self, file: &dyn StorageFile, mut each: Option<EachEntry<'_>>) -> Result<Vec<PageFault>> {
        let failed = |error| Error::io(self.env.describe(DATA), error);
        let mut guard = None;
        loop {
            // As long as it is open its pages are not used again.
            let txn = self.env.read()?;
            let metas = Meta::read_both(file).map_err(failed)?;
            if let Ok(metas) = metas
                && let Some(meta) = metas.into_iter().find(|meta| meta.txn == txn.id())
            {
                if each.is_some() {
                    return PageWalk::new(file, meta).and_then(|walk| walk.run(OBJECTS, each.take())).map_err(failed);
                }
                if let Some(faults) = self.faults_of(file, meta, txn)? {
                    return Ok(faults);
                }
                continue;
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

    /// Goes through all pages of the commit that a transaction reads, and returns the damaged ones. Where the map is to be replaced, the
    /// transaction gives way to a new one; `None` if pages may be used again by then.
    fn faults_of<'s>(&'s self, file: &dyn StorageFile, meta: Meta, txn: ReadTxn<'s>) -> Result<Option<Vec<PageFault>>> {
        let failed = |error| Error::io(self.env.describe(DATA), error);
        let (mut txn, mut is_kept) = (Some(txn), Ok(true));
        let mut go_on = || {
            if matches!(is_kept, Ok(true)) && self.env.is_resizing() {
                txn = None;
                is_kept = self.env.read().map(|next| {
                    // Pages that a commit frees are not used again as long as it is the last one, or a transaction reads it.
                    let kept = next.id() <= meta.txn + 1;
                    txn = Some(next);
                    kept
                });
            }
            matches!(is_kept, Ok(true))
        };
        let walk = PageWalk::new(file, meta).map_err(failed)?;
        let faults = walk.asking(&mut go_on).run(OBJECTS, None).map_err(failed)?;
        drop(txn);
        Ok(is_kept?.then_some(faults))
    }

    /// Returns the objects from a key on, some of them. Where there is a prefix it ends at the first id that does not begin so.
    fn objects_from(
        &self,
        from: &[u8],
        prefix: Option<&OidPrefix>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<FoundObjects> {
        let failed = |code| self.env.error(code);
        let txn = self.env.read()?;
        let mut scan = txn.scan(self.objects, from).map_err(failed)?;
        let (mut objects, mut bytes) = (Vec::new(), 0);
        while let Some((key, value)) = scan.next().map_err(failed)? {
            if bytes > WALK_BYTES {
                return Ok(FoundObjects { objects, next: Some(key.to_vec()) });
            }
            let oid = Oid::new(key);
            if prefix.is_some_and(|prefix| oid.as_ref().is_ok_and(|oid| !prefix.matches(oid))) {
                break;
            }
            bytes += value.len();
            match (oid, rows::decode_object(key, value)) {
                (Ok(oid), Ok(row)) => objects.push((oid, row.to_object())),
                (oid, row) => {
                    damage(object_damage(self.env.describe(DATA), txn.offset_of(value), oid.ok(), row.err()));
                }
            }
        }
        Ok(FoundObjects { objects, next: None })
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

#[cfg(test)]
mod tests {
    use std::{ops::Range, thread, time::Duration};

    use bristlecone::{Batch, Durability, Kind, Sink, engine::FormatTag, storage::Storage};
    use bristlecone_testkit::sim::{Coming, Hooked};

    use super::{
        super::{LmdbOptions, append::CallerAppends},
        *,
    };

    fn append(store: &OpenStore, numbers: Range<u32>) {
        let mut batch = Batch::new();
        for number in numbers {
            let mut id = [0; 32];
            id[..4].copy_from_slice(&number.to_be_bytes());
            batch.put(Kind::Contents, Oid::from_array(id), &[7; 100], &[], &[]);
        }
        let appends = CallerAppends { appends: vec![(batch, Vec::new())], durability: Durability::None };
        store.append(appends).remove(0).unwrap();
    }

    #[test]
    fn the_first_digits_of_an_id_are_looked_up_in_the_order_of_keys() {
        let dir = tempfile::tempdir().unwrap();
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let store = OpenStore::create(dir.path(), format, &LmdbOptions::default()).unwrap();
        // More than is copied at a time.
        append(&store, 0..12_000);
        // Who looks at every object opens the file.
        std::fs::rename(dir.path().join(DATA_NAME), dir.path().join("aside")).unwrap();
        let walked = store.each_object(&mut |_, _| Ok(()), &mut |_| ());
        assert!(matches!(walked, Err(Error::Io { .. })), "{walked:?}");
        let cases = [("0", 12_000), ("00001", 0x1000), ("000010f", 0x10), ("000010ff", 1), ("0001", 0), ("f", 0)];
        for (digits, expected) in cases {
            let mut count = 0;
            let mut each = |oid: Oid, object: &Object<'_>| {
                assert!(oid.to_string().starts_with(digits) && object.body() == [7_u8; 100], "{digits}: {oid}");
                count += 1;
                Ok(())
            };
            store.each_with_prefix(&digits.parse().unwrap(), &mut each).unwrap();
            assert_eq!(count, expected, "{digits}");
        }
    }

    #[test]
    fn the_map_grows_while_all_pages_are_looked_through() {
        let dir = tempfile::tempdir().unwrap();
        let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
        let store = OpenStore::create(dir.path(), format, &LmdbOptions::default().map_bytes(1 << 20)).unwrap();
        append(&store, 0..4000);
        let slow = |coming: Coming<'_>| {
            if coming.method == "read_at" {
                thread::sleep(Duration::from_millis(10));
            }
        };
        let file = Hooked::new(store.storage.clone(), slow).open(DATA_NAME, OpenMode::Read).unwrap();
        thread::scope(|scope| {
            let walk = scope.spawn(|| store.walk_file(&*file, None));
            thread::sleep(Duration::from_millis(200));
            store.grow(1 << 20).unwrap();
            // The next commit leaves the pages that are looked through. With the one after it they may be used again.
            append(&store, 4000..4001);
            append(&store, 4001..4002);
            thread::sleep(Duration::from_millis(100));
            assert!(!walk.is_finished());
            store.grow(1 << 20).unwrap();
            let faults = walk.join().unwrap().unwrap();
            assert!(faults.is_empty(), "{faults:?}");
        });
    }
}
