//! Applying changes to a directory, level by level from the leaves up.
//!
//! At each level the pieces that hold a changed key are found through the level above. Where every change
//! only replaces what a key is bound to, no cut can move and each piece is written again by itself.
//! Otherwise the pieces around are taken into a window wide enough that nothing outside it can be
//! affected, and cut anew; pieces in the window that cannot have changed stay unloaded (`cut::Token`). The
//! pieces that result are the changes of the next level.

use alloc::vec::Vec;

use smallvec::{SmallVec, smallvec};

use self::{
    edits::LevelEdits,
    stretch::{LevelChanges, LevelItems, Stretch, is_wide},
    values::{Listed, Values, expect, put_value, value_number},
    window::PieceWindow,
};
use super::{
    super::all_changes,
    Native, bad,
    cursor::{LevelCursor, load_child, view},
    cut, fast, id,
    node::{self, EncodeItem, NodeChild, NodeView, encode, has_child, item_step, try_encode},
};
use crate::{
    Change, ChangeList, ChangeTarget, EntryKind, FormatError, Kind, Location, Mode, ObjRef, Object, Oid,
    STEP_BYTES_MAX, Sink, Source,
};

mod edits;
mod stretch;
mod values;
mod window;

const TOO_LONG: FormatError = FormatError::Unsupported { format: "native", what: "a step of more than 4096 bytes" };
const TOO_LARGE: FormatError =
    FormatError::Unsupported { format: "native", what: "a value of more than 16 MiB within its directory" };
/// The longest value within a directory that is cut. A piece has 64 entries at most; its length has 32 bits.
const INLINE_BYTES_MAX: usize = 1 << 24;
const _: () = assert!(cut::WEIGHT_MAX * (INLINE_BYTES_MAX as u64 + (1 << 16)) <= u32::MAX as u64);

