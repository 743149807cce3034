//! A window of neighbouring pieces that is cut again.

use alloc::{collections::VecDeque, vec::Vec};
use core::ops::Range;

use super::{
    super::{
        Native, bad,
        cursor::{LevelCursor, view},
        cut::{self, Token},
    },
    LevelEdits, NativeWriter, NodeItems, merge, read_items,
    stretch::{Stretch, token},
    values::Unheard,
};
use crate::{Bytes, Kind, ObjRef, Object, Oid, Sink, Source};

/// A cut moves only within one bound's weight of a change, and whether it does depends on one more; twice
/// that keeps windows apart from each other.
pub(super) const REACH: u64 = 4 * cut::WEIGHT_MAX;

/// Neighbouring pieces of one level, with the changes that fall in them.
pub(super) struct PieceWindow<'a> {
    pieces: VecDeque<WindowPiece<'a>>,
    open_start: bool,
    open_end: bool,
    // The first piece is seen from the stretch's lower end on, the last one up to its upper end.
    parts_first: bool,
    parts_last: bool,
}

pub(super) struct WindowPiece<'a> {
    pub(super) step: Bytes<'a>,
    at: ObjRef,
    pub(super) weight: u64,
    edits: Range<usize>,
    // Loaded where something in it may change.
    object: Option<Object<'a>>,
}

/// What a window becomes: runs of parts, each a piece.
struct WindowCut<'w> {
    items: NodeItems<'w>,
    parts: Vec<WindowPart>,
    runs: Vec<Range<usize>>,
    // Pieces that must be loaded first. If there are any, the runs mean nothing.
    needed: Vec<usize>,
}

/// What a token of the sequence stands for.
#[derive(Clone, Copy)]
enum WindowPart {
    Whole(usize),
    Item(usize),
}

impl<'a> PieceWindow<'a> {
    /// Gathers the pieces around change `next` and all changes that are not far enough beyond it; leaves
    /// `next` at the first change that is. What lies beyond the stretch is left out.
    pub(super) fn gather<S: Source>(
        source: &'a S,
        cursor: &mut LevelCursor<'a, S>,
        edits: &LevelEdits,
        stretch: &Stretch<'_>,
        next: &mut usize,
    ) -> Result<Self, S::Error> {
        cursor.seek(edits.get(*next).step)?;
        let mut window = Self::before(cursor, stretch)?;
        let mut reach = 0;
        loop {
            let mut piece = current(cursor)?;
            let more = cursor.next()?;
            let first = *next;
            let mut ends = false;
            if more {
                let following = current(cursor)?;
                while *next < edits.len() && *edits.get(*next).step < following.step[..] {
                    *next += 1;
                }
                if let Some(high) = stretch.high {
                    ends = *high <= following.step[..];
                    window.parts_last = *high < following.step[..];
                }
            } else {
                *next = edits.len();
                window.parts_last = stretch.high.is_some();
            }
            reach = piece.weight.saturating_add(reach);
            if *next > first {
                piece.edits = first..*next;
                piece.object = Some(source.read(Kind::Node, &piece.at)?);
                reach = 0;
            }
            window.pieces.push_back(piece);
            if !more || ends || reach >= REACH {
                window.open_end = more || window.parts_last;
                window.load_parted(source)?;
                return Ok(window);
            }
        }
    }

    /// Begins a window with the pieces before the one at which a cursor stands.
    fn before<S: Source>(cursor: &LevelCursor<'a, S>, stretch: &Stretch<'_>) -> Result<Self, S::Error> {
        let mut window =
            Self { pieces: VecDeque::new(), open_start: false, open_end: false, parts_first: false, parts_last: false };
        let mut back = cursor.clone();
        let mut reach = 0;
        loop {
            if let Some(low) = stretch.low {
                let first = current(&back)?;
                if first.step[..] <= *low {
                    window.open_start = true;
                    window.parts_first = first.step[..] < *low;
                    return Ok(window);
                }
            }
            if !back.previous()? {
                // Whatever comes before the first piece of all is put into it.
                window.open_start = stretch.low.is_some();
                window.parts_first = window.open_start;
                return Ok(window);
            }
            if reach >= REACH {
                window.open_start = true;
                return Ok(window);
            }
            let piece = current(&back)?;
            reach = piece.weight.saturating_add(reach);
            window.pieces.push_front(piece);
        }
    }

    /// Loads the pieces of which not all is seen.
    fn load_parted<S: Source>(&mut self, source: &'a S) -> Result<(), S::Error> {
        let ends = [(self.parts_first, 0), (self.parts_last, self.pieces.len() - 1)];
        for index in ends.into_iter().filter(|(parts, _)| *parts).map(|(_, index)| index) {
            let piece = &mut self.pieces[index];
            if piece.object.is_none() {
                piece.object = Some(source.read(Kind::Node, &piece.at)?);
            }
        }
        Ok(())
    }

    /// Cuts the window anew and adds what changed to the changes of the level above.
    pub(super) fn rewrite<S: Source, K: Sink>(
        &mut self,
        writer: &mut NativeWriter<'_, K>,
        source: &'a S,
        level: u8,
        edits: &LevelEdits,
        stretch: &Stretch<'_>,
        above: &mut LevelEdits,
    ) -> Result<(), S::Error> {
        loop {
            let needed = {
                let cut = self.cut(writer.native, writer.sink, level, edits, stretch)?;
                if cut.needed.is_empty() {
                    self.emit(writer, level, &cut, stretch, above)?;
                    return Ok(());
                }
                cut.needed
            };
            for index in needed {
                let piece = &mut self.pieces[index];
                piece.object = Some(source.read(Kind::Node, &piece.at)?);
            }
        }
    }

