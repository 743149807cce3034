//! Checks of whole stores, as reports.

use std::{
    fs,
    num::NonZero,
    path::{Path, PathBuf},
    sync::Arc,
};

use bristlecone::{Batch, Durability, Kind, Layered, Oid, Sink, core::git::Algorithm};
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
fn what_lies_over_a_store_is_checked_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let repo = AnyRepo::create(dir.path(), AnyFormat::default()).unwrap();
    commit(&repo, "main", &[("a", "1")]);
    let over = repo.wrapped(|backend| Arc::new(Layered::new(backend, [])));
    commit(&over, "new", &[("b", "2")]);
    let check = |repo: &AnyRepo| check::check(repo, &mut |_, _| {}).unwrap();
    let (below, sound) = (check(&repo), check(&over));
    assert!(below.findings.is_empty() && sound.findings.is_empty(), "{sound:?}");
    assert!(sound.objects > below.objects && (below.refs, sound.refs) == (1, 2), "{sound:?}");
    // Under the id of other bytes.
    let (oid, mut batch) = (Oid::from_array([7; 32]), Batch::new());
    batch.put(Kind::Contents, oid, b"a value", &[], &[]);
    over.backend().append(batch, &[], Durability::None).unwrap();
    let found: Vec<_> = check(&over).findings.into_iter().map(|finding| finding.oid).collect();
    assert_eq!(found, [Some(oid)]);
    assert!(check(&repo).findings.is_empty());
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
fn every_ref_of_git_that_makes_no_sense_is_told_and_the_rest_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path().join("r"), &[]);
    git.write("a", "apple");
    git.commit_all("first");
    for name in ["one", "two"] {
        fs::write(dir.path().join("r/.git/refs/heads").join(name), "no id\n").unwrap();
    }
    let repo = AnyRepo::open_read_only(Place::Git(dir.path().join("r"))).unwrap();
    let report = check::check(&repo, &mut |_, _| {}).unwrap();
    let files: Vec<_> = report.findings.iter().map(|finding| finding.place.clone().unwrap().0).collect();
    let expected = ["refs/heads/one", "refs/heads/two"];
    assert!(files.len() == 2 && files.iter().zip(expected).all(|(file, end)| file.ends_with(end)), "{files:?}");
    assert_eq!((report.refs, report.objects), (1, 3));
    assert!(report.affected.is_empty(), "{:?}", report.affected);
    // Those of one file, too.
    fs::write(dir.path().join("r/.git/packed-refs"), "no line of refs\n").unwrap();
    let report = check::check(&repo, &mut |_, _| {}).unwrap();
    assert!(report.findings.len() == 3 && report.objects == 3, "{report:?}");
}

/// As `git fsck` does it.
#[needs(git)]
#[test]
fn heads_and_the_refs_of_other_working_trees_are_checked() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path().join("r"), &[]);
    git.write("a", "apple");
    git.commit_all("first");
    git.run(&["worktree", "add", "-q", "--detach", "../tree"]);
    let checked = |name: &str| {
        let repo = AnyRepo::open_read_only(Place::Git(dir.path().join(name))).unwrap();
        check::check(&repo, &mut |_, _| {}).unwrap()
    };
    assert!(checked("r").findings.is_empty());
    let lost = format!("{}\n", "1".repeat(40));
    let own = dir.path().join("r/.git/worktrees/tree");
    fs::create_dir_all(own.join("refs/bisect")).unwrap();
    fs::write(own.join("refs/bisect/bad"), &lost).unwrap();
    let affected = checked("r").affected;
    assert!(affected.len() == 1 && affected[0].ends_with("worktrees/tree/refs/bisect/bad"), "{affected:?}");
    fs::remove_file(own.join("refs/bisect/bad")).unwrap();
    // As a power cut leaves one.
    fs::write(own.join("HEAD"), "").unwrap();
    let findings = checked("r").findings;
    let files: Vec<_> = findings.into_iter().map(|finding| finding.place.unwrap().0).collect();
    assert!(files.len() == 1 && files[0].ends_with("worktrees/tree/HEAD"), "{files:?}");
    drop(Git::init(dir.path().join("bare"), &["--bare"]));
    fs::write(dir.path().join("bare/HEAD"), &lost).unwrap();
    let affected = checked("bare").affected;
    assert!(affected.len() == 1 && affected[0].ends_with("bare/HEAD"), "{affected:?}");
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

