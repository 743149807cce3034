//! Git's own files: packs, indexes, loose objects, refs, configuration, the index of a working tree, patterns.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use bristlecone::{Backend, Error, Info, Kind, ObjRef, Oid, Repo, Signature, core::git::Algorithm, core::git::Git};
use bristlecone_git::{
    backend::{GitBackend, GitOptions},
    layout::{Config, Layout},
    odb::{Odb, OdbOptions, loose},
    pack::{BaseCache, Builder, Compression, Index, Pack, delta},
    worktree::{Refusal, Tracked, ignore::Patterns},
};
use bristlecone_testkit::sim::SimStorage;

use crate::{edits, input::Input};

/// The longest input, in bytes.
const BYTES_MAX: usize = 64 << 10;
/// The longest input of what copies within itself, so that honest answers stay small.
const COPYING_BYTES_MAX: usize = 4 << 10;

/// A delta and its base: a run, then the delta. Then a delta made between the two leads from one to the other.
pub fn git_delta(data: &[u8]) {
    let input = &mut Input::new(data, COPYING_BYTES_MAX);
    let (base, delta) = (input.run(), input.rest());
    let mut out = b"before".to_vec();
    if delta::apply(base, delta, &mut out).is_ok() {
        assert!(out.starts_with(b"before"), "the result is appended");
    }
    let mut again = Vec::new();
    if let Some(made) = delta::create(base, delta) {
        assert_eq!(delta::apply(base, &made, &mut again), Ok(()));
        assert_eq!(again, delta, "a delta leads to what it was made for");
    }
}

/// An index of a pack. The first byte chooses the hash (1) and whether its digest is made right (2).
pub fn git_index(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let choice = input.byte();
    let algorithm = if choice & 1 == 0 { Algorithm::Sha1 } else { Algorithm::Sha256 };
    let mut bytes = input.rest().to_vec();
    if choice & 2 != 0 {
        with_digest(algorithm, &mut bytes);
    }
    let Ok(index) = Index::from_bytes("an index", algorithm, bytes) else { return };
    let checked = index.check().is_ok();
    let _ = (index.pack_digest(), index.by_offset());
    for n in 0..index.len().min(500) {
        let oid = index.oid(n);
        let found = index.find(&oid);
        let _ = (index.offset(n), index.crc(n));
        if checked {
            assert_eq!(found.map(|found| index.oid(found)), Some(oid), "what is listed is found");
        }
    }
    let _ = index.find(&Oid::new(&vec![0xff; algorithm.oid_bytes()]).expect("an id of the hash's length"));
}

/// Puts the digest of what is before it on the end.
fn with_digest(algorithm: Algorithm, bytes: &mut [u8]) {
    if let Some(end) = bytes.len().checked_sub(algorithm.oid_bytes()) {
        let digest = algorithm.digest(&[&bytes[..end]]);
        bytes[end..].copy_from_slice(digest.as_bytes());
    }
}

/// An object of a pack as the input builds it.
struct Built {
    oid: Oid,
    at: u64,
    /// What it is, unless it is a delta that leads nowhere.
    raw: Option<Vec<u8>>,
}

/// A pack of objects and deltas that the input says, in which bytes are then changed, with its index. The input: a byte, 1 for changes
/// in the pack and 2 for such in the index; objects up to a byte of 0; then the changes.
pub fn git_pack(data: &[u8]) {
    let input = &mut Input::new(data, COPYING_BYTES_MAX);
    let choice = input.byte();
    let mut builder = Builder::new(Algorithm::Sha1);
    let mut objects: Vec<Built> = Vec::new();
    while objects.len() < 30 && add_object(&mut builder, &mut objects, input) {}
    let built = builder.finish();
    let (mut pack, mut index) = (built.pack, built.index);
    let changed = choice & 3 != 0;
    if choice & 1 != 0 {
        change(&mut pack, input);
    }
    if choice & 2 != 0 {
        change(&mut index, input);
    }
    if choice & 4 == 0 {
        seal_both(&mut pack, &mut index);
    }
    let disk = SimStorage::new();
    edits::write(&disk, "objects/pack/pack-1.pack", &pack);
    edits::write(&disk, "objects/pack/pack-1.idx", &index);
    read_pack(&disk, &objects, changed);
}

