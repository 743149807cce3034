//! Values: one object each, or for large ones a tree of pieces cut by content. Section 5 of the page.
//!
//! Cutting follows FastCDC (Xia et al., USENIX ATC 2016): a gear hash rolls over the bytes, with a harder
//! test before the wanted size than after it. An edit within a large value changes the pieces around it.

use alloc::{
    vec,
    vec::{IntoIter, Vec},
};
use core::ops::Range;

use super::{bad, id, read_oid};
use crate::{
    Bytes, FormatError, Kind, Location, Next, ObjRef, Object, ObjectWalk, Oid, Sink, Source, Window,
    codec::{ByteReader, DecodeError, write_varint},
};

/// Values of more bytes are cut into pieces.
pub(super) const WHOLE_BYTES_MAX: usize = 256 << 10;
const PIECE_BYTES_MIN: usize = 16 << 10;
const PIECE_BYTES_WANTED: usize = 64 << 10;
const PIECE_BYTES_MAX: usize = 256 << 10;
const HARD: u64 = 0xffff_8000_0000_0000;
const EASY: u64 = 0xfffe_0000_0000_0000;
/// A list of pieces ends after a child whose id ends in less than this, or when it is full.
const LIST_BOUNDARY: u8 = 4;
const LIST_ITEMS_MAX: usize = 512;
/// At most this many bytes are reserved for a value before its pieces are read.
const RESERVED_BYTES_MAX: usize = 256 << 20;
/// At most this many bytes are read at once: no format has taken a longer value. A few lists can tell of any number.
const READ_BYTES_MAX: u64 = u32::MAX as u64;
/// So many parts of a value are known before they are read: lists of tiny pieces would take more memory than the value.
const PARTS_MAX: usize = 8192;
/// A list that others follow has two children at least, where ids were ground to end it, and a piece 16 KiB: with more levels
/// a value would have more than 2^64 bytes.
const LEVEL_MAX: u8 = 50;

/// Returns the kind of the object that holds a value of `bytes` bytes.
pub(super) const fn kind_of(bytes: u64) -> Kind {
    if bytes > WHOLE_BYTES_MAX as u64 { Kind::Pieces } else { Kind::Contents }
}

#[derive(Debug)]
struct ContentsPiece {
    at: ObjRef,
    bytes: u64,
}

pub(super) fn put<K: Sink>(sink: &mut K, value: &[u8]) -> ObjRef {
    if value.len() <= WHOLE_BYTES_MAX {
        return put_whole(sink, value).at;
    }
    let mut pieces = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(cut(rest).bytes);
        pieces.push(put_whole(sink, piece));
        rest = tail;
    }
    put_all_lists(sink, pieces)
}

/// A value that comes in parts. Pieces are given to a sink as soon as it is sure where they end. So memory holds no more
/// than one of them and the part that came last.
///
/// Law: what [`ValueBuilder::finish`] returns depends on the bytes alone, not on how they were cut into parts; it is what
/// [`crate::Format::put_contents`] returns for all of them.
#[derive(Debug, Default)]
pub struct ValueBuilder {
    rest: Vec<u8>,
    pieces: Vec<ContentsPiece>,
    // How many of them have a location that stays.
    resolved: usize,
}

impl ValueBuilder {
    /// Takes the next bytes.
    pub fn push<K: Sink>(&mut self, sink: &mut K, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let mut at = 0;
        // With this many bytes at hand a cut is where it would be if more came.
        while self.rest.len() - at > PIECE_BYTES_MAX {
            let piece = &self.rest[at..][..cut(&self.rest[at..]).bytes];
            at += piece.len();
            self.pieces.push(put_whole(sink, piece));
        }
        self.rest.drain(..at);
    }

    /// Tells the builder that everything it gave to sinks so far was appended at `base`.
    pub fn settle(&mut self, base: Location) {
        for piece in &mut self.pieces[self.resolved..] {
            piece.at.at = piece.at.at.resolve(base);
        }
        self.resolved = self.pieces.len();
    }

