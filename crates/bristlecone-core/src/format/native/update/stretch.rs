//! Wide levels are done in stretches, which threads can share ([`Sink::join`]).
//!
//! A stretch is a range of steps. It makes the pieces that begin in it, and takes in what lies around as far as cuts in it can
//! depend on that. So no piece is made twice and none left out, and the objects and their order are those that one pass over
//! the level gives.

use alloc::vec::Vec;
use core::{mem::take, ops::Range};

use smallvec::SmallVec;

use super::{
    super::{
        Native,
        cursor::LevelCursor,
        cut::{self, Token},
    },
    LevelEdits, NativeWriter, NodeItem, NodeItems, only_child,
    values::{Values, value_number},
    window::{REACH, current},
    write,
};
use crate::{Change, ChangeTarget, FormatError, Location, ObjRef, Object, Oid, Sink, Source};

/// How many edits and pieces around a bound are looked through for its margins. With more, nearly all is removed there, and
/// there is no bound.
const MARGIN_EDITS_MAX: usize = 1024;
const MARGIN_PIECES_MAX: usize = 64;

/// The changes of one level, in order of steps.
pub(super) trait LevelChanges: Sync {
    fn len(&self) -> usize;
    fn step(&self, index: usize) -> &[u8];
    /// Whether there is an item from now on.
    fn puts(&self, index: usize) -> bool;
    /// Whether an item names an object that the sink was given before: where that is means nothing to another sink.
    fn names_pending(&self) -> bool;
    /// Returns some of them, encoded.
    fn part(&self, range: Range<usize>) -> LevelEdits;

    /// Returns what the item of a change weighs; nothing if there is none.
    fn weight(&self, level: u8, index: usize) -> u64 {
        if self.puts(index) { cut::weight(level, self.step(index)) } else { 0 }
    }
}

impl LevelChanges for [Change<'_>] {
    fn len(&self) -> usize {
        <[_]>::len(self)
    }

    fn step(&self, index: usize) -> &[u8] {
        self[index].step
    }

    fn puts(&self, index: usize) -> bool {
        self[index].to.is_some()
    }

    fn names_pending(&self) -> bool {
        self.iter().any(is_pending)
    }

    fn part(&self, range: Range<usize>) -> LevelEdits {
        LevelEdits::from_changes(self[range].iter().copied())
    }
}

/// Items of a level, each of which is put.
pub(super) struct LevelItems<'i> {
    pub(super) level: u8,
    pub(super) items: &'i [NodeItem<'i>],
}

impl LevelChanges for LevelItems<'_> {
    fn len(&self) -> usize {
        self.items.len()
    }

    fn step(&self, index: usize) -> &[u8] {
        self.items[index].step
    }

    fn puts(&self, _: usize) -> bool {
        true
    }

    fn names_pending(&self) -> bool {
        self.items.iter().any(|item| is_pending_place(item.at))
    }

    fn part(&self, range: Range<usize>) -> LevelEdits {
        LevelEdits::from_items(self.level, &self.items[range])
    }
}

impl LevelChanges for LevelEdits {
    fn len(&self) -> usize {
        self.len()
    }

    fn step(&self, index: usize) -> &[u8] {
        self.get(index).step
    }

    fn puts(&self, index: usize) -> bool {
        self.get(index).item.is_some()
    }

    fn names_pending(&self) -> bool {
        self.iter().any(|edit| edit.item.is_some_and(|item| is_pending_place(item.at)))
    }

    fn part(&self, range: Range<usize>) -> LevelEdits {
        self.copy_of(range)
    }
}

/// A range of steps whose pieces are made together.
#[derive(Default)]
pub(super) struct Stretch<'s> {
    /// The pieces that begin from here on and before there are made.
    from: Option<&'s [u8]>,
    to: Option<&'s [u8]>,
    /// What is looked at begins and ends here, with the edits that are at hand; else where the level does.
    pub(super) low: Option<&'s [u8]>,
    pub(super) high: Option<&'s [u8]>,
    /// One of these is within a piece.
    pub(super) parts_piece: bool,
}

impl Stretch<'_> {
    /// Whether a piece is made here that begins with a step.
    #[inline]
    pub(super) fn owns(&self, step: &[u8]) -> bool {
        self.from.is_none_or(|from| step >= from) && self.to.is_none_or(|to| step < to)
    }
}

