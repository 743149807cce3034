//! What is absent on purpose: commits that retention has cut, and which of them a collection is to cut.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use bristlecone_core::{Location, ObjRef, Oid};

use super::{Backend, Keep, Retention};
use crate::{
    Result,
    oid_map::{OidMap, OidSet},
    sync::lock,
};

/// Why something that is named is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AbsentReason {
    /// The store's retention has cut it.
    Cut,
}

/// What is known of a commit that is absent on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentCommit {
    /// Why it is absent.
    pub reason: AbsentReason,
    /// How many commits are missing from it on, itself included, along first parents.
    pub missing: u32,
    /// The commit with which history goes on behind them, if any is kept.
    pub next: Option<Oid>,
}

/// The commits that something that is kept names and that are absent on purpose, by id.
pub type AbsentCommits = BTreeMap<Oid, AbsentCommit>;

/// Returns what is absent by any of these.
pub(crate) fn all_absent(tables: impl IntoIterator<Item = Arc<AbsentCommits>>) -> Arc<AbsentCommits> {
    let mut tables = tables.into_iter();
    let mut all = tables.next().unwrap_or_default();
    for table in tables.filter(|table| !table.is_empty()) {
        if all.is_empty() {
            all = table;
        } else if !Arc::ptr_eq(&all, &table) {
            Arc::make_mut(&mut all).extend(table.iter().map(|(oid, row)| (*oid, *row)));
        }
    }
    all
}

/// Returns the commits that are absent since retention has cut them, here before or in a store that this one was copied from, and that
/// an original may give back; none where the store has rules of its own: what they cut stays away.
///
/// # Errors
/// Those of the backend.
pub fn absent_commits(backend: &dyn Backend) -> Result<Vec<Oid>> {
    let absent = backend.absent()?;
    // Rules that this version does not know are rules.
    if absent.is_empty() || !backend.retention().is_ok_and(|rules| rules.is_all()) {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for &oid in absent.keys() {
        if backend.read(&oid.into())?.is_none() {
            found.push(oid);
        }
    }
    Ok(found)
}

/// How much of history rules of retention cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutSize {
    /// Commits that go.
    pub dropped: u64,
    /// Commits that refs lead to and that stay.
    pub kept: u64,
    /// Of these, the commits that refs name.
    pub heads: u64,
}

/// The commits that a sweep drops since retention keeps them no longer, although others name them.
#[derive(Debug, Default)]
pub struct Cut {
    /// The commits that are dropped.
    dropped: OidMap<DroppedCommit>,
    /// Commits with which history went on behind what was absent, and that no ref keeps any more, each with its first parent.
    loose: OidMap<Option<Oid>>,
    /// What was absent before.
    before: AbsentCommits,
    size: CutSize,
    /// Commits that named one that is dropped or was absent before, and that one.
    named: Mutex<BTreeSet<(Oid, Oid)>>,
    /// Commits that were to go and stay, since a ref that moved meanwhile keeps them.
    restored: Mutex<OidSet>,
    /// What refs keep that move meanwhile.
    pub(crate) keeping: Keeping,
}

/// What is known of a commit that is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DroppedCommit {
    /// Its first parent.
    pub(crate) parent: Option<Oid>,
    /// Where it is, by what names it: a hint.
    pub(crate) at: Location,
}

/// By what it is told which commits a ref keeps that moves during a sweep.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    pub(crate) retention: Retention,
    /// In seconds since 1970.
    pub(crate) now: i64,
    pub(crate) shallow: BTreeSet<Oid>,
    /// Commits of which all stays that led there.
    whole: Mutex<OidSet>,
    /// Commits to which refs lead that keep less, and what stays along first parents.
    lines: Mutex<OidMap<Keep>>,
}

/// What is missing from a commit on, and with which one history goes on.
pub(crate) type MissingFrom = OidMap<(u32, Option<Oid>)>;

impl Keeping {
    pub(crate) fn new(retention: Retention, now: i64, shallow: BTreeSet<Oid>, whole: OidSet) -> Self {
        Self { retention, now, shallow, whole: Mutex::new(whole), lines: Mutex::default() }
    }

