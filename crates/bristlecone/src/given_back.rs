//! Giving memory back to the system after large commits, once it is quiet.
//!
//! The allocator of glibc keeps what was freed where anything that came later is still in use; others have threads that give it
//! back, and take no notice. Whoever commits again soon uses the memory again, and would wait for the system to clear it.

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
pub(crate) use self::glibc::{give_back_soon, put_off};

/// Other allocators need not be asked.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
pub(crate) const fn give_back_soon() {}

/// Other allocators need not be asked.
#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
pub(crate) const fn put_off() {}

#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
mod glibc {
    use std::{
        process,
        sync::{Mutex, PoisonError},
        thread,
        time::{Duration, Instant},
    };

    /// Memory is given back when nobody has freed or used it for so long.
    const QUIET: Duration = Duration::from_secs(5);

    /// What was freed, and not given back yet.
    struct Freed {
        /// When it was, or when memory was used last.
        at: Option<Instant>,
        /// The process that has a thread which gives it back. One that was forked has none.
        process: u32,
    }

    static FREED: Mutex<Freed> = Mutex::new(Freed { at: None, process: 0 });

    /// Has a thread give what is free back to the system, some seconds after this was called last.
    pub(crate) fn give_back_soon() {
        // Waits for no lock: in a forked process its holder may be missing.
        let Ok(mut freed) = FREED.try_lock() else { return };
        let is_waited_for = freed.at.is_some() && freed.process == process::id();
        *freed = Freed { at: Some(Instant::now()), process: process::id() };
        if !is_waited_for && thread::Builder::new().name("cone-memory".to_owned()).spawn(wait).is_err() {
            freed.at = None;
            give_back();
        }
    }

    /// Notes that what is free is about to be used.
    pub(crate) fn put_off() {
        if let Ok(mut freed) = FREED.try_lock()
            && freed.at.is_some()
        {
            freed.at = Some(Instant::now());
        }
    }

    fn wait() {
        while let Some(left) = left() {
            thread::sleep(left);
        }
        give_back();
    }

    /// Returns how long is to be waited. After `None` there is nobody who waits.
    fn left() -> Option<Duration> {
        let mut freed = FREED.lock().unwrap_or_else(PoisonError::into_inner);
        let left = freed.at.map(|at| QUIET.saturating_sub(at.elapsed())).filter(|left| !left.is_zero());
        if left.is_none() {
            freed.at = None;
        }
        left
    }

    fn give_back() {
        // SAFETY: this call takes no pointer, and what it lets go of is free.
        unsafe {
            libc::malloc_trim(0);
        }
    }
}