    /// Loads all that `rewrite` would load, trying whatever follows an object that cannot be read.
    pub(super) fn load<S: Source>(
        &mut self,
        native: &Native,
        source: &'a S,
        level: u8,
        edits: &LevelEdits,
        stretch: &Stretch<'_>,
    ) -> Result<(), S::Error> {
        loop {
            let needed = self.cut(native, &mut Unheard, level, edits, stretch)?.needed;
            let mut loaded = Ok(());
            for &index in &needed {
                let piece = &mut self.pieces[index];
                match source.read(Kind::Node, &piece.at) {
                    Ok(object) => piece.object = Some(object),
                    Err(error) => loaded = Err(error),
                }
            }
            loaded?;
            if needed.is_empty() {
                return Ok(());
            }
        }
    }

    /// Cuts the window anew, as far as enough pieces are loaded.
    fn cut<'w, K: Sink>(
        &'w self,
        native: &Native,
        sink: &mut K,
        level: u8,
        edits: &'w LevelEdits,
        stretch: &Stretch<'_>,
    ) -> Result<WindowCut<'w>, crate::FormatError> {
        let (mut items, mut parts, mut tokens) = (NodeItems::new(), Vec::new(), Vec::new());
        let mut needed = Vec::new();
        let mut old = NodeItems::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let Some(object) = &piece.object else {
                tokens.push(Token { hash: cut::level_hash(level, &piece.step), weight: piece.weight });
                parts.push(WindowPart::Whole(index));
                continue;
            };
            old.clear();
            read_items(object, &mut old)?;
            let first = items.len();
            merge(sink, level, &old, edits, piece.edits.clone(), &mut items);
            self.keep_seen(index, stretch, &mut items, first);
            for (at, item) in items.iter().enumerate().skip(first) {
                tokens.push(token(level, item.step));
                parts.push(WindowPart::Item(at));
            }
            // A piece whose right neighbour lost its first item has lost the cut after it.
            let kept = items[first..].first().is_some_and(|item| item.step <= &piece.step[..]);
            if !kept && index > 0 && self.pieces[index - 1].object.is_none() {
                needed.push(index - 1);
            }
        }
        let starts = cut::starts(&tokens, native.weight_max(), self.open_start, self.open_end);
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (token, &start) in starts.iter().enumerate() {
            match runs.last_mut() {
                Some(run) if !start => run.end = token + 1,
                _ => runs.push(token..token + 1),
            }
        }
        for run in runs.iter().filter(|run| run.len() > 1) {
            needed.extend(parts[run.clone()].iter().filter_map(|part| match part {
                WindowPart::Whole(index) => Some(*index),
                WindowPart::Item(_) => None,
            }));
        }
        Ok(WindowCut { items, parts, runs, needed })
    }

    /// Drops those of a piece's items, which begin at `first`, that are beyond the stretch.
    #[inline]
    fn keep_seen(&self, index: usize, stretch: &Stretch<'_>, items: &mut NodeItems<'_>, first: usize) {
        if let Some(low) = stretch.low.filter(|_| self.parts_first && index == 0) {
            let unseen = items[first..].partition_point(|item| item.step < low);
            items.drain(first..first + unseen);
        }
        if let Some(high) = stretch.high.filter(|_| self.parts_last && index + 1 == self.pieces.len()) {
            let seen = items[first..].partition_point(|item| item.step < high);
            items.truncate(first + seen);
        }
    }

    /// Writes the pieces that are new, and removes those that are gone, in order of steps: those of the stretch.
    fn emit<K: Sink>(
        &self,
        writer: &mut NativeWriter<'_, K>,
        level: u8,
        cut: &WindowCut<'_>,
        stretch: &Stretch<'_>,
        above: &mut LevelEdits,
    ) -> Result<(), crate::FormatError> {
        let own = |piece: &&WindowPiece<'_>| piece.object.is_some() && stretch.owns(&piece.step);
        let mut loaded = self.pieces.iter().filter(own).peekable();
        for run in &cut.runs {
            let WindowPart::Item(first) = cut.parts[run.start] else { continue };
            let items = &cut.items[first..first + run.len()];
            let step = items[0].step;
            if !stretch.owns(step) {
                continue;
            }
            while let Some(gone) = loaded.next_if(|piece| piece.step[..] < *step) {
                above.remove(&gone.step);
            }
            let same: Option<Oid> = loaded.next_if(|piece| piece.step[..] == *step).map(|piece| piece.at.oid);
            writer.put_changed(level, items, same, above)?;
        }
        for gone in loaded {
            above.remove(&gone.step);
        }
        Ok(())
    }
}

/// Returns the piece that a cursor stands at.
pub(super) fn current<'a, S: Source>(cursor: &LevelCursor<'a, S>) -> Result<WindowPiece<'a>, crate::FormatError> {
    let object = cursor.object();
    let node = view(object)?;
    let index = cursor.index();
    let wrong = bad(Kind::Node);
    let child = node.child(index).map_err(&wrong)?;
    let step = object.body_slice(node.step_range(index).map_err(&wrong)?);
    let at = ObjRef::new(child.oid, object.child(index));
    Ok(WindowPiece { step, at, weight: child.weight, edits: 0..0, object: None })
}