    /// Notes that all stays that led to a commit; returns whether that was not known.
    pub(crate) fn note_whole(&self, oid: Oid) -> bool {
        lock(&self.whole).insert(oid)
    }

    /// Notes that so much stays from a commit on, along first parents.
    pub(crate) fn note_line(&self, oid: Oid, keep: Keep) {
        let mut lines = lock(&self.lines);
        let known = lines.entry(oid).or_insert(keep);
        if covers(keep, *known, 0) {
            *known = keep;
        }
    }

    /// Whether it is known that what a rule keeps stays from a commit on, to which so many commits lead that the rule counts.
    pub(crate) fn has_line(&self, oid: &Oid, keep: Keep, before: u32) -> bool {
        lock(&self.lines).get(oid).is_some_and(|known| covers(*known, keep, before)) || lock(&self.whole).contains(oid)
    }
}

/// Whether a rule keeps at least what another one keeps that has counted some commits before.
fn covers(known: Keep, wanted: Keep, before: u32) -> bool {
    match (known, wanted) {
        (Keep::Last(known), Keep::Last(wanted)) => known.get().saturating_add(before) >= wanted.get(),
        (Keep::Within(known), Keep::Within(wanted)) => known >= wanted,
        _ => false,
    }
}

impl Cut {
    pub(crate) fn new(
        dropped: OidMap<DroppedCommit>,
        loose: OidMap<Option<Oid>>,
        before: AbsentCommits,
        size: CutSize,
    ) -> Self {
        Self { dropped, loose, before, size, ..Self::default() }
    }

    /// Sets by what it is told which commits a ref keeps that moves meanwhile.
    pub(crate) fn keeping(self, keeping: Keeping) -> Self {
        Self { keeping, ..self }
    }

    pub(crate) const fn size(&self) -> CutSize {
        self.size
    }

    /// Whether a commit is dropped.
    #[must_use]
    pub fn drops(&self, oid: &Oid) -> bool {
        self.dropped.contains_key(oid) && !lock(&self.restored).contains(oid)
    }

    /// Returns the commits that are dropped, in no order.
    pub fn dropped(&self) -> impl Iterator<Item = &Oid> {
        self.dropped.keys().filter(|oid| !lock(&self.restored).contains(*oid))
    }

    /// Returns the commits that are dropped, each with where it is by what names it.
    pub(crate) fn dropped_places(&self) -> impl Iterator<Item = ObjRef> {
        self.dropped.iter().map(|(oid, commit)| ObjRef::new(*oid, commit.at))
    }

    /// Whether a commit is dropped, or no ref keeps it and history went on with it.
    pub(crate) fn passes(&self, oid: &Oid) -> bool {
        self.gone(oid).is_some()
    }

    /// Returns the first parent of a commit that no ref keeps.
    fn gone(&self, oid: &Oid) -> Option<Option<Oid>> {
        let parent = self.dropped.get(oid).map(|commit| commit.parent).or_else(|| self.loose.get(oid).copied())?;
        (!lock(&self.restored).contains(oid)).then_some(parent)
    }

    /// Takes a commit out of the cut; returns whether it was to go.
    pub(crate) fn restore(&self, oid: &Oid) -> bool {
        self.passes(oid) && lock(&self.restored).insert(*oid)
    }

    /// Returns a number that grows whenever there may be more to say of what is absent.
    pub(crate) fn changes(&self) -> usize {
        lock(&self.named).len() + lock(&self.restored).len()
    }

    /// Says whether a parent of a commit is passed over, and keeps in mind that the commit names it.
    pub(crate) fn passes_over(&self, oid: &Oid, parent: &Oid) -> bool {
        let dropped = self.drops(parent);
        if dropped || self.before.contains_key(parent) {
            lock(&self.named).insert((*oid, *parent));
        }
        dropped
    }

