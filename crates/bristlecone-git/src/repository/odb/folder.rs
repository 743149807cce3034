//! One folder of objects: its packs, its loose objects, and when to list it again.
//!
//! Other processes add packs and take them away. A folder that changes gets another time of change, but clocks of file
//! systems are coarse: two changes within a tick show as one. So a listing counts as complete only if the folder had
//! been as it was for a while, by our own clock.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bristlecone::core::git::Algorithm;
use bristlecone::storage::{OpenMode, Storage};
use bristlecone::{Error, Kind, Oid, Result};

use super::{loose, packs::Packs};
use crate::repository::error;
use crate::repository::pack::data::Data;
use crate::repository::pack::{Index, Pack};

/// How long a folder must have been unchanged for a listing of it to be complete: the coarsest clock ticks every 2 s.
const SETTLED: Duration = Duration::from_secs(2);
/// A folder that changed so long ago, by its own account, is taken to be settled: no clock is so wrong by chance.
const LONG_SETTLED: Duration = Duration::from_secs(60);
/// A question for which a wrong "no" is harmless lists the folder no more often than this.
const LIST_INTERVAL: Duration = Duration::from_millis(1);
/// How many bytes of a loose file are read for its header, as a rule.
const LOOSE_FRONT_BYTES: usize = 256;
/// How many at most: its stream may begin with blocks that hold nothing.
const LOOSE_FRONT_BYTES_MAX: usize = 1 << 20;

/// Numbers of packs, in the whole process: readers that share a cache of bases do not mix them up.
static PACK_ID: AtomicU32 = AtomicU32::new(1);

/// One folder of objects.
#[derive(Debug)]
pub(super) struct Folder {
    storage: Arc<dyn Storage>,
    /// What stands before names: `objects/`, or nothing.
    prefix: &'static str,
    algorithm: Algorithm,
    packs: RwLock<Packs>,
    listing: Mutex<Listing>,
    /// Counts packs that were added by name, so that a listing that began before does not take them away.
    added: AtomicU64,
}

/// What is known of the folder of packs.
#[derive(Debug, Default)]
struct Listing {
    /// When the last listing began.
    began: Option<Instant>,
    /// The time of change that the folder had then, and when it was seen first.
    modified_ns: Option<u64>,
    seen: Option<Instant>,
    /// Whether nothing can have been added since without another time of change.
    settled: bool,
}

impl Folder {
    pub(super) fn new(storage: Arc<dyn Storage>, prefix: &'static str, algorithm: Algorithm) -> Self {
        Self {
            storage,
            prefix,
            algorithm,
            packs: RwLock::default(),
            listing: Mutex::default(),
            added: AtomicU64::new(0),
        }
    }

    pub(super) fn packs(&self) -> RwLockReadGuard<'_, Packs> {
        self.packs.read().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn packs_mut(&self) -> RwLockWriteGuard<'_, Packs> {
        self.packs.write().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn listing(&self) -> MutexGuard<'_, Listing> {
        self.listing.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn dir(&self) -> String {
        format!("{}pack", self.prefix)
    }

    /// Takes in a pack; `index`: its index, if that is at hand.
    pub(super) fn add_pack(&self, name: &str, index: Option<Vec<u8>>) -> Result<()> {
        if self.packs().get(name).is_some() {
            return Ok(());
        }
        let pack = Arc::new(self.open_pack(name, index)?);
        let mut packs = self.packs_mut();
        self.added.fetch_add(1, AcqRel);
        packs.add(pack);
        Ok(())
    }

    fn open_pack(&self, name: &str, index: Option<Vec<u8>>) -> Result<Pack> {
        let dir = self.dir();
        let file = format!("{dir}/{name}.idx");
        let index = match index {
            Some(bytes) => Index::from_bytes(&self.storage.describe(&file), self.algorithm, bytes)?,
            None => Index::open(&*self.storage, &file, self.algorithm)?,
        };
        let id = PACK_ID.fetch_add(1, Relaxed);
        Ok(Pack::with_index(&self.storage, &dir, name, self.algorithm, index, id))
    }