    /// Calls `each` with the pieces that were appended before, or that the store had: lists still to come name them.
    pub fn each_appended(&self, each: &mut dyn FnMut(Oid)) {
        let appended = self.pieces.iter().filter(|piece| piece.at.at.pending_offset().is_none());
        appended.for_each(|piece| each(piece.at.oid));
    }

    /// Ends the value and returns its reference.
    pub fn finish<K: Sink>(mut self, sink: &mut K) -> ObjRef {
        if self.pieces.is_empty() {
            return put_whole(sink, &self.rest).at;
        }
        let mut rest = &self.rest[..];
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(cut(rest).bytes);
            self.pieces.push(put_whole(sink, piece));
            rest = tail;
        }
        put_all_lists(sink, self.pieces)
    }
}

/// Gives lists of pieces to the sink, lists of lists above them, and returns the one that holds all.
fn put_all_lists<K: Sink>(sink: &mut K, mut pieces: Vec<ContentsPiece>) -> ObjRef {
    let mut level = 0;
    loop {
        pieces = put_lists(sink, level, &pieces);
        if let [only] = &pieces[..] {
            return only.at;
        }
        level += 1;
    }
}

fn put_whole<K: Sink>(sink: &mut K, value: &[u8]) -> ContentsPiece {
    ContentsPiece { at: put_as(sink, id::contents(value), value), bytes: value.len() as u64 }
}

/// Gives a value that is one object, and has this id, to the sink.
pub(super) fn put_as<K: Sink>(sink: &mut K, oid: Oid, value: &[u8]) -> ObjRef {
    debug_assert_eq!(oid, id::contents(value), "the id of another value");
    let at = match sink.known(&oid) {
        Some(at) => at,
        None => sink.put(Kind::Contents, oid, value, &[], &[]),
    };
    ObjRef::new(oid, at)
}

fn put_lists<K: Sink>(sink: &mut K, level: u8, children: &[ContentsPiece]) -> Vec<ContentsPiece> {
    let mut lists = Vec::new();
    let mut start = 0;
    for (index, child) in children.iter().enumerate() {
        let count = index + 1 - start;
        if !ends_list(count, &child.at.oid) && index + 1 < children.len() {
            continue;
        }
        let list = &children[start..=index];
        start = index + 1;
        let mut body = vec![level];
        write_varint(&mut body, list.len() as u64);
        for piece in list {
            write_varint(&mut body, piece.bytes);
            body.extend_from_slice(piece.at.oid.as_bytes());
        }
        let locations: Vec<Location> = list.iter().map(|piece| piece.at.at).collect();
        let oid = id::pieces(&body);
        let at = match sink.known(&oid) {
            Some(at) => at,
            None => sink.put(Kind::Pieces, oid, &body, &locations, &[]),
        };
        lists.push(ContentsPiece { at: ObjRef::new(oid, at), bytes: list.iter().map(|piece| piece.bytes).sum() });
    }
    lists
}

/// Whether a list ends behind its child number `count`, which is this one, though more follow.
pub(super) fn ends_list(count: usize, child: &Oid) -> bool {
    count == LIST_ITEMS_MAX || child.padded()[31] < LIST_BOUNDARY && count > 1
}

/// The first piece of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ContentsCut {
    pub(super) bytes: usize,
    /// Whether it would be the same if more followed.
    pub(super) ends: bool,
}

/// Returns the first piece of `bytes`.
pub(super) fn cut(bytes: &[u8]) -> ContentsCut {
    if bytes.len() <= PIECE_BYTES_MIN {
        return ContentsCut { bytes: bytes.len(), ends: false };
    }
    let end = bytes.len().min(PIECE_BYTES_MAX);
    let wanted = end.min(PIECE_BYTES_WANTED);
    let mut hash = 0u64;
    for (index, &byte) in bytes[..end].iter().enumerate().skip(PIECE_BYTES_MIN) {
        hash = (hash << 1).wrapping_add(GEAR[byte as usize]);
        let mask = if index < wanted { HARD } else { EASY };
        if hash & mask == 0 {
            return ContentsCut { bytes: index + 1, ends: true };
        }
    }
    ContentsCut { bytes: end, ends: end == PIECE_BYTES_MAX }
}

