//! Sorted changes to a tree: entries that nothing is said about are copied in runs, byte for byte.

use alloc::vec::Vec;

use smallvec::SmallVec;

use super::{
    Git, bad, name,
    raw::{compare, mode_kind},
    some_places,
    table::{self, GitTable},
    unsupported,
};
use crate::{
    Bytes, Change, ChangeTarget, DecodeError, EntryKind, Format, FormatError, Kind, Location, ObjRef, Object, Sink,
    Source,
};

const DAMAGED: DecodeError = DecodeError { offset: 4, reason: "the table is not that of its entries" };
/// A tree of no entries.
const EMPTY_BODY: [u8; 4] = [0; 4];

pub(super) fn update<S: Source, K: Sink>(
    git: &Git,
    source: &S,
    sink: &mut K,
    base: Option<&ObjRef>,
    changes: &[Change<'_>],
) -> Result<Option<ObjRef>, S::Error> {
    if changes.is_empty() {
        return Ok(base.copied());
    }
    if changes.iter().any(|change| matches!(change.to, Some((_, ChangeTarget::Inline(_))))) {
        let outside = changes.iter().map(|change| value_outside(git, sink, change));
        let outside: Vec<Change<'_>> = outside.collect::<Result<_, _>>()?;
        return update(git, source, sink, base, &outside);
    }
    let object = match base {
        Some(base) => source.read(Kind::Node, base)?,
        None => Object::from_body(Kind::Node, Bytes::Borrowed(&EMPTY_BODY)),
    };
    let old = GitTable::parse(git.oid_bytes(), object.body()).map_err(bad)?;
    let plan = TreePlan::new(git, sink, &old, changes)?;
    if plan.count == 0 {
        // An empty tree from which nothing was removed is as it was.
        return Ok(base.copied().filter(|_| old.count == 0));
    }
    let mut body = sink.take_buffer();
    body.clear();
    let written = plan.write(&object, &mut body);
    let new = written.map_err(bad).map(|(places, raw_at)| {
        let oid = git.algorithm.object_id(Kind::Node, &body[raw_at..]);
        if let Some(base) = base
            && base.oid == oid
        {
            return *base;
        }
        let known = sink.known(&oid);
        ObjRef::new(oid, known.unwrap_or_else(|| sink.put(Kind::Node, oid, &body, some_places(&places), &[])))
    });
    body.clear();
    sink.give_buffer(body);
    Ok(Some(new?))
}

/// Returns a change whose value, if there is one in it, is an object: an empty value counts as one that might live in
/// its directory.
fn value_outside<'c, K: Sink>(git: &Git, sink: &mut K, change: &Change<'c>) -> Result<Change<'c>, FormatError> {
    let Some((kind, ChangeTarget::Inline(value))) = change.to else { return Ok(*change) };
    let at = git.put_contents(sink, value)?;
    Ok(Change { to: Some((kind, ChangeTarget::Object { at, bytes: value.len() as u64 })), ..*change })
}

/// What becomes of a tree.
struct TreePlan<'p, 'b> {
    old: &'p GitTable<'b>,
    changes: &'p [Change<'p>],
    // Indices of the entries that go, in order.
    removed: SmallVec<[u32; 4]>,
    // Changes that set an entry, in Git's order, with the index of the entry that it goes before.
    inserted: SmallVec<[Insert; 4]>,
    count: usize,
    raw_bytes: usize,
    // Every entry that is set takes the place of another of its length: the table stays as it is.
    in_place: bool,
}

#[derive(Clone, Copy)]
struct Insert {
    change: u32,
    before: u32,
}

/// Not known yet.
const UNPLACED: u32 = u32::MAX;

