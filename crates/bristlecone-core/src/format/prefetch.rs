//! Prefetching: reading ahead of work that reads one object after another and does not know of it.
//!
//! The work is split into *tasks* ([`Task`]), in the order in which it will be done. A task is tried before it is done:
//! the trial takes objects from what is held, and ends where it lacks one, which it notes. So every trial finds one object
//! more, and one call asks for what many trials lack. Trials decide on nothing but what is read ahead.
//!
//! [`ObjectWalk`](super::Walk)s look ahead by themselves. `docs/decisions/0021-looking-ahead.md` has the bounds of both.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};
use core::{
    cell::{Cell, RefCell},
    fmt,
};

use super::ahead::{AHEAD_BYTES_MAX, AHEAD_OBJECTS_MAX, CallSize, WantedObject, lent};
use crate::{FormatError, Kind, Location, ObjRef, Object, Source};

/// A call brings at most this many bytes, and one object more: the rest is for what the tasks lack next, one level deeper.
const CALL_BYTES_MAX: usize = AHEAD_BYTES_MAX / 2;
/// How many tasks are tried for one call, at most.
const TRIALS_MAX: u32 = 1 << 16;

/// A part of some work that can be tried: its reads are done, and nothing else.
pub trait Task: Sized {
    /// The tasks that follow from it and are done before the next one.
    type Below: Iterator<Item = Self>;

    /// Reads what the work will read, and returns what follows from that.
    ///
    /// # Errors
    /// Those of the source: the trial ends at the first.
    fn try_out<S: Source>(&self, source: &S) -> Result<Self::Below, S::Error>;
}

/// What is held of objects that tasks lacked, and the tasks that lack more.
///
/// It holds at most [`AHEAD_BYTES_MAX`] bytes of objects and one object more.
pub struct Prefetch<T: Task> {
    held: BTreeMap<WantedObject, PrefetchedObject>,
    // Bytes of all objects that are held.
    bytes: usize,
    call: CallSize,
    // How many objects were asked of it.
    clock: u64,
    // The first tasks, until one is tried; then those that still lack something, in their order.
    first: Option<T::Below>,
    waiting: VecDeque<WaitingTask<T>>,
    // What was not taken yet may never be.
    guesses: bool,
    // What was read last for the work was lacking to a task, too.
    foreseen: bool,
}

enum WaitingTask<T: Task> {
    One(T),
    All(T::Below),
}

struct PrefetchedObject {
    object: Object<'static>,
    // How often the work took it, and when it did last.
    uses: u32,
    used: u64,
}

impl<T: Task> Prefetch<T> {
    /// Holds nothing yet. No task is tried before an object is lacking.
    #[must_use]
    pub fn new(first: Option<T::Below>) -> Self {
        let (held, waiting) = (BTreeMap::new(), VecDeque::new());
        let call = CallSize::new(AHEAD_OBJECTS_MAX);
        Self { held, bytes: 0, call, clock: 0, first, waiting, guesses: false, foreseen: false }
    }

    /// Adds tasks that are done before all others.
    pub fn expect(&mut self, tasks: T::Below) {
        self.waiting.extend(self.first.take().map(WaitingTask::All));
        self.waiting.push_front(WaitingTask::All(tasks));
    }

    /// Replaces all tasks by these, so that objects read for the others may never be taken.
    pub fn expect_anew(&mut self, tasks: T::Below) {
        self.waiting.clear();
        (self.first, self.guesses) = (Some(tasks), true);
    }

    /// Whether what was read last was lacking to a task, too, or nothing is read ahead: if not, the work is elsewhere.
    #[must_use]
    pub const fn has_foreseen(&self) -> bool {
        self.foreseen
    }