/// 256 words of SplitMix64 from seed 0.
const GEAR: [u64; 256] = {
    let mut table = [0; 256];
    let mut state = 0u64;
    let mut index = 0;
    while index < 256 {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[index] = word ^ (word >> 31);
        index += 1;
    }
    table
};

/// A list of pieces, or of lists of them.
pub(super) struct List {
    pub(super) level: u8,
    // Bytes and id of each piece; there is one at least.
    pub(super) pieces: Vec<(u64, Oid)>,
}

impl List {
    /// Returns the bytes of the value that it lists.
    pub(super) fn bytes(&self) -> u64 {
        self.pieces.iter().map(|(bytes, _)| *bytes).fold(0, u64::saturating_add)
    }
}

/// Reads the list that an object is.
pub(super) fn list(object: &Object<'_>) -> Result<List, FormatError> {
    decode(object.body()).map_err(bad(Kind::Pieces))
}

fn decode(body: &[u8]) -> Result<List, DecodeError> {
    let mut reader = ByteReader::new(body);
    let level = reader.byte()?;
    if level > LEVEL_MAX {
        return Err(reader.error("its level is too high"));
    }
    let count = reader.length()?;
    if count == 0 || count > LIST_ITEMS_MAX {
        return Err(reader.error("a list has 1 to 512 pieces"));
    }
    let mut pieces = Vec::with_capacity(count);
    for _ in 0..count {
        let bytes = reader.varint()?;
        pieces.push((bytes, read_oid(&mut reader)?));
    }
    if !reader.is_empty() {
        return Err(reader.error("there are bytes after the last piece"));
    }
    Ok(List { level, pieces })
}

pub(super) fn children(body: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), DecodeError> {
    let list = decode(body)?;
    let kind = if list.level == 0 { Kind::Contents } else { Kind::Pieces };
    list.pieces.iter().for_each(|(_, oid)| each(kind, *oid));
    Ok(())
}

/// Returns a range of a value. What lies beyond the end is left out, and a range that ends before it starts is empty.
pub(super) fn read<'a, S: Source>(source: &'a S, at: &ObjRef, range: Range<u64>) -> Result<Bytes<'a>, S::Error> {
    // Which kind it is shows in the object itself: a source checks kinds, so ask for either.
    let object = source.read(Kind::Contents, at)?;
    if object.kind() == Kind::Contents {
        let bytes = object.body().len() as u64;
        let end = range.end.min(bytes);
        return Ok(object.body_slice(range.start.min(end) as usize..end as usize));
    }
    let (mut window, mut lists) = (Window::new(source), Lists::new(&object, &range)?);
    let total = lists.bytes();
    if total > READ_BYTES_MAX {
        let what = "a value of 4 GiB and more in memory; read ranges of it";
        return Err(FormatError::Unsupported { format: "native", what }.into());
    }
    let mut parts = Vec::new();
    next_parts(&mut window, &mut lists, &mut parts)?;
    match &parts[..] {
        [] => return Ok(Bytes::Borrowed(&[])),
        [only] => return Ok(only.read(source)?.body_slice(only.range.clone())),
        _ => {}
    }
    // More than this only grows as pieces are found to be there.
    let mut whole = Vec::with_capacity(total.min(RESERVED_BYTES_MAX as u64) as usize);
    while !parts.is_empty() {
        assemble(source, &parts, &mut whole)?;
        next_parts(&mut window, &mut lists, &mut parts)?;
    }
    Ok(Bytes::from(whole))
}

