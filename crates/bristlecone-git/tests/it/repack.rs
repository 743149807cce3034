//! Many packs become one: all objects, as Git sees them, in about as little room as Git needs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use bristlecone::core::git::Algorithm;
use bristlecone::storage::{OpenMode, RealStorage, Storage, write_all_at};
use bristlecone::{Error, Kind, Oid};
use bristlecone_git::odb::{Odb, OdbOptions};
use bristlecone_git::pack::{Builder, Compression, RepackOptions, Repacked, delta, repack};
use bristlecone_needs::needs;
use bristlecone_testkit::git::{self, Git, Shapes};
use bristlecone_testkit::sim::{Hooked, SimStorage};

use crate::pack::write_pack;

/// A history in the making: folders of blobs, the packs of its commits, the head.
struct History {
    algorithm: Algorithm,
    /// Folders of files, all in the root.
    folders: BTreeMap<String, BTreeMap<String, Oid>>,
    trees: BTreeMap<String, Oid>,
    head: Option<Oid>,
    count: usize,
    /// Names of the packs.
    packs: Vec<String>,
}

impl History {
    fn new(algorithm: Algorithm) -> Self {
        let (folders, trees) = (BTreeMap::new(), BTreeMap::new());
        Self { algorithm, folders, trees, head: None, count: 0, packs: Vec::new() }
    }

    /// Commits changes, and writes what is new as one pack below `dir`.
    fn commit(&mut self, dir: &Path, changes: &[(&str, String, Vec<u8>)]) {
        let mut builder = Builder::new(self.algorithm);
        let algorithm = self.algorithm;
        let mut add = |kind, raw: &[u8]| {
            let oid = algorithm.object_id(kind, raw);
            let compression = if raw.len() < 32_000 { Compression::Stored } else { Compression::Level(1) };
            builder.add(kind, oid, raw, compression);
            oid
        };
        let mut touched = Vec::new();
        for (folder, name, raw) in changes {
            let blob = add(Kind::Contents, raw);
            self.folders.entry((*folder).to_owned()).or_default().insert(name.clone(), blob);
            touched.push(*folder);
        }
        touched.sort_unstable();
        touched.dedup();
        let tree = |mode: &str, entries: &BTreeMap<String, Oid>| {
            let mut raw = Vec::new();
            for (name, oid) in entries {
                raw.extend_from_slice(format!("{mode} {name}\0").as_bytes());
                raw.extend_from_slice(oid.as_bytes());
            }
            raw
        };
        for folder in touched {
            let id = add(Kind::Node, &tree("100644", &self.folders[folder]));
            self.trees.insert(folder.to_owned(), id);
        }
        let root = add(Kind::Node, &tree("40000", &self.trees));
        self.count += 1;
        let parent = self.head.map_or(String::new(), |head| format!("parent {head}\n"));
        let who = format!("A U Thor <author@example.com> {} +0100", 1_700_000_000 + self.count * 60);
        let commit = format!("tree {root}\n{parent}author {who}\ncommitter {who}\n\nversion {}\n", self.count);
        self.head = Some(add(Kind::Commit, commit.as_bytes()));
        let built = builder.finish();
        write_pack(dir, &built);
        self.packs.push(built.name);
    }
}

fn storage(dir: &Path) -> Arc<dyn Storage> {
    Arc::new(RealStorage::new(dir))
}

fn repack_all(dir: &Path, algorithm: Algorithm, names: &[String]) -> Repacked {
    let repacked = repack(&storage(dir), algorithm, names, &RepackOptions::default(), &|| false).unwrap().unwrap();
    for name in names.iter().filter(|name| **name != repacked.name) {
        std::fs::remove_file(dir.join(format!("objects/pack/{name}.idx"))).unwrap();
        std::fs::remove_file(dir.join(format!("objects/pack/{name}.pack"))).unwrap();
    }
    repacked
}

/// Returns the bytes of packs and indexes, without those files that only Git makes.
fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir.join("objects/pack")).unwrap().map(|file| file.unwrap());
    let packs = files.filter(|file| {
        let name = file.file_name().into_string().unwrap();
        name.ends_with(".pack") || name.ends_with(".idx")
    });
    packs.map(|file| file.metadata().unwrap().len()).sum()
}

