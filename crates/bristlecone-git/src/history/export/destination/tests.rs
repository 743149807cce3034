//! Exports beside a Git that repacks the destination, and changes to it meanwhile.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use bristlecone::storage::RealStorage;
use bristlecone_needs::needs;
use bristlecone_testkit::git::Git as RealGit;

use super::*;
use crate::repository::pack::{Builder, Compression};

/// Writes a pack with one value, and returns its id.
fn write_value(to: &mut Destination, text: &str) -> Oid {
    let mut builder = Builder::new(Algorithm::Sha1);
    let oid = Algorithm::Sha1.object_id(Kind::Contents, text.as_bytes());
    builder.add(Kind::Contents, oid, text.as_bytes(), Compression::Stored);
    to.write_pack(builder.finish()).unwrap();
    oid
}

fn tag(oid: Oid) -> BTreeMap<String, RefTarget> {
    BTreeMap::from([("refs/tags/value".to_owned(), by_oid(ObjRef::from(oid)))])
}

fn files(git_dir: &Path) -> Files {
    Files::new(Arc::new(RealStorage::new(git_dir)))
}

fn names(git_dir: &Path, dir: &str, ending: &str) -> usize {
    files(git_dir).list(dir).unwrap().iter().filter(|name| name.ends_with(ending)).count()
}

#[needs(git)]
#[test]
fn what_was_written_stays_until_refs_lead_to_it() {
    for made in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("repo.git");
        if !made {
            drop(RealGit::init(&path, &["--bare"]));
        }
        let mut to = Destination::open(&path, true, Some(Algorithm::Sha1)).unwrap();
        let git = RealGit::new(&path);
        let oid = write_value(&mut to, "kept");
        git.run(&["repack", "-adq"]);
        to.update(&tag(oid), None, false).unwrap();
        assert_eq!(names(&path, "objects/pack", ".keep"), 0);
        assert_eq!(names(&path, "", "bristlecone"), usize::from(!made));
        git.fsck();
        assert_eq!(git.text(&["cat-file", "-p", "value"]), "kept");
        // One that is given up leaves no protection.
        let mut to = Destination::open(&path, true, Some(Algorithm::Sha1)).unwrap();
        write_value(&mut to, "given up");
        assert_eq!(names(&path, "objects/pack", ".keep"), 1);
        drop(to);
        assert_eq!(names(&path, "objects/pack", ".keep"), 0);
    }
}

/// A process may have no more than a thousand files open.
#[needs(git)]
#[test]
fn many_packs_are_protected_by_few_open_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("repo.git");
    drop(RealGit::init(&path, &["--bare"]));
    let mut to = Destination::open(&path, true, Some(Algorithm::Sha1)).unwrap();
    let oids: Vec<Oid> = (0..70).map(|number| write_value(&mut to, &format!("value {number}"))).collect();
    let files = files(&path);
    let mut keeps = files.list("objects/pack").unwrap();
    keeps.retain(|name| name.ends_with(".keep"));
    let open = |name: &String| files.open_raw(&format!("objects/pack/{name}"), OpenMode::Write).unwrap();
    assert_eq!(keeps.len(), 70);
    let closed = || keeps.iter().filter(|&name| open(name).try_lock().unwrap()).count();
    // What another test starts has the files of this process open for a moment, and with them their locks.
    let (began, mut found) = (Instant::now(), closed());
    while found != 6 && began.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(20));
        found = closed();
    }
    assert_eq!(found, 6);
    // Of a process that ended before.
    files.write("objects/pack/pack-left.keep", b"bristlecone bristlecone/keep-0-0\n").unwrap();
    // What opens a repository removes what nobody needs.
    drop(GitBackend::open_path(&to.repository.layout, GitOptions::default()).unwrap());
    assert_eq!(names(&path, "objects/pack", ".keep"), 70);
    let git = RealGit::new(&path);
    git.run(&["repack", "-adq"]);
    to.update(&tag(oids[0]), None, false).unwrap();
    assert_eq!(names(&path, "objects/pack", ".keep"), 0);
    assert!(!files.list(OURS).unwrap().iter().any(|name| name.starts_with("keep-")));
    for oid in oids {
        git.run(&["cat-file", "-e", &oid.to_string()]);
    }
}

