//! What must not change with names: files and folders on disk, magic words, names and options of formats, prefixes of refs.
//!
//! A store of today must be one that every later version reads, and the other way round. Each list here is compared with what
//! a store that was just written has. The keys of hashes are in the core's tests, those of JSON in the command's.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use bristlecone::{
    Backend, Batch, Durability, Info, Kind, Location, Native, Oid, RefTarget, Repo, Sink, Tag,
    disk::{DiskBackend, DiskOptions},
    storage::{RealStorage, Storage},
};

fn options() -> DiskOptions {
    DiskOptions::default().segment_bytes(4096).background(false)
}

/// Returns the paths of all files below a folder, with digits that differ from run to run as `X`.
fn files(root: &Path) -> BTreeSet<String> {
    let (mut found, mut open) = (BTreeSet::new(), vec![root.to_path_buf()]);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            let digits = name.rsplit_once('-').map(|(_, digits)| digits.len());
            found.insert(match digits {
                Some(16) => format!("{}{}", &name[..name.len() - 16], "X".repeat(16)),
                _ => name,
            });
        }
    }
    found
}

/// Returns bytes of a file as text.
fn magic(path: PathBuf, at: usize, bytes: usize) -> String {
    let found = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&found[at..at + bytes]).into_owned()
}

/// Makes a store with everything beside the log: an index of a sealed segment, one of history, a tag and a branch.
fn store(dir: &Path) -> Repo {
    let repo = Repo::create(dir, Native::new(), options()).unwrap();
    let main = repo.branch("main").unwrap();
    for number in 0..40 {
        let mut tree = main.tree().unwrap();
        tree.set("file", vec![number; 1000]).unwrap();
        main.commit(&mut tree, &Info::message("one more")).unwrap();
    }
    let head = main.head().unwrap().unwrap();
    repo.index_history(head).unwrap();
    // No location: segments that are sealed are asked, and their indexes are made.
    repo.backend().read(&Oid::from_array([7; 32]).into()).unwrap();
    let tag = Tag {
        target: head.into(),
        kind: Kind::Commit,
        name: b"v1".to_vec(),
        tagger: None,
        headers: vec![],
        message: vec![],
    };
    let tag = repo.write_tag(&tag, Durability::None).unwrap();
    repo.compare_and_set("refs/tags/v1", None, Some(RefTarget::Object(tag.into())), Durability::Synced).unwrap();
    repo.set_head("main").unwrap();
    repo
}

#[test]
fn files_of_a_store_keep_their_names() {
    let dir = tempfile::tempdir().unwrap();
    drop(store(dir.path()));
    let found = files(dir.path());
    let derived = ["derived/history", "derived/history-0", "derived/graph", "derived/graph-0"];
    let once: Vec<&str> =
        ["store", "lock", "segments/store.copy", "segments/durable"].into_iter().chain(derived).collect();
    let wanted =
        once.iter().copied().chain(["segments/00000001.seg", "segments/00000002.seg", "segments/00000001.ids"]);
    for name in wanted {
        assert!(found.contains(name), "{name} is not among {found:?}");
    }
    let is_known = |name: &String| {
        let segment = name.strip_prefix("segments/").and_then(|name| name.rsplit_once('.'));
        let numbered = segment.is_some_and(|(number, end)| number.len() == 8 && ["seg", "ids"].contains(&end));
        let is_part = ["derived/history-", "derived/graph-"].iter().any(|start| name.starts_with(start));
        numbered || is_part || name == "segments/00000000-16.flt" || once.contains(&&**name)
    };
    assert_eq!(found.iter().find(|name| !is_known(name)), None, "of {found:?}");
}

#[test]
fn files_of_a_store_begin_with_their_magic_words() {
    let dir = tempfile::tempdir().unwrap();
    drop(store(dir.path()));
    let at = |name: &str| dir.path().join(name);
    for (name, offset, word) in [
        ("store", 0, "bristlecone disk"),
        ("segments/store.copy", 0, "bristlecone disk"),
        ("segments/00000001.seg", 0, "BCONESG2"),
        // The first segment has no refs in its head, so the first frame follows that.
        ("segments/00000001.seg", 88, "BCF1"),
        ("segments/00000001.ids", 0, "BCONEID2"),
        ("segments/00000000-16.flt", 0, "BCONEFLT"),
        ("segments/durable", 512, "BCONEEND"),
        ("derived/history", 0, "BCONEDRV"),
        ("derived/history", 24, "BCONEHS1"),
        ("derived/history-0", 24, "BCONERN1"),
        ("derived/graph", 24, "BCONEGL1"),
        ("derived/graph-0", 24, "BCONEGP1"),
    ] {
        assert_eq!(magic(at(name), offset, word.len()), word, "{name} at byte {offset}");
    }
}

