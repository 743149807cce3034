//! A simulated disk: it forgets, tears and reorders what was not synced, fails any call, and runs out of space.
//!
//! [`SimStorage`] keeps, per file, what is durable and the ordered writes since; per folder, the durable names
//! and the ordered changes since. Every call that changes something has a number. Power can be cut after any of
//! them ([`SimStorage::cut_after`], or [`SimStorage::moment`] for all of them in one run), and
//! [`SimStorage::reboot`] gives a disk with what survives under a [`Policy`]. Copies share their pages, so that
//! a crash point costs microseconds and pre-sized files nothing.
//!
//! It is stricter than a file system need be: folder entries and contents survive independently, and nothing
//! that was not synced is ordered. An exchange of names is two changes, one a name. It knows no decay but
//! [`SimStorage::flip`]. Maps show every later write through any handle to the same disk; a copy of the disk, and one that
//! was rebooted, has maps of its own. A failing medium gives errors for reads, and none for what is read through a map.

mod disk;
mod fault;
mod file;
mod files;
mod folding;
mod hook;
mod maps;
mod names;
mod pages;
mod policy;
mod state;
mod storage;
mod wrap;

use std::sync::{Arc, Mutex, MutexGuard};

pub use fault::{Call, CallKind, Fault, Times};
pub use folding::Folding;
pub use hook::{Coming, Hooked};
pub use policy::Policy;
use state::SimState;
pub use wrap::{Lie, Lying};

/// Bytes that reach the medium together or not at all.
pub const SECTOR_BYTES: u64 = 512;

/// An in-memory disk for tests. A clone is another handle to the same disk; [`SimStorage::fork`] copies it.
#[derive(Clone, Default)]
pub struct SimStorage {
    state: Arc<Mutex<SimState>>,
    /// The process that makes the calls through this handle.
    process: u64,
}