/// Adds an object that the input says, unless it says that it was the last.
fn add_object(builder: &mut Builder, objects: &mut Vec<Built>, input: &mut Input<'_>) -> bool {
    let what = input.byte();
    let compression = if what & 16 == 0 { Compression::Stored } else { Compression::Level(6) };
    let (at, raw, oid) = match what & 15 {
        0 => return false,
        kind @ 1..5 => {
            let kind = [Kind::Contents, Kind::Node, Kind::Commit, Kind::Tag][usize::from(kind) - 1];
            let raw = input.run().to_vec();
            let oid = Algorithm::Sha1.object_id(kind, &raw);
            let raw_if_value = (kind == Kind::Contents).then(|| raw.clone());
            (builder.add(kind, oid, &raw, compression), raw_if_value, oid)
        }
        by => {
            let base = input.below(objects.len());
            let delta = input.run();
            let Some(base) = objects.get(base) else { return true };
            let mut raw = Vec::new();
            let applied = base.raw.as_ref().is_some_and(|base| delta::apply(base, delta, &mut raw).is_ok());
            // What leads nowhere, or to much, has some id.
            let raw = (applied && raw.len() < 1 << 16).then_some(raw);
            let unknown = || Oid::new(&[objects.len() as u8; 20]).expect("20 bytes");
            let oid = raw.as_ref().map_or_else(unknown, |raw| Algorithm::Sha1.object_id(Kind::Contents, raw));
            let at = match by {
                5..8 => builder.add_delta(oid, base.at, delta, compression),
                8..12 => builder.add_ref_delta(oid, base.oid, delta, compression),
                // In a circle, or to what is not there.
                _ => builder.add_ref_delta(oid, Oid::new(&[by; 20]).expect("20 bytes"), delta, compression),
            };
            (at, raw.filter(|_| by < 12), oid)
        }
    };
    objects.push(Built { oid, at, raw });
    true
}

/// Changes bytes: a byte says how many times.
fn change(bytes: &mut [u8], input: &mut Input<'_>) {
    for _ in 0..input.byte() % 32 {
        let at = input.below(bytes.len());
        let with = input.short_run();
        let end = bytes.len().min(at + with.len());
        bytes[at..end].copy_from_slice(&with[..end - at]);
    }
}

/// Makes the digests right, so that damage is met where it lies.
fn seal_both(pack: &mut [u8], index: &mut [u8]) {
    with_digest(Algorithm::Sha1, pack);
    let (digest, end) = (&pack[pack.len() - 20..], index.len() - 40);
    index[end..end + 20].copy_from_slice(digest);
    with_digest(Algorithm::Sha1, index);
}

fn read_pack(disk: &SimStorage, objects: &[Built], changed: bool) {
    let storage: Arc<dyn bristlecone::storage::Storage> = Arc::new(disk.clone());
    let Some(odb) = told(Odb::open(storage.clone(), Algorithm::Sha1, OdbOptions::default())) else { return };
    let mut out = Vec::new();
    for object in objects {
        let header = told(odb.header(&object.oid)).flatten();
        let read = told(odb.read(&object.oid, &mut out)).flatten();
        if let (Some((kind, bytes)), Some(found)) = (header, read) {
            assert_eq!((kind, bytes), (found, out.len() as u64), "the header is that of the object");
        }
        if let (Some(raw), false) = (&object.raw, changed) {
            assert_eq!(read, Some(Kind::Contents), "what was put into a pack is there");
            assert_eq!(&out, raw, "what was put into a pack comes back");
        }
    }
    let _ = told(odb.each_oid(&mut |_| Ok(())));
    let Some(pack) = told(Pack::open(&storage, "objects/pack", "pack-1", Algorithm::Sha1)) else { return };
    let _ = told(pack.check());
    let cache = BaseCache::new(1 << 16);
    for n in 0..pack.index().len().min(100) {
        let _ = (told(pack.header(n, &cache)), told(pack.read(n, &cache, &mut out)));
    }
}