    /// Returns an object that is held.
    pub fn get(&mut self, kind: Kind, at: &ObjRef) -> Option<Object<'static>> {
        let held = self.held.get_mut(&(kind, at.oid))?;
        self.clock += 1;
        (held.uses, held.used) = (held.uses + 1, self.clock);
        Some(held.object.clone())
    }

    /// Reads objects for the work, in their order, as [`Source::read_many`] does; and with them what is lacking to tasks.
    ///
    /// An object that the source lends must not be asked of this.
    ///
    /// # Errors
    /// Those of the source, for the first object.
    pub fn read_many<S: Source>(
        &mut self,
        source: &S,
        wanted: &[(Kind, ObjRef)],
        bytes_max: usize,
    ) -> Result<Vec<Object<'static>>, S::Error> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        for (kind, at) in wanted {
            let Some(object) = self.get(*kind, at).filter(|_| bytes < bytes_max || taken.is_empty()) else { break };
            bytes += object.read_bytes();
            taken.push(object);
        }
        if taken.is_empty() && !wanted.is_empty() { self.fetch(source, wanted, bytes_max) } else { Ok(taken) }
    }

    /// Reads what the work wants, of which nothing is held, and what tasks lack.
    #[cold]
    fn fetch<S: Source>(
        &mut self,
        source: &S,
        first: &[(Kind, ObjRef)],
        bytes_max: usize,
    ) -> Result<Vec<Object<'static>>, S::Error> {
        if self.call.is_single() {
            self.foreseen = true;
            let found = source.read_many(first, bytes_max)?;
            return Ok(found.into_iter().map(Object::into_static).collect());
        }
        let mut notes = CallNotes { wanted: Vec::new(), noted: BTreeSet::new(), max: AHEAD_OBJECTS_MAX, again: false };
        // What is asked for twice comes with another call.
        let first = &first[..first.iter().take_while(|(kind, at)| notes.note(*kind, at)).count()];
        notes.max = self.call.objects().max(first.len());
        let notes = self.try_tasks(source, notes);
        self.foreseen = notes.again;
        self.make_room();
        // What the asker has room for, less what is held here.
        let room = bytes_max.min(AHEAD_BYTES_MAX).saturating_sub(self.bytes).min(CALL_BYTES_MAX);
        let mut found = source.read_many(&notes.wanted, room)?;
        if let ([], [(kind, at), ..]) = (&found[..], first) {
            found.push(source.read(*kind, at)?);
        }
        let (asked, whole) = (notes.wanted.len(), found.len() >= notes.wanted.len());
        let (mut answer, mut read) = (Vec::new(), 0);
        for (index, ((kind, at), object)) in notes.wanted.iter().zip(found).enumerate() {
            // A source that answers with more than it was asked for is asked again.
            if index > 0 && read >= room {
                break;
            }
            let object = object.into_static();
            read += object.read_bytes();
            let used = index < first.len();
            if used {
                answer.push(object.clone());
            }
            if self.bytes < AHEAD_BYTES_MAX {
                self.hold((*kind, at.oid), object, used);
            }
        }
        self.call.answered(asked, whole || read >= room);
        Ok(answer)
    }

    fn hold(&mut self, wanted: WantedObject, object: Object<'static>, used: bool) {
        self.bytes += object.read_bytes();
        let held = PrefetchedObject { object, uses: u32::from(used), used: self.clock };
        if let Some(before) = self.held.insert(wanted, held) {
            self.bytes -= before.object.read_bytes();
        }
    }

    /// Tries tasks until enough is noted. Those that lack something stay, those that lack nothing any more are done with.
    fn try_tasks<S: Source>(&mut self, source: &S, notes: CallNotes) -> CallNotes {
        let trial = Trial { source, held: &self.held, notes: RefCell::new(notes) };
        self.waiting.extend(self.first.take().map(WaitingTask::All));
        let mut lacking = Vec::new();
        for _ in 0..TRIALS_MAX {
            if trial.notes.borrow().is_full() {
                break;
            }
            match self.waiting.pop_front() {
                None => break,
                Some(WaitingTask::All(mut tasks)) => {
                    if let Some(task) = tasks.next() {
                        self.waiting.push_front(WaitingTask::All(tasks));
                        self.waiting.push_front(WaitingTask::One(task));
                    }
                }
                Some(WaitingTask::One(task)) => match task.try_out(&trial) {
                    Ok(below) => self.waiting.push_front(WaitingTask::All(below)),
                    Err(Lack::Object) => lacking.push(task),
                    // What is wrong with an object the work will find itself.
                    Err(Lack::Sense) => {}
                },
            }
        }
        lacking.into_iter().rev().for_each(|task| self.waiting.push_front(WaitingTask::One(task)));
        trial.notes.into_inner()
    }

    /// Drops what the work took already, what it took least often first, until there is room for a call; then what may never
    /// be taken, the oldest first.
    fn make_room(&mut self) {
        if self.bytes <= AHEAD_BYTES_MAX - CALL_BYTES_MAX {
            return;
        }
        let may_go = self.held.iter().filter(|(_, held)| held.uses > 0 || self.guesses);
        let mut may_go: Vec<_> = may_go.map(|(wanted, held)| (held.uses == 0, held.uses, held.used, *wanted)).collect();
        may_go.sort_unstable();
        for (.., wanted) in may_go {
            if self.bytes <= AHEAD_BYTES_MAX - CALL_BYTES_MAX {
                break;
            }
            if let Some(held) = self.held.remove(&wanted) {
                self.bytes -= held.object.read_bytes();
            }
        }
    }
}