/// The step of a change at which one stretch ends and the next begins.
struct Bound {
    edit: usize,
    before: Margin,
    behind: Margin,
}

/// Where enough has been seen on one side of a bound.
struct Margin {
    /// The first edit that is seen before the bound, or behind it the first that is not.
    edit: usize,
    /// The first step that is, or is not; `None` at an end of the level.
    step: Option<Vec<u8>>,
    within_piece: bool,
}

/// What some stretches made.
struct Made {
    above: LevelEdits,
    written: SmallVec<[Oid; 2]>,
    singles: SmallVec<[(Oid, ObjRef); 1]>,
}

impl<K: Sink> NativeWriter<'_, K> {
    /// Whether a level of so many changes is done in stretches.
    pub(super) fn is_wide(&self, changes: usize) -> bool {
        is_wide(self.native, self.sink, changes)
    }

    /// Returns into how many stretches a level is divided, and how many changes each has; the last one has more.
    fn stretches(&self, changes: usize) -> (usize, usize) {
        let length = (self.sink.shared_min() / 2).max(1);
        (changes / length, length)
    }

    /// Calls `each` with the numbers of stretches. What it gives to the sink comes in their order, and so do the changes of
    /// the level above that it returns. Unless this has to be done `alone`, threads can share it.
    fn stretch_by_stretch<E: Send, W>(&mut self, numbers: Range<usize>, alone: bool, each: &W) -> Result<LevelEdits, E>
    where
        W: Fn(&mut NativeWriter<'_, K>, usize) -> Result<LevelEdits, E> + Sync,
    {
        if !alone {
            return self.share(numbers, each);
        }
        let mut above = LevelEdits::new();
        for number in numbers {
            above.append(&each(self, number)?);
        }
        Ok(above)
    }

    /// As [`NativeWriter::stretch_by_stretch`], shared.
    fn share<E: Send, W>(&mut self, numbers: Range<usize>, each: &W) -> Result<LevelEdits, E>
    where
        W: Fn(&mut NativeWriter<'_, K>, usize) -> Result<LevelEdits, E> + Sync,
    {
        let (native, values) = (self.native, self.values);
        // No child is pending where threads share, so what was kept of nodes with one child stays right.
        let moved = |made: &mut Result<Made, E>, place: &dyn Fn(Location) -> Location| {
            made.iter_mut().for_each(|made| made.above.moved(place));
        };
        if numbers.len() <= 1 {
            let Some(number) = numbers.into_iter().next() else { return Ok(LevelEdits::new()) };
            let made = self.sink.apart(|sink| make_on(native, sink, values, |writer| each(writer, number)), moved)?;
            return Ok(self.take_made(made));
        }
        let middle = numbers.start + numbers.len() / 2;
        let half = |numbers: Range<usize>| {
            move |sink: &mut K| make_on(native, sink, values, |writer| writer.share(numbers, each))
        };
        let (one, other) = self.sink.join(half(numbers.start..middle), half(middle..numbers.end), moved);
        let (one, other) = (one?, other?);
        let mut above = self.take_made(one);
        above.append(&self.take_made(other));
        Ok(above)
    }

    /// Takes in what another writer learnt, and returns the changes of the level above.
    fn take_made(&mut self, mut made: Made) -> LevelEdits {
        self.written.append(&mut made.written);
        self.singles.append(&mut made.singles);
        made.above
    }

    /// Writes a whole level and returns the items of the level above.
    pub(super) fn put_level<C: LevelChanges + ?Sized>(
        &mut self,
        level: u8,
        items: &C,
    ) -> Result<LevelEdits, FormatError> {
        let (count, length) = self.stretches(items.len());
        let each = |writer: &mut NativeWriter<'_, K>, number: usize| {
            let end = if number + 1 == count { items.len() } else { (number + 1) * length };
            writer.put_stretch(level, items, number * length..end)
        };
        self.stretch_by_stretch(0..count, items.names_pending(), &each)
    }

    /// Writes the pieces of a level that begin with some of its items.
    fn put_stretch<C: LevelChanges + ?Sized>(
        &mut self,
        level: u8,
        items: &C,
        own: Range<usize>,
    ) -> Result<LevelEdits, FormatError> {
        let (mut start, mut end) = (own.start, own.end);
        let mut weight = 0;
        while start > 0 && weight < REACH / 2 {
            start -= 1;
            weight += items.weight(level, start);
        }
        weight = 0;
        while end < items.len() && weight < REACH {
            weight += items.weight(level, end);
            end += 1;
        }
        let puts = |range: Range<usize>| range.filter(|&index| items.puts(index)).count();
        let first = puts(start..own.start);
        let own = first..first + puts(own);
        let (open_start, open_end) = (start > 0, end < items.len());
        let edits = items.part(start..end);
        let items: NodeItems<'_> = edits.iter().filter_map(|edit| edit.item).collect();
        let tokens: Vec<Token> = items.iter().map(|item| token(level, item.step)).collect();
        let starts = cut::starts(&tokens, self.native.weight_max(), open_start, open_end);
        let mut above = LevelEdits::new();
        let mut cuts = (own.start..items.len()).filter(|&index| starts[index]).peekable();
        while let Some(from) = cuts.next_if(|&from| from < own.end) {
            let to = cuts.peek().copied().unwrap_or(items.len());
            self.put_changed(level, &items[from..to], None, &mut above)?;
        }
        Ok(above)
    }

    /// Returns the root above a level whose pieces are given; `None` if there are none.
    pub(super) fn root_above(&mut self, level: u8, above: &LevelEdits) -> Result<Option<ObjRef>, FormatError> {
        match above.iter().next().and_then(|first| first.item) {
            Some(item) if above.len() == 1 => only_child(&item).map(Some),
            Some(_) => self.build(level + 1, above),
            None => Ok(None),
        }
    }

    /// Rewrites one wide level below the root and returns the changes of the level above.
    pub(super) fn rewrite_wide<S: Source + Sync, C: LevelChanges + ?Sized>(
        &mut self,
        source: &S,
        root: &Object<'_>,
        level: u8,
        changes: &C,
    ) -> Result<LevelEdits, S::Error> {
        let bounds = self.bounds(source, root, level, changes)?;
        let each = |writer: &mut NativeWriter<'_, K>, number: usize| {
            let (from, to) = (number.checked_sub(1).map(|before| &bounds[before]), bounds.get(number));
            let edits =
                changes.part(from.map_or(0, |from| from.before.edit)..to.map_or(changes.len(), |to| to.behind.edit));
            let stretch = Stretch {
                from: from.map(|from| changes.step(from.edit)),
                to: to.map(|to| changes.step(to.edit)),
                low: from.and_then(|from| from.before.step.as_deref()),
                high: to.and_then(|to| to.behind.step.as_deref()),
                parts_piece: from.is_some_and(|from| from.before.within_piece)
                    || to.is_some_and(|to| to.behind.within_piece),
            };
            writer.rewrite_stretch(source, root, level, &edits, &stretch)
        };
        self.stretch_by_stretch(0..bounds.len() + 1, changes.names_pending(), &each)
    }

    /// Returns where one stretch of a level ends and the next begins.
    fn bounds<S: Source, C: LevelChanges + ?Sized>(
        &self,
        source: &S,
        root: &Object<'_>,
        level: u8,
        changes: &C,
    ) -> Result<Vec<Bound>, S::Error> {
        let (count, length) = self.stretches(changes.len());
        let mut cursor = LevelCursor::new(source, root.clone(), level + 1);
        let mut bounds = Vec::new();
        for edit in (1..count).map(|number| number * length) {
            cursor.seek(changes.step(edit))?;
            let before = margin_before(cursor.clone(), level, changes, edit)?;
            let behind = margin_behind(cursor.clone(), level, changes, edit)?;
            if let (Some(before), Some(behind)) = (before, behind) {
                bounds.push(Bound { edit, before, behind });
            }
        }
        Ok(bounds)
    }
}

