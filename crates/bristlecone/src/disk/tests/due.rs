//! When a collection is due, and when commits wait for one: what a store takes beside what is live depends on it.

use super::*;
use crate::disk::due::{COPIED_PERCENT_MAX, SlowedCommits};
use crate::{Info, Native, Repo, SweepDue, SweepLimits, Tree};

const SEGMENT_BYTES: u64 = 64 << 10;
/// Entries of a kilobyte each: twenty segments.
const ENTRIES: u64 = 1280;

struct Churned {
    repo: Repo,
    backend: Arc<DiskBackend>,
    number: u64,
    dir: tempfile::TempDir,
}

impl Churned {
    /// Makes a store that keeps its last commit, all of it in cold segments.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = DiskOptions::default().segment_bytes(SEGMENT_BYTES).lock_wait_ms(200);
        let backend = Arc::new(create(dir.path(), options));
        let repo = Repo::with_backend(Native::new(), backend.clone());
        repo.set_collecting(false);
        repo.set_indexing(false);
        repo.set_retention(&"last 1 refs/heads/*".parse().unwrap()).unwrap();
        let mut churned = Self { repo, backend, number: 0, dir };
        // Twice: where nothing goes, nothing is moved.
        for _ in 0..2 {
            churned.edit(|tree, number| (0..ENTRIES).for_each(|entry| set(tree, entry, number)));
        }
        churned.sweep(false);
        churned
    }

    fn edit(&mut self, edit: impl Fn(&mut Tree, u64)) {
        self.number += 1;
        let info = Info::unsigned("churn").durability(Durability::None);
        let number = self.number;
        let branch = self.repo.branch("main").unwrap();
        let edit = |tree: &mut Tree| {
            edit(tree, number);
            Ok(())
        };
        branch.edit(&info, edit).unwrap();
    }

    fn sweep(&self, partial: bool) {
        self.repo.sweep(&[], &SweepLimits::default().partial(partial)).unwrap();
    }

    /// Replaces entries until so much is due; returns how many bytes were appended.
    fn append_until(&mut self, due: SweepDue) -> u64 {
        let before = self.backend.stats().bytes_written;
        while self.backend.sweep_due() != due {
            self.edit(|tree, number| set(tree, number * 7 % ENTRIES, number));
            assert!(self.backend.stats().bytes_written - before < 100 * SEGMENT_BYTES, "nothing is {due:?}");
        }
        self.backend.stats().bytes_written - before
    }
}

fn set(tree: &mut Tree, entry: u64, number: u64) {
    let value = format!("{entry} {number} {}", "x".repeat(1024));
    tree.set(format!("{}/{entry}", entry % 8).as_str(), value).unwrap();
}

#[test]
fn a_collection_is_due_and_overdue_after_shares_of_what_is_live() {
    let mut store = Churned::new();
    let cold = store.backend.shared.table().state.live_bytes();
    assert!(cold > 20 * SEGMENT_BYTES, "{cold}");
    // Segments have ends that nothing fits in.
    let wanted = |segments: u64, share: u64| {
        let least = segments * SEGMENT_BYTES + cold / share;
        least * 3 / 4..least + 2 * SEGMENT_BYTES
    };
    let due = store.append_until(SweepDue::Beside);
    assert!(wanted(0, 8).contains(&due), "due after {due} of {cold} bytes");
    let overdue = due + store.append_until(SweepDue::Overdue);
    assert!(wanted(3, 8).contains(&overdue), "overdue after {overdue} of {cold} bytes");
    // Earlier where one is under way.
    store.backend.shared.begin_due();
    assert_eq!(store.backend.sweep_due(), SweepDue::No);
    // Of the segment in which that was, some is taken.
    let overdue = store.append_until(SweepDue::Overdue) + SEGMENT_BYTES;
    assert!(wanted(3, 16).contains(&overdue), "overdue {overdue} bytes after one of {cold} has begun");
    // Then it begins anew.
    store.sweep(true);
    assert_eq!(store.backend.sweep_due(), SweepDue::No);
    assert!(wanted(0, 8).contains(&store.append_until(SweepDue::Beside)));
}

