use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use super::*;
use crate::{
    Error,
    storage::{OpenMode, RealStorage, Storage, StorageFile, read_exact_at, write_all_at},
};

/// What a test is given to wait for.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn who_runs_alone_writes_its_own_item() {
    let queue: Queue<u32, u32> = Queue::default();
    assert_eq!(queue.run(7, |items| items.iter().map(|&item| item * 2).collect()).unwrap(), 14);
    assert_eq!(queue.run(8, |items| items.iter().map(|&item| item * 2).collect()).unwrap(), 16);
}

/// One thread leads until `count` others wait; returns what each of these got. Each of them writes by `write`.
fn answers_of(count: u32, write: impl Fn(&[&u32]) -> Vec<u32> + Sync) -> Vec<thread::Result<Result<u32, Error>>> {
    let queue: Queue<u32, u32> = Queue::default();
    let Entered::Leads(lead) = queue.enter(|| 0) else { panic!("no thread leads yet") };
    thread::scope(|scope| {
        let (queue, write) = (&queue, &write);
        let mut threads = Vec::new();
        for item in 1..=count {
            threads.push(scope.spawn(move || queue.run(item, write)));
            // Their order is the order of the items.
            while queue.waiting_count() < item as usize {
                thread::yield_now();
            }
        }
        drop(lead);
        threads.into_iter().map(thread::ScopedJoinHandle::join).collect()
    })
}

#[test]
fn one_writes_for_all_who_wait_in_the_order_they_came() {
    let calls = std::sync::Mutex::new(Vec::new());
    let answers = answers_of(3, |items| {
        calls.lock().unwrap().push(items.iter().map(|&&item| item).collect::<Vec<_>>());
        items.iter().map(|&item| item * 2).collect()
    });
    let answers: Vec<u32> = answers.into_iter().map(|answer| answer.unwrap().unwrap()).collect();
    assert_eq!(answers, [2, 4, 6]);
    assert_eq!(*calls.lock().unwrap(), [vec![1, 2, 3]]);
}

#[test]
fn who_waits_for_a_leader_that_panics_is_told_and_the_lead_goes_on() {
    let answers = answers_of(3, |_| panic!("a leader of the test"));
    assert!(answers[0].is_err(), "the leader panics");
    for answer in &answers[1..] {
        assert!(matches!(answer, Ok(Err(Error::Unanswered))), "{answer:?}");
    }

    let queue: Queue<u32, u32> = Queue::default();
    assert!(catch_unwind(AssertUnwindSafe(|| queue.run(1, |_| panic!("a leader of the test")))).is_err());
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(queue.run(2, |items| vec![items.len() as u32])));
    assert_eq!(receiver.recv_timeout(LONG).expect("the lead is lost").unwrap(), 1);
}

#[test]
fn an_answer_that_a_leader_forgets_is_an_error() {
    let answers = answers_of(2, |items| vec![*items[0]]);
    assert!(matches!(answers[0], Ok(Ok(1))), "{answers:?}");
    assert!(matches!(answers[1], Ok(Err(Error::Unanswered))), "{answers:?}");
    assert!(matches!(Queue::<(), ()>::default().run((), |_| Vec::new()), Err(Error::Unanswered)));
}

#[test]
fn the_first_failure_poisons_and_stays_the_reason() {
    let poison = Poison::default();
    poison.check().unwrap();
    assert!(poison.note(Err::<(), _>(Error::ReadOnly)).is_err() && poison.note(Ok(7)).is_ok_and(|seven| seven == 7));
    assert!(!poison.is_set(), "no sync has failed");
    let failed = || Err::<(), _>(Error::io("a file", io::ErrorKind::TimedOut.into()));
    assert!(matches!(poison.note(failed()), Err(Error::Io { .. })), "the step's own error is passed on");
    let reasons = [poison.check().unwrap_err(), poison.set("a later one"), poison.check().unwrap_err()];
    for error in reasons {
        let Error::Poisoned { reason } = error else { panic!("{error:?}") };
        assert!(reason.starts_with("a file ") && reason.ends_with(": timed out"), "{reason}");
    }
}

fn folder() -> (tempfile::TempDir, Arc<dyn Storage>) {
    let dir = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
    (dir, storage)
}

fn contents(file: &dyn StorageFile) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    read_exact_at(file, &mut bytes, 0).unwrap();
    bytes
}

