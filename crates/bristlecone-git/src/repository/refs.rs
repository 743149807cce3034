//! Refs: loose and packed, moved under Git's locks, with reflogs.
//!
//! A ref is a file below `refs/`, or a line of `packed-refs` where there is no such file. [`Refs`] reads both as they
//! are at the time: another process may change either at any moment.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use bristlecone::{
    Error, ObjRef, Oid, RefTarget, Result,
    core::git::Algorithm,
    storage::{Stat, Storage, StorageFile},
};

use crate::repository::{
    error,
    files::{Files, ReadOutcome, below},
    layout::linked_head,
};

mod letters;
mod lock;
mod locked;
mod mend;
mod packed;
mod reflog;
mod trash;
mod value;

pub(crate) use letters::FoldedNames;
pub(crate) use lock::{LockWait, held_error};
pub(crate) use locked::{LockedRef, MoveRules, Staged};
pub use reflog::LoggedMove;
pub(crate) use reflog::{LogLine, LogRules};
pub use value::OF_WORKTREE;
pub(crate) use value::{NO_TEXT, check_name, clash, parse};

pub(crate) use packed::PACKED_REFS;
use packed::{PackedCache, PackedRefs};

/// How a store calls its own HEAD, which is not Git's.
pub(crate) const STORE_HEAD: &str = "HEAD";

/// By how many names a folder of refs is listed, at most.
const NAMES_OF_FOLDER_MAX: u32 = 64;

/// The refs of a repository.
#[derive(Debug)]
pub struct Refs {
    files: Files,
    algorithm: Algorithm,
    head_dir: String,
    // The folder of Git's HEAD, where it is one of the operating system.
    git_dir: Option<PathBuf>,
    // Whether names of files that differ by the case of letters alone are one.
    ignore_case: bool,
    packed: PackedCache,
    // Git's HEAD as it was read last.
    head: Mutex<Option<(Stat, Option<RefTarget>)>>,
    // Files that are no longer needed, under the names that they wait with to be removed.
    trash: Mutex<Vec<String>>,
    // Files of refs that this process wrote and has not synced, by their paths.
    unsynced: Mutex<HashMap<String, Arc<dyn StorageFile>>>,
    // Folders whose names are durable, with their numbers: one that is made anew has another.
    durable: Mutex<HashMap<String, u64>>,
    // Files and folders that have the letters of their paths, and whether others lead to them, where case may be ignored.
    noted: Mutex<letters::Noted>,
    folds: OnceLock<bool>,
}

/// What hears of refs that make no sense.
pub(crate) type Damaged<'d> = dyn FnMut(Error) -> Result<()> + 'd;

/// What a ref has for a file of its own.
#[derive(Debug)]
pub(crate) enum Loose {
    Absent,
    /// A folder, of refs whose names go on; or of nothing.
    Dir,
    Value,
    /// A file that makes no sense.
    Broken(&'static str),
}

/// What was found by a ref's name.
#[derive(Debug)]
pub(crate) struct RefSlot {
    pub(crate) loose: Loose,
    /// What the ref holds, loose or packed.
    pub(crate) value: Option<RefTarget>,
}

impl Refs {
    /// Returns the refs of the repository whose common folder `storage` is rooted at. `head_dir` is the folder below it
    /// of the working tree whose `HEAD` is meant: empty for the main one.
    #[must_use]
    pub fn open(storage: Arc<dyn Storage>, algorithm: Algorithm, head_dir: &str) -> Self {
        Self::with_files(Files::new(storage), algorithm, head_dir)
    }

    pub(crate) fn with_files(files: Files, algorithm: Algorithm, head_dir: &str) -> Self {
        let head_dir = head_dir.trim_end_matches('/').to_owned();
        Self {
            files,
            algorithm,
            head_dir,
            git_dir: None,
            ignore_case: false,
            packed: PackedCache::default(),
            head: Mutex::default(),
            trash: Mutex::default(),
            unsynced: Mutex::default(),
            durable: Mutex::default(),
            noted: Mutex::default(),
            folds: OnceLock::new(),
        }
    }

    /// The same, with the folder that Git's `HEAD` is in.
    pub(crate) fn with_git_dir(self, git_dir: Option<PathBuf>) -> Self {
        Self { git_dir, ..self }
    }

    /// The same, of a file system that may ignore the case of letters.
    pub(crate) fn with_ignore_case(self, ignore_case: bool) -> Self {
        Self { ignore_case, ..self }
    }

    /// Returns what a ref holds: `refs/…`, or a name of its own such as `HEAD`, which is Git's here.
    ///
    /// # Errors
    /// [`bristlecone::Error::Corrupt`] if it holds neither an id nor a name; [`bristlecone::Error::RefName`]; those of
    /// the system.
    pub fn get(&self, name: &str) -> Result<Option<RefTarget>> {
        check_name(name)?;
        let slot = self.slot(name)?;
        self.check_readable(&self.path(name), &slot)?;
        Ok(slot.value)
    }

