//! A backend that calls a function before or after each append: what another process does just then.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use bristlecone::{Backend, Batch, Durability, Error, Location, RefMove, pass_backend};

/// When a [`Hooked`] backend calls its function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before an append; so many came before it.
    Before(usize),
    /// After an append that succeeded; so many came before it.
    After(usize),
}

type Hook = Box<dyn FnMut(Moment) + Send>;

/// A backend around another one that calls a function before and after each [`Backend::append`].
pub struct Hooked {
    inner: Arc<dyn Backend>,
    // How many appends came, and what is called.
    hook: Mutex<(usize, Hook)>,
}

impl Hooked {
    /// Wraps a backend.
    pub fn new(inner: Arc<dyn Backend>, hook: impl FnMut(Moment) + Send + 'static) -> Self {
        Self { inner, hook: Mutex::new((0, Box::new(hook))) }
    }

    fn call(&self, moment: impl Fn(usize) -> Moment) {
        let mut hook = self.hook.lock().unwrap_or_else(PoisonError::into_inner);
        let (appends, call) = &mut *hook;
        let moment = moment(*appends);
        *appends += usize::from(matches!(moment, Moment::Before(_)));
        call(moment);
    }
}

impl fmt::Debug for Hooked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Hooked").field(&self.inner).finish()
    }
}

impl Backend for Hooked {
    fn append(&self, batch: Batch, moves: &[RefMove], durability: Durability) -> Result<Location, Error> {
        self.call(Moment::Before);
        let at = self.inner.append(batch, moves, durability)?;
        self.call(|came| Moment::After(came - 1));
        Ok(at)
    }

    fn append_keeping(&self, batch: &mut Batch) -> Result<Location, Error> {
        let at = self.append(batch.clone(), &[], Durability::None)?;
        batch.clear();
        Ok(at)
    }

    pass_backend! {
        inner: name, capabilities, snapshot, read, locate, position, sweeps, sweep, sweep_due, append_many,
        get_ref, list_refs, shallow, absent, note_absent, retention, replace_retention, promised_to, flush, each_object,
        each_with_prefix, clear_caches, stats, read_derived, write_derived
    }
}
