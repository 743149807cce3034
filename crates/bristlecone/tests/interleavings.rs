//! The lock-free parts, built from their own source on primitives whose interleavings are explored: each test
//! runs thousands of schedules, chosen at random and by the probabilistic concurrency testing of Burckhardt
//! et al. A schedule that fails is printed and can be replayed.

#![allow(dead_code, unreachable_pub, reason = "the files are parts of the crate and used here in part")]

use bristlecone::{Error, storage};

mod sync {
    pub use std::sync::PoisonError;

    pub use shuttle::{
        hint,
        sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, Weak, atomic},
        thread,
    };

    pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn read_lock<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
        lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write_lock<T>(lock: &RwLock<T>) -> shuttle::sync::RwLockWriteGuard<'_, T> {
        lock.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Stands for the store's state: its number alone.
mod state {
    #[derive(Debug, Default)]
    pub struct StoreState {
        pub epoch: u64,
        pub time: u32,
    }
}

/// Stands for the tables of segments.
mod table {
    use crate::state::StoreState;

    #[derive(Debug)]
    pub struct SegmentTable {
        pub state: StoreState,
    }

    impl SegmentTable {
        pub const fn new(state: StoreState) -> Self {
            Self { state }
        }

        pub fn after(&self, state: StoreState) -> Self {
            assert_eq!(state.epoch, self.state.epoch + 1);
            Self { state }
        }

        pub fn note(&self, _: impl Iterator<Item = u32>) {}
    }
}

#[path = "../src/disk/generations.rs"]
mod generations;

#[path = "../src/disk/published.rs"]
mod published;

#[path = "../src/engine/queue.rs"]
mod queue;

#[path = "../src/engine/worker.rs"]
mod worker;

#[path = "../src/backend/arena.rs"]
mod arena;

mod commits {
    /// Stands for the commits: each of `threads` enters `rounds` times; the leader adds up what waits.
    pub fn group_commit(threads: u64, rounds: u64) {
        use shuttle::sync::{Arc, Mutex};

        use crate::queue::{Entered, Queue, Waited};

        let queue: Arc<Queue<u64, u64>> = Arc::default();
        // What was written, and whether a thread is writing.
        let log = Arc::new((Mutex::new(Vec::new()), shuttle::sync::atomic::AtomicBool::new(false)));
        let write = |log: &(Mutex<Vec<u64>>, shuttle::sync::atomic::AtomicBool), items: &[u64]| {
            use shuttle::sync::atomic::Ordering::SeqCst;
            assert!(!log.1.swap(true, SeqCst), "two lead at a time");
            log.0.lock().unwrap().extend_from_slice(items);
            log.1.store(false, SeqCst);
        };
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (queue, log) = (queue.clone(), log.clone());
                shuttle::thread::spawn(move || {
                    for round in 0..rounds {
                        let item = thread * 100 + round;
                        match queue.enter(|| item) {
                            Entered::Leads(lead) => {
                                write(&log, &[item]);
                                drop(lead);
                            }
                            Entered::Waits(waiter) => match queue.wait(&waiter) {
                                Waited::Answered(answer) => assert_eq!(answer.ok(), Some(item * 2)),
                                Waited::Leads(lead, group) => {
                                    let items: Vec<u64> = group.iter().map(|waiter| *waiter.item()).collect();
                                    write(&log, &items);
                                    // As a commit does: the lead goes on before the sync and the answers.
                                    drop(lead);
                                    group.iter().for_each(|waiter| waiter.finish(waiter.item() * 2));
                                    assert_eq!(waiter.take().ok(), Some(item * 2), "a leader answers itself");
                                }
                            },
                        }
                    }
                })
            })
            .collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        let mut written = log.0.lock().unwrap().clone();
        written.sort_unstable();
        let expected: Vec<u64> = (0..threads).flat_map(|thread| (0..rounds).map(move |n| thread * 100 + n)).collect();
        assert_eq!(written, expected, "every item is written once");
    }

    /// As above, by the call that leaves the lead to the queue; the thread that brings 0 panics if it leads.
    pub fn runs(threads: u64, panics: bool) {
        use std::panic::{AssertUnwindSafe, catch_unwind};

        use bristlecone::Error;
        use shuttle::sync::{Arc, Mutex};

        let queue: Arc<crate::queue::Queue<u64, u64>> = Arc::default();
        let written = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (0..threads)
            .map(|item| {
                let (queue, written) = (queue.clone(), written.clone());
                shuttle::thread::spawn(move || {
                    let write = |items: &[&u64]| {
                        if panics && item == 0 {
                            std::panic::resume_unwind(Box::new("a leader of the test"));
                        }
                        let mut written = written.try_lock().expect("two lead at a time");
                        written.extend(items.iter().map(|&&item| item));
                        shuttle::thread::yield_now();
                        items.iter().map(|&item| item * 2).collect()
                    };
                    match catch_unwind(AssertUnwindSafe(|| queue.run(item, write))) {
                        Ok(Ok(answer)) => assert_eq!(answer, item * 2),
                        Ok(Err(error)) => assert!(panics && matches!(error, Error::Unanswered), "{error:?}"),
                        Err(_) => assert!(panics && item == 0),
                    }
                    shuttle::thread::yield_now();
                })
            })
            .collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        let mut written = written.lock().unwrap().clone();
        written.sort_unstable();
        written.dedup();
        assert!(panics || written == (0..threads).collect::<Vec<_>>(), "{written:?}");
    }
}