/// An error on changed files says which file.
fn told<T>(done: Result<T, Error>) -> Option<T> {
    match done {
        Ok(done) => return Some(done),
        Err(Error::Corrupt { file, reason, .. }) => {
            assert!(!file.is_empty() && !reason.is_empty(), "an error names its file")
        }
        Err(_) => {}
    }
    None
}

/// A loose object. The first byte: 0 for a file as it is; otherwise its kind, its bytes deflated, and the next byte says how many
/// changes follow the run of its bytes.
pub fn git_loose(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let kinds = [Kind::Contents, Kind::Node, Kind::Commit, Kind::Tag];
    let (mut file, mut out) = (Vec::new(), Vec::new());
    match input.byte() {
        0 => file.extend_from_slice(input.rest()),
        choice => {
            let (kind, raw) = (kinds[usize::from(choice) % 4], input.run());
            let compression = if choice & 4 == 0 { Compression::Stored } else { Compression::Level(6) };
            loose::encode(kind, raw, compression, &mut file);
            assert_eq!(loose::decode(&file, &mut out), Ok(kind));
            assert_eq!(out, raw, "what is written comes back");
            change(&mut file, input);
        }
    }
    let header = loose::decode_header(&file);
    if let Ok(kind) = loose::decode(&file, &mut out) {
        assert_eq!(header, Ok((kind, out.len() as u64)), "the header is that of the object");
    }
}

/// A Git repository with some history, loose and packed objects, packed refs and what the store keeps beside them. The first byte
/// chooses whether it is opened for reading only (1); changes of its files follow.
pub fn git_repository(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let choice = input.byte();
    let disk = repository().fork();
    let names =
        ["packed-refs", "refs/heads/a/b", "refs/heads/main.lock", "objects/info/alternates", "logs/refs/heads/main"];
    edits::apply(&disk, input, &names);
    let opened = GitBackend::open(Arc::new(disk), options("another start").read_only(choice & 1 != 0));
    let Some(backend) = told(opened).map(Arc::new) else { return };
    let refs = told(backend.list_refs("")).unwrap_or_default();
    for (name, target) in &refs {
        assert_eq!(told(backend.get_ref(name)).flatten().as_ref(), Some(target), "a ref that is listed can be read");
        let _ = (told(backend.refs().peeled(name)), told(backend.refs().logged(name)));
    }
    let _ = (told(backend.git_head()), told(backend.shallow()), told(backend.promised_to()), told(backend.position()));
    let mut ids = Vec::new();
    let each = &mut |oid: Oid, _: &bristlecone::Object<'_>| {
        ids.push(oid);
        Ok(())
    };
    let _ = told(backend.each_object(each, &mut |_| ()));
    for oid in ids.iter().take(50) {
        let _ = told(backend.read(&ObjRef::from(*oid)));
    }
    let repo = Repo::with_backend(Git::sha1(), backend.clone());
    if let Some(branch) = told(repo.branch("main")) {
        let edited = branch.edit(&info(9), |tree| tree.set("dir/new", b"new"));
        if told(edited).is_some() {
            let value =
                branch.tree().and_then(|tree| tree.get("dir/new").map(|value| value.map(|bytes| bytes.to_vec())));
            assert_eq!(value.ok().flatten().as_deref(), Some(&b"new"[..]), "what was committed is there");
        }
    }
    let _ = told(backend.close());
}

fn options(boot: &str) -> GitOptions {
    let options = GitOptions::default().background(false).lock_wait_ms(0).cache_bytes(64 << 10).grouped_ms(0);
    options.boot(Some(boot.to_owned()))
}

fn info(number: i64) -> Info {
    Info::message(format!("commit {number}\n")).by(Signature::new("A U Thor <author@example.com>", number))
}

