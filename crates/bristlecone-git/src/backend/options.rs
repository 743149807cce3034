//! How a repository is used.

use std::path::PathBuf;

use bristlecone::core::git::Algorithm;

/// How a repository is used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GitOptions {
    /// The hash of the ids. [`GitBackend::open_path`](super::GitBackend::open_path) takes that of the repository
    /// instead.
    pub algorithm: Algorithm,
    /// Whether objects are written one file each, as `git add` does, and not as packs.
    pub loose: bool,
    /// Whether nothing is written, not even a folder.
    pub read_only: bool,
    /// How long a move of a ref waits for each lock that another process holds, in milliseconds.
    pub lock_wait_ms: u64,
    /// The budget in bytes for objects kept in memory. A half at most is for those that are never dropped.
    pub cache_bytes: u64,
    /// Whether many small packs are repacked into larger ones as they pile up.
    pub repack: bool,
    /// From how many small packs on they are repacked.
    pub repack_min: usize,
    /// Whether every pack stays, and none is repacked. [`GitBackend::open_path`](super::GitBackend::open_path) also takes it from
    /// `extensions.preciousObjects` of the repository.
    pub precious_objects: bool,
    /// Within how many milliseconds a grouped append is durable.
    pub grouped_ms: u64,
    /// Whether threads may work beside appends; without them, the next call does what they would do.
    pub background: bool,
    /// The folder, below that of the storage, of the working tree whose `HEAD` is meant: empty for the main one,
    /// `worktrees/NAME` for a linked one. The store's own HEAD is `bristlecone/HEAD` in it.
    /// [`GitBackend::open_path`](super::GitBackend::open_path) takes that of the layout instead.
    pub head_dir: String,
    /// The committer, who moves refs, as reflogs write it: `Name <email>`.
    pub committer: Vec<u8>,
    /// Whether moves of branches are noted in reflogs.
    /// [`GitBackend::open_path`](super::GitBackend::open_path) notes none either where the repository's settings say so.
    pub reflogs: bool,
    /// Whether those of all other refs are, too: `core.logAllRefUpdates` of the repository says `always`.
    pub(crate) all_reflogs: bool,
    /// Whether names of files that differ by the case of letters alone are one: `core.ignoreCase` of the repository.
    pub(crate) ignore_case: bool,
    /// The folder of Git's `HEAD`, where it is one of the operating system.
    pub(crate) git_dir: Option<PathBuf>,
    /// What is different after each start of the machine; what is not synced survives as long as it is the same.
    /// `None`: unknown, so that anything may be lost between any two openings;
    /// [`GitBackend::open_path`](super::GitBackend::open_path) asks the system then.
    pub boot: Option<String>,
}

bristlecone::setters! {
    GitOptions {
        algorithm: Algorithm,
        loose: bool,
        read_only: bool,
        lock_wait_ms: u64,
        cache_bytes: u64,
        repack: bool,
        repack_min: usize,
        precious_objects: bool,
        grouped_ms: u64,
        background: bool,
        head_dir: into String,
        committer: into Vec<u8>,
        reflogs: bool,
        boot: into Option<String>,
    }
}

impl Default for GitOptions {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Sha1,
            loose: false,
            read_only: false,
            lock_wait_ms: 10_000,
            cache_bytes: 64 << 20,
            repack: true,
            repack_min: 48,
            precious_objects: false,
            grouped_ms: 10,
            background: true,
            head_dir: String::new(),
            committer: b"bristlecone <bristlecone@localhost>".to_vec(),
            reflogs: true,
            all_reflogs: false,
            ignore_case: false,
            git_dir: None,
            boot: None,
        }
    }
}