/// A leader that panics answers no thread; the waiting threads learn it, and the lead goes on.
fn leaders_that_answer_nobody(threads: u64) {
    use shuttle::sync::{Arc, atomic::AtomicU64, atomic::Ordering::SeqCst};

    use crate::queue::{Entered, Queue, Waited};

    let queue: Arc<Queue<u64, u64>> = Arc::default();
    let (led, forgotten) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let handles: Vec<_> = (0..threads)
        .map(|thread| {
            let (queue, led, forgotten) = (queue.clone(), led.clone(), forgotten.clone());
            shuttle::thread::spawn(move || match queue.enter(|| thread) {
                Entered::Leads(lead) => {
                    led.fetch_add(1, SeqCst);
                    drop(lead);
                }
                Entered::Waits(waiter) => match queue.wait(&waiter) {
                    Waited::Answered(answer) => {
                        assert!(matches!(answer, Err(Error::Unanswered)), "no leader answers here");
                        forgotten.fetch_add(1, SeqCst);
                    }
                    // As the stack unwinds: the group first.
                    Waited::Leads(lead, group) => {
                        led.fetch_add(1, SeqCst);
                        drop(group);
                        drop(lead);
                    }
                },
            })
        })
        .collect();
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(led.load(SeqCst) + forgotten.load(SeqCst), threads, "every thread goes on");
}

#[test]
fn those_whose_leader_panics_go_on() {
    shuttle::check_random(|| leaders_that_answer_nobody(4), 2_000);
    shuttle::check_pct(|| leaders_that_answer_nobody(4), 2_000, 3);
}

mod workers {
    use std::time::Duration;

    use shuttle::{
        sync::{
            Arc, Condvar, Mutex,
            atomic::{AtomicU64, Ordering::*},
        },
        thread,
    };

    use crate::worker::Worker;

    /// Stands for a backend: appends make `appended` grow, and the job makes `synced` follow.
    struct Owner {
        worker: Worker<Self, 1>,
        appended: AtomicU64,
        synced: Mutex<u64>,
        changed: Condvar,
        at_work: AtomicU64,
    }

    impl Owner {
        fn new() -> Arc<Self> {
            let owner = Arc::new(Self {
                worker: Worker::new("sync", true, [Duration::ZERO], |owner: &Self, _| {
                    assert_eq!(owner.at_work.fetch_add(1, SeqCst), 0, "two threads are at work");
                    owner.sync();
                    owner.at_work.fetch_sub(1, SeqCst);
                }),
                appended: AtomicU64::new(0),
                synced: Mutex::new(0),
                changed: Condvar::new(),
                at_work: AtomicU64::new(0),
            });
            owner.worker.serve(&owner);
            owner
        }

        fn append(&self) {
            self.appended.fetch_add(1, Relaxed);
            assert!(self.worker.ask(0));
        }

        fn sync(&self) {
            let appended = self.appended.load(Relaxed);
            let mut synced = self.synced.lock().unwrap();
            *synced = appended.max(*synced);
            self.changed.notify_all();
        }

        /// Waits until everything is synced. A thread that waits in vain is a deadlock, and found.
        fn wait(&self) {
            let all = self.appended.load(Relaxed);
            let mut synced = self.synced.lock().unwrap();
            while *synced < all {
                synced = self.changed.wait(synced).unwrap();
            }
        }
    }