/// Goes on to the next parts of a value, none at its end.
fn next_parts<'a, S: Source>(
    window: &mut Window<'a, S>,
    lists: &mut Lists,
    parts: &mut Vec<RangePart>,
) -> Result<(), S::Error> {
    parts.clear();
    while parts.len() < PARTS_MAX
        && let Some(part) = window.advance(lists)?
    {
        parts.push(part);
    }
    Ok(())
}

/// A part of a piece that lies in the range.
struct RangePart {
    at: ObjRef,
    // Bytes of the whole piece.
    bytes: u64,
    range: Range<usize>,
}

impl RangePart {
    fn read<'a, S: Source>(&self, source: &'a S) -> Result<Object<'a>, S::Error> {
        Ok(self.checked(source.read(Kind::Contents, &self.at)?)?)
    }

    fn checked<'a>(&self, piece: Object<'a>) -> Result<Object<'a>, FormatError> {
        if piece.body().len() as u64 != self.bytes {
            return Err(wrong("a piece has not the length that its list gives"));
        }
        Ok(piece)
    }
}

/// A walk over the parts of a value that make up a range, which reads lists alone.
#[derive(Clone)]
struct Lists {
    // From the first list down, each of a lower level than the one before: that, and those of its pieces that are still to come.
    open: Vec<(u8, IntoIter<RangePieces>)>,
}

/// What of a piece, or of a list of them, lies in the range.
#[derive(Clone)]
struct RangePieces {
    at: ObjRef,
    // Bytes of the whole list.
    bytes: u64,
    range: Range<u64>,
}

impl Lists {
    fn new(object: &Object<'_>, range: &Range<u64>) -> Result<Self, FormatError> {
        let mut lists = Self { open: Vec::new() };
        lists.enter(object, range, None)?;
        Ok(lists)
    }

    /// Returns how many bytes are still to come, as the lists that are open say.
    fn bytes(&self) -> u64 {
        let pieces = self.open.iter().flat_map(|(_, pieces)| pieces.as_slice());
        pieces.map(|piece| piece.range.end - piece.range.start).fold(0, u64::saturating_add)
    }

    /// Begins with a list. `bytes`: what the list above gives it.
    fn enter(&mut self, object: &Object<'_>, range: &Range<u64>, bytes: Option<u64>) -> Result<(), FormatError> {
        let list = list(object)?;
        if self.open.last().is_some_and(|(level, _)| list.level >= *level) {
            return Err(wrong("its level is not below its parent's"));
        }
        let total = || list.pieces.iter().try_fold(0u64, |total, (bytes, _)| total.checked_add(*bytes));
        if bytes.is_some() && bytes != total() {
            return Err(wrong("its pieces have not the length that its parent gives"));
        }
        let (mut start, mut inner) = (0u64, Vec::new());
        for (index, (bytes, oid)) in list.pieces.iter().enumerate() {
            let end = start.saturating_add(*bytes);
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                let at = ObjRef::new(*oid, object.child(index));
                inner.push(RangePieces { at, bytes: *bytes, range: from - start..to - start });
            }
            start = end;
        }
        self.open.push((list.level, inner.into_iter()));
        Ok(())
    }
}

impl<'a, S: Source> ObjectWalk<'a, S> for Lists {
    type Item = RangePart;

    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<RangePart>, S::Error> {
        loop {
            let Some((level, rest)) = self.open.last_mut() else { return Ok(Next::End) };
            let Some(inner) = rest.as_slice().first().cloned() else {
                self.open.pop();
                continue;
            };
            let RangePieces { at, bytes, range } = inner;
            if *level > 0 {
                let Some(below) = window.get(Kind::Pieces, &at) else { return Ok(Next::Wants(Kind::Pieces, at)) };
                rest.next();
                self.enter(&below, &range, Some(bytes))?;
                continue;
            }
            rest.next();
            if bytes > PIECE_BYTES_MAX as u64 {
                return Err(wrong("a piece is longer than pieces are").into());
            }
            return Ok(Next::Item(RangePart { at, bytes, range: range.start as usize..range.end as usize }));
        }
    }