    /// Returns the packs that have a file `.promisor` beside them.
    pub(super) fn promisor_packs(&self) -> Result<Vec<Arc<Pack>>> {
        let mut packs = self.packs().all();
        packs.retain(|pack| self.storage.stat(&format!("{}/{}.promisor", self.dir(), pack.name())).is_ok());
        Ok(packs)
    }

    pub(super) fn forget_pack(&self, name: &str) {
        self.packs_mut().remove(name);
    }

    /// Looks for packs that appeared or vanished, after something was not found by a search that began at `since`.
    /// Returns whether it is worth searching again. `exact`: the answer must be right, though it may take a listing.
    pub(super) fn refresh_after_miss(&self, since: Instant, exact: bool) -> Result<bool> {
        let mut listing = self.listing();
        if listing.began.is_some_and(|began| began >= since) {
            return Ok(true);
        }
        if !exact && listing.began.is_some_and(|began| began.elapsed() < LIST_INTERVAL) {
            return Ok(false);
        }
        if listing.settled && self.modified_ns() == listing.modified_ns {
            return Ok(false);
        }
        self.list(&mut listing)?;
        Ok(true)
    }

    /// Looks for packs that appeared or vanished.
    pub(super) fn refresh(&self) -> Result<()> {
        self.list(&mut self.listing())
    }

    /// Returns the time of change of the folder of packs, if it has one.
    fn modified_ns(&self) -> Option<u64> {
        self.storage.stat(&self.dir()).ok().map(|stat| stat.modified_ns).filter(|time| *time != 0)
    }

