//! Which folders are synced when folders are made: the test sees the calls of the system themselves.
//!
//! A filter of the kernel's (seccomp) on one thread turns every `fsync` and `fdatasync` into a signal; its handler notes
//! which file was meant. No sync is done then, and no other program is needed.

use std::{
    cell::UnsafeCell,
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicIsize, AtomicUsize, Ordering::SeqCst},
};

use super::RealStorage;
use crate::storage::{OpenMode, Storage};

const NOTES: usize = 64;
const PATH_BYTES: usize = 512;

/// What the handler notes: a signal handler may neither allocate nor lock.
struct HandlerNotes {
    count: AtomicUsize,
    lengths: [AtomicIsize; NOTES],
    paths: [UnsafeCell<[u8; PATH_BYTES]>; NOTES],
}

// SAFETY: each path is written by one call of the handler alone, and read when the thread that made the call has ended.
unsafe impl Sync for HandlerNotes {}

static NOTED: HandlerNotes = HandlerNotes {
    count: AtomicUsize::new(0),
    lengths: [const { AtomicIsize::new(-1) }; NOTES],
    paths: [const { UnsafeCell::new([0; PATH_BYTES]) }; NOTES],
};

extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel hands over a context with the registers as they were at the trapped call.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    #[cfg(target_arch = "x86_64")]
    let fd = context.uc_mcontext.gregs[libc::REG_RDI as usize] as i32;
    #[cfg(target_arch = "aarch64")]
    let fd = context.uc_mcontext.regs[0] as i32;
    let index = NOTED.count.fetch_add(1, SeqCst);
    if index >= NOTES {
        return;
    }
    let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0\0";
    let (mut place, mut at) = (1_000_000_000, 14);
    while place > 0 {
        if fd >= place || place == 1 {
            link[at] = b'0' + (fd / place % 10) as u8;
            at += 1;
        }
        place /= 10;
    }
    // SAFETY: the path of this note is this call's alone, the link ends in a zero, and handlers may call `readlink`.
    let length = unsafe { libc::readlink(link.as_ptr().cast(), NOTED.paths[index].get().cast(), PATH_BYTES) };
    NOTED.lengths[index].store(length, SeqCst);
}

/// Turns the syncs of this thread into signals, for as long as it lives.
fn trap_syncs() {
    let step = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        // The number of the call is the first word that a filter sees.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, 0, libc::SYS_fsync as u32),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_fdatasync as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_TRAP),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_trap;
    // SAFETY: handler and filter are whole when they are handed over. The filter is of this thread alone, and nothing else
    // in this process raises the signal that the handler serves.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()), 0);
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let set = libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program);
        assert_eq!(set, 0, "the kernel has no filters of calls");
    }
}

/// Returns what `work` syncs, in order.
fn synced_by(work: impl FnOnce() + Send) -> Vec<PathBuf> {
    let from = NOTED.count.load(SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            trap_syncs();
            work();
        });
    });
    let to = NOTED.count.load(SeqCst);
    assert!(to <= NOTES, "too many syncs to note");
    let path = |index: usize| {
        let length = usize::try_from(NOTED.lengths[index].load(SeqCst)).expect("a path");
        // SAFETY: the thread whose call wrote the path has ended.
        let bytes = unsafe { &(&*NOTED.paths[index].get())[..length] };
        PathBuf::from(std::str::from_utf8(bytes).expect("a path of this test's"))
    };
    (from..to).map(path).collect()
}

// One test: the notes are of one thread at a time.
#[test]
fn every_folder_above_a_new_store_is_synced_and_so_is_what_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let base = fs::canonicalize(dir.path()).unwrap();
    let made = |name: &str, at: &Path| {
        let storage = RealStorage::new(at);
        synced_by(move || storage.create_dir(name).unwrap())
    };
    // Every name on the way is made durable in the folder above it.
    let synced = made("", &base.join("a/b/store"));
    for parent in [base.clone(), base.join("a"), base.join("a/b")] {
        assert!(synced.contains(&parent), "{} is not synced, only {synced:?}", parent.display());
    }
    let synced = made("segments", &base.join("c/store"));
    for parent in [base.clone(), base.join("c"), base.join("c/store")] {
        assert!(synced.contains(&parent), "{} is not synced, only {synced:?}", parent.display());
    }
    // A store's own folder may have been made by a process that died before the sync.
    let synced = made("", &base.join("a/b/store"));
    assert!(synced.contains(&base.join("a/b")), "the folder of a store that was begun: {synced:?}");
    let storage = RealStorage::new(base.join("c/store"));
    let file = storage.open("file", OpenMode::CreateNew).unwrap();
    let synced = synced_by(|| {
        file.sync_data().unwrap();
        storage.sync_dir("").unwrap();
        storage.sync_dir("segments").unwrap();
    });
    let store = base.join("c/store");
    assert_eq!(synced, [store.join("file"), store.clone(), store.join("segments")]);
}
