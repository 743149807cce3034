//! Repositories on simulated disks.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bristlecone::{
    Backend, Error,
    core::git::Algorithm,
    storage::{OpenMode, Storage, write_all_at},
};
use bristlecone_git::backend::{GitBackend, GitOptions};
use bristlecone_testkit::crash::Engine;

/// The engine under test, on simulated disks; without threads unless asked for.
#[derive(Clone, Debug)]
pub(crate) struct SimGit {
    pub(crate) algorithm: Algorithm,
    pub(crate) loose: bool,
    /// From how many packs on they are repacked.
    pub(crate) repack_min: usize,
    /// Whether a thread repacks.
    pub(crate) background: bool,
}

impl Default for SimGit {
    fn default() -> Self {
        Self { algorithm: Algorithm::Sha1, loose: false, repack_min: 48, background: false }
    }
}

impl SimGit {
    /// Returns the options of an opening after a start of the machine: each is another.
    pub(crate) fn options(&self) -> GitOptions {
        static BOOTS: AtomicU64 = AtomicU64::new(0);
        GitOptions::default()
            .algorithm(self.algorithm)
            .loose(self.loose)
            .repack_min(self.repack_min)
            .lock_wait_ms(100)
            .background(self.background)
            .cache_bytes(64 << 10)
            .boot(Some(format!("start-{}", BOOTS.fetch_add(1, Relaxed))))
    }
}

impl Engine for SimGit {
    fn create(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        init(&*storage).map_err(|source| Error::io("a new repository".to_owned(), source))?;
        self.open(storage)
    }

    fn open(&self, storage: Arc<dyn Storage>) -> Result<Arc<dyn Backend>, Error> {
        Ok(Arc::new(GitBackend::open(storage, self.options())?))
    }
}

/// Makes what `git init --bare` makes, as far as it matters, and makes it durable.
fn init(storage: &dyn Storage) -> std::io::Result<()> {
    for dir in ["refs/heads", "refs/tags", "objects/pack"] {
        storage.create_dir(dir)?;
    }
    let file = storage.open("HEAD", OpenMode::Create)?;
    write_all_at(&*file, b"ref: refs/heads/main\n", 0)?;
    file.sync_data()?;
    ["refs", "objects", ""].into_iter().try_for_each(|dir| storage.sync_dir(dir))
}