impl<'p, 'b> TreePlan<'p, 'b> {
    fn new<K: Sink>(
        git: &Git,
        sink: &mut K,
        old: &'p GitTable<'b>,
        changes: &'p [Change<'p>],
    ) -> Result<Self, FormatError> {
        let mut plan = Self {
            old,
            changes,
            removed: SmallVec::new(),
            inserted: SmallVec::with_capacity(changes.len()),
            count: old.count,
            raw_bytes: old.raw.len(),
            in_place: true,
        };
        for number in 0..changes.len() {
            plan.take(git, sink, number)?;
        }
        plan.sort();
        plan.place().map_err(bad)?;
        if plan.raw_bytes > table::RAW_BYTES_MAX {
            return Err(unsupported("a directory of more than 2 GiB"));
        }
        Ok(plan)
    }

    /// Takes a change: the entry of its step goes, whatever it is, and one may come.
    fn take<K: Sink>(&mut self, git: &Git, sink: &mut K, number: usize) -> Result<(), FormatError> {
        let change = &self.changes[number];
        let mut before = UNPLACED;
        let mut gone = 0;
        let found = if self.old.count == 0 { None } else { self.old.find(change.step).map_err(bad)? };
        if let Some(index) = found {
            let entry = self.old.entry(index).map_err(bad)?;
            gone = entry.mode.len() + entry.name.len() + 2 + entry.oid.len();
            self.removed.push(index as u32);
            self.count -= 1;
            self.raw_bytes = self.raw_bytes.checked_sub(gone).ok_or(bad(DAMAGED))?;
            let was_dir = entry.kind() == EntryKind::Dir;
            match is_dir(change) {
                Some(dir) if dir == was_dir => before = index as u32,
                Some(false) => sink.dir_replaced(change.step),
                _ => {}
            }
        }
        let Some(new) = Set::of(git, change)? else {
            self.in_place &= found.is_none();
            return Ok(());
        };
        if self.old.count == 0 {
            before = 0;
        }
        self.in_place &= found.is_some() && before != UNPLACED && new.bytes() == gone;
        self.count += 1;
        self.raw_bytes += new.bytes();
        self.inserted.push(Insert { change: number as u32, before });
        Ok(())
    }

    /// Brings what is set into Git's order. It is in that of names, which differs only where a directory's name is
    /// the beginning of others.
    fn sort(&mut self) {
        self.removed.sort_unstable();
        let changes = self.changes;
        let change = |insert: &Insert| &changes[insert.change as usize];
        let ordered = self.inserted.is_sorted_by(|one, other| {
            let (one, other) = (change(one), change(other));
            is_dir(one) != Some(true) || !other.step.starts_with(one.step) || other.step[one.step.len()] > b'/'
        });
        if !ordered {
            self.inserted.sort_by(|one, other| {
                let (one, other) = (change(one), change(other));
                compare(one.step, is_dir(one) == Some(true), other.step, is_dir(other) == Some(true))
            });
        }
    }

    /// Finds the places of what takes the place of no other entry.
    fn place(&mut self) -> Result<(), DecodeError> {
        let mut from = 0;
        for insert in &mut self.inserted {
            if insert.before == UNPLACED {
                let change = &self.changes[insert.change as usize];
                let before = self.old.first_at_least(change.step, is_dir(change) == Some(true), from)?;
                insert.before = before as u32;
            }
            if (insert.before as usize) < from {
                return Err(DAMAGED);
            }
            from = insert.before as usize;
        }
        Ok(())
    }

    /// Appends the new body to `out`. Returns the locations of its children and where Git's bytes begin in it.
    fn write(&self, object: &Object<'_>, out: &mut Vec<u8>) -> Result<(Vec<Location>, usize), DecodeError> {
        let mut places = TreeLocations::new(self, object);
        if self.in_place {
            out.extend_from_slice(object.body());
            for insert in &self.inserted {
                let new = Set::checked(&self.changes[insert.change as usize]);
                let at = self.old.raw_at + self.old.start(insert.before as usize);
                new.write(&mut out[at..at + new.bytes()]);
            }
            self.each_run(|step| places.take(step));
            return Ok((places.all, self.old.raw_at));
        }
        let table_bytes = table::reserve(out, self.count, self.raw_bytes);
        let mut ends = Vec::with_capacity(self.count);
        self.each_run(|step| {
            match step {
                TreeRun::Kept(from, to) => self.copy(from, to, table_bytes, out, &mut ends),
                TreeRun::Gone(_) => {}
                TreeRun::Set(change) => {
                    let new = Set::checked(change);
                    let at = out.len();
                    out.resize(at + new.bytes(), 0);
                    new.write(&mut out[at..]);
                    ends.push((out.len() - table_bytes) as u32);
                }
            }
            places.take(step);
        });
        let (table, raw) = out.split_at_mut(table_bytes);
        if raw.len() != self.raw_bytes || ends.len() != self.count {
            return Err(DAMAGED);
        }
        table::fill(self.old.oid_bytes, table, raw, &ends)?;
        Ok((places.all, table_bytes))
    }

    /// Copies entries `from..to`.
    fn copy(&self, from: usize, to: usize, table_bytes: usize, out: &mut Vec<u8>, ends: &mut Vec<u32>) {
        let (start, end) = (self.old.start(from), self.old.start(to));
        let at = out.len() - table_bytes;
        let shift = at.wrapping_sub(start);
        // What a damaged table makes longer than planned is refused in the end.
        let run = self.old.raw.get(start..end).filter(|run| at + run.len() <= self.raw_bytes);
        out.extend_from_slice(run.unwrap_or_default());
        self.old.each_end(from..to, |end| ends.push(end.wrapping_add(shift) as u32));
    }

    /// Calls `each` for all parts of the new tree, in order.
    fn each_run(&self, mut each: impl FnMut(TreeRun<'p>)) {
        let (mut removed, mut inserted) = (self.removed.iter().peekable(), self.inserted.iter().peekable());
        let mut next = 0;
        loop {
            let gone = removed.peek().map(|&&index| index as usize);
            let set = inserted.peek().map(|insert| insert.before as usize);
            let at = gone.unwrap_or(usize::MAX).min(set.unwrap_or(usize::MAX)).min(self.old.count);
            if next < at {
                each(TreeRun::Kept(next, at));
                next = at;
            }
            if set == Some(at) {
                let change = inserted.next().map_or(0, |insert| insert.change as usize);
                each(TreeRun::Set(&self.changes[change]));
            } else if gone == Some(at) {
                removed.next();
                each(TreeRun::Gone(at));
                next = at + 1;
            } else {
                return;
            }
        }
    }
}