pub(super) fn update<S: Source + Sync, K: Sink>(
    native: &Native,
    source: &S,
    sink: &mut K,
    base: Option<&ObjRef>,
    changes: &[Change<'_>],
) -> Result<Option<ObjRef>, S::Error> {
    changes.iter().try_for_each(|change| check_change(native, change))?;
    if let ([change], Some(base)) = (changes, base)
        && let Some(root) = replace_only_entry(native, source, sink, base, change)
    {
        return Ok(Some(root));
    }
    debug_assert!(changes.windows(2).all(|pair| pair[0].step < pair[1].step), "changes are sorted");
    if !native.split {
        node::check_length(changes.len(), changes.iter().map(change_bytes).fold(0, u64::saturating_add))?;
    }
    write(native, sink, None, |writer| update_with(writer, source, base, changes))
}

/// Fails where a change is too long for the piece that it falls into.
#[inline]
fn check_change(native: &Native, change: &Change<'_>) -> Result<(), FormatError> {
    if change.step.len() > STEP_BYTES_MAX {
        return Err(TOO_LONG);
    }
    change.to.as_ref().map_or(Ok(()), |(_, target)| check_target(native, target))
}

/// Fails where a target is too long for a piece of a directory that is cut.
#[inline]
pub(super) fn check_target(native: &Native, target: &ChangeTarget<'_>) -> Result<(), FormatError> {
    match target {
        ChangeTarget::Inline(value) if native.split && value.len() > INLINE_BYTES_MAX => Err(TOO_LARGE),
        _ => Ok(()),
    }
}

/// Returns the bytes that a change takes while it is made.
#[inline]
fn change_bytes(change: &Change<'_>) -> u64 {
    match &change.to {
        Some((kind, target)) => node::leaf_item_bytes(change.step, change.mode, *kind, target),
        None => change.step.len() as u64,
    }
}

/// As [`update`], with changes that are made when they are needed.
pub(super) fn update_list<S: Source + Sync, K: Sink, C: ChangeList>(
    native: &Native,
    source: &S,
    sink: &mut K,
    base: Option<&ObjRef>,
    changes: &C,
) -> Result<Option<ObjRef>, S::Error> {
    if !is_wide(native, sink, changes.len()) {
        let changes = all_changes(native, sink, changes)?;
        return update(native, source, sink, base, &changes);
    }
    let listed = Listed::checked(native, changes)?;
    write(native, sink, Some(&listed), |writer| update_with(writer, source, base, &listed))
}

/// Does something with a writer to a sink, whose buffer it has meanwhile.
fn write<K: Sink, R>(
    native: &Native,
    sink: &mut K,
    values: Option<&dyn Values>,
    work: impl FnOnce(&mut NativeWriter<'_, K>) -> R,
) -> R {
    let body = sink.take_buffer();
    let mut writer = NativeWriter {
        native,
        sink,
        values,
        body,
        locations: SmallVec::new(),
        written: SmallVec::new(),
        singles: SmallVec::new(),
    };
    let done = work(&mut writer);
    let body = core::mem::take(&mut writer.body);
    sink.give_buffer(body);
    done
}

/// Reads what an update of one step reads: the pieces on the way to it; and where a cut may come or go, those around.
pub(super) fn read<S: Source>(
    native: &Native,
    source: &S,
    base: &ObjRef,
    step: &[u8],
    removes: bool,
) -> Result<(), S::Error> {
    let root = source.read(Kind::Node, base)?;
    if view(&root)?.level == 0 {
        return Ok(());
    }
    let mut cursor = LevelCursor::new(source, root, 1);
    cursor.seek(step)?;
    let piece = load_child(source, cursor.object(), cursor.index())?;
    let node = view(&piece)?;
    let place = node.last_at_most(step).map_err(bad(Kind::Node))?;
    let is_here = match place {
        Some(place) => node.step(place).map_err(bad(Kind::Node))? == step,
        None => false,
    };
    // A step that stays, and one that is neither there nor comes, move no cut.
    if is_here != removes {
        return Ok(());
    }
    let to = (!removes).then_some((EntryKind::Value, ChangeTarget::Inline(&[])));
    let edits = LevelEdits::from_changes([Change { step, mode: Mode::USUAL, to }].into_iter());
    let whole = Stretch::default();
    PieceWindow::gather(source, &mut cursor, &edits, &whole, &mut 0)?.load(native, source, 0, &edits, &whole)
}

/// Replaces what the one entry of a directory is bound to, as happens at each step of the way down to an
/// edit in a chain of directories; `None` wherever it is not as simple as that.
fn replace_only_entry<S: Source, K: Sink>(
    native: &Native,
    source: &S,
    sink: &mut K,
    base: &ObjRef,
    change: &Change<'_>,
) -> Option<ObjRef> {
    let (kind, target) = change.to.as_ref()?;
    let (fingerprint, was_dir) = fast::only_entry(source, base.oid.as_bytes(), base.at, change.step)?;
    if was_dir && *kind != EntryKind::Dir {
        sink.dir_replaced(change.step);
    }
    let mut body: SmallVec<[u8; 160]> = SmallVec::new();
    body.extend_from_slice(&node::SINGLE_LEAF);
    body.extend_from_slice(&[fingerprint, 0, 0]);
    let items_at = body.len();
    node::write_leaf_item(&mut body, change.step, change.mode, *kind, target);
    let end = u16::try_from(body.len() - items_at).ok()?;
    body[items_at - 2..items_at].copy_from_slice(&end.to_le_bytes());
    let child = has_child(0, &body[items_at..]);
    body[1] = node::leaf_flags(child);
    let oid = id::node(0, &body[items_at..], 1, native.group, |_| usize::from(end));
    if oid == base.oid {
        return Some(*base);
    }
    let at = match target {
        ChangeTarget::Object { at, .. } => at.at,
        _ => Location::NONE,
    };
    let locations = [at];
    let at = sink.put(Kind::Node, oid, &body, if child { &locations } else { &[] }, &[]);
    Some(ObjRef::new(oid, at))
}

/// As [`update`], with the writer's buffers at hand.
fn update_with<S: Source + Sync, K: Sink, C: LevelChanges + ?Sized>(
    writer: &mut NativeWriter<'_, K>,
    source: &S,
    base: Option<&ObjRef>,
    changes: &C,
) -> Result<Option<ObjRef>, S::Error> {
    let is_wide = writer.is_wide(changes.len());
    let Some(base) = base else {
        if is_wide {
            let above = writer.put_level(0, changes)?;
            return Ok(writer.root_above(0, &above)?);
        }
        return Ok(writer.build(0, &changes.part(0..changes.len()))?);
    };
    let root = source.read(Kind::Node, base)?;
    let top = view(&root)?.level;
    let (mut edits, done) = if is_wide && top > 0 {
        (writer.rewrite_wide(source, &root, 0, changes)?, 1)
    } else {
        (changes.part(0..changes.len()), 0)
    };
    for level in done..top {
        if edits.is_empty() {
            return Ok(Some(*base));
        }
        edits = writer.rewrite_level(source, &root, level, &edits)?;
    }
    if edits.is_empty() {
        return Ok(Some(*base));
    }
    writer.rewrite_root(source, base, &root, &edits)
}

/// Gives the empty directory to the sink.
pub(super) fn put_empty<K: Sink>(native: &Native, sink: &mut K) -> ObjRef {
    write(native, sink, None, |writer| {
        let oid = encode::<NodeItem<'_>>(&mut writer.body, 0, &[], native.group);
        writer.put_encoded(0, oid, &[])
    })
}

/// An item that is to be written into a node.
#[derive(Clone, Copy)]
struct NodeItem<'w> {
    bytes: &'w [u8],
    step: &'w [u8],
    at: Location,
    count: u64,
    fingerprint: u8,
}

/// Items of one node or window; most directories are small.
type NodeItems<'w> = SmallVec<[NodeItem<'w>; 4]>;