#[test]
fn a_derived_file_is_whole_or_absent() {
    let (_dir, storage) = folder();
    let derived = Derived::new(storage.clone(), "some/caches");
    assert_eq!(derived.read("history").unwrap(), None);
    derived.write("history", b"older").unwrap();
    derived.write("history", b"newer bytes").unwrap();
    assert_eq!(derived.read("history").unwrap().as_deref(), Some(&b"newer bytes"[..]));
    assert_eq!(storage.list("some/caches").unwrap(), ["history"], "what was written aside is gone");

    let file = storage.open("some/caches/history", OpenMode::Write).unwrap();
    let bytes = contents(&*file);
    for length in (0..bytes.len()).chain([bytes.len() + 1]) {
        let mut torn = bytes.clone();
        torn.resize(length, 0);
        file.set_len(0).unwrap();
        write_all_at(&*file, &torn, 0).unwrap();
        assert_eq!(derived.read("history").unwrap(), None, "{length} bytes of {}", bytes.len());
    }
    file.set_len(bytes.len() as u64).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        write_all_at(&*file, &flipped, 0).unwrap();
        assert_eq!(derived.read("history").unwrap(), None, "bit {bit}");
    }
    write_all_at(&*file, &bytes, 0).unwrap();
    assert_eq!(derived.read("history").unwrap().as_deref(), Some(&b"newer bytes"[..]));
    assert_eq!(derived.read_at("some/caches/history", 10).unwrap(), None, "more than was allowed");
}

#[test]
fn a_derived_file_that_cannot_be_written_leaves_the_old_one() {
    let (_dir, storage) = folder();
    let derived = Derived::new(storage.clone(), "caches");
    storage.create_dir("caches/taken/below").unwrap();
    derived.write("other", b"stays").unwrap();
    assert!(matches!(derived.write("taken", b"in vain"), Err(Error::Io { .. })));
    assert_eq!(derived.read("other").unwrap().as_deref(), Some(&b"stays"[..]));
    let mut names = storage.list("caches").unwrap();
    names.sort_unstable();
    assert_eq!(names, ["other", "taken"], "what was written aside is gone");
}

#[test]
fn what_is_left_of_a_derived_file_that_nobody_writes_any_more_is_removed() {
    let (dir, storage) = folder();
    let derived = Derived::new(storage.clone(), "caches");
    derived.write("history", b"whole").unwrap();
    let path = |name: &str| dir.path().join("caches").join(name);
    let [left, young, locked, other] = ["0123456789abcdef", "0123456789abcde0", "0123456789abcde1", "0123"]
        .map(|digits| format!("history.new-{digits}"));
    let all = [&*left, &*young, &*locked, &*other];
    all.iter().for_each(|name| std::fs::write(path(name), "a part").unwrap());
    let old = std::time::SystemTime::now() - Duration::from_secs(3600);
    for name in [&*left, &*locked, &*other, "history"] {
        std::fs::File::options().write(true).open(path(name)).unwrap().set_modified(old).unwrap();
    }
    let writer = storage.open(&format!("caches/{locked}"), OpenMode::Write).unwrap();
    assert!(writer.try_lock().unwrap());
    derived.remove_abandoned();
    assert_eq!(all.map(|name| path(name).exists()), [false, true, true, true]);
    assert_eq!(derived.read("history").unwrap().as_deref(), Some(&b"whole"[..]));
    drop(writer);
    derived.remove_abandoned();
    assert_eq!(all.map(|name| path(name).exists()), [false, true, false, true]);
}

#[test]
fn names_of_derived_files_stay_in_their_folder() {
    let derived = Derived::new(folder().1, "caches");
    let paths = [
        ("history-1", "caches/history-1"),
        ("a.b-c_D", "caches/a.b-c_D"),
        ("../x/\u{e9}", "caches/%2E.%2Fx%2F%C3%A9"),
        (".", "caches/%2E"),
        ("@count", "caches/%40count"),
    ];
    for (name, path) in paths {
        assert_eq!(derived.path(name), path);
    }
}

#[test]
fn a_store_lock_is_waited_for_and_its_holder_named() {
    let (_dir, storage) = folder();
    let lock = |wait_ms| StoreLock::new(storage.clone(), "ours/lock", wait_ms);
    // Two values are as two processes: each opens the file for itself.
    let (one, other) = (lock(60_000), lock(20));
    assert!(!one.is_open() && storage.list("").unwrap().is_empty(), "nothing is made before it is needed");
    let guard = one.take().unwrap();
    assert!(one.is_open());
    match other.take() {
        Err(Error::Locked { file, holder, waited_ms }) => {
            assert!(file.ends_with("ours/lock") && waited_ms >= 20, "{file}, {waited_ms} ms");
            assert!(holder.contains(&std::process::id().to_string()), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    drop(guard);

    let guard = other.take().unwrap();
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| sender.send(one.take().map(|_| ())).unwrap());
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err(), "it is held by another");
        drop(guard);
        receiver.recv_timeout(LONG).expect("the wait ends").unwrap();
    });
}

#[test]
fn a_store_lock_is_held_by_one_thread_at_a_time() {
    let (_dir, storage) = folder();
    let lock = StoreLock::new(storage, "lock", 60_000);
    let held = std::sync::Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let _guard = lock.take().unwrap();
                    let mut held = held.try_lock().expect("two hold the lock");
                    thread::sleep(Duration::from_micros(200));
                    *held += 1;
                }
            });
        }
    });
    assert_eq!(*held.lock().unwrap(), 80);
}