/// Returns the size after `git gc` in a copy of the repository.
fn size_after_gc(git: &Git) -> u64 {
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("copy");
    let done = std::process::Command::new("cp").arg("-r").args([git.dir(), &*path]).status().unwrap();
    assert!(done.success());
    let copy = Git::new(&path);
    copy.run(&["gc", "-q", "--prune=now"]);
    size(copy.dir())
}

/// Returns the longest chain of deltas in the packs of a repository, as Git counts it.
fn longest_chain(git: &Git, name: &str) -> u32 {
    let text = git.text(&["verify-pack", "-v", &format!("objects/pack/{name}.idx")]);
    let depths = text.lines().filter_map(|line| line.split_whitespace().nth(5)?.parse().ok());
    depths.max().unwrap_or(0)
}

fn init(dir: &Path, algorithm: Algorithm) -> Git {
    Git::init(dir, &["--bare", &format!("--object-format={}", algorithm.name())])
}

/// Says how large the repository became, and checks that Git finds it sound and needs not much less.
fn judge(git: &Git, history: &History, before: &[(String, String, Vec<u8>)], repacked: &Repacked, after_gc: u64) {
    let own = size(git.dir());
    println!(
        "{} objects, {} deltas, {} reused: {own} bytes, git gc {after_gc}: {:.2}",
        repacked.objects,
        repacked.deltas,
        repacked.reused,
        own as f64 / after_gc as f64
    );
    assert!(own as f64 <= 1.5 * after_gc as f64, "{own} bytes, after git gc {after_gc}");
    assert!(git.objects() == before);
    git.fsck();
    assert_eq!(git.text(&["rev-list", "--count", &history.head.unwrap().to_string()]), history.count.to_string());
}

fn update_head(git: &Git, history: &History) {
    git.run(&["update-ref", "refs/heads/main", &history.head.unwrap().to_string()]);
}

#[needs(git)]
#[test]
fn a_hundred_small_commits_take_no_more_room_than_after_git_gc() {
    for algorithm in [Algorithm::Sha1, Algorithm::Sha256] {
        let dir = tempfile::tempdir().unwrap();
        let git = init(dir.path(), algorithm);
        let mut history = History::new(algorithm);
        let value = |i: usize| format!("value {i:014}").into_bytes();
        let all: Vec<_> = (0..1000).map(|i| ("wide", format!("{i:06}"), value(i))).collect();
        history.commit(dir.path(), &all);
        for i in 0..100 {
            history.commit(dir.path(), &[("wide", format!("{:06}", i * 379 % 1000), value(5000 + i))]);
        }
        update_head(&git, &history);
        let (before, after_gc) = (git.objects(), size_after_gc(&git));
        let repacked = repack_all(dir.path(), algorithm, &history.packs);
        assert!(longest_chain(&git, &repacked.name) <= 50);
        assert_eq!(repacked.objects, before.len() as u64);
        judge(&git, &history, &before, &repacked, after_gc);
        // What was repacked is not made worse or larger by being repacked again.
        let again = repack_all(dir.path(), algorithm, std::slice::from_ref(&repacked.name));
        assert!(again.pack_bytes <= repacked.pack_bytes && again.reused == repacked.objects);
        assert!(git.objects() == before);
    }
}

#[needs(git)]
#[test]
fn a_hundred_large_commits_take_no_more_room_than_after_git_gc() {
    // Fresh entries in one folder that grows, and in folders of their own.
    for apart in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let git = init(dir.path(), Algorithm::Sha1);
        let mut history = History::new(Algorithm::Sha1);
        let count = if apart { 1000 } else { 100 };
        for i in 0..100 {
            let folder = if apart { format!("folder{i:03}") } else { "one".to_owned() };
            let changes: Vec<_> = (0..count)
                .map(|n| {
                    (
                        &*folder,
                        format!("{:08}", (i * count + n) * 7919 % 100_000),
                        format!("value {i:06}{n:08}").into_bytes(),
                    )
                })
                .collect();
            history.commit(dir.path(), &changes);
        }
        update_head(&git, &history);
        let (before, after_gc) = (git.objects(), size_after_gc(&git));
        let repacked = repack_all(dir.path(), Algorithm::Sha1, &history.packs);
        judge(&git, &history, &before, &repacked, after_gc);
    }
}