    /// Returns the refs below `refs/` whose names start with `prefix`, in order of names. Those whose names are no text
    /// are left out, and so are those that name such a ref.
    ///
    /// # Errors
    /// As [`Refs::get`].
    pub fn list(&self, prefix: &str) -> Result<BTreeMap<String, RefTarget>> {
        self.list_sound(prefix, &mut Err)
    }

    /// As [`Refs::list`]. Each file that makes no sense is told to `damaged`, whose error ends the listing.
    pub(crate) fn list_sound(&self, prefix: &str, damaged: &mut Damaged<'_>) -> Result<BTreeMap<String, RefTarget>> {
        self.list_noting(prefix, &mut BTreeSet::new(), damaged)
    }

    /// As [`Refs::list_sound`]. `unnamed` takes names of what is left out: of packed refs, and of those that name a ref whose name is
    /// no text.
    pub(crate) fn list_noting(
        &self,
        prefix: &str,
        unnamed: &mut BTreeSet<Vec<u8>>,
        damaged: &mut Damaged<'_>,
    ) -> Result<BTreeMap<String, RefTarget>> {
        let mut refs = BTreeMap::new();
        // Loose ones first: one that is packed meanwhile is then in one of the two.
        let parts = prefix.rsplit_once('/').map_or("refs", |(dir, _)| dir);
        let top = if parts == "refs" || parts.starts_with("refs/") { parts } else { "refs" };
        if prefix.starts_with("refs/") || "refs/".starts_with(prefix) {
            self.list_loose(top, prefix, &mut refs, unnamed, damaged)?;
        }
        let packed = match self.packed() {
            Err(error) => return damaged(error).map(|()| refs),
            Ok(packed) => packed,
        };
        for (name, packed) in packed.by_name.range(prefix.to_owned()..) {
            if !name.starts_with(prefix) {
                break;
            }
            if name.starts_with("refs/") && check_name(name).is_ok() && !unnamed.contains(name.as_bytes()) {
                refs.entry(name.clone()).or_insert(RefTarget::Object(packed.oid.into()));
            }
        }
        unnamed.extend(packed.unnamed.iter().filter(|name| name.starts_with(prefix.as_bytes())).cloned());
        Ok(refs)
    }

    /// Returns the object that a tag leads to in the end, where `packed-refs` notes it for this value of the ref;
    /// `None` where it does not, and for what is no tag.
    ///
    /// # Errors
    /// As [`Refs::get`].
    pub fn peeled(&self, name: &str) -> Result<Option<Oid>> {
        let Some(RefTarget::Object(at)) = self.get(name)? else { return Ok(None) };
        let packed = self.packed()?;
        Ok(packed.by_name.get(name).filter(|line| line.oid == at.oid).and_then(|line| line.peeled))
    }

    /// Returns what a ref held, as its reflog says, oldest first; what makes no sense there is passed over. `HEAD` is Git's
    /// here.
    ///
    /// # Errors
    /// [`bristlecone::Error::RefName`]; those of the system.
    pub fn logged(&self, name: &str) -> Result<Vec<Oid>> {
        check_name(name)?;
        reflog::values(&self.files, self.algorithm, &self.log_path(name))
    }

    /// Returns how a ref moved, as its reflog says, oldest first. `HEAD` is Git's here.
    ///
    /// # Errors
    /// As [`Refs::logged`].
    pub fn moves(&self, name: &str) -> Result<Vec<LoggedMove>> {
        check_name(name)?;
        reflog::moves(&self.files, self.algorithm, &self.log_path(name))
    }

    /// Returns what a store's own HEAD holds.
    pub(crate) fn store_head(&self) -> Result<Option<RefTarget>> {
        let slot = self.store_head_slot()?;
        self.check_readable(&self.store_head_path(), &slot)?;
        Ok(slot.value)
    }

    /// Returns when the file of a ref was written, or that of packed refs where it has none of its own, in nanoseconds since 1970;
    /// 0 where there is none or that is unknown.
    pub(crate) fn modified_ns(&self, name: &str) -> Result<u64> {
        let path = if name == STORE_HEAD { self.store_head_path() } else { self.path(name) };
        match self.files.stat(&path)? {
            Some(stat) if !stat.dir => Ok(stat.modified_ns),
            _ => Ok(self.files.stat(packed::PACKED_REFS)?.map_or(0, |stat| stat.modified_ns)),
        }
    }

    fn store_head_slot(&self) -> Result<RefSlot> {
        self.loose(&self.store_head_path())
    }

    pub(crate) fn store_head_path(&self) -> String {
        below(&self.head_dir, "bristlecone/HEAD")
    }

    /// Returns the name of a ref's file.
    pub(crate) fn path(&self, name: &str) -> String {
        if value::is_of_worktree(name) { below(&self.head_dir, name) } else { name.to_owned() }
    }

    fn log_path(&self, name: &str) -> String {
        reflog::log_path(if value::is_of_worktree(name) { &self.head_dir } else { "" }, name)
    }

    /// Returns how many folders are above the `refs` of a path.
    fn head_depth(&self, path: &str) -> usize {
        if path.starts_with("refs/") { 0 } else { self.head_dir.split('/').filter(|part| !part.is_empty()).count() }
    }