    /// Returns what is absent on purpose once the sweep is done. `stays` says of a commit that was to be dropped whether it is
    /// kept all the same.
    ///
    /// # Errors
    /// Those of `stays`.
    pub fn absent<E>(&self, mut stays: impl FnMut(&Oid) -> Result<bool, E>) -> Result<AbsentCommits, E> {
        let (mut absent, mut rows) = (AbsentCommits::new(), MissingFrom::default());
        let mut asked: OidMap<bool> = OidMap::default();
        for (oid, parent) in &*lock(&self.named) {
            if !self.drops(parent) && !self.before.contains_key(parent) {
                continue;
            }
            if self.drops(oid) {
                let stays = match asked.get(oid) {
                    Some(&stays) => stays,
                    None => *asked.entry(*oid).or_insert(stays(oid)?),
                };
                if !stays {
                    continue;
                }
            }
            absent.entry(*parent).or_insert_with(|| self.row(parent, &mut rows));
        }
        Ok(absent)
    }

    /// Returns what is known of a commit that is absent from now on: goes along first parents to the first that is kept, or
    /// to one of `rows`, where all on the way are noted. So each commit is passed once, however many rows there are.
    pub(crate) fn row(&self, first: &Oid, rows: &mut MissingFrom) -> AbsentCommit {
        let (mut passed, mut at) = (Vec::new(), Some(*first));
        let (mut missing, next) = loop {
            let Some(oid) = at else { break (0, None) };
            if let Some(&row) = rows.get(&oid) {
                break row;
            }
            let (count, parent) = match self.gone(&oid) {
                Some(parent) => (1, parent),
                None => match self.before.get(&oid) {
                    Some(before) => (before.missing, before.next),
                    None => break (0, at),
                },
            };
            // Ids of commits cannot form a circle, but a damaged table could: it ends here.
            rows.insert(oid, (0, None));
            passed.push((oid, count));
            at = parent;
        };
        for (oid, count) in passed.into_iter().rev() {
            missing = count.saturating_add(missing);
            rows.insert(oid, (missing, next));
        }
        AbsentCommit { reason: AbsentReason::Cut, missing, next }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn oid(number: u8) -> Oid {
        Oid::from_array([number; 32])
    }

    fn named(parent: Oid) -> DroppedCommit {
        DroppedCommit { parent: Some(parent), at: Location::NONE }
    }

    #[test]
    fn rows_count_what_is_missing_and_lead_to_what_is_kept() {
        // 9 names 8, 8 names 7; 6 below it was absent before, with two more, and history went on with 3.
        let before = AbsentCommit { reason: AbsentReason::Cut, missing: 3, next: Some(oid(3)) };
        let cut = Cut::new(
            [(oid(8), named(oid(7))), (oid(7), named(oid(6)))].into_iter().collect(),
            OidMap::default(),
            [(oid(6), before)].into_iter().collect(),
            CutSize::default(),
        );
        assert!(cut.passes_over(&oid(9), &oid(8)) && cut.passes_over(&oid(8), &oid(7)));
        assert!(!cut.passes_over(&oid(10), &oid(6)) && !cut.passes_over(&oid(10), &oid(9)));
        let absent = cut.absent(|_| Ok::<_, Infallible>(false)).unwrap();
        let row = |missing, next| AbsentCommit { reason: AbsentReason::Cut, missing, next };
        let wanted = [(oid(6), row(3, Some(oid(3)))), (oid(8), row(5, Some(oid(3))))];
        assert_eq!(absent, wanted.into_iter().collect());
        // One that was to be dropped stays: what it names is absent, too.
        let absent = cut.absent(|_| Ok::<_, Infallible>(true)).unwrap();
        assert_eq!(absent.get(&oid(7)), Some(&row(4, Some(oid(3)))));
    }

    #[test]
    fn what_a_ref_keeps_that_moved_meanwhile_is_dropped_no_more() {
        // 9 names 8, and so on down to 1; 2 went before.
        let dropped: OidMap<_> = (3..9).map(|number| (oid(number), named(oid(number - 1)))).collect();
        let before = AbsentCommit { reason: AbsentReason::Cut, missing: 2, next: None };
        let cut = Cut::new(dropped, OidMap::default(), [(oid(2), before)].into(), CutSize::default());
        assert!(cut.passes_over(&oid(9), &oid(8)));
        let changes = cut.changes();
        assert!(cut.restore(&oid(6)) && cut.restore(&oid(5)) && !cut.restore(&oid(5)) && !cut.restore(&oid(2)));
        assert!(cut.changes() > changes && !cut.drops(&oid(6)) && cut.drops(&oid(7)) && cut.dropped().count() == 4);
        assert!(!cut.passes_over(&oid(6), &oid(5)) && cut.passes_over(&oid(5), &oid(4)));
        let row = |missing, next| AbsentCommit { reason: AbsentReason::Cut, missing, next };
        let absent = cut.absent(|_| Ok::<_, Infallible>(false)).unwrap();
        assert_eq!(absent, [(oid(8), row(2, Some(oid(6)))), (oid(4), row(4, None))].into());
        // What was named as dropped and stays by now is not absent.
        assert!(cut.restore(&oid(8)));
        let absent = cut.absent(|_| Ok::<_, Infallible>(false)).unwrap();
        assert_eq!(absent, [(oid(4), row(4, None))].into());
    }

    #[test]
    fn a_line_is_known_from_a_commit_on_of_which_as_much_stays() {
        let keep = |text: &str| text.parse::<Keep>().unwrap();
        let keeping = Keeping::default();
        keeping.note_line(oid(1), keep("last 3"));
        keeping.note_line(oid(1), keep("last 2"));
        keeping.note_line(oid(2), keep("last 5s"));
        keeping.note_whole(oid(3));
        for (commit, rule, before, known) in [
            (1, "last 3", 0, true),
            (1, "last 4", 0, false),
            (1, "last 4", 1, true),
            (1, "last 1s", 9, false),
            (2, "last 5s", 0, true),
            (2, "last 6s", 1, false),
            (2, "last 1", 0, false),
            (3, "last 9", 0, true),
            (4, "last 1", 0, false),
        ] {
            assert_eq!(keeping.has_line(&oid(commit), keep(rule), before), known, "{commit} {rule} {before}");
        }
    }

    #[test]
    fn each_commit_is_passed_once_however_many_that_name_it_stay() {
        // A snapshot may keep everything that was appended since, and all of it named something that is dropped. By a walk for
        // each this would take hours.
        const COMMITS: u32 = 200_000;
        let id = |number: u32| {
            let mut bytes = [0; 32];
            bytes[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b9).to_le_bytes());
            bytes[4..8].copy_from_slice(&number.to_le_bytes());
            Oid::from_array(bytes)
        };
        let dropped = (1..COMMITS).map(|number| (id(number), named(id(number - 1)))).collect();
        let cut = Cut::new(dropped, OidMap::default(), AbsentCommits::new(), CutSize::default());
        assert!((1..COMMITS).all(|number| cut.passes_over(&id(number + 1), &id(number))));
        let absent = cut.absent(|_| Ok::<_, Infallible>(true)).unwrap();
        assert_eq!(absent.len(), COMMITS as usize - 1);
        let right = |number: u32| absent[&id(number)].missing == number && absent[&id(number)].next == Some(id(0));
        assert!((1..COMMITS).all(right));
    }

    #[test]
    fn a_circle_in_a_damaged_table_ends() {
        let row = |next| AbsentCommit { reason: AbsentReason::Cut, missing: 2, next: Some(oid(next)) };
        let before = [(oid(1), row(2)), (oid(2), row(1))].into_iter().collect();
        let cut = Cut::new(OidMap::default(), OidMap::default(), before, CutSize::default());
        assert!(!cut.passes_over(&oid(9), &oid(1)));
        let absent = cut.absent(|_| Ok::<_, Infallible>(false)).unwrap();
        assert_eq!(absent[&oid(1)], AbsentCommit { reason: AbsentReason::Cut, missing: 4, next: None });
    }
}