pub(super) fn is_pending(change: &Change<'_>) -> bool {
    matches!(&change.to, Some((_, ChangeTarget::Object { at, .. })) if is_pending_place(at.at))
}

/// Whether a place is one in the sink's batch.
fn is_pending_place(at: Location) -> bool {
    at.pending_offset().is_some() && value_number(at).is_none()
}

/// Whether a level of so many changes is done in stretches.
pub(super) fn is_wide<K: Sink>(native: &Native, sink: &K, changes: usize) -> bool {
    native.split && changes > 1 && changes >= sink.shared_min()
}

/// Calls `make` with a writer of its own.
fn make_on<K: Sink, E>(
    native: &Native,
    sink: &mut K,
    values: Option<&dyn Values>,
    make: impl FnOnce(&mut NativeWriter<'_, K>) -> Result<LevelEdits, E>,
) -> Result<Made, E> {
    write(native, sink, values, |writer| {
        let above = make(writer)?;
        Ok(Made { above, written: take(&mut writer.written), singles: take(&mut writer.singles) })
    })
}

/// Returns the first step of what has to be seen before a bound so that all cuts behind it are right: items from it on weigh
/// enough once the changes are made. The cursor is at the piece in which the bound lies.
fn margin_before<S: Source, C: LevelChanges + ?Sized>(
    mut cursor: LevelCursor<'_, S>,
    level: u8,
    changes: &C,
    bound: usize,
) -> Result<Option<Margin>, S::Error> {
    let (mut weight, mut first) = (0, bound);
    for walked in 0..MARGIN_PIECES_MAX {
        let piece = current(&cursor)?;
        let more = cursor.previous()?;
        let (mut put, mut removed) = (0, 0);
        // Whatever comes before the first piece of all is put into it.
        while first > 0 && (!more || *changes.step(first - 1) >= piece.step[..]) {
            if bound - first >= MARGIN_EDITS_MAX {
                return Ok(None);
            }
            first -= 1;
            if !changes.puts(first) {
                removed += cut::weight(level, changes.step(first));
                continue;
            }
            put += changes.weight(level, first);
            if weight + put >= REACH {
                return Ok(Some(Margin { edit: first, step: Some(changes.step(first).to_vec()), within_piece: true }));
            }
        }
        // Of the piece in which the bound lies, it is not known how much is on this side.
        let here = if walked == 0 { put } else { put.max(piece.weight.saturating_sub(removed)) };
        weight = here.saturating_add(weight);
        if !more {
            return Ok(Some(Margin { edit: 0, step: None, within_piece: false }));
        }
        if weight >= REACH {
            return Ok(Some(Margin { edit: first, step: Some(piece.step.to_vec()), within_piece: false }));
        }
    }
    Ok(None)
}

/// As [`margin_before`], behind the bound: returns the first step that need not be seen.
fn margin_behind<S: Source, C: LevelChanges + ?Sized>(
    mut cursor: LevelCursor<'_, S>,
    level: u8,
    changes: &C,
    bound: usize,
) -> Result<Option<Margin>, S::Error> {
    let (mut weight, mut end) = (0, bound);
    for walked in 0..MARGIN_PIECES_MAX {
        let weight_here = current(&cursor)?.weight;
        let following = if cursor.next()? { Some(current(&cursor)?.step) } else { None };
        let (mut put, mut removed) = (0, 0);
        while end < changes.len() && following.as_ref().is_none_or(|step| *changes.step(end) < step[..]) {
            if end - bound >= MARGIN_EDITS_MAX {
                return Ok(None);
            }
            if weight + put >= REACH {
                return Ok(Some(Margin { edit: end, step: Some(changes.step(end).to_vec()), within_piece: true }));
            }
            put += changes.weight(level, end);
            removed += if changes.puts(end) { 0 } else { cut::weight(level, changes.step(end)) };
            end += 1;
        }
        let here = if walked == 0 { put } else { put.max(weight_here.saturating_sub(removed)) };
        weight = here.saturating_add(weight);
        let Some(following) = following else {
            return Ok(Some(Margin { edit: changes.len(), step: None, within_piece: false }));
        };
        if weight >= REACH {
            return Ok(Some(Margin { edit: end, step: Some(following.to_vec()), within_piece: false }));
        }
    }
    Ok(None)
}

/// Returns what stands for an item of a level where cuts are looked for.
pub(super) fn token(level: u8, step: &[u8]) -> Token {
    Token { hash: cut::level_hash(level, step), weight: cut::weight(level, step) }
}