    fn list(&self, listing: &mut Listing) -> Result<()> {
        let now = Instant::now();
        let modified_ns = self.modified_ns();
        if listing.modified_ns != modified_ns || listing.seen.is_none() {
            (listing.modified_ns, listing.seen) = (modified_ns, Some(now));
        }
        let by_own_clock = listing.seen.is_some_and(|seen| now - seen > SETTLED);
        listing.settled = modified_ns.is_some_and(|time| by_own_clock || age(time) > LONG_SETTLED);
        listing.began = Some(now);

        let added = self.added.load(Acquire);
        let dir = self.dir();
        let names = match self.storage.list(&dir) {
            Err(source) if source.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other.map_err(|source| Error::io(self.storage.describe(&dir), source))?,
        };
        let mut files: std::collections::HashSet<&str> = names.iter().map(|name| &**name).collect();
        files.retain(|name| name.ends_with(".pack") || name.ends_with(".idx"));
        let found: std::collections::HashSet<&str> = files
            .iter()
            .filter_map(|name| name.strip_suffix(".idx"))
            .filter(|stem| files.contains(&*format!("{stem}.pack")))
            .collect();

        let (new, gone): (Vec<&str>, Vec<String>) = {
            let packs = self.packs();
            let new = found.iter().filter(|name| packs.get(name).is_none()).copied().collect();
            let known = packs.names().chain(packs.broken.keys());
            (new, known.filter(|name| !found.contains(&***name)).cloned().collect())
        };
        let opened: Vec<_> = new.into_iter().map(|name| (name, self.open_pack(name, None))).collect();
        let mut packs = self.packs_mut();
        if self.added.load(Acquire) == added {
            gone.iter().for_each(|name| packs.remove(name));
        }
        for (name, pack) in opened {
            match pack {
                Ok(pack) if packs.get(name).is_none() => packs.add(Arc::new(pack)),
                Ok(_) => {}
                // Another process removed it meanwhile.
                Err(bristlecone::Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                // The other packs are of use all the same; a search that fails tells of this one.
                Err(error) => _ = packs.broken.insert(name.to_owned(), bristlecone::report(&error)),
            }
        }
        Ok(())
    }

    /// Reads a loose object.
    pub(super) fn read_loose(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        let Some((name, data)) = self.open_loose(oid, true)? else { return Ok(None) };
        let bytes = data.slice().unwrap_or_default();
        loose::decode(bytes, out).map(Some).map_err(|reason| self.bad_loose(&name, oid, reason))
    }

    /// Reads what a loose object says of itself.
    pub(super) fn loose_header(&self, oid: &Oid) -> Result<Option<(Kind, u64)>> {
        let Some((name, data)) = self.open_loose(oid, false)? else { return Ok(None) };
        let (mut buffer, mut looked) = (Vec::new(), LOOSE_FRONT_BYTES);
        loop {
            let front = data.window(0, looked, &mut buffer);
            let front = front.map_err(|source| Error::io(self.storage.describe(&name), source))?;
            let front = &front[..front.len().min(looked)];
            match loose::decode_header(front) {
                Err(_) if front.len() == looked && looked < LOOSE_FRONT_BYTES_MAX => looked *= 2,
                read => return read.map(Some).map_err(|reason| self.bad_loose(&name, oid, reason)),
            }
        }
    }

    /// Whether there is a loose object, whole or damaged.
    pub(super) fn has_loose(&self, oid: &Oid) -> Result<bool> {
        let name = format!("{}{}", self.prefix, loose::name(oid));
        let found = match self.storage.stat(&name) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.storage.open(&name, OpenMode::Read).map(drop)
            }
            other => other.map(drop),
        };
        match found {
            Ok(()) => Ok(true),
            Err(error) if is_absence(&error) => Ok(false),
            Err(source) => Err(Error::io(self.storage.describe(&name), source)),
        }
    }

    /// Calls `each` with the ids of all loose objects whose first byte is one of those `wanted`.
    pub(super) fn each_loose(
        &self,
        wanted: &dyn Fn(u8) -> bool,
        each: &mut dyn FnMut(Oid) -> Result<()>,
    ) -> Result<()> {
        let list = |dir: &str| match self.storage.list(dir) {
            Err(error) if is_absence(&error) => Ok(Vec::new()),
            other => other.map_err(|source| Error::io(self.storage.describe(dir), source)),
        };
        let mut dirs = list(self.prefix.trim_end_matches('/'))?;
        let first =
            |dir: &str| u8::from_str_radix(dir, 16).ok().filter(|_| dir.bytes().all(|byte| byte.is_ascii_hexdigit()));
        dirs.retain(|dir| dir.len() == 2 && first(dir).is_some_and(wanted));
        dirs.sort_unstable();
        for dir in dirs {
            let mut names = list(&format!("{}{dir}", self.prefix))?;
            names.sort_unstable();
            for name in names {
                if let Ok(oid) = format!("{dir}{name}").parse::<Oid>()
                    && oid.as_bytes().len() == self.algorithm.oid_bytes()
                {
                    each(oid)?;
                }
            }
        }
        Ok(())
    }

    fn open_loose(&self, oid: &Oid, whole: bool) -> Result<Option<(String, Data)>> {
        let name = format!("{}{}", self.prefix, loose::name(oid));
        match Data::open(&*self.storage, &name, whole) {
            Ok(data) => Ok(Some((name, data))),
            Err(error) if is_absence(&error) => Ok(None),
            Err(source) => Err(Error::io(self.storage.describe(&name), source)),
        }
    }

    fn bad_loose(&self, name: &str, oid: &Oid, reason: &str) -> bristlecone::Error {
        error::corrupt(self.storage.describe(name), 0, Some(*oid), reason)
    }

    /// Returns what messages call the folder.
    pub(super) fn describe(&self) -> String {
        self.storage.describe(self.prefix.trim_end_matches('/'))
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns how long ago a time was; nothing, if that is to come.
fn age(time_ns: u64) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_nanos(time_ns))
}
