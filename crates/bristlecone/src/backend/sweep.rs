//! The arguments and the result of a sweep.

use std::fmt;

use bristlecone_core::{ObjRef, Object, Oid};

use super::Cut;
use crate::{Error, oid_map::OidMap};

/// Calls its last argument with the id of everything that an object names. It asks the backend nothing, which may keep others
/// waiting meanwhile.
pub type ObjectChildren<'a> = dyn Fn(&Oid, &Object<'_>, &mut dyn FnMut(Oid)) -> Result<(), Error> + 'a;

/// After so many objects a sweep tells how far it is.
pub(crate) const TOLD_EVERY: usize = 256;

/// What a sweep leaves, beside what refs and snapshots lead to.
pub struct Roots<'a> {
    /// Objects that stay, with all below them.
    pub oids: &'a [Oid],
    /// Says what an object names: a backend knows of none.
    pub children: &'a ObjectChildren<'a>,
    /// Says which commits go although others name them, where the store has retention ([`crate::Capabilities::retention`]).
    pub cut: Option<&'a dyn CutRules>,
    /// Is told now and then how far the sweep is; its error ends the sweep.
    pub watch: Option<&'a SweepWatch<'a>>,
}

/// Says which commits a sweep drops although others name them: a backend knows of no history.
pub trait CutRules {
    /// Returns what is to be dropped as of now; `None` where nothing is.
    ///
    /// A sweep asks once nothing else can drop anything or change the rules, and before it looks at anything: what is absent and
    /// what refs lead to is as it finds it.
    ///
    /// # Errors
    /// Those of reading commits; then nothing is dropped.
    fn cut(&self) -> Result<Option<Cut>, Error>;

    /// Takes out of a cut what a ref keeps that leads to an object since the cut was made, and returns these commits.
    ///
    /// # Errors
    /// As [`CutRules::cut`].
    fn keep(&self, cut: &Cut, name: &str, to: &ObjRef) -> Result<Vec<Oid>, Error>;
}

/// Is told how far a sweep is, and ends it by an error. The sweep fails with that; one that has removed something returns what that
/// was, and leaves the rest to the next ([`Swept::more`]). It may read from the backend, and its refs, and take snapshots; it must
/// change nothing there.
pub type SweepWatch<'a> = dyn Fn(&SweepStatus) -> Result<(), Error> + 'a;

/// What a sweep is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SweepStep {
    /// It marks what stays.
    Mark,
    /// It copies what stays to where nothing else is.
    Copy,
    /// It removes what nothing leads to, in steps, and tells after each what is gone by then; also after one that fails, so that this is
    /// known where the sweep ends with an error. The backend `lsm` tells once, behind the last step or the one that failed; memory and
    /// the disk engine drop everything at once, and tell nothing of it.
    Remove,
}

/// How far a sweep is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepStatus {
    /// What it is at.
    pub step: SweepStep,
    /// Objects that this step has done.
    pub objects: u64,
    /// Bytes of their records.
    pub bytes: u64,
}

impl SweepStatus {
    /// Returns the status of a sweep that is at this.
    #[must_use]
    pub const fn new(step: SweepStep, objects: u64, bytes: u64) -> Self {
        Self { step, objects, bytes }
    }
}

impl<'a> Roots<'a> {
    /// Returns roots by which nothing goes that something names.
    #[must_use]
    pub const fn new(oids: &'a [Oid], children: &'a ObjectChildren<'a>) -> Self {
        Self { oids, children, cut: None, watch: None }
    }

    /// Sets what says which commits go although others name them.
    #[must_use]
    pub const fn cut(self, rules: &'a dyn CutRules) -> Self {
        Self { cut: Some(rules), ..self }
    }

    /// Sets what is told how far the sweep is.
    #[must_use]
    pub const fn watch(self, watch: &'a SweepWatch<'a>) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Returns the same roots without anyone who is told: for the part of a sweep that keeps others from refs or snapshots, for
    /// which the watcher may ask.
    #[must_use]
    pub const fn unwatched(&self) -> Self {
        Self { watch: None, ..*self }
    }

    /// Tells how far the sweep is.
    ///
    /// # Errors
    /// Those by which the watcher ends it.
    pub fn tell(&self, status: &SweepStatus) -> Result<(), Error> {
        self.watch.map_or(Ok(()), |watch| watch(status))
    }

    /// Tells how many objects are marked, now and then: for a walk that calls it after each, as [`crate::Reached`] does.
    ///
    /// # Errors
    /// As [`Roots::tell`].
    pub fn marked(&self, objects: u64, bytes: u64) -> Result<(), Error> {
        let is_time = objects.is_multiple_of(TOLD_EVERY as u64);
        if is_time { self.tell(&SweepStatus::new(SweepStep::Mark, objects, bytes)) } else { Ok(()) }
    }

