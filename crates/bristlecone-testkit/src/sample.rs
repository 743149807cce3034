//! Made-up objects for suites that know no format: they name their children, so that whatever is reachable can be
//! walked and compared.
//!
//! A backend that keeps anything gets anything: ids that are no digests, bodies that name children in a way of our own.
//! A backend of Git's objects gets Git's, with true ids. [`Family`] says which.

use std::collections::HashMap;

use bristlecone::{Backend, Batch, Capabilities, Error};
use bristlecone_core::{Kind, Location, ObjRef, Object, Oid, Sink, git, git::Algorithm};

use crate::generate::Rng;

/// Bytes of a child in a body: 34 = 1 kind + 1 length of the id + 32 id.
const CHILD_BYTES: usize = 34;

/// What a backend keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Family {
    /// Objects of any kind, with any bytes and any ids of 1 to 32 bytes; refs of nearly any name.
    #[default]
    Plain,
    /// Git's objects, with ids of this algorithm, and refs as Git names them.
    Git(Algorithm),
}

impl Family {
    /// Returns what a backend with these capabilities keeps.
    #[must_use]
    pub fn of(capabilities: &Capabilities) -> Self {
        capabilities.git.map_or(Self::Plain, Self::Git)
    }

    /// Returns the full name of a ref that suites call `name`: below `refs/heads/` where refs are Git's.
    #[must_use]
    pub fn ref_name(self, name: &str) -> String {
        match self {
            Self::Git(_) if name != "HEAD" && !name.starts_with("refs/") => format!("refs/heads/{name}"),
            _ => name.to_owned(),
        }
    }

    /// Returns an id that no object has: one byte over and over.
    #[must_use]
    pub fn no_object(self, byte: u8) -> Oid {
        let bytes = match self {
            Self::Plain => Oid::BYTES_MAX,
            Self::Git(algorithm) => algorithm.oid_bytes(),
        };
        Oid::new(&[byte; Oid::BYTES_MAX][..bytes]).expect("ids have up to 32 bytes")
    }

    /// The kinds of objects that there are.
    #[must_use]
    pub fn kinds(self) -> Vec<Kind> {
        let all = [Kind::Contents, Kind::Node, Kind::Commit, Kind::Pieces, Kind::Tag];
        all.into_iter().filter(|&kind| self == Self::Plain || git::type_name(kind).is_some()).collect()
    }

    /// Returns an object with these children and a payload of about `bytes` bytes, different for every number.
    ///
    /// A commit of Git's names its first node for its tree, and commits for parents.
    #[must_use]
    pub fn sample(self, number: u64, kind: Kind, children: &[Child], bytes: usize) -> Sample {
        let mut rng = Rng::stream(number, 0x5a);
        let mut id = [0; Oid::BYTES_MAX];
        rng.fill(&mut id);
        let mut payload = rng.bytes(bytes);
        if self != Self::Plain {
            // Equal bytes would have equal ids.
            payload.extend(number.to_le_bytes());
        }
        self.with_payload(Oid::from_array(id), kind, children, &payload)
    }

    /// Returns a value of `bytes` bytes, or few more.
    #[must_use]
    pub fn contents(self, number: u64, bytes: usize) -> Sample {
        self.sample(number, Kind::Contents, &[], bytes)
    }

    /// Returns an object with these children and this payload. Its id is `oid`, unless ids are digests.
    ///
    /// # Panics
    /// If there are more than 65,535 children.
    #[must_use]
    pub fn with_payload(self, oid: Oid, kind: Kind, children: &[Child], payload: &[u8]) -> Sample {
        let (oid, body) = match self {
            Self::Plain => (oid, plain_body(children, payload)),
            Self::Git(algorithm) => {
                let raw = git_raw(algorithm, kind, children, payload);
                let mut body = Vec::new();
                if kind == Kind::Node {
                    git::tree_body(algorithm, &raw, &mut body).expect("entries in order");
                } else {
                    body.clone_from(&raw);
                }
                (algorithm.object_id(kind, &raw), body)
            }
        };
        Sample { family: self, oid, kind, children: children.to_vec(), payload: payload.to_vec(), body }
    }
}

/// A child of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Child {
    /// Its kind.
    pub kind: Kind,
    /// Its id.
    pub oid: Oid,
}

