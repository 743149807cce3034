//! What was swept while a tree held it: it is read through the tree's snapshot, and written anew where it is to be committed.

use std::sync::Arc;

use bristlecone_core::{Format, Kind, Location, ObjRef, Object, Oid, Sink};

use crate::{
    AbsentCommits, Batch, Error, Result, Snapshot,
    backend::{Position, all_absent},
    oid_map::OidSet,
    store::{FlushSink, StoreView},
};

/// How often a change is repeated after what it left out was swept. Each time another sweep must have begun.
pub(crate) const SWEPT_RETRIES_MAX: usize = 16;
/// Objects that are written anew are appended so many bytes at a time.
const BATCH_BYTES: usize = 8 << 20;

/// Makes a change, and repeats it if objects that it left out were swept meanwhile; `store` reads them.
pub(crate) fn retry_swept<S, F: Format, T>(
    state: &mut S,
    store: impl Fn(&S) -> &StoreView<F>,
    mut change: impl FnMut(&mut S) -> Result<T>,
) -> Result<T> {
    for _ in 1..SWEPT_RETRIES_MAX {
        match change(state) {
            Err(Error::Gone { oids }) => match write_anew(store(state), &oids) {
                Ok(()) | Err(Error::Gone { .. }) => {}
                Err(error) => return Err(error),
            },
            done => return done,
        }
    }
    change(state)
}

/// Appends a batch that names what was appended before it, with what another process has dropped of that meanwhile. From then on
/// `store` shows what was appended, too. On an error the batch stays as it is.
pub(crate) fn append_behind<F: Format>(store: &mut Arc<StoreView<F>>, batch: &mut Batch) -> Result<Location> {
    let base = retry_swept(store, |store| store, |store| store.backend.append_keeping(batch))?;
    // What is appended after a sweep a snapshot of before it need not show.
    if let Some(joined) = store.joined(&[store.backend.snapshot(&[])]) {
        *store = joined;
    }
    Ok(base)
}

/// Writes directories and values that were swept, with all below them that was, as far as the store's snapshot has them.
///
/// Commits are left: whoever cut them did not want them back.
pub(crate) fn write_anew<F: Format>(store: &StoreView<F>, gone: &[Oid]) -> Result<()> {
    if store.snapshot.sweeps().is_none() {
        return Ok(());
    }
    let now = store.with(store.backend.snapshot(&[]));
    let (done, lacking) = (OidSet::default(), OidSet::default());
    let mut anew = Anew { store, now: &now, sink: now.sink(), done, lacking };
    gone.iter().try_for_each(|oid| anew.write(*oid))?;
    anew.append()
}

/// Objects that are being written anew.
struct Anew<'a, F: Format> {
    store: &'a StoreView<F>,
    now: &'a StoreView<F>,
    sink: FlushSink<'a>,
    done: OidSet,
    // What is neither here nor can be written.
    lacking: OidSet,
}

/// An object whose children are being written.
struct Opened<'a> {
    oid: Oid,
    object: Object<'a>,
    children: Vec<Oid>,
    next: usize,
}

impl<'a, F: Format> Anew<'a, F> {
    /// Writes an object behind what it names. Without recursion: directories are deep.
    fn write(&mut self, oid: Oid) -> Result<()> {
        let mut stack: Vec<Opened<'a>> = self.open(oid)?.into_iter().collect();
        while let Some(top) = stack.last_mut() {
            if let Some(&child) = top.children.get(top.next) {
                top.next += 1;
                stack.extend(self.open(child)?);
                continue;
            }
            let known = |child: &Oid| self.sink.known(child).unwrap_or(Location::NONE);
            let places: Vec<Location> = top.children.iter().map(known).collect();
            // Others are in an earlier batch, or were there before; another process may have dropped them since.
            let elsewhere = |child: &&Oid| self.sink.batch.known(child).is_none() && !self.lacking.contains(child);
            top.children.iter().filter(elsewhere).for_each(|child| self.sink.builds_on(child));
            self.sink.put(top.object.kind(), top.oid, top.object.body(), &places, &[]);
            stack.pop();
            if self.sink.batch.bytes().len() >= BATCH_BYTES {
                self.append()?;
            }
        }
        Ok(())
    }

