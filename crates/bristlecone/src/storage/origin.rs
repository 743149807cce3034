//! Which process opened something: a fork copies open files and memory, and neither is the child's to use.

use std::sync::{
    Once,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use crate::Error;

/// How many forks lie between the first process of this program and this one.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which a value was made.
///
/// A child that was forked and goes on without `exec` shares the open files of its parent, and with them the locks: both
/// hold one lock at the same time. What owns a lock therefore remembers where it was made, and refuses to be used
/// elsewhere. The question costs one load. A child that is made by a bare `clone` of the system is not recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u32);

impl Origin {
    /// Returns this process.
    #[must_use]
    pub fn here() -> Self {
        static REGISTER: Once = Once::new();
        REGISTER.call_once(|| {
            extern "C" fn in_child() {
                FORKS.fetch_add(1, Relaxed);
            }
            // SAFETY: the handler only adds to an atomic, which a child may do at any time; it lives as long as the program.
            unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        });
        Self(FORKS.load(Relaxed))
    }

    /// Returns how many forks lie between the first process of this program and the one in which the value was made.
    #[must_use]
    pub const fn forks(self) -> u32 {
        self.0
    }

    /// Fails in a process that was forked from the one in which the value was made.
    ///
    /// # Errors
    /// [`Error::Usage`].
    #[inline]
    pub fn check(self) -> Result<(), Error> {
        if self.is_here() {
            return Ok(());
        }
        let reason = "the store was opened by the process that this one was forked from; open it anew here";
        Err(Error::Usage { reason })
    }

    /// Returns whether this is still the process in which the value was made.
    #[must_use]
    #[inline]
    pub fn is_here(self) -> bool {
        self.0 == FORKS.load(Relaxed)
    }
}