/// Where pieces start; most directories are one.
type Cuts = SmallVec<[usize; 4]>;

impl EncodeItem for NodeItem<'_> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    fn fingerprint(&self) -> u8 {
        self.fingerprint
    }
}

/// Reads the items of a node.
fn read_items<'w>(object: &'w Object<'_>, out: &mut NodeItems<'w>) -> Result<(), FormatError> {
    let node = view(object)?;
    let wrong = bad(Kind::Node);
    out.reserve(node.len());
    let mut child = 0;
    for index in 0..node.len() {
        let bytes = node.item(index).map_err(&wrong)?;
        let at = if has_child(node.level, bytes) {
            child += 1;
            object.child(child - 1)
        } else {
            Location::NONE
        };
        let count = if node.level > 0 { node.child(index).map_err(&wrong)?.count } else { 1 };
        let step = item_step(node.level, bytes).map_err(&wrong)?;
        out.push(NodeItem { bytes, step, at, count, fingerprint: node.fingerprint(index) });
    }
    Ok(())
}

/// Merges the items of a node with changes, both sorted, and tells the sink of directories that are replaced. Returns
/// whether the set of steps stayed the same.
fn merge<'w>(
    sink: &mut impl Sink,
    level: u8,
    items: &[NodeItem<'w>],
    edits: &'w LevelEdits,
    range: core::ops::Range<usize>,
    out: &mut NodeItems<'w>,
) -> bool {
    let mut rest = items.iter().peekable();
    let mut same = true;
    for edit in range.map(|index| edits.get(index)) {
        while let Some(item) = rest.next_if(|item| item.step < edit.step) {
            out.push(*item);
        }
        let replaced = rest.next_if(|item| item.step == edit.step);
        same &= replaced.is_some() == edit.item.is_some();
        if let (Some(old), Some(new)) = (replaced, &edit.item)
            && node::is_dir(level, old.bytes)
            && !node::is_dir(level, new.bytes)
        {
            sink.dir_replaced(edit.step);
        }
        out.extend(edit.item);
    }
    out.extend(rest.copied());
    same
}

struct NativeWriter<'s, K> {
    native: &'s Native,
    sink: &'s mut K,
    // What places stand for that are none yet.
    values: Option<&'s dyn Values>,
    body: Vec<u8>,
    locations: SmallVec<[Location; 8]>,
    // Nodes written above the leaves, and of those with one item the child: they may turn out to be roots.
    written: SmallVec<[Oid; 2]>,
    singles: SmallVec<[(Oid, ObjRef); 1]>,
}

