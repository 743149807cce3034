//! Reading ahead: many objects a call, in the order in which a walk will want them.
//!
//! A walk ([`ObjectWalk`]) does not read. It takes objects from a [`Window`], and where that lacks one it says so. Then a
//! *scout*, which is a copy of the walk, goes on through what the window holds, passes over the objects that it lacks, and
//! notes them. All of those are then asked for in one call. So objects come in the order of the walk itself, and only
//! objects to which the walk's own rules lead are asked for.
//!
//! Where the source lends an object ([`Source::peek`]) the window is not used, and nothing is read ahead.
//! `docs/decisions/0021-looking-ahead.md` has the bounds and why they hold.

use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt;

use crate::{Bytes, Kind, ObjRef, Object, Oid, Record, Source};

/// How many objects a call asks for, at most.
pub const AHEAD_OBJECTS_MAX: usize = 256;
/// How many bytes of objects are held, at most; one object more may reach beyond that.
pub const AHEAD_BYTES_MAX: usize = 8 << 20;
/// The first call asks for fewer, since its caller may want no more than the beginning. With less than half a call, a walk
/// over some dozens of objects would take more calls than the chain of them is long.
const OBJECTS_FIRST: usize = AHEAD_OBJECTS_MAX / 2;
/// How many steps a scout takes, and how many objects, at most: a few objects that name each other repeatedly can make a
/// walk almost endless.
const SCOUT_STEPS_MAX: u32 = 1 << 18;

/// How many objects a call asks for.
///
/// An answer that is short though there was room means that reading ahead gains nothing, or met an object that cannot be
/// read: the next call asks for half as many. Once a call asks for one object alone, no scout goes ahead of it, except
/// from time to time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallSize {
    objects: usize,
    singles: u8,
}

impl CallSize {
    /// How many calls for one object come before one for two.
    const SINGLES: u8 = 64;

    /// The first call asks for `objects` objects.
    #[must_use]
    pub const fn new(objects: usize) -> Self {
        Self { objects, singles: 0 }
    }

    /// Returns how many objects the next call asks for, at most.
    #[must_use]
    pub const fn objects(self) -> usize {
        self.objects
    }

    /// Whether the next call asks for one alone.
    pub const fn is_single(&mut self) -> bool {
        if self.objects > 1 {
            return false;
        }
        self.singles = (self.singles + 1) % Self::SINGLES;
        if self.singles == 0 {
            self.objects = 2;
        }
        self.singles != 0
    }

    /// Notes whether a call brought all the objects that it asked for, or as many as there was room for.
    pub fn answered(&mut self, asked: usize, whole: bool) {
        if !whole && asked > 1 {
            self.objects = (self.objects / 2).max(1);
        } else if whole && asked >= self.objects && self.objects > 1 {
            self.objects = (self.objects * 2).min(AHEAD_OBJECTS_MAX);
        }
    }
}

/// What a walk comes to.
#[derive(Clone, Debug)]
pub enum Next<T> {
    /// The next item.
    Item(T),
    /// An object that the window lacks. The walk stays where it is.
    Wants(Kind, ObjRef),
    /// Nothing more.
    End,
}

/// A walk over objects that takes them from a window and waits where the window lacks one.
///
/// **Law.** What the walk gives does not depend on what the window holds.
pub trait ObjectWalk<'a, S: Source>: Sized {
    /// What the walk gives.
    type Item;

    /// Goes on to the next item, or to the next object that is wanted.
    ///
    /// # Errors
    /// What is wrong with an object.
    fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<Self::Item>, S::Error>;

    /// Returns a copy that stands where this walk does and finds out what it will want. It may check less, give items in
    /// another order, and others in place of what it cannot know; if not `items`, it need not give any.
    #[must_use]
    fn scout(&self, items: bool) -> Self;

    /// Passes over the object that was wanted last, as if nothing were below it. Called on scouts alone.
    fn skip(&mut self);

    /// Makes a walk that did not begin yet leave out its first items, reading as little as it can. Returns whether it
    /// does: a walk over objects that do not say how many items are below them gives all.
    fn skip_items(&mut self, count: u64) -> bool {
        let _ = count;
        false
    }
}

/// Objects that were read ahead of a walk.
///
/// It holds at most [`AHEAD_BYTES_MAX`] bytes of objects and one object more.
pub struct Window<'a, S> {
    source: &'a S,
    // What may have objects that the source lacks.
    second: Option<&'a S>,
    held: BTreeMap<WantedObject, WindowObject<'a>>,
    // Bytes of all objects that are held.
    bytes: usize,
    call: CallSize,
    // Whether a scout is walking, and how many objects it has met.
    scouting: bool,
    met: u32,
}

pub(super) type WantedObject = (Kind, Oid);

struct WindowObject<'a> {
    object: Object<'a>,
    // How often the walk will want it, as far as the last scout came, and where the scout met it last.
    uses: u32,
    met: u32,
}

