//! A backend that calls a function before each append: what another process does just then.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bristlecone::{Backend, Batch, Durability, Error, Location, RefMove, pass_backend};

type Before = Box<dyn FnMut(usize) + Send>;

/// A backend around another one that calls a function before each [`Backend::append`].
pub struct Hooked {
    inner: Arc<dyn Backend>,
    // How many appends came, and what is called before the next one.
    before: Mutex<(usize, Before)>,
}

impl Hooked {
    /// Wraps a backend; `before` is told how many appends came before.
    pub fn new(inner: Arc<dyn Backend>, before: impl FnMut(usize) + Send + 'static) -> Self {
        Self { inner, before: Mutex::new((0, Box::new(before))) }
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooked").field(&self.inner).finish()
    }
}

impl Backend for Hooked {
    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let (appends, call) = &mut *before;
        call(*appends);
        *appends += 1;
        drop(before);
        self.inner.append(batch, moves, durability)
    }

    pass_backend! {
        inner: name, capabilities, snapshot, read, locate, position, sweeps, sweep, sweep_due, append_keeping, append_many,
        get_ref, list_refs, shallow, absent, note_absent, retention, replace_retention, promised_to, flush, each_object,
        each_with_prefix, clear_caches, stats, read_derived, write_derived
    }
}