#[test]
fn what_stays_in_the_log_makes_no_collection_due() {
    let mut store = Churned::new();
    assert_eq!(store.backend.collected().unwrap().log_bytes, 0);
    store.repo.set_retention(&"last 100 refs/heads/*".parse().unwrap()).unwrap();
    for _ in 0..300 {
        store.edit(|tree, number| set(tree, number * 7 % ENTRIES, number));
    }
    store.repo.sweep(&[], &SweepLimits::default().recent_stays(true)).unwrap();
    let (base, end) = (store.backend.shared.table().state.base, store.backend.shared.published.end() >> 32);
    let stays = end - u64::from(base);
    assert!((4..20).contains(&stays) && store.backend.sweep_due() == SweepDue::No, "{stays} segments");
    let told = store.backend.collected().unwrap().log_bytes;
    assert!((stays - 1..=stays).contains(&(told / SEGMENT_BYTES)), "{told} bytes of {stays} segments");
    // So it is for a process that opens the store.
    let options = store.backend.shared.options.clone();
    store.repo = Repo::memory();
    store.backend = Arc::new(open(store.dir.path(), options));
    store.repo = Repo::with_backend(Native::new(), store.backend.clone());
    store.repo.set_collecting(false);
    assert_eq!((store.backend.sweep_due(), store.backend.collected().unwrap().log_bytes), (SweepDue::No, told));
    let cold = store.backend.shared.table().state.live_bytes();
    assert!(store.append_until(SweepDue::Beside) > cold / 8 * 3 / 4);
}

#[test]
fn commits_that_are_slowed_wait_until_a_collection_ends_whatever_comes_of_it() {
    let mut store = Churned::new();
    let shared = store.backend.shared.clone();
    let slowed = SlowedCommits::of(&shared);
    assert_eq!(store.backend.sweep_due(), SweepDue::No);
    drop(slowed);
    for is_named in [false, true] {
        let mut slowed = SlowedCommits::of(&shared);
        assert_eq!((slowed.begin(), store.backend.sweep_due()), (true, SweepDue::Overdue));
        assert_eq!((slowed.begin(), store.backend.sweep_due()), (false, SweepDue::Overdue));
        if is_named {
            store.edit(|tree, number| set(tree, number % ENTRIES, number));
            store.sweep(true);
        }
        drop(slowed);
        assert_eq!(store.backend.sweep_due(), SweepDue::No);
    }
    store.append_until(SweepDue::Beside);
}

#[test]
fn while_another_process_collects_few_commits_try_to_until_they_are_to_wait() {
    let mut store = Churned::new();
    store.append_until(SweepDue::Beside);
    let other = crate::disk::lock::CollectorLock::take(&store.backend.shared.storage, 1000).unwrap();
    let collect = |store: &Churned| store.repo.sweep(&[], &SweepLimits::default().if_due(true)).unwrap();
    assert_eq!((collect(&store), store.backend.sweep_due()), (Swept::default(), SweepDue::No));
    store.append_until(SweepDue::Beside);
    store.append_until(SweepDue::Overdue);
    assert_eq!((collect(&store), store.backend.sweep_due()), (Swept::default(), SweepDue::Overdue));
    drop(other);
    // The worker may just be removing what an earlier one emptied.
    assert!((0..1000).any(|_| collect(&store).objects > 0));
    assert_eq!(store.backend.sweep_due(), SweepDue::No);
}

#[test]
fn cold_segments_are_looked_at_once_they_have_grown_by_a_share() {
    let mut store = Churned::new();
    let whole = store.backend.shared.table().state.live_bytes();
    let mut grown = 0;
    while !store.backend.shared.wants_whole() {
        // New entries: what is live grows by a fortieth. And versions of one entry, since most is to be garbage.
        store.edit(|tree, number| {
            (0..ENTRIES / 40).for_each(|entry| set(tree, number * ENTRIES + entry, number));
        });
        for _ in 0..20 {
            store.edit(|tree, number| set(tree, 1, number));
        }
        store.sweep(true);
        grown = store.backend.shared.table().state.live_bytes() - whole;
        assert!(grown < whole / 5, "{grown} of {whole}");
    }
    assert!(grown > whole / 8, "{grown} of {whole}");
    store.sweep(false);
    assert!(!store.backend.shared.wants_whole());
    // Without any growth, garbage in them shows nowhere else.
    let rounds = (0..20).find(|_| {
        // Twice, as above.
        for _ in 0..2 {
            store.edit(|tree, number| set(tree, 1, number));
        }
        store.sweep(true);
        store.backend.shared.wants_whole()
    });
    assert_eq!(rounds, Some(7));
}

#[test]
fn cold_segments_are_looked_at_where_most_of_what_is_emptied_is_copied() {
    let mut store = Churned::new();
    // Every entry anew: all of what is emptied is live.
    store.edit(|tree, number| (0..ENTRIES).for_each(|entry| set(tree, entry, number)));
    store.sweep(false);
    let copied = |store: &Churned| store.backend.shared.copied_percent.load(Relaxed);
    assert!(copied(&store) > COPIED_PERCENT_MAX && store.backend.shared.wants_whole(), "{}", copied(&store));
    // Versions of one entry: all but the last are garbage.
    for _ in 0..40 {
        store.edit(|tree, number| set(tree, 1, number));
    }
    store.sweep(false);
    assert!(copied(&store) < COPIED_PERCENT_MAX && !store.backend.shared.wants_whole(), "{}", copied(&store));
}