impl<K: Sink> NativeWriter<'_, K> {
    /// Builds the levels from `level` up out of nothing but puts; `None` if there are none.
    fn build(&mut self, level: u8, edits: &LevelEdits) -> Result<Option<ObjRef>, FormatError> {
        if self.is_wide(edits.len()) {
            let above = self.put_level(level, edits)?;
            return self.root_above(level, &above);
        }
        let items: NodeItems<'_> = edits.iter().filter_map(|edit| edit.item).collect();
        if items.is_empty() {
            return Ok(None);
        }
        let cuts = self.cuts(level, &items);
        if cuts.len() == 1 {
            return self.put(level, &items).map(Some);
        }
        let above = self.put_pieces(level, &items, &cuts)?;
        self.build(level + 1, &above)
    }

    /// Writes a whole level and returns the items of the level above.
    fn put_pieces(&mut self, level: u8, items: &[NodeItem<'_>], cuts: &[usize]) -> Result<LevelEdits, FormatError> {
        let mut above = LevelEdits::new();
        for (index, &start) in cuts.iter().enumerate() {
            let end = cuts.get(index + 1).copied().unwrap_or(items.len());
            self.put_changed(level, &items[start..end], None, &mut above)?;
        }
        Ok(above)
    }

    /// Returns where the pieces of a whole level start.
    fn cuts(&self, level: u8, items: &[NodeItem<'_>]) -> Cuts {
        let weight_max = self.native.weight_max();
        let total = weight_of(level, items);
        if total <= weight_max {
            return smallvec![0];
        }
        let tokens: Vec<cut::Token> = items.iter().map(|item| stretch::token(level, item.step)).collect();
        let starts = cut::starts(&tokens, weight_max, false, false);
        (0..items.len()).filter(|&index| starts[index]).collect()
    }

    /// Encodes a node and gives it to the sink.
    fn put(&mut self, level: u8, items: &[NodeItem<'_>]) -> Result<ObjRef, FormatError> {
        let oid = try_encode(&mut self.body, level, items, self.native.group)?;
        Ok(self.put_encoded(level, oid, items))
    }

    /// Returns where an item's child is. A value that the sink was not given yet is given to it.
    #[inline]
    fn child_place(&mut self, item: &NodeItem<'_>) -> Location {
        match (self.values, value_number(item.at)) {
            (Some(values), Some(number)) => put_value(self.sink, values, item, number),
            _ => item.at,
        }
    }

    fn put_encoded(&mut self, level: u8, oid: Oid, items: &[NodeItem<'_>]) -> ObjRef {
        self.locations.clear();
        if level == 0 && self.values.is_some() {
            expect(self.sink, items);
        }
        for item in items.iter().filter(|item| has_child(level, item.bytes)) {
            let at = self.child_place(item);
            self.locations.push(at);
        }
        if level > 0 {
            self.written.push(oid);
            if let [only] = items
                && let Ok(child) = only_child(only)
            {
                self.singles.push((oid, child));
            }
        }
        let at = self.sink.put(Kind::Node, oid, &self.body, &self.locations, &[]);
        ObjRef::new(oid, at)
    }

    /// Encodes a piece and adds it to the changes of the level above, unless it is `old`, which is there
    /// already.
    fn put_changed(
        &mut self,
        level: u8,
        items: &[NodeItem<'_>],
        old: Option<Oid>,
        out: &mut LevelEdits,
    ) -> Result<(), FormatError> {
        let oid = try_encode(&mut self.body, level, items, self.native.group)?;
        if old == Some(oid) {
            return Ok(());
        }
        let at = self.put_encoded(level, oid, items);
        let (weight, count) = (weight_of(level, items), count_of(items));
        out.put_child(&NodeChild { step: items[0].step, oid, count, weight }, at.at);
        Ok(())
    }

    /// Rewrites the root piece, and the levels above it that its growth needs.
    fn rewrite_root<S: Source>(
        &mut self,
        source: &S,
        base: &ObjRef,
        root: &Object<'_>,
        edits: &LevelEdits,
    ) -> Result<Option<ObjRef>, S::Error> {
        let level = view(root)?.level;
        if let Some(done) = self.replace_one_of_root(base, root, edits)? {
            return Ok(Some(done));
        }
        let (mut old, mut items) = (NodeItems::new(), NodeItems::new());
        read_items(root, &mut old)?;
        let same = merge(self.sink, level, &old, edits, 0..edits.len(), &mut items);
        if items.is_empty() {
            // An empty directory from which nothing was removed is as it was.
            return Ok(if old.is_empty() { Some(*base) } else { None });
        }
        if level > 0 && items.len() == 1 {
            return self.collapse(source, level, &items[0]).map(Some);
        }
        if !same && self.is_wide(items.len()) {
            let above = self.put_level(level, &LevelItems { level, items: &items })?;
            return Ok(self.root_above(level, &above)?);
        }
        let cuts = if same { smallvec![0] } else { self.cuts(level, &items) };
        if cuts.len() == 1 {
            let oid = try_encode(&mut self.body, level, &items, self.native.group)?;
            if oid == base.oid {
                return Ok(Some(*base));
            }
            return Ok(Some(self.put_encoded(level, oid, &items)));
        }
        let above = self.put_pieces(level, &items, &cuts)?;
        Ok(self.build(level + 1, &above)?)
    }

    /// Replaces one item of the root, if that is all there is to do.
    fn replace_one_of_root(
        &mut self,
        base: &ObjRef,
        root: &Object<'_>,
        edits: &LevelEdits,
    ) -> Result<Option<ObjRef>, FormatError> {
        let (node, wrong) = (view(root)?, bad(Kind::Node));
        let edit = edits.get(0);
        let Some(item) = edit.item.as_ref().filter(|_| edits.len() == 1 && node.len() > 1) else { return Ok(None) };
        let Some(place) = node.last_at_most(edit.step).map_err(&wrong)? else { return Ok(None) };
        if node.step(place).map_err(&wrong)? != edit.step {
            return Ok(None);
        }
        let done = self.splice(root, place, item, base.oid)?;
        Ok(done.map(|at| if at.oid == base.oid { *base } else { at }))
    }

    /// Follows only children down from an inner node that would have one item: the first node with more is
    /// the root. New nodes are in the sink, not in the source, so the writer knows what it wrote above the
    /// leaves.
    fn collapse<S: Source>(&mut self, source: &S, level: u8, only: &NodeItem<'_>) -> Result<ObjRef, S::Error> {
        let mut at = only_child(only)?;
        for _ in 1..level {
            if let Some((_, child)) = self.singles.iter().find(|(oid, _)| *oid == at.oid) {
                at = *child;
                continue;
            }
            if self.written.contains(&at.oid) {
                break;
            }
            let object = source.read(Kind::Node, &at)?;
            let node = view(&object)?;
            if node.len() != 1 {
                break;
            }
            at = ObjRef::new(node.child(0).map_err(bad(Kind::Node))?.oid, object.child(0));
        }
        Ok(at)
    }

    /// Rewrites one level below the root and returns the changes of the level above.
    fn rewrite_level<S: Source + Sync>(
        &mut self,
        source: &S,
        root: &Object<'_>,
        level: u8,
        edits: &LevelEdits,
    ) -> Result<LevelEdits, S::Error> {
        if self.is_wide(edits.len()) {
            return self.rewrite_wide(source, root, level, edits);
        }
        self.rewrite_stretch(source, root, level, edits, &Stretch::default())
    }

    /// Rewrites the pieces of a level that begin in a stretch and returns the changes of the level above.
    fn rewrite_stretch<S: Source>(
        &mut self,
        source: &S,
        root: &Object<'_>,
        level: u8,
        edits: &LevelEdits,
        stretch: &Stretch<'_>,
    ) -> Result<LevelEdits, S::Error> {
        let mut above = LevelEdits::new();
        if self.replace_only(source, root, level, edits, stretch, &mut above)? {
            return Ok(above);
        }
        // What was put up to here is right only where no window reaches: start over with windows.
        above = LevelEdits::new();
        let mut cursor = LevelCursor::new(source, root.clone(), level + 1);
        let mut next = 0;
        while next < edits.len() {
            let mut window = PieceWindow::gather(source, &mut cursor, edits, stretch, &mut next)?;
            window.rewrite(self, source, level, edits, stretch, &mut above)?;
        }
        Ok(above)
    }

    /// Rewrites each piece by itself, if every change only replaces. Returns whether that was so.
    fn replace_only<S: Source>(
        &mut self,
        source: &S,
        root: &Object<'_>,
        level: u8,
        edits: &LevelEdits,
        stretch: &Stretch<'_>,
        above: &mut LevelEdits,
    ) -> Result<bool, S::Error> {
        if stretch.parts_piece {
            // So many changes in one piece do not only replace.
            return Ok(false);
        }
        let mut cursor = LevelCursor::new(source, root.clone(), level + 1);
        let mut pieces: SmallVec<[Touched<'_>; 1]> = SmallVec::new();
        // The item that each change replaces in its piece.
        let mut places: SmallVec<[usize; 2]> = SmallVec::new();
        let mut next = 0;
        while next < edits.len() {
            if next == 0 {
                cursor.seek(edits.get(next).step)?;
            } else {
                cursor.seek_on(edits.get(next).step)?;
            }
            let (object, index) = (cursor.object().clone(), cursor.index());
            let piece = load_child(source, &object, index)?;
            let node = view(&piece)?;
            let first = next;
            // Every change of this piece must find its step here; one that does not may be anywhere.
            while next < edits.len() {
                let edit = edits.get(next);
                let found = node.last_at_most(edit.step).map_err(bad(Kind::Node))?;
                let here = match found {
                    Some(at) => node.step(at).map_err(bad(Kind::Node))? == edit.step,
                    None => false,
                };
                if !here && next > first {
                    break;
                }
                if !here || edit.item.is_none() {
                    return Ok(false);
                }
                places.push(found.unwrap_or(0));
                next += 1;
            }
            let child = view(&object)?.child(index).map_err(bad(Kind::Node))?;
            if !stretch.owns(child.step) {
                continue;
            }
            let (oid, count, weight) = (child.oid, child.count, child.weight);
            pieces.push(Touched { object: piece, oid, count, weight, edits: first..next });
        }
        let (mut old, mut items) = (NodeItems::new(), NodeItems::new());
        for piece in &pieces {
            let first = piece.edits.start;
            if piece.edits.len() == 1 && self.replace_one(piece, &edits.get(first), places[first], above)? {
                continue;
            }
            if piece.edits.len() > 1 && self.replace_alike(piece, edits, &places, above)? {
                continue;
            }
            old.clear();
            items.clear();
            read_items(&piece.object, &mut old)?;
            merge(self.sink, level, &old, edits, piece.edits.clone(), &mut items);
            self.put_changed(level, &items, Some(piece.oid), above)?;
        }
        Ok(true)
    }

    /// Replaces one item of a piece. Returns whether it could be done in place.
    fn replace_one(
        &mut self,
        piece: &Touched<'_>,
        edit: &edits::NativeEdit<'_>,
        place: usize,
        above: &mut LevelEdits,
    ) -> Result<bool, FormatError> {
        let (node, wrong) = (view(&piece.object)?, bad(Kind::Node));
        let Some(item) = &edit.item else { return Ok(false) };
        let Some(at) = self.splice(&piece.object, place, item, piece.oid)? else { return Ok(false) };
        if at.oid == piece.oid {
            return Ok(true);
        }
        let count = if node.level > 0 {
            let old = node.child(place).map_err(&wrong)?.count;
            piece.count.saturating_sub(old).saturating_add(item.count)
        } else {
            piece.count
        };
        let step = node.step(0).map_err(&wrong)?;
        above.put_child(&NodeChild { step, oid: at.oid, count, weight: piece.weight }, at.at);
        Ok(true)
    }

    /// Replaces items of a piece by others of as many bytes, as ids are, and often values. Returns whether it could be done
    /// so; if not, nothing was done.
    fn replace_alike(
        &mut self,
        piece: &Touched<'_>,
        edits: &LevelEdits,
        places: &[usize],
        above: &mut LevelEdits,
    ) -> Result<bool, FormatError> {
        let (node, wrong) = (view(&piece.object)?, bad(Kind::Node));
        self.body.clear();
        self.body.extend_from_slice(piece.object.body());
        self.locations.clear();
        self.locations.extend((0..piece.object.children()).map(|child| piece.object.child(child)));
        let mut count = piece.count;
        for index in piece.edits.clone() {
            let (edit, place) = (edits.get(index), places[index]);
            let Some(item) = &edit.item else { return Ok(false) };
            let old = node.item(place).map_err(&wrong)?;
            // What replaces a directory is told the slow way.
            let is_alike = old.len() == item.bytes.len()
                && has_child(node.level, old) == has_child(node.level, item.bytes)
                && !node::is_dir(node.level, old);
            let Some(new) = self.body.get_mut(node.item_range(place)).filter(|_| is_alike) else { return Ok(false) };
            new.copy_from_slice(item.bytes);
            if let Some(rank) = node.child_index(place).map_err(&wrong)? {
                let new = self.child_place(item);
                // A source without locations has none to replace.
                let Some(at) = self.locations.get_mut(rank) else { return Ok(false) };
                *at = new;
            }
            if node.level > 0 {
                let below = node.child(place).map_err(&wrong)?.count;
                count = count.saturating_sub(below).saturating_add(item.count);
            }
        }
        let oid = NodeView::parse(&self.body).and_then(|node| node.id(self.native.group)).map_err(&wrong)?;
        if oid == piece.oid {
            return Ok(true);
        }
        if node.level > 0 {
            self.written.push(oid);
        }
        let at = self.sink.put(Kind::Node, oid, &self.body, &self.locations, &[]);
        above.put_child(&NodeChild { step: node.step(0).map_err(&wrong)?, oid, count, weight: piece.weight }, at);
        Ok(true)
    }

    /// Writes a node with one item replaced; `None` if that is more than a splice. `old` is the node's id: it
    /// is not written again.
    fn splice(
        &mut self,
        object: &Object<'_>,
        index: usize,
        item: &NodeItem<'_>,
        old: Oid,
    ) -> Result<Option<ObjRef>, FormatError> {
        let node = view(object)?;
        if let Ok(old) = node.item(index)
            && node::is_dir(node.level, old)
            && !node::is_dir(node.level, item.bytes)
        {
            self.sink.dir_replaced(item.step);
        }
        let spliced = node::splice(&mut self.body, &node, object.body(), index, item.bytes, self.native.group);
        let Some(oid) = spliced else { return Ok(None) };
        if oid == old {
            return Ok(Some(ObjRef::new(oid, object.location())));
        }
        self.locations.clear();
        self.locations.extend((0..object.children()).map(|child| object.child(child)));
        if let Some(rank) = node.child_index(index).map_err(bad(Kind::Node))? {
            let at = self.child_place(item);
            // A source without locations has none to replace.
            match self.locations.get_mut(rank) {
                Some(place) => *place = at,
                None => return Ok(None),
            }
        }
        if node.level > 0 {
            self.written.push(oid);
            if node.len() == 1 {
                self.singles.push((oid, only_child(item)?));
            }
        }
        let at = self.sink.put(Kind::Node, oid, &self.body, &self.locations, &[]);
        Ok(Some(ObjRef::new(oid, at)))
    }
}

/// A piece in which changes fall that only replace.
struct Touched<'a> {
    object: Object<'a>,
    oid: Oid,
    // The entries below and the weight, as the level above has them.
    count: u64,
    weight: u64,
    edits: core::ops::Range<usize>,
}

/// Returns the child that an item of an inner node names.
fn only_child(item: &NodeItem<'_>) -> Result<ObjRef, FormatError> {
    let mut reader = crate::ByteReader::new(item.bytes);
    let read = |reader: &mut crate::ByteReader<'_>| {
        reader.prefixed()?;
        super::read_oid(reader)
    };
    Ok(ObjRef::new(read(&mut reader).map_err(bad(Kind::Node))?, item.at))
}

fn weight_of(level: u8, items: &[NodeItem<'_>]) -> u64 {
    items.iter().map(|item| cut::weight(level, item.step)).fold(0, u64::saturating_add)
}

fn count_of(items: &[NodeItem<'_>]) -> u64 {
    items.iter().map(|item| item.count).fold(0, u64::saturating_add)
}