/// A removed branch may have been the last that led to what was not written again.
#[needs(git)]
#[test]
fn no_ref_moves_once_what_was_there_is_gone() {
    for dropped in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let git = RealGit::init(dir.path(), &[]);
        git.commit_all("first");
        git.run(&["checkout", "-q", "-b", "side"]);
        let side = git.commit_all("second");
        git.run(&["checkout", "-q", "main"]);
        let mut to = Destination::open(dir.path(), false, None).unwrap();
        let oid = write_value(&mut to, "new");
        git.run(&["branch", "-D", "side"]);
        if dropped {
            git.run(&["reflog", "expire", "--expire=now", "--all"]);
            git.run(&["prune", "--expire=now"]);
        }
        match to.update(&tag(oid), None, false) {
            Ok(_) => assert!(!dropped),
            Err(TransferError::Missing(missing)) => assert!(dropped && missing.oid.to_string() == side),
            Err(error) => panic!("{error}"),
        }
        assert_eq!(git.attempt(&["rev-parse", "value"]).0, !dropped);
    }
}

/// A Git that prunes goes by the age of each object: the commit may stay, and what it leads to go.
#[needs(git)]
#[test]
fn no_ref_moves_once_a_part_of_what_was_there_is_gone() {
    for (detached, part) in [(false, "HEAD:file"), (false, "HEAD~1"), (true, "HEAD:file"), (true, "")] {
        let dir = tempfile::tempdir().unwrap();
        let git = RealGit::init(dir.path(), &[]);
        git.commit_all("first");
        git.run(&["checkout", "-q", if detached { "--detach" } else { "-bside" }]);
        git.commit_all("second");
        git.write("file", "of the third");
        let side = git.commit_all("third");
        let part = if part.is_empty() { None } else { Some(git.text(&["rev-parse", part])) };
        let mut to = Destination::open(dir.path(), false, None).unwrap();
        let oid = write_value(&mut to, "new");
        git.run(&["checkout", "-q", "main"]);
        if !detached {
            git.run(&["branch", "-D", "side"]);
        }
        if let Some(id) = &part {
            let name = format!("objects/{}/{}", &id[..2], &id[2..]);
            assert!(files(&dir.path().join(".git")).remove(&name).unwrap());
        }
        match to.update(&tag(oid), None, false) {
            Ok(_) => assert!(part.is_none()),
            Err(TransferError::Missing(missing)) => assert!(part.is_some() && missing.oid.to_string() == side),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_shallow_file_keeps_what_was_added_since_and_its_lock_goes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("repo.git");
    drop(Layout::init(&path, true, Algorithm::Sha1).unwrap());
    let to = Destination::open(&path, true, None).unwrap();
    let (one, two) = ("1".repeat(40), "2".repeat(40));
    // A fetch with a depth.
    let files = files(&path);
    files.write("shallow", format!("{two}\n").as_bytes()).unwrap();
    to.write_shallow(&[one.parse().unwrap()]).unwrap();
    assert_eq!(files.read("shallow").unwrap(), Some(format!("{one}\n{two}\n").into_bytes()));
    files.write("shallow.lock", b"").unwrap();
    match to.write_shallow(&[one.parse().unwrap()]) {
        Err(TransferError::Store(Error::Locked { file, .. })) => assert!(file.ends_with("shallow.lock"), "{file}"),
        done => panic!("{done:?}"),
    }
    files.remove("shallow.lock").unwrap();
    // A folder that is in the way.
    files.remove("shallow").unwrap();
    files.create_dir("shallow/folder").unwrap();
    assert!(to.write_shallow(&[one.parse().unwrap()]).is_err());
    assert_eq!(names(&path, "", ".lock"), 0);
}