impl SimStorage {
    /// Returns an empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, SimState> {
        // A test that panics elsewhere must not hide its message behind ours.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn from_disk(disk: disk::Disk) -> Self {
        Self { state: Arc::new(Mutex::new(SimState { disk, ..SimState::default() })), process: 0 }
    }

    /// Returns how many numbered calls there were.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// Returns call `number`, the first being 1, if calls are traced.
    #[must_use]
    pub fn call(&self, number: u64) -> Option<Call> {
        let state = self.lock();
        state.trace.as_ref()?.get(usize::try_from(number.checked_sub(1)?).ok()?).cloned()
    }

    /// Keeps what every numbered call was from now on. Call it before the first.
    pub fn keep_trace(&self) {
        self.lock().trace = Some(Vec::new());
    }

    /// Numbers reads too, so that they can fail.
    pub fn number_reads(&self) {
        self.lock().number_reads = true;
    }

    /// Cuts the power after call `number`: every later call fails and changes nothing.
    pub fn cut_after(&self, number: u64) {
        self.lock().cut_after = Some(number);
    }

    /// Returns a handle to the same disk in a process of its own, which can be stopped.
    #[must_use]
    pub fn process(&self) -> Self {
        let mut state = self.lock();
        let process = state.processes.len() as u64 + 1;
        state.processes.insert(process, state::Process::default());
        Self { state: self.state.clone(), process }
    }

    /// Stops the handle's process dead after its numbered call `calls`, the first being 1: its locks end, later calls
    /// fail and change nothing, and what it wrote is in the system's cache as ever.
    ///
    /// # Panics
    /// If the handle has no process of its own.
    pub fn stop_after(&self, calls: u64) {
        let mut state = self.lock();
        state.processes.get_mut(&self.process).expect("a process of its own").calls_max = Some(calls);
        state.stop_spent(self.process);
    }

    /// Returns how many numbered calls the handle's process made, where it has one of its own.
    #[must_use]
    pub fn process_calls(&self) -> u64 {
        self.lock().processes.get(&self.process).map_or(0, |process| process.calls)
    }

    /// Returns how many calls there were in all when the handle's process was stopped, if it was.
    #[must_use]
    pub fn stopped(&self) -> Option<u64> {
        self.lock().processes.get(&self.process)?.stopped
    }

    /// Keeps the disk as it is now and as it is after every numbered call from now on.
    pub fn keep_moments(&self) {
        let mut state = self.lock();
        state.moments = Some((state.calls, vec![state.disk.clone()]));
    }

    /// Returns a copy of the disk as it was right after call `number`, if moments were kept then.
    #[must_use]
    pub fn moment(&self, number: u64) -> Option<Self> {
        let state = self.lock();
        let (first, moments) = state.moments.as_ref()?;
        let disk = moments.get(usize::try_from(number.checked_sub(*first)?).ok()?)?;
        Some(Self::from_disk(disk.clone()))
    }

    /// Returns a copy of the disk with its unsynced changes; no calls, faults or locks.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self::from_disk(self.lock().disk.clone())
    }

    /// Returns the disk that the machine finds when power comes back. This one stays as it is.
    ///
    /// The same seed and policy give the same disk.
    #[must_use]
    pub fn reboot(&self, seed: u64, policy: Policy) -> Self {
        Self::from_disk(self.lock().disk.after_cut(seed, policy))
    }

    /// Returns how many changes no sync has made durable yet.
    #[must_use]
    pub fn unsynced(&self) -> usize {
        self.lock().disk.pending().count()
    }

    /// Makes call `number` fail, once or with all later ones.
    ///
    /// [`Fault::Interrupted`] strikes three calls where it is to strike for ever: no signal storm lasts, and
    /// programs retry until it ends.
    pub fn fail_at(&self, number: u64, fault: Fault, times: Times) {
        self.lock().fail_at = Some((number, fault, times));
    }

    /// Ends faults that were asked for.
    pub fn heal(&self) {
        let mut state = self.lock();
        (state.fail_at, state.cut_after) = (None, None);
    }

    /// Sets how many bytes it says are free, whatever it has; `None`: what a limit leaves.
    pub fn tell_free(&self, bytes: Option<u64>) {
        self.lock().told_free = bytes;
    }

    /// Bounds the bytes that all files together may take, holes included; `None`: no bound.
    pub fn limit_space(&self, bytes_max: Option<u64>) {
        self.lock().bytes_max = bytes_max;
    }

    /// Returns the bytes that all files take, holes included.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lock().disk.bytes()
    }

    /// Drops clean pages from the cache: what a failed sync lost is then lost to readers too.
    pub fn forget_cache(&self) {
        let mut state = self.lock();
        state.disk.forget_cache();
        state.renew_maps();
    }

    /// Returns the names and lengths of all files, in order.
    #[must_use]
    pub fn files(&self) -> Vec<(String, u64)> {
        let state = self.lock();
        let files = state.disk.names().iter().filter_map(|(name, node)| match node {
            names::NameNode::File(id) => Some((name.to_string(), state.disk.file(*id).len())),
            names::NameNode::Dir => None,
        });
        files.collect()
    }

    /// Returns the contents of a file.
    #[must_use]
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        let file = state.disk.file(state.disk.find(name).ok()?);
        let mut bytes = vec![0; usize::try_from(file.len()).ok()?];
        file.read(&mut bytes, 0);
        Some(bytes)
    }

    /// Flips bits of one byte on the medium, as decay does.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip(&self, name: &str, offset: u64, mask: u8) {
        assert!(self.contents(name).is_some_and(|bytes| offset < bytes.len() as u64), "{name} has no byte {offset}");
        self.damage(name, |pages| {
            // The medium may hold less of a file that was not synced.
            let mut byte = [0];
            if pages.read(&mut byte, offset) == 1 {
                pages.write(&[byte[0] ^ mask], offset);
            }
        });
    }

    /// Cuts a file or pads it with zeroes, on the medium.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn cut_file(&self, name: &str, bytes: u64) {
        self.damage(name, |pages| pages.set_len(bytes));
    }

    /// Replaces bytes of a file on the medium.
    ///
    /// # Panics
    /// If there is no such file.
    pub fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) {
        self.damage(name, |pages| pages.write(bytes, offset));
    }

    fn damage(&self, name: &str, change: impl Fn(&mut pages::Pages)) {
        let mut state = self.lock();
        let id = state.disk.find(name).unwrap_or_else(|error| panic!("{name}: {error}"));
        state.disk.file_mut(id).damage(change);
        state.renew_maps();
    }
}

impl std::fmt::Debug for SimStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SimStorage({} calls)", self.calls())
    }
}
