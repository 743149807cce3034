//! How a command ends that does not end well: what it leaves in its stores, what it takes back, and signals.
//!
//! What was appended to a store stays there; the store counts it and the message says so. In a Git repository no lock of
//! ours stays. A store that the command itself made is removed whole. Ctrl-C, `SIGTERM` and `SIGHUP` end a command that
//! writes in the same way: a thread of its own does it, so no command has to look for a flag. While files and their index
//! change together, nothing ends.

use std::{
    io::{IsTerminal, Write, stderr},
    process,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bristlecone_any::{AnyRepo, Error};

use crate::failure::{Failure, Result};

mod made;
mod signals;
mod written;

pub(crate) use made::Made;
pub(crate) use written::Left;

use written::Written;

/// What the command has open and made. The thread that ends it takes it.
static STATE: Mutex<State> = Mutex::new(State { stores: Vec::new(), made: None });
/// Held by the thread that ends the command, until the process is gone.
static ENDING: Mutex<()> = Mutex::new(());
/// Whether interruptions wait for the command to look, and whether one does.
static WAITING: Mutex<Waiting> = Mutex::new(Waiting { held: 0, asked: None });

struct State {
    stores: Vec<Written>,
    made: Option<Made>,
}

struct Waiting {
    held: u32,
    asked: Option<i32>,
}

/// Signals only ask the command to end as long as this lives.
#[derive(Debug)]
#[must_use]
pub(crate) struct Held(());

impl Drop for Held {
    fn drop(&mut self) {
        lock(&WAITING).held -= 1;
    }
}

/// Notes that the command writes to a store: if it fails or is interrupted, what it leaves there is counted and told.
pub(crate) fn writes_to(repo: &AnyRepo) {
    if let Some(written) = Written::new(repo) {
        lock(&STATE).stores.push(written);
        signals::watch();
    }
}

/// Notes that the command makes a store, which is to go again if the command fails or is interrupted.
pub(crate) fn makes(made: Option<Made>) {
    lock(&STATE).made = made;
    signals::watch();
}

/// Passes on the store that the command made, or why it did not: one that another process made meanwhile stays.
pub(crate) fn made<T>(store: bristlecone_any::Result<T>) -> Result<T> {
    if let Err(Error::Store(bristlecone::Error::Exists { .. })) = &store {
        made_it();
    }
    Ok(store?)
}

/// Notes that the store which the command makes is there for other processes: it is made, and is filled now.
pub(crate) fn fills() {
    if let Some(made) = &mut lock(&STATE).made {
        made.is_there();
    }
}

/// Notes that the store which the command made is whole.
pub(crate) fn made_it() {
    lock(&STATE).made = None;
}

/// Until what is returned is dropped the command itself looks whether a signal asked it to end.
pub(crate) fn hold() -> Held {
    lock(&WAITING).held += 1;
    signals::watch();
    Held(())
}

/// Returns the signal that asked the command to end while it was held: also after that, since the signal did nothing else.
pub(crate) fn asked() -> Option<i32> {
    lock(&WAITING).asked
}

/// Fails if a signal asked the command to end, before anything was changed.
pub(crate) fn heed() -> Result<()> {
    match asked() {
        Some(signal) => Err(Failure::stopped_by(signal, "nothing was changed")),
        None => Ok(()),
    }
}

/// Ends a command that did what it was to do. A signal comes too late from now on.
pub(crate) fn well() {
    std::mem::forget(lock(&ENDING));
    // Stores are closed as they are dropped.
    let state = take();
    drop(state.stores);
}

/// Ends a command that failed: closes its stores, takes back what it made, and adds to the failure what stays.
pub(crate) fn badly(failure: Failure) -> Failure {
    std::mem::forget(lock(&ENDING));
    clean(take(), failure, false)
}

/// Ends a command that was interrupted. Other threads are still at work.
fn interrupted(signal: i32) {
    {
        let mut waiting = lock(&WAITING);
        if waiting.held > 0 {
            waiting.asked = Some(signal);
            return;
        }
    }
    let _ending = lock(&ENDING);
    let failure = clean(take(), Failure::ended_by(signal), true);
    if stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[K");
    }
    failure.report();
    process::exit(failure.exit_code().into());
}

/// `at_work`: the command goes on meanwhile, with what it has open.
fn clean(state: State, failure: Failure, at_work: bool) -> Failure {
    let State { mut stores, made } = state;
    let mut left: Vec<Left> = stores.iter().map(|store| store.end(at_work)).collect();
    if !at_work {
        // Nobody else has them by now, so they are closed here.
        stores.clear();
    }
    if let Some(made) = made {
        let open = stores.iter().find(|store| made.is(store.dir())).map(Written::repo);
        if made.remove(open) {
            left.retain(|left| !made.is(&left.dir));
        }
    }
    failure.leaving(&left)
}

fn take() -> State {
    std::mem::replace(&mut *lock(&STATE), State { stores: Vec::new(), made: None })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
