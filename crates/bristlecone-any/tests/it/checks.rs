//! Checks of whole stores, as reports.

use std::{fs, path::Path};

use bristlecone::core::git::Algorithm;
use bristlecone_any::{AnyFormat, AnyRepo, Place, check};
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git;

use super::commit;

/// Turns a bit of the only place below `dir` where these bytes stand.
fn flip(dir: &Path, bytes: &[u8]) {
    let mut flipped = 0;
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let mut all = fs::read(entry.path()).unwrap();
        if let Some(at) = all.windows(bytes.len()).position(|window| window == bytes) {
            all[at] ^= 1;
            fs::write(entry.path(), all).unwrap();
            flipped += 1;
        }
    }
    assert_eq!(flipped, 1);
}

#[test]
fn damage_is_told_with_its_place_and_the_refs_that_lead_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let repo = AnyRepo::create(dir.path(), AnyFormat::default()).unwrap();
    let long = "the value that will be hurt ".repeat(8);
    commit(&repo, "sound", &[("a", "1")]);
    commit(&repo, "hurt", &[("deep/bad", &long)]);
    commit(&repo, "later", &[("b", "2")]);
    repo.close().unwrap();
    let mut heard = (0, 0);
    let report = check::check(&repo, &mut |objects, bytes| heard = (objects, bytes)).unwrap();
    assert!(report.opened && report.findings.is_empty() && report.affected.is_empty(), "{:?}", report.findings);
    assert_eq!((report.refs, report.objects), (3, heard.0));
    assert!(heard.1 > long.len() as u64 && report.references > 0 && report.engine.segments > 0);
    drop(repo);
    flip(&dir.path().join(".bristlecone/segments"), long.as_bytes());
    let repo = AnyRepo::open_read_only(dir.path()).unwrap();
    let report = check::check(&repo, &mut |_, _| {}).unwrap();
    assert_eq!(report.affected, ["refs/heads/hurt"]);
    let first = report.findings.first().unwrap();
    assert!(first.place.as_ref().is_some_and(|(file, offset)| file.contains("segments") && *offset > 0), "{first:?}");
}

#[test]
fn memory_is_checked_too() {
    let repo = AnyRepo::open("memory:").unwrap();
    commit(&repo, "main", &[("a/b", "1")]);
    let report = check::check(&repo, &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty() && report.objects >= 2 && report.engine.segments == 0, "{report:?}");
}

#[needs(git)]
#[test]
fn an_object_that_git_lost_is_told_with_its_refs() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path().join("r"), &[]);
    git.write("a", "apple");
    git.commit_all("first");
    git.run(&["branch", "sound"]);
    git.write("b", "plum");
    git.commit_all("second");
    let repo = AnyRepo::open_read_only(Place::Git(dir.path().join("r"))).unwrap();
    assert_eq!(repo.format(), &AnyFormat::git(Algorithm::Sha1));
    let sound = check::check(&repo, &mut |_, _| {}).unwrap();
    assert!(sound.findings.is_empty() && sound.objects == 6, "{sound:?}");
    let lost = git.text(&["rev-parse", "main:b"]);
    fs::remove_file(dir.path().join("r/.git/objects").join(&lost[..2]).join(&lost[2..])).unwrap();
    let repo = AnyRepo::open_read_only(Place::Git(dir.path().join("r"))).unwrap();
    let report = check::check(&repo, &mut |_, _| {}).unwrap();
    let oids: Vec<_> = report.findings.iter().map(|finding| finding.oid.unwrap().to_string()).collect();
    assert_eq!((oids, &report.affected[..]), (vec![lost], &["refs/heads/main".to_owned()][..]));
}