#[needs(git)]
#[test]
fn repacking_now_and_then_stays_small_and_shallow() {
    let dir = tempfile::tempdir().unwrap();
    let git = init(dir.path(), Algorithm::Sha1);
    let mut history = History::new(Algorithm::Sha1);
    let all: Vec<_> = (0..500).map(|i| ("wide", format!("{i:06}"), vec![i as u8; 40])).collect();
    history.commit(dir.path(), &all);
    let mut repacked = None;
    let mut text: Vec<String> = (0..300).map(|i| format!("line {i} of a text, with words\n")).collect();
    for i in 0..240 {
        text[i * 7 % 300] = format!("line changed in version {i}\n");
        text.insert(i * 11 % 300, format!("line added in version {i}\n"));
        let new = [
            ("wide", format!("{:06}", i * 379 % 700), format!("value {i}").into_bytes()),
            ("texts", "text.txt".to_owned(), text.concat().into_bytes()),
        ];
        history.commit(dir.path(), &new);
        if i % 20 == 19 {
            let names = std::mem::take(&mut history.packs);
            let done = repack_all(dir.path(), Algorithm::Sha1, &names);
            history.packs.push(done.name.clone());
            repacked = Some(done);
        }
    }
    let repacked = repacked.unwrap();
    assert!(longest_chain(&git, &repacked.name) <= 50);
    update_head(&git, &history);
    let before = git.objects();
    let after_gc = size_after_gc(&git);
    judge(&git, &history, &before, &repacked, after_gc);
}

#[needs(git)]
#[test]
fn packs_of_git_are_folded_with_their_deltas() {
    for sha256 in [false, true] {
        let algorithm = if sha256 { Algorithm::Sha256 } else { Algorithm::Sha1 };
        let dir = tempfile::tempdir().unwrap();
        let git = git::shapes(dir.path().join("repo"), &Shapes { sha256, ..Shapes::default() });
        git.run(&["repack", "-q", "-d"]);
        // The same objects again, in another pack with other deltas; and a pack without offsets to bases.
        let objects = git.run(&["rev-list", "--all", "--objects", "--no-object-names"]);
        git.feed(&["pack-objects", "--no-reuse-delta", "--depth=200", "-q", "objects/pack/pack"], &objects);
        git.feed(
            &["pack-objects", "--no-reuse-delta", "--window=3", "-q", "--delta-base-offset", "objects/pack/pack"],
            &objects,
        );
        let before = git.objects();
        let odb = Odb::open(storage(git.dir()), algorithm, OdbOptions::default()).unwrap();
        let names = odb.pack_names();
        assert!(names.len() >= 2);
        let repacked = repack_all(git.dir(), algorithm, &names);
        assert!(repacked.reused > 500);
        git.run(&["prune-packed"]);
        git.fsck();
        assert!(git.objects() == before);
        let after_gc = size_after_gc(&git);
        assert!(size(git.dir()) as f64 <= 1.5 * after_gc as f64, "{} {after_gc}", size(git.dir()));
    }
}

#[test]
fn a_damaged_source_leaves_nothing_behind() {
    let storage: Arc<dyn Storage> = Arc::new(SimStorage::new());
    let mut names = Vec::new();
    let mut sound = Vec::new();
    for number in 0..3_u8 {
        let mut builder = Builder::new(Algorithm::Sha1);
        for part in 0..5_u8 {
            let raw: Vec<u8> = (0..2000_u32).map(|i| (i * 7 / 3) as u8 ^ part).chain([number]).collect();
            builder.add(Kind::Contents, Algorithm::Sha1.object_id(Kind::Contents, &raw), &raw, Compression::Stored);
        }
        let built = builder.finish();
        crate::sim::write(&*storage, &format!("objects/pack/{}.pack", built.name), &built.pack);
        crate::sim::write(&*storage, &format!("objects/pack/{}.idx", built.name), &built.index);
        names.push(built.name);
        sound = built.pack;
    }
    let listed = || {
        let mut names = storage.list("objects/pack").unwrap();
        names.sort_unstable();
        names
    };
    let before = listed();
    let options = RepackOptions::default();
    let file = storage.open(&format!("objects/pack/{}.pack", names[2]), OpenMode::Write).unwrap();
    for at in (12..sound.len() - 20).step_by(97) {
        write_all_at(&*file, &[sound[at] ^ 0x10], at as u64).unwrap();
        let failed = repack(&storage, Algorithm::Sha1, &names, &options, &|| false);
        assert!(matches!(failed, Err(Error::Corrupt { .. })), "{failed:?}");
        assert_eq!(listed(), before);
        write_all_at(&*file, &[sound[at]], at as u64).unwrap();
    }
    assert!(repack(&storage, Algorithm::Sha1, &names, &options, &|| true).unwrap().is_none());
    assert_eq!(listed(), before);

    let repacked = repack(&storage, Algorithm::Sha1, &names, &options, &|| false).unwrap().unwrap();
    assert_eq!((repacked.objects, listed().len()), (15, before.len() + 2));
    assert!(repacked.pack_bytes < 5000, "{}", repacked.pack_bytes);
    for name in &names {
        storage.remove(&format!("objects/pack/{name}.idx")).unwrap();
        storage.remove(&format!("objects/pack/{name}.pack")).unwrap();
    }
    let odb = Odb::open(storage.clone(), Algorithm::Sha1, OdbOptions::default()).unwrap();
    let mut raw = Vec::new();
    let mut count = 0;
    odb.each_oid(&mut |oid| {
        count += 1;
        let kind = odb.read(&oid, &mut raw)?.unwrap();
        odb.check(&oid, kind, &raw)
    })
    .unwrap();
    assert_eq!(count, 15);
}