    /// Threads append and ask, while others close and go on.
    pub fn ask_and_stop(appenders: u64, closers: u64) {
        let owner = Owner::new();
        let appends = (0..appenders).map(|_| {
            let owner = owner.clone();
            thread::spawn(move || (0..2).for_each(|_| owner.append()))
        });
        let mut handles: Vec<_> = appends.collect();
        handles.extend((0..closers).map(|_| {
            let owner = owner.clone();
            // Jobs that were asked for and dropped are up to the caller that stops the worker.
            thread::spawn(move || {
                owner.worker.stop();
                owner.sync();
            })
        }));
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        owner.wait();
        owner.worker.stop();
        assert_eq!(owner.at_work.load(SeqCst), 0, "a thread that was stopped is at work");
        owner.append();
        owner.wait();
        // A thread that did not end here would never end.
        drop(owner);
    }

    /// A thread finishes the worker while others ask: then only callers have the owner.
    pub fn ask_and_finish() {
        let owner = Owner::new();
        let asks = |owner: Arc<Owner>| thread::spawn(move || (0..2).for_each(|_| _ = owner.worker.ask(0)));
        let handles = [asks(owner.clone()), asks(owner.clone())];
        owner.worker.finish();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
        assert_eq!(Arc::strong_count(&owner), 1, "a thread has the owner");
        assert!(!owner.worker.ask(0));
    }

    /// The owner goes while its thread is at work: it may be the thread that has it last.
    pub fn leave() {
        let owner = Owner::new();
        owner.append();
        thread::yield_now();
        drop(owner);
    }
}

#[test]
fn what_a_worker_is_asked_for_is_done_and_its_threads_end() {
    shuttle::check_random(|| workers::ask_and_stop(2, 0), 1_000);
    shuttle::check_random(|| workers::ask_and_stop(2, 2), 3_000);
    shuttle::check_pct(|| workers::ask_and_stop(2, 2), 3_000, 4);
    shuttle::check_random(workers::leave, 1_000);
    shuttle::check_random(workers::ask_and_finish, 1_000);
}

mod memory {
    /// Threads keep runs and read them, and those of others, at once.
    pub fn keep_and_read() {
        use shuttle::sync::{Arc, Mutex};

        let arena: Arc<crate::arena::Arena> = Arc::default();
        let places = Arc::new(Mutex::new(Vec::new()));
        let handles: Vec<_> = (1..4u8)
            .map(|thread| {
                let (arena, places) = (arena.clone(), places.clone());
                shuttle::thread::spawn(move || {
                    for n in 1..4usize {
                        let run = vec![thread; 8 * n];
                        let at = arena.keep(run.clone());
                        places.lock().unwrap().push((at, run));
                        let last = places.lock().unwrap().clone();
                        let table = arena.table();
                        for (at, run) in last {
                            assert_eq!(&table.get(at).unwrap()[..run.len()], &run[..]);
                        }
                    }
                })
            })
            .collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }

    /// Threads fill several slabs, of which a thread of the arena makes some, and read what they kept.
    pub fn fill_and_read() {
        let arena: shuttle::sync::Arc<crate::arena::Arena> = shuttle::sync::Arc::default();
        let handles: Vec<_> = (1..3u8)
            .map(|thread| {
                let arena = arena.clone();
                shuttle::thread::spawn(move || {
                    let run = vec![thread; (2 << 20) - 8];
                    let places: Vec<_> = (0..5).map(|_| arena.keep(run.clone())).collect();
                    let table = arena.table();
                    for at in places {
                        let kept = &table.get(at).unwrap()[..run.len()];
                        assert_eq!((kept[0], kept[run.len() - 1]), (thread, thread));
                    }
                })
            })
            .collect();
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

mod sweeping {
    /// Threads keep runs and read what they see, while another drops the slab that was filled first.
    pub fn keep_read_and_drop() {
        use shuttle::sync::{Arc, Mutex};

        use bristlecone_core::Location;

        let arena: Arc<crate::arena::Arena> = Arc::default();
        arena.keep(vec![9; 8]);
        let places = Arc::new(Mutex::new(Vec::new()));
        let mut handles: Vec<_> = (1..3u8)
            .map(|thread| {
                let (arena, places) = (arena.clone(), places.clone());
                shuttle::thread::spawn(move || {
                    let before = arena.table();
                    for n in 1..3usize {
                        let run = vec![thread; 8 * n];
                        let at = arena.keep(run.clone());
                        places.lock().unwrap().push((at, run));
                        // What was dropped stays for the snapshots that hold it; nothing else is ever gone.
                        if let Some(first) = before.get(Location(0)).filter(|first| !first.is_empty()) {
                            assert_eq!(first[..8], [9; 8]);
                        }
                        let last = places.lock().unwrap().clone();
                        let table = arena.table();
                        for (at, run) in last.iter().filter(|(at, _)| at.0 >> 32 != 0) {
                            assert_eq!(&table.get(*at).unwrap()[..run.len()], &run[..]);
                        }
                    }
                })
            })
            .collect();
        let sweeper = arena.clone();
        handles.push(shuttle::thread::spawn(move || {
            sweeper.leave_slab();
            sweeper.drop_slabs(|slab| slab == 0);
            assert!(sweeper.table().get(Location(0)).is_none_or(<[u8]>::is_empty));
        }));
        handles.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

mod readers {
    /// One thread appends objects and moves a ref to each; others read the ref and look for what it leads to.
    pub fn follow_refs(appends: u64) {
        use shuttle::sync::Arc;

        use crate::published::Published;

        let log: Arc<Published<u64>> = Arc::default();
        let writer = {
            let log = log.clone();
            shuttle::thread::spawn(move || {
                for end in 1..=appends {
                    // The object lies before the end; every other append moves no ref.
                    if end % 2 == 0 { log.advance(end, false) } else { log.advance_with(end, false, |to| *to = end) }
                }
            })
        };
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let log = log.clone();
                shuttle::thread::spawn(move || {
                    let mut seen = 0;
                    for _ in 0..3 {
                        let to = *log.refs();
                        assert!(log.end() >= to, "a ref leads behind the end of the log");
                        assert!(to >= seen, "a ref goes back");
                        seen = to;
                    }
                })
            })
            .collect();
        writer.join().unwrap();
        readers.into_iter().for_each(|handle| handle.join().unwrap());
    }
}

mod tables {
    /// A thread goes on to later states, others take tables and let them go, and each asks what is read while it holds one: what is told
    /// to other processes is at no time later than that.
    pub fn tell_the_oldest(states: u64) {
        use shuttle::sync::Arc;

        use crate::{generations::Generations, state::StoreState};

        let generations = Arc::new(Generations::new());
        let first = generations.current();
        let follower = {
            let generations = generations.clone();
            shuttle::thread::spawn(move || {
                (1..=states).for_each(|epoch| generations.advance(StoreState { epoch, time: 0 }, epoch));
            })
        };
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (generations, first) = (generations.clone(), first.clone());
                shuttle::thread::spawn(move || {
                    assert_eq!(generations.oldest_epoch(&|_| false), 0, "the first table is held");
                    drop(first);
                    let table = generations.current();
                    let oldest = generations.oldest_epoch(&|_| false);
                    assert!(oldest <= table.state.epoch, "{oldest} is told, and {} is read", table.state.epoch);
                })
            })
            .collect();
        drop(first);
        follower.join().unwrap();
        readers.into_iter().for_each(|handle| handle.join().unwrap());
        assert!(generations.is_alone() && generations.oldest_epoch(&|_| false) == states);
    }
}

#[test]
fn no_state_by_which_something_is_read_is_told_to_be_left() {
    shuttle::check_random(|| tables::tell_the_oldest(2), 2_000);
    shuttle::check_pct(|| tables::tell_the_oldest(2), 2_000, 3);
}

#[test]
fn no_reader_sees_a_ref_before_the_end_of_the_log_that_covers_it() {
    shuttle::check_random(|| readers::follow_refs(4), 2_000);
    shuttle::check_pct(|| readers::follow_refs(4), 2_000, 3);
}

#[test]
fn the_lead_is_never_lost_and_everybody_is_answered() {
    shuttle::check_random(|| commits::group_commit(3, 2), 2_000);
    shuttle::check_pct(|| commits::group_commit(3, 2), 2_000, 3);
    shuttle::check_random(|| commits::group_commit(5, 1), 500);
}

#[test]
fn whoever_leads_writes_for_all_or_all_are_told() {
    shuttle::check_random(|| commits::runs(4, false), 2_000);
    shuttle::check_pct(|| commits::runs(4, false), 2_000, 3);
    shuttle::check_random(|| commits::runs(4, true), 2_000);
    shuttle::check_pct(|| commits::runs(4, true), 2_000, 3);
}

#[test]
fn what_is_dropped_is_dropped_for_those_who_come_later() {
    shuttle::check_random(sweeping::keep_read_and_drop, 1_000);
    shuttle::check_pct(sweeping::keep_read_and_drop, 1_000, 3);
}

#[test]
fn what_the_arena_keeps_is_seen_whole() {
    shuttle::check_random(memory::keep_and_read, 1_000);
    shuttle::check_pct(memory::keep_and_read, 1_000, 3);
    shuttle::check_random(memory::fill_and_read, 40);
    shuttle::check_pct(memory::fill_and_read, 40, 3);
}