type Job = Box<dyn Fn(&Owner, usize) + Send + Sync>;

/// What a worker of the tests works for.
struct Owner {
    worker: Worker<Owner, 3>,
    job: Job,
}

/// The jobs of the tests: the first has a delay.
const SOON: usize = 0;
const NOW: usize = 1;
const LAST: usize = 2;
const DELAY: Duration = Duration::from_millis(40);

fn owner(job: impl Fn(&Owner, usize) + Send + Sync + 'static) -> Arc<Owner> {
    let delays = [DELAY, Duration::ZERO, Duration::ZERO];
    let worker = Worker::new("cone-test", true, delays, |owner: &Owner, job| (owner.job)(owner, job));
    let owner = Arc::new(Owner { worker, job: Box::new(job) });
    owner.worker.serve(&owner);
    owner
}

#[test]
fn jobs_come_in_their_order_and_after_their_delay_and_once() {
    let (sender, receiver) = mpsc::channel();
    let owner = owner(move |_, job| sender.send((job, std::time::Instant::now())).unwrap());
    let asked = std::time::Instant::now();
    for job in [SOON, LAST, NOW, SOON, LAST] {
        assert!(owner.worker.ask(job));
    }
    let done: Vec<_> = (0..3).map(|_| receiver.recv_timeout(LONG).unwrap()).collect();
    assert_eq!(done.iter().map(|done| done.0).collect::<Vec<_>>(), [SOON, NOW, LAST]);
    assert!(done[0].1 - asked >= DELAY, "{:?}", done[0].1 - asked);
    owner.worker.stop();
    assert!(receiver.try_recv().is_err(), "each job was done once");
}

#[test]
fn a_worker_that_is_stopped_while_it_works_ends_and_starts_again() {
    let (sender, receiver) = mpsc::channel();
    let owner = owner(move |owner, _| {
        sender.send("begun").unwrap();
        while !owner.worker.is_stopping() {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        sender.send("ended").unwrap();
    });
    for _ in 0..3 {
        assert!(owner.worker.ask(NOW) && owner.worker.ask(LAST));
        assert_eq!(receiver.recv_timeout(LONG), Ok("begun"));
        owner.worker.stop();
        assert_eq!(receiver.try_recv(), Ok("ended"), "`stop` waits for the job");
        assert!(receiver.try_recv().is_err() && owner.worker.take_owed(LAST), "what was not begun is owed");
        assert!(!owner.worker.is_stopping());
    }
}

#[test]
fn a_worker_that_is_finished_has_let_go_of_its_owner_and_does_nothing_more() {
    let owner = owner(|owner, job| {
        // The job asks for others until it may not.
        while owner.worker.ask(LAST) && !owner.worker.is_stopping() {
            thread::yield_now();
        }
        assert_ne!(job, SOON);
    });
    assert!(owner.worker.ask(NOW));
    owner.worker.finish();
    assert_eq!(Arc::strong_count(&owner), 1);
    assert!(!owner.worker.ask(NOW) && owner.worker.take_owed(NOW), "what is asked for is owed");
    owner.worker.stop();
    assert!(!owner.worker.ask(NOW));
    assert_eq!(Arc::strong_count(&owner), 1);
}

#[test]
fn a_job_that_panics_ends_neither_the_thread_nor_the_jobs_after_it() {
    let (sender, receiver) = mpsc::channel();
    let owner = owner(move |_, job| {
        assert_ne!(job, NOW, "a job of the test");
        sender.send(thread::current().id()).unwrap();
    });
    assert!(owner.worker.ask(LAST));
    let before = receiver.recv_timeout(LONG).unwrap();
    assert!(owner.worker.ask(NOW) && owner.worker.ask(LAST));
    assert_eq!(receiver.recv_timeout(LONG), Ok(before));
}

#[test]
fn a_worker_without_threads_says_so_and_one_that_is_dropped_ends_its_thread() {
    let none: Worker<(), 1> = Worker::new("cone-test", false, [Duration::ZERO], |(), _| panic!("no thread works"));
    none.serve(&Arc::new(()));
    assert!(!none.take_owed(0), "nothing was asked for");
    assert!(!none.ask(0) && !none.ask(0));
    assert!(none.take_owed(0) && !none.take_owed(0), "what no thread does is owed once");

    // Before it has an owner a worker notes what it is asked for.
    let (sender, receiver) = mpsc::channel::<()>();
    let work: Worker<mpsc::Sender<()>, 1> =
        Worker::new("cone-test", true, [Duration::ZERO], |owner: &mpsc::Sender<()>, _| owner.send(()).unwrap());
    assert!(work.ask(0) && !work.take_owed(0));
    let sender = Arc::new(sender);
    work.serve(&sender);
    receiver.recv_timeout(LONG).unwrap();
    drop(sender);
    drop(work);
    assert!(matches!(receiver.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected)));
}