/// The index of more than 64 KiB is not checked when it is opened.
#[test]
fn an_object_is_not_written_under_an_id_that_has_decayed() {
    let mut builder = Builder::new(Algorithm::Sha1);
    for number in 0..3000 {
        let raw = format!("value {number}").into_bytes();
        builder.add(Kind::Contents, Algorithm::Sha1.object_id(Kind::Contents, &raw), &raw, Compression::Stored);
    }
    let mut built = builder.finish();
    // Behind the head and the fan-out, the middle of the hundredth id.
    built.index[8 + 1024 + 100 * 20 + 10] ^= 1;
    let sim = SimStorage::new();
    crate::sim::write(&sim, &format!("objects/pack/{}.pack", built.name), &built.pack);
    crate::sim::write(&sim, &format!("objects/pack/{}.idx", built.name), &built.index);
    let storage: Arc<dyn Storage> = Arc::new(sim.clone());
    let done = repack(&storage, Algorithm::Sha1, &[built.name], &RepackOptions::default(), &|| false);
    assert!(matches!(&done, Err(Error::Corrupt { file, .. }) if file.ends_with(".idx")), "{:?}", done.err());
    assert_eq!(sim.files().len(), 2, "nothing was written");
}

/// Each entry is looked at a few times, wherever it is in its chain.
#[test]
fn a_long_chain_of_deltas_takes_time_by_its_length_alone() {
    const DELTAS: u64 = 600;
    let id = |raw: &[u8]| Algorithm::Sha1.object_id(Kind::Contents, raw);
    // Larger than what is read at once.
    let mut raw: Vec<u8> = (0..70_000_u32).map(|i| (i * 7 / 3) as u8).collect();
    let mut builder = Builder::new(Algorithm::Sha1);
    let mut offset = builder.add(Kind::Contents, id(&raw), &raw, Compression::Stored);
    for number in 0..DELTAS {
        let base = raw.clone();
        raw.extend(number.to_le_bytes());
        let delta = delta::create(&base, &raw).unwrap();
        offset = builder.add_delta(id(&raw), offset, &delta, Compression::Stored);
    }
    let (built, sim, reads) = (builder.finish(), SimStorage::new(), Arc::new(AtomicU64::new(0)));
    crate::sim::write(&sim, &format!("objects/pack/{}.pack", built.name), &built.pack);
    crate::sim::write(&sim, &format!("objects/pack/{}.idx", built.name), &built.index);
    let counted = reads.clone();
    let storage: Arc<dyn Storage> = Arc::new(Hooked::new(Arc::new(sim), move |coming| {
        if coming.method == "read_at" && coming.name.ends_with(".pack") {
            counted.fetch_add(1, Relaxed);
        }
    }));
    let repacked = repack(&storage, Algorithm::Sha1, &[built.name], &RepackOptions::default(), &|| false);
    let repacked = repacked.unwrap().unwrap();
    assert_eq!((repacked.objects, repacked.deltas), (DELTAS + 1, DELTAS));
    assert!(reads.load(Relaxed) < 20 * DELTAS, "{reads:?}");
}
