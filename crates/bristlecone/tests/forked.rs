//! Processes that were forked: one goes on with threads of its own, since it has none of its parent's, and keeps no lock that its
//! parent gives back.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr, thread,
    time::{Duration, Instant},
};

use bristlecone::{Branch, Durability, Error, Info, Native, Repo, Roots, SweepLimits, TreeId, disk::DiskOptions};

/// More than make a commit a large one.
const ENTRIES: u32 = 40_000;

fn commit(branch: &Branch<Native>, value: &str) -> Result<TreeId, Error> {
    let mut tree = branch.tree()?;
    (0..ENTRIES).try_for_each(|number| tree.set(format!("wide/{number:06}"), value))?;
    branch.commit(&mut tree, &Info::unsigned("many"))?;
    branch.tree()?.root()
}

/// What the child does; the number of what went wrong, or 0.
fn child(memory: &Branch<Native>, disk: &Branch<Native>, wanted: TreeId) -> i32 {
    if !commit(memory, "two").is_ok_and(|root| root == wanted) {
        return 1;
    }
    // The store's lock is that of the parent.
    if matches!(commit(disk, "two"), Err(Error::Usage { .. })) { 0 } else { 2 }
}

/// Waits for a child, which must end by itself, and returns how it ended.
fn ended(forked: libc::pid_t) -> i32 {
    let until = Instant::now() + Duration::from_secs(60);
    let mut status = -1;
    loop {
        // SAFETY: the child is one of this process, and a number is written to `status`.
        let ended = unsafe { libc::waitpid(forked, ptr::from_mut(&mut status), libc::WNOHANG) };
        if ended == forked {
            return status;
        }
        if Instant::now() > until {
            // SAFETY: the child is one of this process.
            unsafe { libc::kill(forked, libc::SIGKILL) };
            panic!("the child waits for threads that it does not have");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_forked_process_has_threads_of_its_own_for_large_commits() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Repo::memory();
    let disk = Repo::create(dir.path(), Native::new(), DiskOptions::default()).unwrap();
    // Two, also where there is one processor.
    memory.set_threads(2);
    disk.set_threads(2);
    let (memory, disk) = (memory.branch("main").unwrap(), disk.branch("main").unwrap());
    commit(&memory, "one").unwrap();
    commit(&disk, "one").unwrap();
    let wanted = commit(&Repo::memory().branch("main").unwrap(), "two").unwrap();
    // SAFETY: no other thread of this test holds a lock, and the child ends without going on as a test.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        let code = catch_unwind(AssertUnwindSafe(|| child(&memory, &disk, wanted))).unwrap_or(3);
        // SAFETY: this ends the child, and nothing else.
        unsafe { libc::_exit(code) };
    }
    assert_eq!(ended(forked), 0, "the child ended so");
    assert_eq!(commit(&disk, "two").unwrap(), wanted, "the parent goes on");
}

#[test]
fn a_process_that_was_forked_while_another_collected_keeps_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::create(dir.path(), Native::new(), DiskOptions::default().lock_wait_ms(100)).unwrap();
    commit(&repo.branch("main").unwrap(), "one").unwrap();
    let forked = Cell::new(None);
    let watch = |_: &_| {
        if forked.get().is_none() {
            // SAFETY: the child makes no call but to wait for the signal that ends it.
            let child = unsafe { libc::fork() };
            if child == 0 {
                loop {
                    // SAFETY: as above.
                    unsafe { libc::pause() };
                }
            }
            forked.set(Some(child));
        }
        Ok(())
    };
    let roots = Roots::new(&[], &|_, _, _| Ok(()));
    let swept = repo.backend().sweep(&roots.watch(&watch), &SweepLimits::default().dry_run(true));
    let retention = repo.retention().unwrap();
    let changed = repo.replace_retention(&retention, &"last 5 refs/heads/*\n".parse().unwrap());
    let child = forked.get().expect("a collection says what it does");
    let mut status = 0;
    // SAFETY: the child is one of this process, and a number is written to `status`.
    unsafe { (libc::kill(child, libc::SIGKILL), libc::waitpid(child, ptr::from_mut(&mut status), 0)) };
    swept.unwrap();
    assert!(changed.unwrap(), "the child kept the lock");
}

/// It has none of the threads that collect and keep history up, and waits for none when it lets go of the store.
#[test]
fn a_process_that_was_forked_lets_go_of_a_store_that_works_beside_commits() {
    let dir = tempfile::tempdir().unwrap();
    let repo = Repo::create(dir.path(), Native::new(), DiskOptions::default().segment_bytes(64 << 10)).unwrap();
    repo.set_retention(&"last 1 refs/heads/*\n".parse().unwrap()).unwrap();
    let branch = repo.branch("main").unwrap();
    let info = Info::unsigned("one entry").durability(Durability::None);
    // As many as have history kept up.
    for number in 0..5000_u32 {
        branch.edit(&info, |tree| tree.set("entry", &number.to_be_bytes()[..])).unwrap();
    }
    assert!(repo.wait_for_collection().unwrap().is_some(), "the store has collected by itself");
    repo.wait_for_indexing();
    drop(branch);
    // SAFETY: no other thread of this test holds a lock, and the child ends without going on as a test.
    let forked = unsafe { libc::fork() };
    if forked == 0 {
        drop(repo);
        // SAFETY: this ends the child, and nothing else.
        unsafe { libc::_exit(0) };
    }
    assert_eq!(ended(forked), 0, "the child ended so");
    let tree = repo.branch("main").unwrap().tree().unwrap();
    let value = tree.get("entry").unwrap();
    assert_eq!(value.as_deref(), Some(&4999_u32.to_be_bytes()[..]));
}