impl<'a, S: Source> Window<'a, S> {
    /// Returns a window over a source that holds nothing.
    #[must_use]
    pub const fn new(source: &'a S) -> Self {
        Self::over(source, None)
    }

    /// Returns a window that holds nothing over a source and another one, which is asked for what the first one lacks.
    #[must_use]
    pub const fn over(source: &'a S, second: Option<&'a S>) -> Self {
        let call = CallSize::new(OBJECTS_FIRST);
        Self { source, second, held: BTreeMap::new(), bytes: 0, call, scouting: false, met: 0 }
    }

    /// Returns what the objects are read from.
    #[must_use]
    pub const fn source(&self) -> &'a S {
        self.source
    }

    /// Returns an object that the source lends or the window holds; `None` if it must be read.
    #[inline]
    pub fn get(&mut self, kind: Kind, at: &ObjRef) -> Option<Object<'a>> {
        if !self.scouting
            && let Some(object) = lent(self.source, kind, at)
        {
            return Some(object);
        }
        if self.held.is_empty() { None } else { self.take(kind, at) }
    }

    fn take(&mut self, kind: Kind, at: &ObjRef) -> Option<Object<'a>> {
        let wanted = (kind, at.oid);
        let held = self.held.get_mut(&wanted)?;
        if self.scouting {
            if self.met == SCOUT_STEPS_MAX {
                return None;
            }
            self.met += 1;
            (held.uses, held.met) = (held.uses + 1, self.met);
            return Some(held.object.clone());
        }
        if held.uses > 1 {
            held.uses -= 1;
            return Some(held.object.clone());
        }
        self.drop_held(wanted)
    }

    fn drop_held(&mut self, wanted: WantedObject) -> Option<Object<'a>> {
        let object = self.held.remove(&wanted)?.object;
        self.bytes -= object.read_bytes();
        Some(object)
    }

    /// Returns the next item of a walk, reading what it wants; `None` at its end.
    ///
    /// # Errors
    /// Those of the walk and of the source.
    #[inline]
    pub fn advance<W: ObjectWalk<'a, S>>(&mut self, walk: &mut W) -> Result<Option<W::Item>, S::Error> {
        loop {
            match walk.next(self)? {
                Next::Item(item) => return Ok(Some(item)),
                Next::End => return Ok(None),
                Next::Wants(kind, at) => self.read_for(walk, kind, at)?,
            }
        }
    }

    /// Reads the object that a walk wants, and with it what a scout finds that it will want.
    #[cold]
    fn read_for<W: ObjectWalk<'a, S>>(&mut self, walk: &W, kind: Kind, at: ObjRef) -> Result<(), S::Error> {
        let mut outlook = Outlook::new(kind, at);
        let single = self.call.is_single();
        if !single {
            self.scout(walk, &mut outlook);
        }
        self.make_room();
        let room = AHEAD_BYTES_MAX - self.bytes;
        let mut found = match (self.source.read_many(&outlook.wanted, room), self.second) {
            (Err(error), Some(second)) => alloc::vec![second.read(kind, &at).map_err(|_| error)?],
            (found, _) => found?,
        };
        if found.is_empty() {
            found.push(match (self.source.read(kind, &at), self.second) {
                (Err(error), Some(second)) => second.read(kind, &at).map_err(|_| error)?,
                (found, _) => found?,
            });
        }
        let whole = found.len() >= outlook.wanted.len();
        let mut read = 0;
        for ((kind, at), object) in outlook.wanted.iter().zip(found) {
            // A source that answers with more than it was asked for is asked again.
            if read > room {
                break;
            }
            let wanted = (*kind, at.oid);
            self.drop_held(wanted);
            read += object.read_bytes();
            self.bytes += object.read_bytes();
            self.held.insert(wanted, WindowObject { object, uses: outlook.uses[&wanted], met: self.met });
        }
        if !single {
            self.call.answered(outlook.wanted.len(), whole || read >= room);
        }
        Ok(())
    }

    /// Sends a scout ahead of a walk, which notes what the window lacks.
    fn scout<W: ObjectWalk<'a, S>>(&mut self, walk: &W, outlook: &mut Outlook) {
        for held in self.held.values_mut() {
            (held.uses, held.met) = (0, u32::MAX);
        }
        (self.scouting, self.met) = (true, 0);
        let mut scout = walk.scout(false);
        for _ in 0..SCOUT_STEPS_MAX {
            // What is wrong with an object the walk will find itself.
            let (kind, at) = match scout.next(self) {
                Ok(Next::Item(_)) => continue,
                Ok(Next::Wants(kind, at)) if self.met < SCOUT_STEPS_MAX => (kind, at),
                Ok(_) | Err(_) => break,
            };
            let noted = outlook.uses.contains_key(&(kind, at.oid));
            if !noted && outlook.wanted.len() >= self.call.objects() {
                break;
            }
            if noted || self.source.peek(at.oid.as_bytes(), at.at).is_none() {
                outlook.note(kind, at);
            }
            scout.skip();
        }
        self.scouting = false;
    }

    /// Drops what will be wanted last, until half of the window is free: a call that brings fewer bytes would be a small
    /// one.
    fn make_room(&mut self) {
        if self.bytes <= AHEAD_BYTES_MAX / 2 {
            return;
        }
        let mut held: Vec<(u32, WantedObject)> = self.held.iter().map(|(wanted, held)| (held.met, *wanted)).collect();
        held.sort_unstable();
        while self.bytes > AHEAD_BYTES_MAX / 2
            && let Some((_, wanted)) = held.pop()
        {
            self.drop_held(wanted);
        }
    }
}

