//! Signals that end a command, brought from their handler to a thread that may do anything.

use std::{
    io::{self, Read},
    mem::MaybeUninit,
    os::fd::IntoRawFd,
    ptr,
    sync::{
        Once,
        atomic::{AtomicI32, Ordering::*},
    },
    thread,
};

/// What ends a command: the interrupt key, `kill`, and the end of its terminal.
const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Where the handler writes the number of a signal.
static TO_THREAD: AtomicI32 = AtomicI32::new(-1);

/// From now on these signals end the command as [`super::interrupted`] does. One that the caller has the process ignore,
/// as `nohup` does, stays ignored. Where the system refuses, signals end the process at once, as they do elsewhere.
pub(super) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| _ = start());
}

fn start() -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    TO_THREAD.store(writer.into_raw_fd(), SeqCst);
    thread::Builder::new().name("cone-signals".to_owned()).spawn(move || {
        let mut signal = [0];
        while reader.read_exact(&mut signal).is_ok() {
            super::interrupted(i32::from(signal[0]));
        }
    })?;
    for signal in SIGNALS {
        if is_usual(signal) {
            set(signal);
        }
    }
    Ok(())
}

/// Whether the signal does what it does by default.
fn is_usual(signal: i32) -> bool {
    let mut now = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes what is set to `now`, which has room for it and is valid when
    // all its bytes are zero.
    let now = unsafe {
        if libc::sigaction(signal, ptr::null(), now.as_mut_ptr()) != 0 {
            return false;
        }
        now.assume_init()
    };
    now.sa_sigaction == libc::SIG_DFL
}

fn set(signal: i32) {
    let handler: extern "C" fn(libc::c_int) = handle;
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a zeroed action is valid: no flags, an empty mask. The handler has the type that an action without
    // SA_SIGINFO calls, lives as long as the program, and does only what a handler may. A refusal changes nothing.
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, action, ptr::null_mut());
    }
}

/// Wakes the thread: one `write`, which a handler may call. The pipe is never so full that it waits.
extern "C" fn handle(signal: libc::c_int) {
    let number = signal as u8;
    // SAFETY: the byte lives during the call, and the pipe's end is open for as long as the process lives.
    unsafe { libc::write(TO_THREAD.load(SeqCst), ptr::from_ref(&number).cast(), 1) };
}
