//! Directories of the native format with their pieces in the hand: sets of nodes that are sound one by one, with the ids
//! that they should have, and yet are not what the format makes of their entries. The bytes are written from
//! `docs/formats/native.md`, not by the code that is to be judged.

use std::collections::BTreeSet;

use bristlecone::{Backend, Batch, Durability, Error, Format, Kind, Location, Native, Object, Oid, Sink};
use bristlecone_core::{ByteReader, NoSource, native::step_hash};

/// A directory: its entries, and where pieces begin.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// The entries, in order.
    pub items: Vec<PieceItem>,
    /// For each level, from the leaves to the root, which entries begin a piece of it.
    pub starts: Vec<BTreeSet<usize>>,
}

/// An item of a leaf.
#[derive(Clone, Debug)]
pub struct PieceItem {
    /// The step.
    pub step: Vec<u8>,
    /// The item's bytes, the step included.
    pub bytes: Vec<u8>,
}

/// An item above the leaves, to be written.
#[derive(Clone, Debug)]
pub struct Above {
    /// The first step below.
    pub step: Vec<u8>,
    /// The piece.
    pub oid: Oid,
    /// The entries below it.
    pub count: u64,
    /// Its weight.
    pub weight: u64,
}

/// A piece that was made.
#[derive(Clone, Debug)]
pub struct MadePiece {
    /// Its id.
    pub oid: Oid,
    /// Its level.
    pub level: u8,
    /// Its body.
    pub body: Vec<u8>,
}

impl PieceItem {
    /// An inline value.
    ///
    /// # Panics
    /// For a step or value of more than 127 bytes, whose length takes more than a byte.
    #[must_use]
    pub fn inline(step: &[u8], value: &[u8]) -> Self {
        assert!(step.len() < 0x80 && value.len() < 0x80, "lengths of one byte");
        let bytes = [&[8, step.len() as u8], step, &[value.len() as u8], value].concat();
        Self { step: step.to_vec(), bytes }
    }

    /// A value of `length` bytes that is an object, or, without a length, a directory.
    ///
    /// # Panics
    /// For a step of more than 127 bytes.
    #[must_use]
    pub fn object(step: &[u8], length: Option<u64>, oid: Oid) -> Self {
        assert!(step.len() < 0x80, "a length of one byte");
        let mut bytes = [&[if length.is_some() { 0 } else { 3 }, step.len() as u8], step].concat();
        length.iter().for_each(|length| varint(&mut bytes, *length));
        bytes.extend_from_slice(oid.as_bytes());
        Self { step: step.to_vec(), bytes }
    }

    fn has_child(&self) -> bool {
        self.bytes[0] & 12 == 0
    }
}

impl Pieces {
    /// Reads a stored directory.
    ///
    /// # Errors
    /// Those of the backend.
    ///
    /// # Panics
    /// If it is damaged.
    pub fn read(backend: &dyn Backend, root: Oid) -> Result<Self, Error> {
        let mut pieces = Self::default();
        pieces.walk(backend, root)?;
        Ok(pieces)
    }

    fn walk(&mut self, backend: &dyn Backend, oid: Oid) -> Result<(), Error> {
        let object = backend.read(&oid.into())?.expect("a piece that is there");
        let body = object.body();
        let level = usize::from(body[0]);
        self.starts.resize_with(self.starts.len().max(level + 1), BTreeSet::new);
        self.starts[level].insert(self.items.len());
        for bytes in items(body) {
            let mut reader = ByteReader::at(bytes, usize::from(level == 0));
            let step = reader.prefixed().expect("a step").to_vec();
            if level == 0 {
                self.items.push(PieceItem { step, bytes: bytes.to_vec() });
            } else {
                self.walk(backend, Oid::from_array(reader.array().expect("an id")))?;
            }
        }
        Ok(())
    }

    /// Joins the piece that entry `at` begins on this level to the one before, on all levels above too.
    pub fn join(&mut self, level: usize, at: usize) {
        self.starts[level..].iter_mut().for_each(|starts| _ = starts.remove(&at));
    }

    /// Lets a piece of this level begin at entry `at`, which begins one of the level below; a level is added above the
    /// root if that is what was cut.
    pub fn part(&mut self, level: usize, at: usize) {
        self.starts[level].insert(at);
        if level + 1 == self.starts.len() {
            self.starts.push(BTreeSet::from([0]));
        }
    }

    /// Moves the place where pieces of this level and those above begin.
    pub fn shift(&mut self, level: usize, from: usize, to: usize) {
        for starts in &mut self.starts[level..] {
            if starts.remove(&from) {
                starts.insert(to);
            }
        }
    }

    /// Takes away levels that are above the first one of a single piece.
    pub fn lower(&mut self) {
        while self.starts.len() > 1 && self.starts[self.starts.len() - 2].len() == 1 {
            self.starts.pop();
        }
    }

