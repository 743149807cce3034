//! Made-up objects for suites that know no format: their bodies name their children, so that whatever is
//! reachable can be walked and compared.

use std::collections::HashMap;

use bristlecone::{Backend, Batch, Error};
use bristlecone_core::{Kind, Location, ObjRef, Object, Oid, Sink};

use crate::generate::Rng;

/// Bytes of a child in a body: 33 = 1 length of the id + 32 id.
const CHILD_BYTES: usize = 33;

/// An object with a made-up id.
///
/// Its body is the number of its children in two bytes, their ids, and a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// The id: any bytes, no digest.
    pub oid: Oid,
    /// The kind.
    pub kind: Kind,
    /// The children, in order.
    pub children: Vec<Oid>,
    /// Children and payload, as stored.
    pub body: Vec<u8>,
}

impl Sample {
    /// Returns an object with these children and a payload of `bytes` bytes, different for every number.
    #[must_use]
    pub fn new(number: u64, kind: Kind, children: &[Oid], bytes: usize) -> Self {
        let mut rng = Rng::stream(number, 0x5a);
        let mut id = [0; Oid::BYTES_MAX];
        rng.fill(&mut id);
        Self::with_oid(Oid::from_array(id), kind, children, &rng.bytes(bytes))
    }

    /// Returns an object with this id, these children and this payload.
    ///
    /// # Panics
    /// If there are more than 65,535 children.
    #[must_use]
    pub fn with_oid(oid: Oid, kind: Kind, children: &[Oid], payload: &[u8]) -> Self {
        let mut body = Vec::with_capacity(2 + children.len() * CHILD_BYTES + payload.len());
        body.extend(u16::try_from(children.len()).expect("few children").to_le_bytes());
        for child in children {
            body.push(child.as_bytes().len() as u8);
            body.extend(child.padded());
        }
        body.extend(payload);
        Self { oid, kind, children: children.to_vec(), body }
    }

    /// Returns the body without the children.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.body[2 + self.children.len() * CHILD_BYTES..]
    }

    /// Gives the object to a batch, with the locations of its children where they are known.
    pub fn put(&self, batch: &mut Batch, known: &HashMap<Oid, Location>) -> Location {
        let children: Vec<Location> = self
            .children
            .iter()
            .map(|oid| batch.known(oid).or_else(|| known.get(oid).copied()).unwrap_or(Location::NONE))
            .collect();
        batch.put(self.kind, self.oid, &self.body, &children, &[])
    }

    /// Returns what differs between this object and one as read, if anything does.
    #[must_use]
    pub fn mismatch(&self, found: &Object<'_>) -> Option<String> {
        if found.kind() != self.kind {
            return Some(format!("{} is a {}, not a {}", self.oid, found.kind(), self.kind));
        }
        (found.body() != self.body).then(|| format!("{} has other bytes than were written", self.oid))
    }

    /// Reads the object through a hint and compares it.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn expect(&self, backend: &dyn Backend, at: Location) -> Result<(), String> {
        match backend.read(&ObjRef::new(self.oid, at)) {
            Ok(Some(object)) => self.mismatch(&object).map_or(Ok(()), Err),
            Ok(None) => Err(format!("{} is missing (hint {at:?})", self.oid)),
            Err(error) => Err(format!("{} cannot be read: {error}", self.oid)),
        }
    }
}

/// Returns where an object of a batch is once the batch begins at `base`; nowhere if the backend has no places.
#[must_use]
pub fn landed(at: Location, base: Location) -> Location {
    if base.is_some() { at.resolve(base) } else { Location::NONE }
}

/// Samples by id, as a suite remembers them.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    by_oid: HashMap<Oid, Sample>,
}

impl Samples {
    /// Remembers an object.
    pub fn insert(&mut self, sample: Sample) {
        self.by_oid.insert(sample.oid, sample);
    }

    /// Returns the object with this id.
    #[must_use]
    pub fn get(&self, oid: &Oid) -> Option<&Sample> {
        self.by_oid.get(oid)
    }

    /// Reads everything reachable from `from` through the locations that objects record, and compares it.
    /// Returns how many objects that were.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn expect_reachable(&self, backend: &dyn Backend, from: &[ObjRef]) -> Result<usize, String> {
        let mut queue = from.to_vec();
        let mut seen = std::collections::HashSet::new();
        while let Some(at) = queue.pop() {
            if !seen.insert(at.oid) {
                continue;
            }
            let sample = self.get(&at.oid).ok_or_else(|| format!("{} was never written", at.oid))?;
            let read = backend.read(&at).map_err(|error| format!("{} cannot be read: {error}", at.oid))?;
            let object = read.ok_or_else(|| format!("{} is missing (hint {:?})", at.oid, at.at))?;
            if let Some(wrong) = sample.mismatch(&object) {
                return Err(wrong);
            }
            for (index, child) in sample.children.iter().enumerate() {
                queue.push(ObjRef::new(*child, object.child(index)));
            }
        }
        Ok(seen.len())
    }

    /// Walks over all objects of a backend: every one is as written, and there is no damage. Returns their ids.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn expect_sound(&self, backend: &dyn Backend) -> Result<Vec<Oid>, String> {
        let mut oids = Vec::new();
        let mut wrong = Vec::new();
        let mut damages = Vec::new();
        let walked = backend.each_object(
            &mut |oid, object| {
                oids.push(oid);
                match self.get(&oid) {
                    Some(sample) => wrong.extend(sample.mismatch(object)),
                    None => wrong.push(format!("{oid} was never written")),
                }
                Ok::<(), Error>(())
            },
            &mut |damage| damages.push(damage),
        );
        walked.map_err(|error| format!("walking over the objects failed: {error}"))?;
        match (wrong.pop(), damages.pop()) {
            (Some(wrong), _) => Err(wrong),
            (_, Some(damage)) => Err(format!("damage is reported: {damage:?}")),
            _ => Ok(oids),
        }
    }
}

impl FromIterator<Sample> for Samples {
    fn from_iter<I: IntoIterator<Item = Sample>>(samples: I) -> Self {
        Self { by_oid: samples.into_iter().map(|sample| (sample.oid, sample)).collect() }
    }
}