    pub(crate) fn slot(&self, name: &str) -> Result<RefSlot> {
        if name == "HEAD"
            && let Some(named) = self.linked_head()
        {
            return Ok(RefSlot { loose: Loose::Value, value: Some(RefTarget::Symbolic(named)) });
        }
        let mut slot = self.loose(&self.path(name))?;
        if matches!(slot.loose, Loose::Absent | Loose::Dir) && name.starts_with("refs/") {
            let packed = self.packed()?.by_name.get(name).copied();
            slot.value = packed.map(|line| RefTarget::Object(ObjRef::from(line.oid)));
        }
        Ok(slot)
    }

    fn loose(&self, path: &str) -> Result<RefSlot> {
        Ok(match self.files.read_up_to(path, value::VALUE_BYTES_MAX)? {
            ReadOutcome::Absent => RefSlot { loose: Loose::Absent, value: None },
            ReadOutcome::Dir => RefSlot { loose: Loose::Dir, value: None },
            ReadOutcome::Bytes(bytes) => match parse(self.algorithm, &bytes) {
                Ok(target) => RefSlot { loose: Loose::Value, value: Some(target) },
                Err(reason) => RefSlot { loose: Loose::Broken(reason), value: None },
            },
        })
    }

    /// Makes an error of a file that makes no sense.
    fn check_readable(&self, path: &str, slot: &RefSlot) -> Result<()> {
        match slot.loose {
            Loose::Broken(reason) => Err(error::corrupt(self.files.describe(path), 0, None, reason)),
            _ => Ok(()),
        }
    }

    fn packed(&self) -> Result<Arc<PackedRefs>> {
        self.packed.get(&self.files, self.algorithm)
    }

    fn list_loose(
        &self,
        top: &str,
        prefix: &str,
        refs: &mut BTreeMap<String, RefTarget>,
        unnamed: &mut BTreeSet<Vec<u8>>,
        damaged: &mut Damaged<'_>,
    ) -> Result<()> {
        let (mut dirs, mut met) = (vec![top.to_owned()], HashMap::new());
        while let Some(dir) = dirs.pop() {
            let own = value::is_of_worktree(&format!("{dir}/"));
            let path = if own { below(&self.head_dir, &dir) } else { dir.clone() };
            if self.is_met_too_often(&path, &mut met)? {
                let reason = "links lead to this folder by more names than any repository needs";
                damaged(error::corrupt(self.files.describe(&path), 0, None, reason))?;
                continue;
            }
            let mut names = self.files.list(&path)?;
            if dir == "refs" && !self.head_dir.is_empty() {
                names.extend(OF_WORKTREE.map(|dir| dir["refs/".len()..dir.len() - 1].to_owned()));
            }
            for name in names {
                let name = format!("{dir}/{name}");
                if !name.starts_with(prefix) && !prefix.starts_with(&format!("{name}/")) || check_name(&name).is_err() {
                    continue;
                }
                let own = value::is_of_worktree(&format!("{name}/"));
                let path = if own { below(&self.head_dir, &name) } else { self.path(&name) };
                let slot = self.loose(&path)?;
                if matches!(slot.loose, Loose::Dir) {
                    dirs.push(name);
                } else if name.starts_with(prefix) && matches!(slot.loose, Loose::Broken(NO_TEXT)) {
                    unnamed.insert(name.into_bytes());
                } else if name.starts_with(prefix) {
                    self.check_readable(&path, &slot).or_else(&mut *damaged)?;
                    refs.extend(slot.value.map(|target| (name, target)));
                }
            }
        }
        Ok(())
    }

    /// Whether a folder of refs was met too often, by one name after another: each of a few folders may have several links to the
    /// next, and all names together could never be listed. `met` counts by the numbers of folders.
    fn is_met_too_often(&self, path: &str, met: &mut HashMap<u64, u32>) -> Result<bool> {
        let Some(stat) = self.files.stat(path)?.filter(|stat| stat.id != 0) else { return Ok(false) };
        let times = met.entry(stat.id).or_default();
        *times += 1;
        Ok(*times > NAMES_OF_FOLDER_MAX)
    }

    /// Whether Git's HEAD names this ref.
    fn head_names(&self, name: &str) -> Result<bool> {
        if let Some(named) = self.linked_head() {
            return Ok(named == name);
        }
        let path = self.path("HEAD");
        let Some(stat) = self.files.stat(&path)? else { return Ok(false) };
        let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if head.as_ref().is_none_or(|(known, _)| *known != stat) {
            *head = Some((stat, self.loose(&path)?.value));
        }
        Ok(matches!(&*head, Some((_, Some(RefTarget::Symbolic(named)))) if named == name))
    }

    /// Returns the ref that Git's HEAD is a symbolic link to. A storage follows links, and would give what that ref holds.
    fn linked_head(&self) -> Option<String> {
        linked_head(self.git_dir.as_ref()?)
    }

    fn forget_head(&self) {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
