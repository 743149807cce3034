//! Making the upper store whole, so that the lower ones can leave.

use std::sync::Arc;

use bristlecone_core::{ObjRef, Object, Oid, Sink as _};

use super::{
    Layered,
    copies::{COPIED_BYTES, put_copy},
    is_removed,
};
use crate::{
    Error,
    backend::{
        AbsentCommits, Backend, Batch, DEEPENED, Durability, Expected, RefMove, RefTarget, Roots, SHALLOW, Snapshot,
    },
    oid_map::OidSet,
    swept::SWEPT_RETRIES_MAX,
};

/// Batches of copies have about as many bytes.
const BATCH_BYTES: usize = 16 * COPIED_BYTES;

impl Layered {
    /// Copies into the upper store whatever refs and `roots` lead to and it does not have, and the refs of the lower
    /// store that show, with the notes of what is absent on purpose; makes it durable, and returns how many objects
    /// that were. From then on the upper store alone is a whole store, and the lower ones may leave.
    ///
    /// Refs that were removed are gone from the upper store with this: here, over the lower one, they show again. A call that
    /// fails, or whose process ends, leaves layers that work, and may be repeated.
    ///
    /// It reads everything that is reachable, and takes 33 bytes of memory for each object.
    ///
    /// # Errors
    /// Those of reading and appending; what [`Roots::children`] fails with. [`Error::RefMoved`] if a ref moves meanwhile.
    pub fn promote_all(&self, roots: &Roots<'_>) -> Result<u64, Error> {
        let mut copied = 0;
        // What a sweep of the upper store drops meanwhile is copied again.
        for _ in 1..SWEPT_RETRIES_MAX {
            match self.promote_once(roots, &mut copied) {
                Err(Error::Gone { .. }) => {}
                done => return done.map(|()| copied),
            }
        }
        self.promote_once(roots, &mut copied)?;
        Ok(copied)
    }

    fn promote_once(&self, roots: &Roots<'_>, copied: &mut u64) -> Result<(), Error> {
        // What is read here is copied here, and once.
        let reading = Self { copies: None, ..self.clone() };
        let snapshot = reading.snapshot(roots.oids);
        // Notes of where history ends go with the commits that are brought, as far as the upper store has none.
        let (mut refs, noted) = (self.list_refs("")?, self.upper.list_refs(SHALLOW)?);
        refs.retain(|name, _| !name.starts_with(SHALLOW) || noted.contains_key(name));
        let from = refs.values().filter_map(|target| match target {
            RefTarget::Object(at) => Some(at.oid),
            RefTarget::Symbolic(_) => None,
        });
        let absent = self.still_absent(&*snapshot)?;
        if !absent.is_empty() {
            self.upper.note_absent(&absent)?;
        }
        // What is found there is looked up after that.
        let batch = Batch::since(self.upper.sweeps());
        let upper = self.upper.snapshot(&[]);
        let mut copying = Copying { stores: self, upper, batch, lacking: OidSet::default(), copied };
        let mut seen = OidSet::default();
        // An object is met again, with what it names, once all of that was copied: children come first.
        let mut open: Vec<(Oid, Option<Vec<Oid>>)> =
            from.chain(roots.oids.iter().copied()).map(|oid| (oid, None)).collect();
        while let Some((oid, children)) = open.pop() {
            // What is absent on purpose leads nowhere.
            let read = |oid| snapshot.read(&ObjRef::from(oid));
            match children {
                Some(children) => match read(oid)? {
                    Some(object) => copying.copy(oid, &object, &children)?,
                    None => _ = copying.lacking.insert(oid),
                },
                None if !seen.insert(oid) => {}
                None => {
                    let mut children = Vec::new();
                    if let Some(object) = read(oid)? {
                        (roots.children)(&oid, &object, &mut |child| children.push(child))?;
                    }
                    let below: Vec<_> = children.iter().map(|child| (*child, None)).collect();
                    open.push((oid, Some(children)));
                    open.extend(below);
                }
            }
        }
        copying.finish()?;
        // A sweep drops notes that nothing names yet.
        let there = self.upper.absent()?;
        if !absent.keys().all(|oid| there.contains_key(oid)) {
            self.upper.note_absent(&absent)?;
        }
        self.take_notes(&seen)?;
        self.take_refs(refs)?;
        self.flush()
    }
}

/// Objects on their way to the upper store.
struct Copying<'l> {
    stores: &'l Layered,
    upper: Arc<dyn Snapshot>,
    batch: Batch,
    // What no layer has.
    lacking: OidSet,
    copied: &'l mut u64,
}

impl Copying<'_> {
    fn copy(&mut self, oid: Oid, object: &Object<'_>, children: &[Oid]) -> Result<(), Error> {
        if self.upper.locate(&oid).is_some() || self.upper.read(&oid.into())?.is_some() {
            self.upper.keep(&oid);
            return Ok(());
        }
        // Others are in an earlier batch, or were there before.
        for child in children {
            if self.batch.known(child).is_none() && !self.lacking.contains(child) {
                self.batch.leave_out(*child);
            }
        }
        put_copy(&mut self.batch, oid, object, children);
        *self.copied += 1;
        if self.batch.bytes().len() >= BATCH_BYTES {
            self.stores.upper.append_keeping(&mut self.batch)?;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), Error> {
        if !self.batch.is_empty() {
            self.stores.upper.append_keeping(&mut self.batch)?;
        }
        Ok(())
    }
}

impl Layered {
    /// Returns what some layer says is absent on purpose and no layer has.
    fn still_absent(&self, snapshot: &dyn Snapshot) -> Result<AbsentCommits, Error> {
        let mut absent = AbsentCommits::new();
        for (oid, row) in self.absent()?.iter() {
            if snapshot.read(&ObjRef::from(*oid))?.is_none() {
                absent.insert(*oid, *row);
            }
        }
        Ok(absent)
    }

    /// Notes in the upper store where the history that it has now ends, and whether it grew downwards, as any layer says.
    fn take_notes(&self, seen: &OidSet) -> Result<(), Error> {
        let mut notes = Vec::new();
        for oid in self.shallow()?.into_iter().filter(|oid| seen.contains(oid)) {
            let name = format!("{SHALLOW}{oid}");
            notes.push(RefMove { name, expected: Expected::Any, to: Some(RefTarget::Object(oid.into())) });
        }
        if self.shown_ref(DEEPENED)?.is_some() {
            notes.push(RefMove::deepened());
        }
        for note in notes {
            if self.upper.get_ref(&note.name)?.is_none() {
                self.upper.append(Batch::new(), &[note], Durability::None)?;
            }
        }
        Ok(())
    }

    /// Gives the upper store the refs that show, and takes from it the marks of those that were removed. Each moves by
    /// itself, since not every store can move several.
    fn take_refs(&self, refs: impl IntoIterator<Item = (String, RefTarget)>) -> Result<(), Error> {
        let held = self.upper.list_refs("")?;
        let moved = |name: String, expected, to| {
            self.upper.append(Batch::new(), &[RefMove { name, expected, to }], Durability::None).map(|_| ())
        };
        for (name, target) in refs {
            if !held.contains_key(&name) {
                let target = match target {
                    RefTarget::Object(at) => RefTarget::Object(at.oid.into()),
                    symbolic @ RefTarget::Symbolic(_) => symbolic,
                };
                moved(name, Expected::Absent, Some(target))?;
            }
        }
        for (name, target) in held {
            if is_removed(&target) {
                moved(name, Expected::Is(target), None)?;
            }
        }
        Ok(())
    }
}