    /// Returns what is dropped of `dead`, to which nothing leads, with the bytes of each and in the order in which it is: no object
    /// before those that name it, so that whatever stays has everything below it, also where the limits end the list. `read` reads an
    /// object; what is absent names nothing.
    ///
    /// A sweep may choose beside appends, and go through the list in steps, each without what is reached by then: what an object that is
    /// passed over names is reached, too.
    ///
    /// # Errors
    /// Those of `read`, and what [`Roots::children`] fails with.
    pub fn choose<'o>(
        &self,
        read: impl Fn(&Oid) -> Result<Option<Object<'o>>, Error>,
        dead: &[Oid],
        limits: &SweepLimits,
    ) -> Result<(Vec<(Oid, u64)>, Swept), Error> {
        let mut named: OidMap<u32> = dead.iter().map(|oid| (*oid, 0)).collect();
        for oid in dead {
            if let Some(object) = read(oid)? {
                (self.children)(oid, &object, &mut |child| _ = named.entry(child).and_modify(|count| *count += 1))?;
            }
        }
        let mut next: Vec<Oid> = dead.iter().filter(|oid| named[*oid] == 0).copied().collect();
        let (mut chosen, mut swept) = (Vec::new(), Swept::default());
        while let Some(oid) = next.pop() {
            let object = read(&oid)?;
            let bytes = object.as_ref().map_or(0, |object| object.read_bytes() as u64);
            if swept.objects >= limits.objects || swept.bytes.saturating_add(bytes) > limits.bytes {
                swept.more = true;
                continue;
            }
            (swept.objects, swept.bytes) = (swept.objects + 1, swept.bytes + bytes);
            chosen.push((oid, bytes));
            let Some(object) = object else { continue };
            (self.children)(&oid, &object, &mut |child| {
                if let Some(count) = named.get_mut(&child) {
                    *count -= 1;
                    next.extend((*count == 0).then_some(child));
                }
            })?;
        }
        Ok((chosen, swept))
    }
}

impl fmt::Debug for Roots<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roots({:?})", self.oids)
    }
}

/// How much one sweep drops at most. What is left is for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SweepLimits {
    /// Objects.
    pub objects: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// What was appended without a ref, or left by one, within so many seconds stays, where the backend knows when that was:
    /// commits that are prepared, values that are written ahead.
    pub grace: u32,
    /// Nothing is dropped; the answer says what would be. As before any sweep, what was appended may be made durable, and a log go
    /// on in a new file.
    pub dry_run: bool,
    /// Nothing is done where [`crate::Backend::sweep_due`] says so by then, or while another sweep is under way. The answer may count
    /// copies of an object apart.
    pub if_due: bool,
    /// Only what was appended since the last sweep is looked at, where the backend keeps that apart: it costs what is new, and leaves
    /// garbage among what the last sweep kept.
    pub partial: bool,
    /// What was appended since the last commit that rules cut stays where it is, garbage and all, as far as that is no more than about a
    /// third of the store, and where the backend keeps what it appends apart. It is live for the most part, until rules cut it as well:
    /// a sweep that copied it would do so only for the next one to drop the copy.
    pub recent_stays: bool,
    /// So many bytes a second are read or written at most, where the backend goes on beside commits: a slower sweep takes less of
    /// the disk and the processor from them.
    pub rate: u64,
    /// Where garbage is no more than so many percent of a file, it may stay there, hidden from all lookups: then less is copied.
    pub slack: u8,
}

/// Whether a sweep is due, by how much was appended since the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SweepDue {
    /// None is due, or the backend cannot tell.
    #[default]
    No,
    /// One is due, by a thread of its own.
    Beside,
    /// As [`SweepDue::Beside`], and so much has been appended that a sweep does not keep up: commits are to wait a little.
    Overdue,
    /// One is due, and there are to be no further threads.
    Now,
}

impl Default for SweepLimits {
    /// No limits, and no grace.
    fn default() -> Self {
        Self {
            objects: u64::MAX,
            bytes: u64::MAX,
            grace: 0,
            dry_run: false,
            if_due: false,
            partial: false,
            recent_stays: false,
            rate: u64::MAX,
            slack: 0,
        }
    }
}

impl SweepLimits {
    /// Sets the most objects that are dropped.
    #[must_use]
    pub const fn objects(mut self, objects: u64) -> Self {
        self.objects = objects;
        self
    }

    /// Sets for how many seconds what no ref leads to stays.
    #[must_use]
    pub const fn grace(mut self, seconds: u32) -> Self {
        self.grace = seconds;
        self
    }

    /// Sets whether nothing is dropped and the answer says what would be.
    #[must_use]
    pub const fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets whether only what was appended since the last sweep is looked at.
    #[must_use]
    pub const fn partial(self, partial: bool) -> Self {
        Self { partial, ..self }
    }

    /// Sets whether what was appended since the last commit that rules cut stays where it is.
    #[must_use]
    pub const fn recent_stays(self, recent_stays: bool) -> Self {
        Self { recent_stays, ..self }
    }

    /// Sets whether nothing is done unless a sweep is due.
    #[must_use]
    pub const fn if_due(mut self, if_due: bool) -> Self {
        self.if_due = if_due;
        self
    }

    /// Sets how many bytes a second are read or written at most.
    #[must_use]
    pub const fn rate(mut self, bytes_per_second: u64) -> Self {
        self.rate = bytes_per_second;
        self
    }

    /// Sets up to how many percent of a file may be garbage that stays there.
    #[must_use]
    pub const fn slack(mut self, percent: u8) -> Self {
        self.slack = percent;
        self
    }

    /// Sets the most bytes that are dropped.
    #[must_use]
    pub const fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Objects that were dropped.
    pub objects: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Of the objects, the commits that retention cut.
    pub commits: u64,
    /// Whether something is left for the next sweep: by the limits, or since another process came in between, or who watched ended it.
    pub more: bool,
}