    /// Reads an object that is to be written; `None` if it need not or cannot be.
    fn open(&mut self, oid: Oid) -> Result<Option<Opened<'a>>> {
        if !self.done.insert(oid) {
            return Ok(None);
        }
        if self.now.snapshot.read(&oid.into())?.is_some() {
            self.sink.leave_out(&oid);
            return Ok(None);
        }
        let object = self.store.snapshot.read(&oid.into())?;
        let Some(object) = object.filter(|object| !matches!(object.kind(), Kind::Commit | Kind::Tag)) else {
            self.lacking.insert(oid);
            return Ok(None);
        };
        let mut children = Vec::new();
        let listed = self.store.format.children(object.kind(), object.body(), &mut |_, child| children.push(child));
        listed.map_err(|source| Error::BadObject { oid, source })?;
        Ok(Some(Opened { oid, object, children, next: 0 }))
    }

    fn append(&mut self) -> Result<()> {
        let batch = self.sink.take();
        if batch.is_empty() {
            return Ok(());
        }
        self.store.backend.append(batch, &[], crate::Durability::None).map(|_| ())
    }
}

impl<F: Format> StoreView<F> {
    /// Returns the same store, to be read through other snapshots as well, if those show what this one may lack.
    pub(crate) fn joined(&self, others: &[Arc<dyn Snapshot>]) -> Option<Arc<Self>> {
        if !others.iter().any(|other| lacks(self.snapshots(), other)) {
            return None;
        }
        let mut all = self.snapshots().to_vec();
        for other in others {
            if lacks(&all, other) {
                all.push(other.clone());
            }
        }
        Some(self.with_joined(Arc::new(Joined(all.clone())), all))
    }

    /// Whether this may show what the same store does not that is read through other snapshots.
    pub(crate) fn shows_more_than(&self, other: &Self) -> bool {
        self.snapshots().iter().any(|snapshot| lacks(other.snapshots(), snapshot))
    }
}

/// Whether snapshots of a store may lack what another one shows: there is a sweep between it and each of them.
fn lacks(own: &[Arc<dyn Snapshot>], other: &Arc<dyn Snapshot>) -> bool {
    other.sweeps().is_some_and(|sweeps| own.iter().all(|own| own.sweeps() != Some(sweeps)))
}

/// Snapshots of one store, with sweeps between them: what one lacks, another may have. Of those with the same number of sweeps
/// before them there is one.
#[derive(Debug)]
struct Joined(Vec<Arc<dyn Snapshot>>);

impl Snapshot for Joined {
    fn read(&self, at: &ObjRef) -> Result<Option<Object<'_>>> {
        for snapshot in &self.0 {
            if let Some(found) = snapshot.read(at)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.0.iter().find_map(|snapshot| snapshot.peek(oid, at))
    }

    fn locate(&self, oid: &Oid) -> Option<Location> {
        self.0.iter().find_map(|snapshot| snapshot.locate(oid))
    }

    fn position(&self) -> Option<Position> {
        self.0.first().and_then(|snapshot| snapshot.position())
    }

    /// The fewest of all: what only the oldest one shows may be gone.
    fn sweeps(&self) -> Option<u64> {
        self.0.iter().filter_map(|snapshot| snapshot.sweeps()).min()
    }

    fn absent(&self) -> Result<Option<Arc<AbsentCommits>>> {
        let told: Vec<_> = self.0.iter().filter_map(|snapshot| snapshot.absent().transpose()).collect::<Result<_>>()?;
        Ok((!told.is_empty()).then(|| all_absent(told)))
    }

    fn keep(&self, root: &Oid) {
        self.0.iter().for_each(|snapshot| snapshot.keep(root));
    }
}