impl<T: Task> fmt::Debug for Prefetch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prefetch")
            .field("objects", &self.held.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// A source whose objects are read ahead of the work of one thread.
pub(super) struct Foreseen<'s, S, T: Task> {
    source: &'s S,
    ahead: RefCell<Prefetch<T>>,
    // An object was not lent; the tasks were given then.
    far: Cell<bool>,
    told: Cell<bool>,
}

impl<'s, S: Source, T: Task> Foreseen<'s, S, T> {
    /// Has no tasks yet. The first call is of this size.
    pub(super) fn new(source: &'s S, call: CallSize) -> Self {
        let ahead = Prefetch { call, ..Prefetch::new(None) };
        Self { source, ahead: RefCell::new(ahead), far: Cell::new(false), told: Cell::new(false) }
    }

    /// Takes the tasks that are still to come, once an object was not lent.
    #[inline]
    pub(super) fn expect_once(&self, tasks: impl FnOnce() -> T::Below) {
        if self.far.get() && !self.told.replace(true) {
            self.ahead.borrow_mut().expect(tasks());
        }
    }

    /// Returns the size of the next call.
    pub(super) fn call(&self) -> CallSize {
        self.ahead.borrow().call
    }
}

impl<S: Source, T: Task> Source for Foreseen<'_, S, T> {
    type Error = S::Error;

    #[inline]
    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.source.peek(oid, at)
    }

    #[inline]
    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, S::Error> {
        if let Some(object) = lent(self.source, kind, at) {
            return Ok(object);
        }
        let mut ahead = self.ahead.borrow_mut();
        if ahead.call.is_single() {
            return self.source.read(kind, at);
        }
        self.far.set(true);
        match ahead.read_many(self.source, &[(kind, *at)], AHEAD_BYTES_MAX)?.pop() {
            Some(object) => Ok(object),
            None => self.source.read(kind, at),
        }
    }
}

/// What a call asks for, each object once.
struct CallNotes {
    wanted: Vec<(Kind, ObjRef)>,
    noted: BTreeSet<WantedObject>,
    max: usize,
    // The first was noted again.
    again: bool,
}

impl CallNotes {
    /// Notes an object; returns whether it was not, and there was room.
    fn note(&mut self, kind: Kind, at: &ObjRef) -> bool {
        let wanted = (kind, at.oid);
        self.again |= self.wanted.first().is_some_and(|(kind, first)| (*kind, first.oid) == wanted);
        let is_new = !self.is_full() && self.noted.insert(wanted);
        if is_new {
            self.wanted.push((kind, *at));
        }
        is_new
    }

    const fn is_full(&self) -> bool {
        self.wanted.len() >= self.max
    }
}

/// The source of trials: it reads nothing, and notes what it lacks.
struct Trial<'t, S> {
    source: &'t S,
    held: &'t BTreeMap<WantedObject, PrefetchedObject>,
    notes: RefCell<CallNotes>,
}

/// Why a trial ends.
enum Lack {
    /// An object is lacking.
    Object,
    /// An object does not decode.
    Sense,
}

impl From<FormatError> for Lack {
    fn from(_: FormatError) -> Self {
        Self::Sense
    }
}

impl<S: Source> Source for Trial<'_, S> {
    type Error = Lack;

    fn peek(&self, oid: &[u8], at: Location) -> Option<&[u8]> {
        self.source.peek(oid, at)
    }

    fn read<'a>(&'a self, kind: Kind, at: &ObjRef) -> Result<Object<'a>, Lack> {
        if let Some(object) = lent(self.source, kind, at) {
            return Ok(object);
        }
        if let Some(held) = self.held.get(&(kind, at.oid)) {
            return Ok(held.object.clone());
        }
        self.notes.borrow_mut().note(kind, at);
        Err(Lack::Object)
    }

    /// Notes all that is lacking, not the first alone: a walk in a trial sends its own scout.
    fn read_many<'a>(&'a self, wanted: &[(Kind, ObjRef)], _: usize) -> Result<Vec<Object<'a>>, Lack> {
        let read: Vec<_> = wanted.iter().map(|(kind, at)| self.read(*kind, at).ok()).collect();
        let objects: Vec<_> = read.into_iter().map_while(|object| object).collect();
        if objects.is_empty() && !wanted.is_empty() { Err(Lack::Object) } else { Ok(objects) }
    }
}