/// A made-up object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    family: Family,
    /// The id.
    pub oid: Oid,
    /// The kind.
    pub kind: Kind,
    /// The children, in order.
    pub children: Vec<Child>,
    payload: Vec<u8>,
    /// The bytes, as stored.
    pub body: Vec<u8>,
}

/// The number of children in two bytes, the children, and the payload.
fn plain_body(children: &[Child], payload: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(2 + children.len() * CHILD_BYTES + payload.len());
    body.extend(u16::try_from(children.len()).expect("few children").to_le_bytes());
    for child in children {
        body.extend([child.kind as u8, child.oid.as_bytes().len() as u8]);
        body.extend(child.oid.padded());
    }
    body.extend(payload);
    body
}

/// Returns Git's bytes of an object. The payload is the value of a blob, text in a commit or a tag, and in a tree the ids
/// of commits of other repositories, which lead nowhere.
fn git_raw(algorithm: Algorithm, kind: Kind, children: &[Child], payload: &[u8]) -> Vec<u8> {
    let hex: String = payload.iter().map(|byte| format!("{byte:02x}")).collect();
    let who = "A <a@example.org> 1700000000 +0000";
    match kind {
        Kind::Node => {
            let mut raw = Vec::new();
            for (number, child) in children.iter().enumerate() {
                let mode = match child.kind {
                    Kind::Node => "40000",
                    Kind::Commit => "160000",
                    _ => "100644",
                };
                raw.extend(format!("{mode} c{number:05}\0").as_bytes());
                raw.extend(child.oid.as_bytes());
            }
            // Behind the children in Git's order.
            for (number, part) in payload.chunks(algorithm.oid_bytes()).enumerate() {
                raw.extend(format!("160000 p{number:05}\0").as_bytes());
                raw.extend(part);
                raw.resize(raw.len() + algorithm.oid_bytes() - part.len(), 1);
            }
            raw
        }
        Kind::Commit => {
            let first = children.iter().find(|child| child.kind == Kind::Node);
            let tree = first.map_or_else(|| algorithm.object_id(Kind::Node, b""), |child| child.oid);
            let parents = children.iter().filter(|child| child.kind == Kind::Commit);
            let parents: String = parents.map(|parent| format!("parent {}\n", parent.oid)).collect();
            format!("tree {tree}\n{parents}author {who}\ncommitter {who}\n\n{hex}").into_bytes()
        }
        Kind::Tag => {
            let none = Child { kind: Kind::Contents, oid: algorithm.object_id(Kind::Contents, b"") };
            let target = children.first().unwrap_or(&none);
            let kind = git::type_name(target.kind).expect("a kind that Git has");
            format!("object {}\ntype {kind}\ntag t\ntagger {who}\n\n{hex}\n", target.oid).into_bytes()
        }
        _ => payload.to_vec(),
    }
}

impl Sample {
    /// Returns the object as the child of another.
    #[must_use]
    pub const fn child(&self) -> Child {
        Child { kind: self.kind, oid: self.oid }
    }

    /// Returns what the object has beside its children.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Returns an object with other ids and bytes, of the same lengths; `twins`: those of children that have other ids.
    #[must_use]
    pub fn twin(&self, twins: &HashMap<Oid, Oid>) -> Self {
        let twin = |child: &Child| Child { oid: twins.get(&child.oid).copied().unwrap_or(child.oid), ..*child };
        let children: Vec<Child> = self.children.iter().map(twin).collect();
        let payload: Vec<u8> = self.payload.iter().map(|byte| !byte).collect();
        let mut id = *self.oid.padded();
        id[31] ^= 0xff;
        self.family.with_payload(Oid::from_array(id), self.kind, &children, &payload)
    }

    /// Gives the object to a batch, with the locations of its children where they are known.
    pub fn put(&self, batch: &mut Batch, known: &HashMap<Oid, Location>) -> Location {
        let children: Vec<Location> = self
            .children
            .iter()
            .map(|child| batch.known(&child.oid).or_else(|| known.get(&child.oid).copied()).unwrap_or(Location::NONE))
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
pub fn appended(at: Location, base: Location) -> Location {
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
                queue.push(ObjRef::new(child.oid, object.child(index)));
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