/// Makes the repository from which every input begins.
fn repository() -> &'static SimStorage {
    static REPOSITORY: OnceLock<SimStorage> = OnceLock::new();
    REPOSITORY.get_or_init(|| {
        let disk = SimStorage::new();
        edits::write(&disk, "HEAD", b"ref: refs/heads/main\n");
        edits::write(&disk, "refs/tags/x", b"ref: refs/heads/main\n");
        edits::write(&disk, "objects/pack/x", b"");
        for (number, loose) in [(1, false), (2, true), (3, false), (4, false)] {
            let opened = GitBackend::open(Arc::new(disk.clone()), options("a start").loose(loose));
            let backend = Arc::new(opened.expect("a new repository"));
            let repo = Repo::with_backend(Git::sha1(), backend.clone());
            let branch = repo.branch(if number == 3 { "side" } else { "main" }).expect("a branch");
            let value = format!("{number}").repeat(30 * number as usize);
            let done = branch.edit(&info(number), |tree| tree.set(format!("dir/{}", number % 3), value.as_bytes()));
            let at = done.expect("a commit");
            if number == 4 {
                let packed = format!(
                    "# pack-refs with: peeled fully-peeled sorted \n{0} refs/heads/packed\n{0} refs/tags/v1\n^{0}\n",
                    at.oid()
                );
                edits::write(&disk, "packed-refs", packed.as_bytes());
            }
            // What a process that ends without a close leaves is there, too.
            if number != 4 {
                backend.close().expect("a sound repository");
            }
        }
        disk
    })
}

/// A file of configuration, and questions about it.
pub fn git_config(data: &[u8]) {
    let Ok(config) = Config::parse("config", Input::new(data, BYTES_MAX).rest()) else { return };
    for key in ["core.bare", "core.x", "remote.origin.url", "user.name", "extensions.objectformat", "a.b.c", ""] {
        let last = config.all(key).last();
        assert_eq!(config.get(key), last, "the last value counts");
        let _ = (config.bool(key), config.number(key));
    }
    for section in ["core", "branch.main", ""] {
        let _ = config.section(section).count();
    }
}

/// The index of a working tree. The first byte chooses whether its digest is made right (1).
pub fn git_worktree_index(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let sealed = input.byte() & 1 != 0;
    let mut bytes = input.rest().to_vec();
    if sealed {
        with_digest(Algorithm::Sha1, &mut bytes);
    }
    let layout = worktree();
    std::fs::write(layout.git_dir.join("index"), bytes).expect("the temporary folder takes a file");
    match Tracked::of(layout) {
        Ok(Some(tracked)) => {
            for path in [&b"a"[..], b"dir/a", b"", b"dir"] {
                let _ = (tracked.item(path), tracked.has_below(path));
            }
            for (path, item) in tracked.skipped() {
                assert_eq!(tracked.item(path).map(|item| item.kind), Some(item.kind), "a path that is listed is found");
            }
        }
        Ok(None) => panic!("the repository has a working tree"),
        Err(Refusal::Paths(paths)) => panic!("no path was asked for: {paths:?}"),
        Err(Refusal::Whole(why)) => assert!(!why.is_empty(), "a refusal says why"),
        Err(Refusal::Failed(error)) => drop(told::<()>(Err(error))),
    }
}

/// A repository in a temporary folder of this process, which is removed with it.
fn worktree() -> &'static Layout {
    static WORKTREE: OnceLock<(tempfile::TempDir, Layout)> = OnceLock::new();
    let (_, layout) = WORKTREE.get_or_init(|| {
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let dir = tempfile::tempdir_in(parent).expect("a temporary folder");
        let layout = Layout::init(dir.path(), false, Algorithm::Sha1).expect("a new repository");
        (dir, layout)
    });
    layout
}

/// Patterns of files that are left out: a byte, odd where capital letters count as small ones; a run that is the path; the patterns.
pub fn git_ignore(data: &[u8]) {
    let input = &mut Input::new(data, COPYING_BYTES_MAX);
    let (fold, path) = (input.byte() & 1 == 1, input.run());
    let patterns = Patterns::new(b"", fold).with_lines(input.rest());
    for is_folder in [false, true] {
        let _ = patterns.ignores(path, is_folder);
    }
}