    /// Makes all pieces, children before parents, the root last. What is written above the leaves of a piece goes through
    /// `above` first, with the level of the piece and the entry that begins it.
    ///
    /// # Panics
    /// If a start of one level is not one of the level below.
    #[must_use]
    pub fn make(&self, native: &Native, above: &mut dyn FnMut(u8, usize, &mut Above)) -> Vec<MadePiece> {
        let mut made = Vec::new();
        // For the level below: where each piece begins, and what is said of it.
        let mut below: Vec<(usize, Above)> = Vec::new();
        for (level, starts) in self.starts.iter().enumerate() {
            let level = level as u8;
            let bounds: Vec<usize> = starts.iter().copied().chain([self.items.len()]).collect();
            let (mut next, mut rest) = (Vec::new(), &below[..]);
            for range in bounds.windows(2).map(|pair| pair[0]..pair[1]) {
                let (here, behind) = rest.split_at(rest.partition_point(|(at, _)| *at < range.end));
                rest = behind;
                let inner: Vec<&Above> = here.iter().map(|(_, above)| above).collect();
                let (body, step, count, weight) = if level == 0 {
                    let items = &self.items[range.clone()];
                    let weight = items.iter().map(|item| 1 + item.step.len() as u64 / 64).sum();
                    (leaf(items), items.first().map(|item| item.step.clone()), items.len() as u64, weight)
                } else {
                    let weight = inner.iter().map(|item| 1 + item.step.len() as u64 / 512).sum();
                    let count = inner.iter().map(|item| item.count).sum();
                    (inner_node(level, &inner), inner.first().map(|item| item.step.clone()), count, weight)
                };
                let oid = id(native, Kind::Node, &body);
                made.push(MadePiece { oid, level, body });
                let mut said = Above { step: step.unwrap_or_default(), oid, count, weight };
                above(level, range.start, &mut said);
                next.push((range.start, said));
            }
            below = next;
        }
        made
    }
}

/// Returns the id of an object by itself.
///
/// # Panics
/// If its body does not decode.
#[must_use]
pub fn id(native: &Native, kind: Kind, body: &[u8]) -> Oid {
    native.object_id(&NoSource, &Object::from_body(kind, body.into())).expect("a body that decodes")
}

/// Appends an object as it is, without places of its children, and returns its id.
///
/// # Errors
/// Those of the backend.
///
/// # Panics
/// If its body does not decode.
pub fn append(backend: &dyn Backend, native: &Native, kind: Kind, body: &[u8]) -> Result<Oid, Error> {
    let mut batch = Batch::new();
    let oid = put(&mut batch, native, kind, body);
    backend.append(batch, &[], Durability::None)?;
    Ok(oid)
}

/// Gives an object to a sink as it is, without places of its children, and returns its id.
///
/// # Panics
/// If its body does not decode.
pub fn put(sink: &mut impl Sink, native: &Native, kind: Kind, body: &[u8]) -> Oid {
    let mut children = Vec::new();
    native.children(kind, body, &mut |_, _| children.push(Location::NONE)).expect("a body that decodes");
    let oid = id(native, kind, body);
    sink.put(kind, oid, body, &children, &[]);
    oid
}

/// Returns the body of a list of pieces of a large value, or of such lists.
#[must_use]
pub fn list(level: u8, pieces: &[(u64, Oid)]) -> Vec<u8> {
    let mut body = vec![level];
    varint(&mut body, pieces.len() as u64);
    for (bytes, oid) in pieces {
        varint(&mut body, *bytes);
        body.extend_from_slice(oid.as_bytes());
    }
    body
}

fn leaf(items: &[PieceItem]) -> Vec<u8> {
    let children = items.iter().filter(|item| item.has_child()).count();
    let prints: Vec<u8> = items.iter().map(|item| step_hash(&item.step) as u8).collect();
    let bytes: Vec<&[u8]> = items.iter().map(|item| &item.bytes[..]).collect();
    node(0, children, &prints, &bytes)
}

fn inner_node(level: u8, items: &[&Above]) -> Vec<u8> {
    let items: Vec<Vec<u8>> = items
        .iter()
        .map(|item| {
            let mut bytes = Vec::new();
            varint(&mut bytes, item.step.len() as u64);
            bytes.extend_from_slice(&item.step);
            bytes.extend_from_slice(item.oid.as_bytes());
            varint(&mut bytes, item.count);
            varint(&mut bytes, item.weight);
            bytes
        })
        .collect();
    let bytes: Vec<&[u8]> = items.iter().map(|item| &item[..]).collect();
    node(level, items.len(), &[], &bytes)
}

fn node(level: u8, children: usize, prints: &[u8], items: &[&[u8]]) -> Vec<u8> {
    let total: usize = items.iter().map(|item| item.len()).sum();
    let wide = items.len() > 0xffff || total > 0xffff;
    let flags = u8::from(wide) | u8::from(children == items.len()) << 1 | u8::from(children == 0) << 2;
    let mut body = vec![level, flags];
    match wide {
        true => body.extend_from_slice(&[&[0, 0], &(items.len() as u32).to_le_bytes()[..]].concat()),
        false => body.extend_from_slice(&(items.len() as u16).to_le_bytes()),
    }
    body.extend_from_slice(prints);
    let mut end = 0;
    for item in items {
        end += item.len() as u32;
        body.extend_from_slice(&end.to_le_bytes()[..if wide { 4 } else { 2 }]);
    }
    items.iter().for_each(|item| body.extend_from_slice(item));
    body
}

/// Returns the items of a node.
fn items(body: &[u8]) -> Vec<&[u8]> {
    let wide = body[1] & 1 != 0;
    let (count, width, head) = match wide {
        true => (u32::from_le_bytes(body[4..8].try_into().expect("4 bytes")) as usize, 4, 8),
        false => (usize::from(u16::from_le_bytes([body[2], body[3]])), 2, 4),
    };
    let table = head + if body[0] == 0 { count } else { 0 };
    let items = table + count * width;
    let end = |index: usize| {
        let mut bytes = [0; 4];
        bytes[..width].copy_from_slice(&body[table + index * width..][..width]);
        items + u32::from_le_bytes(bytes) as usize
    };
    (0..count).map(|index| &body[if index == 0 { items } else { end(index - 1) }..end(index)]).collect()
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
