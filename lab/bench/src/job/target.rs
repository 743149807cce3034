//! Where the work is done: backends with their durability, and other programs.

use serde::{Deserialize, Serialize};

/// Who does the work, where its objects go, and when a commit is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Target {
    /// The memory backend.
    Memory,
    /// The disk engine, acknowledged after the write.
    DiskNone,
    /// The disk engine, acknowledged after the sync.
    DiskSynced,
    /// A log-structured merge tree, acknowledged after the write.
    LsmNone,
    /// A log-structured merge tree, acknowledged after the sync.
    LsmSynced,
    /// LMDB, acknowledged once its pages are synced.
    LmdbNone,
    /// LMDB, acknowledged once its root is synced, too.
    LmdbSynced,
    /// One file an object, acknowledged after the writes.
    FsNone,
    /// One file an object, acknowledged after the syncs.
    FsSynced,
    /// A Git repository, each commit a pack, acknowledged after the writes.
    GitPacksNone,
    /// A Git repository, each commit a pack, acknowledged after the syncs.
    GitPacksSynced,
    /// A Git repository of loose objects, acknowledged after the writes.
    GitLooseNone,
    /// A Git repository of loose objects, acknowledged after the syncs.
    GitLooseSynced,
    /// libgit2, as it is.
    Libgit2,
    /// libgit2 told to sync what it writes.
    Libgit2Synced,
    /// gitoxide, which does not sync.
    Gitoxide,
    /// The program `git fast-import`, fed the whole history.
    FastImport,
}

impl Target {
    /// The stores of the native format in memory and of the disk engine, in the order of columns.
    pub const NATIVE: [Self; 3] = [Self::Memory, Self::DiskNone, Self::DiskSynced];
    /// The stores of the native format in other backends, in the order of columns.
    pub const OTHERS: [Self; 6] =
        [Self::LsmNone, Self::LsmSynced, Self::LmdbNone, Self::LmdbSynced, Self::FsNone, Self::FsSynced];
    /// Our stores in Git repositories, in the order of columns.
    pub const GIT: [Self; 4] = [Self::GitPacksNone, Self::GitPacksSynced, Self::GitLooseNone, Self::GitLooseSynced];
    /// Others that write Git repositories.
    pub const PEERS: [Self; 4] = [Self::Libgit2, Self::Libgit2Synced, Self::Gitoxide, Self::FastImport];

    /// Returns every target, in the order in which they are measured.
    pub fn all() -> impl Iterator<Item = Self> {
        [&Self::NATIVE[..], &Self::OTHERS, &Self::GIT, &Self::PEERS].into_iter().flatten().copied()
    }

    /// Returns the name with the durability.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::DiskNone => "disk none",
            Self::DiskSynced => "disk synced",
            Self::LsmNone => "lsm none",
            Self::LsmSynced => "lsm synced",
            Self::LmdbNone => "lmdb none",
            Self::LmdbSynced => "lmdb synced",
            Self::FsNone => "fs none",
            Self::FsSynced => "fs synced",
            Self::GitPacksNone => "git packs none",
            Self::GitPacksSynced => "git packs synced",
            Self::GitLooseNone => "git loose none",
            Self::GitLooseSynced => "git loose synced",
            Self::Libgit2 => "libgit2",
            Self::Libgit2Synced => "libgit2 synced",
            Self::Gitoxide => "gitoxide",
            Self::FastImport => "git fast-import",
        }
    }

    /// Returns the name of the backend, or of the other program.
    #[must_use]
    pub const fn backend(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::DiskNone | Self::DiskSynced => "disk",
            Self::LsmNone | Self::LsmSynced => "lsm",
            Self::LmdbNone | Self::LmdbSynced => "lmdb",
            Self::FsNone | Self::FsSynced => "fs",
            Self::GitPacksNone | Self::GitPacksSynced | Self::GitLooseNone | Self::GitLooseSynced => "git",
            Self::Libgit2 | Self::Libgit2Synced => "libgit2",
            Self::Gitoxide => "gitoxide",
            Self::FastImport => "git fast-import",
        }
    }

    /// Returns the durability of its commits.
    #[must_use]
    pub const fn durability(self) -> bristlecone::Durability {
        match self {
            Self::DiskSynced
            | Self::LsmSynced
            | Self::LmdbSynced
            | Self::FsSynced
            | Self::GitPacksSynced
            | Self::GitLooseSynced
            | Self::Libgit2Synced => bristlecone::Durability::Synced,
            _ => bristlecone::Durability::None,
        }
    }

    /// Whether a commit is acknowledged after a sync.
    #[must_use]
    pub const fn is_synced(self) -> bool {
        matches!(self.durability(), bristlecone::Durability::Synced)
    }

    /// Whether it is a store of the native format in another backend than memory and the disk engine.
    #[must_use]
    pub fn is_other(self) -> bool {
        Self::OTHERS.contains(&self)
    }

    /// Whether it has files of one object each, which take most of the time.
    #[must_use]
    pub const fn is_files(self) -> bool {
        matches!(self, Self::FsNone | Self::FsSynced) || self.is_loose()
    }

    /// Whether it is a store of ours in a Git repository.
    #[must_use]
    pub const fn is_git(self) -> bool {
        matches!(self, Self::GitPacksNone | Self::GitPacksSynced | Self::GitLooseNone | Self::GitLooseSynced)
    }

    /// Whether a store of ours keeps loose objects.
    #[must_use]
    pub const fn is_loose(self) -> bool {
        matches!(self, Self::GitLooseNone | Self::GitLooseSynced)
    }

    /// Whether it is not a store of ours.
    #[must_use]
    pub const fn is_peer(self) -> bool {
        matches!(self, Self::Libgit2 | Self::Libgit2Synced | Self::Gitoxide | Self::FastImport)
    }

    /// Whether its objects have Git's ids, so that heads and roots can be compared.
    #[must_use]
    pub const fn has_git_ids(self) -> bool {
        self.is_git() || self.is_peer()
    }
}