/// What a call asks for, each object once, and how often each will be wanted.
struct Outlook {
    wanted: Vec<(Kind, ObjRef)>,
    uses: BTreeMap<WantedObject, u32>,
}

impl Outlook {
    fn new(kind: Kind, at: ObjRef) -> Self {
        Self { wanted: alloc::vec![(kind, at)], uses: BTreeMap::from([((kind, at.oid), 0)]) }
    }

    fn note(&mut self, kind: Kind, at: ObjRef) {
        let uses = self.uses.entry((kind, at.oid)).or_insert_with(|| {
            self.wanted.push((kind, at));
            0
        });
        *uses += 1;
    }
}

/// Returns an object that a source lends, if it is of this kind. A large value stands for a value.
#[inline]
pub fn lent<'a, S: Source>(source: &'a S, kind: Kind, at: &ObjRef) -> Option<Object<'a>> {
    let bytes = source.peek(at.oid.as_bytes(), at.at)?;
    let record = Record::parse(bytes).ok()?;
    let fits = record.kind == kind || (kind == Kind::Contents && record.kind == Kind::Pieces);
    fits.then(|| Object::from_record(&record, Bytes::Borrowed(bytes), at.at))
}

impl<S> fmt::Debug for Window<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Window").field("objects", &self.held.len()).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// The items of a walk, whose objects are read ahead.
pub struct Ahead<'a, S: Source, W: ObjectWalk<'a, S>> {
    window: Window<'a, S>,
    walk: W,
    // The first item, which was looked for when the walk began.
    first: Option<Result<W::Item, S::Error>>,
    ended: bool,
}

impl<'a, S: Source, W: ObjectWalk<'a, S>> Ahead<'a, S, W> {
    /// Begins a walk and reads what its first item takes.
    ///
    /// # Errors
    /// Those of the source. What is wrong with an item comes in its place.
    pub fn new(source: &'a S, mut walk: W) -> Result<Self, S::Error> {
        let mut window = Window::new(source);
        let first = loop {
            match walk.next(&mut window) {
                Ok(Next::Wants(kind, at)) => window.read_for(&walk, kind, at)?,
                Ok(Next::Item(item)) => break Some(Ok(item)),
                Ok(Next::End) => break None,
                Err(error) => break Some(Err(error)),
            }
        };
        let ended = !matches!(first, Some(Ok(_)));
        Ok(Self { window, walk, first, ended })
    }
}

impl<'a, S: Source, W: ObjectWalk<'a, S>> Iterator for Ahead<'a, S, W> {
    type Item = Result<W::Item, S::Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.first.is_some() {
            return self.first.take();
        }
        // As `Window::advance` does: items are large, and each way through a function may copy them.
        while !self.ended {
            match self.walk.next(&mut self.window) {
                Ok(Next::Item(item)) => return Some(Ok(item)),
                Ok(Next::Wants(kind, at)) => {
                    if let Err(error) = self.window.read_for(&self.walk, kind, at) {
                        self.ended = true;
                        return Some(Err(error));
                    }
                }
                Ok(Next::End) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

impl<'a, S: Source, W: ObjectWalk<'a, S>> fmt::Debug for Ahead<'a, S, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ahead").field("window", &self.window).field("ended", &self.ended).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_grow_where_all_comes_that_is_asked_for() {
        let mut call = CallSize::new(2);
        call.answered(1, true);
        assert_eq!(call.objects(), 2, "no more were wanted");
        call.answered(2, true);
        assert_eq!(call.objects(), 4);
        call.answered(1, false);
        assert_eq!(call.objects(), 4, "one that cannot be read says nothing of many");
        call.answered(3, false);
        assert_eq!(call.objects(), 2);
        (0..20).for_each(|_| call.answered(AHEAD_OBJECTS_MAX, true));
        assert_eq!(call.objects(), AHEAD_OBJECTS_MAX);
    }

    #[test]
    fn single_calls_stay_single_but_now_and_then() {
        let mut call = CallSize::new(2);
        assert!(!call.is_single());
        call.answered(2, false);
        for _ in 0..3 {
            let singles = (0..1000).take_while(|_| call.is_single()).count();
            assert_eq!((singles, call.objects()), (usize::from(CallSize::SINGLES) - 1, 2));
            call.answered(2, false);
            call.answered(1, true);
            assert_eq!(call.objects(), 1);
        }
    }
}
