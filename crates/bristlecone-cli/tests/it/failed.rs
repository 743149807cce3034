//! Commands that fail half-way, or before anything is written: what they leave is counted and told, the store is whole and goes
//! on, and a store that the command made itself is gone.

use std::{fs, os::unix::fs::FileExt, path::PathBuf, process::Command};

use bristlecone_needs::needs;
use bristlecone_testkit::{generate::Rng, git::Git};

use crate::{
    aborted::{MIB, SENTENCE, folder, goes_on, reclaimable, store_bytes, with_commit},
    harness::{Place, Run},
};

/// A repository of some mebibytes, in one pack, whose files cannot be compressed.
fn repository(place: &Place) -> (Git, PathBuf) {
    let dir = place.path("from");
    folder(&dir, 20);
    let git = Git::new(dir);
    git.run(&["init", "-q", "-b", "main"]);
    git.run(&["add", "-A"]);
    git.run(&["commit", "-q", "-m", "one"]);
    git.run(&["repack", "-q", "-a", "-d"]);
    let packs = fs::read_dir(git.dir().join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let pack = packs.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "pack")).unwrap();
    (git, pack)
}

#[needs(git)]
#[test]
fn a_git_import_that_fails_is_counted_until_one_succeeds() {
    let place = with_commit();
    let (git, pack) = repository(&place);
    fs::set_permissions(&pack, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let bytes = fs::read(&pack).unwrap();
    let mut damaged = bytes.clone();
    let at = bytes.len() * 9 / 10;
    damaged[at] ^= 0x55;
    fs::write(&pack, &damaged).unwrap();
    let run = place.fails(3, &["is damaged", "this leaves"], ["import", "--git", "from"]);
    assert!(run.err.trim_end().ends_with(SENTENCE), "{}", run.err);
    let left = reclaimable(&place);
    assert!(left > 2 * MIB as u64, "{left}");
    goes_on(&place);
    // The branch of that name is another history: nothing moves, and all that came is left.
    fs::write(&pack, &bytes).unwrap();
    let run = place.run(["import", "--git", "from"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("left where it is") && run.err.trim_end().ends_with(SENTENCE), "{}", run.err);
    let kept = reclaimable(&place);
    assert!(kept > left, "{kept} after {left}");
    // Under a name that is free the same objects are led to, those of the attempts before, too.
    git.run(&["branch", "-m", "main", "theirs"]);
    place.ok(["import", "--git", "from"]);
    assert_eq!(reclaimable(&place), 0);
    goes_on(&place);
}

#[needs(git)]
#[test]
fn an_import_that_cannot_fit_is_refused_before_anything_is_written() {
    let place = with_commit();
    let (_, pack) = repository(&place);
    // A pack that is larger than any disk, by a hole.
    fs::set_permissions(&pack, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&pack).unwrap();
    let whole = file.metadata().unwrap().len();
    file.set_len(8 << 40).unwrap();
    let before = store_bytes(&place);
    let run = place.fails(
        3,
        &[".bristlecone", "8.8 TB are needed", "are free", "nothing was written", "--ignore-free-space"],
        ["import", "--git", "from"],
    );
    assert!(!run.err.contains("this leaves"), "{}", run.err);
    assert_eq!((store_bytes(&place), reclaimable(&place)), (before, 0));
    // A caller who insists goes on; what is wrong with the pack then shows.
    let run = place.run(["import", "--git", "from", "--ignore-free-space"]);
    assert!(!run.err.contains("are needed"), "{}", run.err);
    file.set_len(whole).unwrap();
    place.ok(["import", "--git", "from", "--ref", "main", "--force"]);
    place.ok(["check"]);
}

#[test]
fn a_file_that_is_no_value_is_refused_before_anything_is_written() {
    let place = with_commit();
    folder(&place.path("photos"), 3);
    let file = fs::File::create(place.path("photos/hole")).unwrap();
    file.set_len(1 << 40).unwrap();
    let before = store_bytes(&place);
    let run = place.fails(3, &["photos/hole is too large for a value", "at most 2.1 GB fit"], ["import", "photos"]);
    assert!(!run.err.contains("this leaves"), "{}", run.err);
    assert_eq!((store_bytes(&place), reclaimable(&place)), (before, 0));
    // Holes take no room, and are no reason to refuse.
    file.set_len(1 << 30).unwrap();
    file.write_all_at(b"end", (1 << 30) - 3).unwrap();
    place.ok(["import", "photos", "--path", "photos"]);
    assert!(store_bytes(&place) < before + 64 * MIB as u64);
    goes_on(&place);
}

/// A file system in memory, mounted for a test.
struct Mounted(PathBuf);

impl Mounted {
    fn new(place: &Place, name: &str, size: &str) -> Self {
        let dir = place.path(name);
        fs::create_dir(&dir).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&dir);
        assert!(command.status().unwrap().success(), "this test mounts a file system: it needs root");
        Self(dir)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[needs(mounts)]
#[test]
fn a_full_disk_is_told_where_lmdb_would_map_a_file_without_room() {
    let outside = Place::empty();
    let mounted = Mounted::new(&outside, "small", "4m");
    let place = Place::at(&mounted.0);
    place.ok(["map", "init", "fruit", "--kind", "okra"]);
    place.ok(["-r", "fruit", "map", "set", "apple", "red"]);
    place.ok(["init", "data", "--backend", "lmdb"]);
    let locks = ["fruit/lock.mdb", "data/.bristlecone/lmdb/lock.mdb"].map(|name| place.path(name));
    locks.iter().for_each(|lock| fs::remove_file(lock).unwrap());
    assert!(fs::write(place.path("rest"), vec![1; 8 * MIB]).is_err(), "the disk is full");
    place.fails(3, &["no space left"], ["-r", "fruit", "map", "get", "apple"]);
    place.fails(3, &["no space left"], ["-r", "data", "info"]);
    fs::remove_file(place.path("rest")).unwrap();
    assert_eq!(place.ok(["-r", "fruit", "map", "get", "apple"]), "red\n");
    place.ok(["-r", "data", "check"]);
    // LMDB cuts a write short where the room ends.
    let rows: String = (0..100_000).map(|number| format!("{number:06},a value of some bytes more\n")).collect();
    let file = outside.file("rows.csv", rows);
    let load = ["-r", "fruit", "map", "load", file.to_str().unwrap()];
    place.fails(3, &["fruit/data.mdb", "no space left", "nothing was changed"], load);
    assert_eq!(place.ok(["-r", "fruit", "map", "list"]), "apple\tred\n");
    place.ok(["-r", "fruit", "map", "stat", "--check"]);
}

#[needs(mounts)]
#[test]
fn a_collection_that_finds_no_room_says_how_much_it_needs() {
    let outside = Place::empty();
    folder(&outside.path("photos"), 40);
    let mounted = Mounted::new(&outside, "small", "70m");
    let place = Place::at(&mounted.0);
    place.ok(["init"]);
    place.ok(["import", outside.path("photos").to_str().unwrap()]);
    (0..3).for_each(|number| _ = place.ok(["set", "a", &number.to_string()]));
    place.ok(["retention", "set", "refs/heads/*", "last 1", "--force"]);
    // Nearly all is live, and the first segment alone is longer than what is free.
    fs::write(mounted.0.join("other"), vec![1; 12 * MIB]).unwrap();
    let run = place.fails(3, &["are needed and", "are free; make room and run it again"], ["gc"]);
    assert!(!run.err.contains("--"), "{}", run.err);
    place.ok(["check"]);
    assert_eq!(place.ok(["get", "a"]), "2");
    fs::remove_file(mounted.0.join("other")).unwrap();
    let more = Command::new("mount").args(["-o", "remount,size=140m"]).arg(&mounted.0).status().unwrap();
    assert!(more.success());
    place.ok(["gc"]);
    assert_eq!(place.ok(["get", "a"]), "2");
    place.ok(["check"]);
}

#[needs(mounts)]
#[test]
fn a_disk_that_is_full_ends_an_import_and_room_is_compared_first() {
    let outside = Place::empty();
    folder(&outside.path("photos"), 40);
    let mounted = Mounted::new(&outside, "small", "30m");
    let place = Place::at(&mounted.0);
    place.ok(["init"]);
    place.ok(["set", "before", "kept"]);
    let photos = outside.path("photos");
    let photos = photos.to_str().unwrap();
    let before = store_bytes(&place);
    let run = place.fails(3, &["42 MB are needed", "are free", "nothing was written"], ["import", photos]);
    assert!(!run.err.contains("this leaves"), "{}", run.err);
    assert_eq!((store_bytes(&place), reclaimable(&place)), (before, 0));
    let run = place.fails(3, &["no space left", "this leaves"], ["import", photos, "--ignore-free-space"]);
    assert!(run.err.trim_end().ends_with(SENTENCE), "{}", run.err);
    let left = reclaimable(&place);
    assert!(left > 10 * MIB as u64, "{left}");
    assert_eq!(place.ok(["get", "before"]), "kept");
    place.ok(["check"]);
    // The count stays although not one byte is free, and a second attempt adds to it what it could still write.
    let _ = place.run(["import", photos, "--ignore-free-space"]);
    assert!(reclaimable(&place) >= left);
    let more = Command::new("mount").args(["-o", "remount,size=60m"]).arg(&mounted.0).status().unwrap();
    assert!(more.success());
    goes_on(&place);
    assert!(reclaimable(&place) >= left);
}

#[needs(mounts)]
#[test]
fn a_store_that_cannot_be_made_whole_is_not_left_half_made() {
    let outside = Place::empty();
    let mut made = 0;
    for kib in (0..1600).step_by(100) {
        let mounted = Mounted::new(&outside, &format!("small-{kib}"), "2m");
        fs::write(mounted.0.join("full"), vec![1; (2 * MIB).saturating_sub((kib + 4) * 1024)]).unwrap();
        let place = Place::at(&mounted.0);
        let run = place.run(["init", "deep/er"]);
        if run.code == 0 {
            made += 1;
            continue;
        }
        run.failed(3, &["no space left"]);
        assert!(!place.path("deep").exists(), "{kib} KiB: {run:?}");
    }
    assert!(made > 0 && made < 16, "{made} stores were made");
}

#[needs(git)]
#[test]
fn a_repository_that_an_export_made_and_could_not_fill_is_removed() {
    let place = with_commit();
    folder(&place.path("photos"), 8);
    place.ok(["import", "photos", "--path", "photos"]);
    place.flip(&fs::read(place.path("photos/03/3")).unwrap()[MIB / 2..MIB / 2 + 64]);
    place.fails(3, &["damaged"], ["export", "--git", "new/out.git"]);
    assert!(!place.path("new").exists());
    // A folder that was there stays, and is empty again; one with a repository stays as it is.
    fs::create_dir(place.path("empty")).unwrap();
    place.fails(3, &["damaged"], ["export", "--git", "empty"]);
    assert_eq!(fs::read_dir(place.path("empty")).unwrap().count(), 0);
    fs::create_dir(place.path("theirs")).unwrap();
    Git::new(place.path("theirs")).run(&["init", "-q"]);
    place.fails(3, &["damaged"], ["export", "--git", "theirs"]);
    assert!(place.path("theirs/.git/HEAD").exists());
}

#[test]
fn a_value_that_has_no_place_is_not_read() {
    let place = with_commit();
    let large = place.file("large", Rng::stream(1, 2).bytes(4 * MIB));
    for (code, words) in [(2, &["set", "before/below", "-"][..]), (1, &["set", "a", "-b", "nowhere"])] {
        let mut command = place.command(words);
        command.stdin(fs::File::open(&large).unwrap());
        let run = Run::of(command);
        assert!(run.code == code && !run.err.contains("this leaves"), "{run:?}");
    }
    assert_eq!(reclaimable(&place), 0);
    goes_on(&place);
}

#[test]
fn a_value_that_was_large_and_came_to_nothing_is_told() {
    let place = with_commit();
    // Another process makes a value where the commit's directory is to be, after the look and before the commit: here, by a
    // merge that both sides stand against, whose objects came first.
    let other = Place::with_store();
    other.ok(["set", "x", "theirs"]);
    folder(&other.path("photos"), 12);
    other.ok(["import", "photos", "--path", "photos"]);
    let dir = other.path(".bristlecone");
    place.ok(["subtree", "add", "-P", "lib", dir.to_str().unwrap(), "main"]);
    assert_eq!(reclaimable(&place), 0);
    other.ok(["set", "x", "theirs again"]);
    other.ok(["import", "photos", "--path", "more", "-m", "more"]);
    place.ok(["set", "lib/x", "ours"]);
    let run = place.run(["subtree", "pull", "-P", "lib", dir.to_str().unwrap(), "main"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("this leaves") && run.err.trim_end().ends_with(SENTENCE), "{}", run.err);
    assert!(reclaimable(&place) > 0);
    goes_on(&place);
}