#[test]
fn what_is_unreached_is_noted_and_counted_under_the_same_names() {
    let dir = tempfile::tempdir().unwrap();
    drop(store(dir.path()));
    let open = || {
        let storage: Arc<dyn Storage> = Arc::new(RealStorage::new(dir.path()));
        DiskBackend::open(storage, None, options(), false).unwrap()
    };
    let before = files(dir.path());
    let backend = open();
    let mut batch = Batch::new();
    let at = batch.put(Kind::Contents, Oid::from_array([9; 32]), &vec![9; 2 << 20], &[], &[]);
    assert_ne!(at, Location::NONE);
    backend.append(batch, &[], Durability::None).unwrap();
    let note = "derived/@unreached-XXXXXXXXXXXXXXXX".to_owned();
    assert!(files(dir.path()).difference(&before).any(|name| *name == note), "{:?}", files(dir.path()));
    let is_note = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('@'));
    let paths = fs::read_dir(dir.path().join("derived")).unwrap().map(|entry| entry.unwrap().path());
    let path = paths.into_iter().find(is_note).unwrap();
    assert_eq!(magic(path, 0, 8), "BCONEUNR");
    drop(backend);
    drop(open());
    assert!(files(dir.path()).contains("derived/@reclaimable"), "{:?}", files(dir.path()));
    assert_eq!(magic(dir.path().join("derived/@reclaimable"), 0, 8), "BCONEDRV");
}

#[test]
fn waste_of_earlier_versions_is_known_by_its_names() {
    let dir = tempfile::tempdir().unwrap();
    drop(store(dir.path()));
    let waste = ["segments/next-0123456789abcdef", "derived/@new-unreached-0123456789abcdef"];
    for name in waste {
        fs::write(dir.path().join(name), b"").unwrap();
    }
    drop(Repo::<Native>::open(dir.path(), options()).unwrap());
    for name in waste {
        assert!(!dir.path().join(name).exists(), "{name} was left");
    }
}

#[test]
fn formats_keep_their_names_versions_and_options() {
    use bristlecone::Format;

    fn is<F: Format>(format: &F, name: &str, version: u32, options: &str) {
        assert_eq!((F::NAME, F::VERSION, &*format.options()), (name, version, options));
        let read = F::from_options(options).unwrap();
        assert_eq!(read.options(), options, "{name}");
    }
    is(&Native::new(), "native", 1, "inline=48 split=on group=2");
    is(&Native::new().inline(0).split(false).group(0), "native", 1, "inline=0 split=off group=0");
    #[cfg(feature = "git")]
    {
        use bristlecone::core::git::Git;

        is(&Git::sha1(), "git", 1, "hash=sha1");
        is(&Git::sha256(), "git", 1, "hash=sha256");
    }
    #[cfg(feature = "tezos")]
    {
        use bristlecone::core::tezos::Tezos;

        is(&Tezos::new(), "tezos", 0, "entries=32 stable=256 inline=48 split=on");
        is(&Tezos::new().inline(0).split(false), "tezos", 0, "entries=32 stable=256 inline=0 split=off");
    }
}

#[test]
fn refs_keep_their_prefixes() {
    let dir = tempfile::tempdir().unwrap();
    let repo = store(dir.path());
    let names: Vec<String> = repo.backend().list_refs("").unwrap().into_keys().collect();
    assert_eq!(names, ["HEAD", "refs/heads/main", "refs/tags/v1"]);
    assert_eq!((repo.branches().unwrap(), repo.tags().unwrap()), (vec!["main".to_owned()], vec!["v1".to_owned()]));
    assert_eq!(bristlecone::SHALLOW, "shallow/");
}