/// Returns the files of loose objects, in order.
fn loose_objects(git: &Git) -> Vec<PathBuf> {
    let folders = fs::read_dir(git.dir().join(".git/objects")).unwrap().map(|entry| entry.unwrap().path());
    let folders = folders.filter(|path| path.file_name().unwrap().len() == 2);
    let mut files: Vec<PathBuf> =
        folders.flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())).collect();
    files.sort();
    files
}

/// Changes a byte of a file that Git made read-only.
fn damage(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    fs::remove_file(file).unwrap();
    fs::write(file, bytes).unwrap();
}

/// Checks on several numbers of threads, and returns the only report.
fn same_on_any_number_of_threads(git: &Git, what: &str) -> check::Report {
    let mut reports = [1, 2, 3, 8].map(|threads| {
        let repo = AnyRepo::open_read_only(Place::Git(git.dir().to_owned())).unwrap();
        let mut heard = (0, 0);
        let tell = &mut |objects, bytes| heard = (objects, bytes);
        let report = check::check_with(&repo, NonZero::new(threads).unwrap(), tell).unwrap();
        assert_eq!(report.objects, heard.0, "{what}");
        (format!("{report:?} {heard:?}"), report)
    });
    let [(first, _), others @ ..] = &reports;
    others.iter().for_each(|(other, _)| assert_eq!(other, first, "{what}"));
    std::mem::take(&mut reports[0].1)
}

#[needs(git)]
#[test]
fn a_git_repository_has_the_same_report_on_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let git = Git::init(dir.path().join("r"), &[]);
    for round in 0..8 {
        for file in 0..40 {
            let text = format!("{round} {file} ").repeat(file * 40);
            git.write(format!("d{}/f{file}", file % 7), text);
        }
        git.commit_all(&format!("round {round}"));
        git.run(&["branch", &format!("branch-{round}")]);
        if round == 4 {
            git.run(&["repack", "-adq"]);
            git.run(&["prune-packed"]);
        }
    }
    let sound = same_on_any_number_of_threads(&git, "sound");
    assert!(sound.findings.is_empty() && sound.affected.is_empty() && sound.objects > 350, "{sound:?}");

    // All that is there is sound, and something that is named is gone, as a value or as a directory.
    for (named, refs) in [("branch-6:d1/f8", 3), ("branch-7:d3", 2)] {
        let id = git.text(&["rev-parse", named]);
        let file = git.dir().join(".git/objects").join(&id[..2]).join(&id[2..]);
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let report = same_on_any_number_of_threads(&git, named);
        let oids: Vec<String> = report.findings.iter().map(|finding| finding.oid.unwrap().to_string()).collect();
        assert_eq!((oids, report.affected.len()), (vec![id], refs), "{report:?}");
        fs::write(&file, bytes).unwrap();
    }

    // A directory that names a value as a directory.
    let value = git.text(&["rev-parse", "main:d1/f8"]);
    let id: Vec<u8> = (0..20).map(|at| u8::from_str_radix(&value[2 * at..][..2], 16).unwrap()).collect();
    let listing = [&b"100644 right\0"[..], &id, b"40000 wrong\0", &id].concat();
    let tree = String::from_utf8(git.feed(&["hash-object", "-t", "tree", "-w", "--stdin"], &listing)).unwrap();
    let commit = git.text(&["commit-tree", "-m", "wrong", tree.trim()]);
    git.run(&["update-ref", "refs/heads/wrong", &commit]);
    let report = same_on_any_number_of_threads(&git, "a value as a directory");
    println!("{:?} {:?}", report.affected, report.findings);
    git.run(&["update-ref", "-d", "refs/heads/wrong"]);

    for file in loose_objects(&git).iter().step_by(5) {
        let middle = fs::metadata(file).unwrap().len() as usize / 2;
        damage(file, middle);
    }
    let report = same_on_any_number_of_threads(&git, "damaged loose objects");
    assert!(report.findings.len() > 10 && !report.affected.is_empty(), "{report:?}");
    let packs = fs::read_dir(git.dir().join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.into_iter().find(|path| path.extension().is_some_and(|end| end == "pack")).unwrap();
    let bytes = fs::metadata(&pack).unwrap().len() as usize;
    (1..9).for_each(|nth| damage(&pack, nth * bytes / 9));
    let more = same_on_any_number_of_threads(&git, "a damaged pack");
    assert!(more.findings.len() > report.findings.len() + 3, "{more:?}");
}
