//! Histories whose objects are not what their ids say.

use std::sync::Arc;

use bristlecone::{
    Backend, MemoryBackend, Native,
    core::git::{Algorithm, Git},
};
use bristlecone_git::history::{ImportOptions, ImportReport, Repository, StoreFormat, TransferError, import};
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git as RealGit;

const FORMATS: [StoreFormat; 2] = [StoreFormat::Git(Git::new(Algorithm::Sha1)), StoreFormat::Native(Native::new())];

fn imported(git: &RealGit, store: StoreFormat, skip_missing: bool) -> Result<ImportReport, TransferError> {
    let backend: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let options = ImportOptions::default().skip_missing(skip_missing);
    let done = import(&Repository::open(git.dir())?, store, &backend, &options, &mut |_| {});
    if done.is_err() {
        assert!(backend.list_refs("refs/").unwrap().is_empty());
    }
    done
}

fn file_of(git: &RealGit, oid: &str) -> std::path::PathBuf {
    git.dir().join(".git/objects").join(&oid[..2]).join(&oid[2..])
}

/// A commit whose bytes are those of another one, which leads back to it.
#[needs(git)]
#[test]
fn a_commit_that_leads_to_itself_is_told_as_damaged() {
    for distance in [0, 1, 3] {
        let dir = tempfile::tempdir().unwrap();
        let git = RealGit::init(dir.path(), &[]);
        git.write("file", "first");
        let first = git.commit_all("first");
        git.run(&["branch", "before"]);
        let commits: Vec<String> = (0..5)
            .map(|n| {
                git.write("file", format!("{n}"));
                git.commit_all(&format!("number {n}"))
            })
            .collect();
        // Its parent is the commit itself, or a later one of which it is an ancestor.
        let (bad, bytes) = (&commits[0], &commits[distance + 1]);
        std::fs::remove_file(file_of(&git, bad)).unwrap();
        std::fs::copy(file_of(&git, bytes), file_of(&git, bad)).unwrap();
        for store in FORMATS {
            match imported(&git, store, false) {
                Err(TransferError::Missing(missing)) => {
                    assert_eq!(missing.oid.to_string(), *bad);
                    assert!(missing.damage.is_some(), "{missing}");
                }
                done => panic!("{distance} apart: {done:?}"),
            }
            let report = imported(&git, store, true).unwrap();
            assert_eq!(report.missing.iter().map(|missing| missing.oid.to_string()).collect::<Vec<_>>(), [&**bad]);
            assert_eq!(report.left_out.iter().map(|left| &*left.name).collect::<Vec<_>>(), ["refs/heads/main"]);
            assert_eq!(report.refs.iter().map(|moved| &*moved.name).collect::<Vec<_>>(), ["refs/heads/before"]);
            assert_eq!(report.counts.commits, 1, "{first} alone");
        }
    }
}