    fn scout(&self, _: bool) -> Self {
        self.clone()
    }

    fn skip(&mut self) {
        self.open.last_mut().into_iter().for_each(|(_, rest)| _ = rest.next());
    }
}

/// Adds parts to what came before them, each byte copied once.
fn assemble<S: Source>(source: &S, parts: &[RangePart], whole: &mut Vec<u8>) -> Result<(), S::Error> {
    let mut window = Window::new(source);
    let mut walk = RangeParts(parts);
    while let Some((part, piece)) = window.advance(&mut walk)? {
        whole.extend_from_slice(&part.checked(piece)?.body()[part.range.clone()]);
    }
    Ok(())
}

/// A walk over the pieces of these parts.
struct RangeParts<'p>(&'p [RangePart]);

impl<'a, 'p, S: Source> ObjectWalk<'a, S> for RangeParts<'p> {
    type Item = (&'p RangePart, Object<'a>);

    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<Self::Item>, S::Error> {
        let Some((part, rest)) = self.0.split_first() else { return Ok(Next::End) };
        let Some(piece) = window.get(Kind::Contents, &part.at) else {
            return Ok(Next::Wants(Kind::Contents, part.at));
        };
        self.0 = rest;
        Ok(Next::Item((part, piece)))
    }

    fn scout(&self, _: bool) -> Self {
        Self(self.0)
    }

    fn skip(&mut self) {
        self.0 = self.0.get(1..).unwrap_or_default();
    }
}

fn wrong(reason: &'static str) -> FormatError {
    FormatError::Inconsistent { kind: Kind::Pieces, reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the bodies of objects.
    #[derive(Default)]
    struct Bodies(Vec<Vec<u8>>);

    impl Sink for Bodies {
        fn put(&mut self, _: Kind, _: Oid, body: &[u8], _: &[Location], _: &[u64]) -> Location {
            self.0.push(body.to_vec());
            Location::NONE
        }

        fn known(&self, _: &Oid) -> Option<Location> {
            None
        }
    }

    /// Returns the list whose children are two each, down to pieces of one byte: the first of these by its number, and at each
    /// level a second child that is one of `ends`. Returns its id and its pieces.
    fn list_of_twos(number: u32, ends: &[(Oid, Vec<Oid>)]) -> (Oid, Vec<Oid>) {
        let mut first = [0xff; 32];
        first[..4].copy_from_slice(&number.to_le_bytes());
        let mut oid = Oid::from_array(first);
        let mut pieces = vec![oid];
        for (level, (end, more)) in ends.iter().enumerate() {
            let mut body = vec![level as u8, 2];
            for child in [&oid, end] {
                write_varint(&mut body, 1 << level);
                body.extend_from_slice(child.as_bytes());
            }
            oid = id::pieces(&body);
            pieces.extend_from_slice(more);
        }
        (oid, pieces)
    }

    #[test]
    fn lists_are_read_however_many_levels_ground_ids_make() {
        let last = Oid::from_array([0; 32]);
        let mut ends = vec![(last, vec![last])];
        while ends.len() < 12 {
            let end = (0..).map(|number| list_of_twos(number, &ends)).find(|(oid, _)| ends_list(2, oid)).unwrap();
            ends.push(end);
        }
        let (root, pieces) = list_of_twos(0, &ends);
        let pieces: Vec<_> = pieces.iter().map(|oid| ContentsPiece { at: ObjRef::from(*oid), bytes: 1 }).collect();
        let (mut bodies, count) = (Bodies::default(), pieces.len());
        assert_eq!(put_all_lists(&mut bodies, pieces).oid, root);
        assert_eq!((count, bodies.0.len()), (1 << 12, (1 << 12) - 1));
        for body in &bodies.0 {
            assert_eq!(children(body, &mut |_, _| ()), Ok(()), "level {}", body[0]);
        }
    }
}