/// A part of a new tree, or what is left out of it.
#[derive(Clone, Copy)]
enum TreeRun<'p> {
    /// Entries `from..to` of the old one.
    Kept(usize, usize),
    /// An entry of the old one that goes.
    Gone(usize),
    /// An entry that comes.
    Set(&'p Change<'p>),
}

/// The locations of the new tree's children.
struct TreeLocations<'p, 'b> {
    old: &'p GitTable<'b>,
    object: &'p Object<'p>,
    // None are kept: there is not one.
    none: bool,
    // How many children come before the next entry of the old tree, where some have none.
    rank: usize,
    all: Vec<Location>,
}

impl<'p, 'b> TreeLocations<'p, 'b> {
    fn new(plan: &TreePlan<'p, 'b>, object: &'p Object<'p>) -> Self {
        let place = |insert: &Insert| Set::checked(&plan.changes[insert.change as usize]).place;
        let none = object.children() == 0
            && plan.inserted.iter().all(|insert| !place(insert).is_some_and(|place| place.is_some()));
        let all = Vec::with_capacity(if none { 0 } else { plan.count });
        Self { old: plan.old, object, none, rank: 0, all }
    }

    #[inline]
    fn take(&mut self, run: TreeRun<'_>) {
        if self.none {
            return;
        }
        match run {
            TreeRun::Set(change) => self.all.extend(Set::checked(change).place),
            TreeRun::Kept(from, to) if self.object.children() == self.old.count => {
                self.all.extend((from..to).map(|index| self.object.child(index)));
            }
            TreeRun::Kept(from, to) => {
                for index in from..to {
                    if !self.old.is_foreign(index) {
                        self.all.push(self.object.child(self.rank));
                        self.rank += 1;
                    }
                }
            }
            TreeRun::Gone(index) => self.rank += usize::from(!self.old.is_foreign(index)),
        }
    }
}

/// Whether a change sets a directory; `None` if it sets nothing.
#[inline]
fn is_dir(change: &Change<'_>) -> Option<bool> {
    change.to.map(|(kind, _)| kind == EntryKind::Dir)
}

/// An entry to be written.
struct Set<'c> {
    mode: &'c [u8],
    name: &'c [u8],
    oid: &'c [u8],
    // None: it is no object of this store.
    place: Option<Location>,
}

impl<'c> Set<'c> {
    /// Returns the entry that a change sets, if Git can hold it.
    #[inline]
    fn of(git: &Git, change: &'c Change<'_>) -> Result<Option<Self>, FormatError> {
        let Some((kind, target)) = &change.to else { return Ok(None) };
        if let Some(what) = name::refused_name(change.step, *kind) {
            return Err(unsupported(what));
        }
        match (kind, target) {
            (_, ChangeTarget::Inline(_)) => return Err(unsupported("a value within its directory")),
            (EntryKind::Foreign, ChangeTarget::Foreign(_)) => {}
            (EntryKind::Foreign, _) | (_, ChangeTarget::Foreign(_)) => {
                return Err(unsupported("an id of another store that is not said to be one"));
            }
            (_, ChangeTarget::Object { .. }) => {}
        }
        let set = Self::checked(change);
        if !change.mode.is_usual() && mode_kind(set.mode) != *kind {
            return Err(unsupported("a mode that is not one of the entry's kind"));
        }
        if set.oid.len() != git.oid_bytes() {
            return Err(unsupported("an id of another hash"));
        }
        if set.oid.iter().all(|&byte| byte == 0) {
            return Err(unsupported("the id of all zeroes"));
        }
        Ok(Some(set))
    }

    /// The same of a change that was checked.
    #[inline]
    fn checked(change: &'c Change<'_>) -> Self {
        let kind = change.to.map_or(EntryKind::Value, |(kind, _)| kind);
        let (oid, place): (&[u8], _) = match &change.to {
            Some((_, ChangeTarget::Object { at, .. })) => (at.oid.as_bytes(), Some(at.at)),
            Some((_, ChangeTarget::Foreign(oid))) => (oid.as_bytes(), None),
            _ => (&[], None),
        };
        let mode = if change.mode.is_usual() { kind.git_mode().as_bytes() } else { change.mode.as_bytes() };
        Self { mode, name: change.step, oid, place }
    }

    #[inline]
    const fn bytes(&self) -> usize {
        self.mode.len() + self.name.len() + 2 + self.oid.len()
    }

    /// Writes it into zeroes, or over an entry of the same step and length.
    #[inline]
    fn write(&self, out: &mut [u8]) {
        let (mode, rest) = out.split_at_mut(self.mode.len());
        mode.copy_from_slice(self.mode);
        rest[0] = b' ';
        let (name, rest) = rest[1..].split_at_mut(self.name.len());
        name.copy_from_slice(self.name);
        rest[0] = 0;
        rest[1..].copy_from_slice(self.oid);
    }
}
