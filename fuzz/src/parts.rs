//! The disk engine on a store whose files beside the log were changed: one sort of them for each target, so that the search stays with
//! one decoder. The first byte of an input chooses whether the store is read through maps (1), opened for reading only (2), and whether
//! checksums are made right (4) after the changes that follow.
//!
//! Where checksums are left as they are, what is there is found or called damaged, and nothing is another thing. Where they are made
//! right, the changed files may lie, and nothing else may.

use std::sync::Arc;

use bristlecone::{
    Backend, Durability, Expected, Info, Native, ObjRef, Object, Oid, RefMove, Repo, SweepLimits,
    disk::DiskBackend,
    storage::{OpenMode, Storage, StorageFile},
};
use bristlecone_testkit::sim::SimStorage;
use twox_hash::XxHash3_64;

use crate::{
    collected::{Answers, Collected, NEVER, answers, collected, options},
    disk::told,
    edits,
    input::Input,
    seal::{SALT, seal, word},
};

/// The longest input, in bytes.
const BYTES_MAX: usize = 64 << 10;

/// What a file may lie about once its checksums were made right.
#[derive(Clone, Copy)]
struct Lies {
    /// What objects are.
    objects: bool,
    /// Which objects there are.
    presence: bool,
    /// What refs hold.
    refs: bool,
    /// What follows on what.
    history: bool,
}

impl Lies {
    const NONE: Self = Self { objects: false, presence: false, refs: false, history: false };
}

/// States: which cold segments there are, what is absent, what is kept.
pub fn disk_state(data: &[u8]) {
    // Which commits are absent decides what walks list.
    let lies = Lies { presence: true, history: true, ..Lies::NONE };
    changed(data, &["segments/00000003.state"], &|name| name.ends_with(".state"), lies);
}

/// Cold segments and their indexes.
pub fn disk_cold(data: &[u8]) {
    let lies = Lies { objects: true, presence: true, history: true, ..Lies::NONE };
    changed(data, &["segments/00000003.cold"], &|name| name.ends_with(".cold") || name.ends_with(".cids"), lies);
}

/// Tables of refs.
pub fn disk_refs(data: &[u8]) {
    // A ref may lead to an object that never was.
    let lies = Lies { refs: true, history: true, ..Lies::NONE };
    changed(data, &["segments/00000017.refs"], &|name| name.ends_with(".refs"), lies);
}

/// Filters over runs of segments.
pub fn disk_filters(data: &[u8]) {
    let lies = Lies { presence: true, history: true, ..Lies::NONE };
    changed(data, &["segments/00000000-256.flt", "segments/00000000-16.cflt"], &|name| name.ends_with("flt"), lies);
}

/// Indexes of sealed segments, in both layouts and the older form.
pub fn disk_indexes(data: &[u8]) {
    let lies = Lies { presence: true, history: true, ..Lies::NONE };
    changed(data, &["segments/00000016.idx"], &|name| name.ends_with("ids") || name.ends_with(".idx"), lies);
}

/// The graph of commits and the index of what they changed.
pub fn history_files(data: &[u8]) {
    let lies = Lies { history: true, ..Lies::NONE };
    changed(data, &["derived/graph-1", "derived/history-7"], &|name| name.starts_with("derived/"), lies);
}

fn changed(data: &[u8], names: &[&str], is_such: &dyn Fn(&str) -> bool, lies: Lies) {
    let input = &mut Input::new(data, BYTES_MAX);
    let choice = input.byte();
    let (maps, read_only, sealed) = (choice & 1 != 0, choice & 2 != 0, choice & 4 != 0);
    let sound = collected();
    let disk = sound.disk.fork();
    edits::apply_to(&disk, input, names, is_such);
    if sealed {
        seal(&disk);
    }
    let lies = match sealed {
        true => lies,
        // What is left of a record whose id was overwritten does not tell what it was; only its index would.
        false => Lies { presence: lies.objects && differ(&disk, ".cold") && differ(&disk, ".cids"), ..Lies::NONE },
    };
    {
        let Some(backend) = open(&disk, maps, read_only) else { return };
        look(&backend, sound, lies);
    }
    if !read_only {
        go_on(&disk, maps, lies);
    }
}

/// Whether a file whose name ends so is not as it was.
fn differ(disk: &SimStorage, ending: &str) -> bool {
    let sound = &collected().disk;
    sound.files().iter().any(|(name, _)| name.ends_with(ending) && disk.contents(name) != sound.contents(name))
}

fn open(disk: &SimStorage, maps: bool, read_only: bool) -> Option<Arc<DiskBackend>> {
    told(DiskBackend::open(Arc::new(disk.clone()), None, options().maps(maps), read_only)).map(Arc::new)
}

/// Reads all that was there, and all that is.
fn look(backend: &Arc<DiskBackend>, sound: &Collected, lies: Lies) {
    let judge = |oid: &Oid, object: &Object<'_>| {
        if !lies.objects {
            let (kind, body) = sound.objects.get(oid).unwrap_or_else(|| panic!("{oid} was never written"));
            assert!(*kind == object.kind() && body == object.body(), "another object is read as {oid}");
        }
    };
    for oid in sound.objects.keys() {
        match told(backend.read(&ObjRef::from(*oid))) {
            Some(Some(object)) => judge(oid, &object),
            Some(None) => assert!(lies.presence, "{oid} is called absent"),
            None => {}
        }
    }
    if let Some(found) = told(backend.read(&NEVER.into())) {
        assert!(found.is_none() || lies.objects, "what was never written is found");
    }
    refs(backend, sound, lies);
    let each = &mut |oid, object: &Object<'_>| {
        judge(&oid, object);
        Ok(())
    };
    told(backend.each_object(each, &mut |_| ()));
    told(backend.check(&mut |_| ()));
    told(backend.collected());
    let repo = Repo::with_backend(Native::new(), backend.clone());
    told(repo.find_object("0707"));
    told(repo.retention());
    told(repo.indexed_commits());
    walk(&repo, &sound.answers, lies);
}

fn refs(backend: &Arc<DiskBackend>, sound: &Collected, lies: Lies) {
    for (name, target) in &sound.refs {
        if let Some(found) = told(backend.get_ref(name)) {
            assert!(lies.refs || found.as_ref() == Some(target), "{name} holds {found:?}");
        }
    }
    if let Some(found) = told(backend.get_ref("tags/none")) {
        assert!(lies.refs || found.is_none(), "a ref that never was holds {found:?}");
    }
    for prefix in ["", "tags/number-01"] {
        let Some(listed) = told(backend.list_refs(prefix)) else { continue };
        let wanted = sound.refs.iter().filter(|(name, _)| name.starts_with(prefix));
        assert!(lies.refs || listed.iter().eq(wanted), "other refs are listed below {prefix:?}");
    }
}

fn walk(repo: &Repo<Native>, wanted: &Answers, lies: Lies) {
    let found = answers(repo);
    if !lies.history {
        assert!(found.is_none_or(|found| found == *wanted), "the history is another one");
    }
    for name in ["main", "side"] {
        let Some(Some(head)) = repo.branch(name).ok().and_then(|branch| told(branch.head())) else { continue };
        told(repo.last_change(head, "dir/1"));
    }
}

/// Where a store opens and takes a commit, the commit is there when it was collected and is opened again.
fn go_on(disk: &SimStorage, maps: bool, lies: Lies) {
    let Some(backend) = open(disk, maps, false) else { return };
    let repo = Repo::with_backend(Native::new(), backend.clone());
    let Some(branch) = told(repo.branch("other")) else { return };
    let mut tree = repo.tree();
    tree.set("a", b"new").expect("a path");
    let Some(head) = told(branch.commit(&mut tree, &Info::unsigned("new"))) else { return };
    told(repo.index_history(head));
    let moved = RefMove { name: "tags/number-007".to_owned(), expected: Expected::Any, to: None };
    told(repo.move_refs(&[moved], Durability::None));
    told(repo.sweep(&[], &SweepLimits::default().partial(true)));
    told(repo.sweep(&[], &SweepLimits::default()));
    if told(backend.close()).is_none() {
        return;
    }
    drop((branch, tree, repo, backend));
    let backend = open(disk, maps, false);
    // Where it was told lies about what there is, what was made of them may lie, too.
    if lies.objects || lies.presence || lies.refs {
        return;
    }
    let backend = backend.expect("what was written by a store that opened can be opened");
    let repo = Repo::with_backend(Native::new(), backend);
    let tree = repo.branch("other").and_then(|branch| branch.tree()).expect("the branch was moved");
    assert_eq!(tree.get("a").expect("the value was committed").as_deref(), Some(&b"new"[..]));
}

/// A reader's file, with the lock of the process that reads. What it says decides what a collection keeps.
pub fn disk_readers(data: &[u8]) {
    let input = &mut Input::new(data, BYTES_MAX);
    let choice = input.byte();
    let sound = collected();
    let disk = sound.disk.fork();
    edits::apply_to(&disk, input, &["readers/new-1", "readers/00000000000000ab"], &|name| name.starts_with("readers/"));
    if choice & 4 != 0 {
        seal(&disk);
    }
    let reader = disk.process();
    let locked: Vec<Arc<dyn StorageFile>> = disk.files().iter().filter_map(|(name, _)| lock(&reader, name)).collect();
    let before: Vec<String> = segments(&disk);
    let epochs = disk.files().into_iter().filter(|(name, _)| name.starts_with("readers/"));
    let oldest = epochs.map(|(name, _)| epoch(&disk.contents(&name).unwrap_or_default())).min();
    let backend = open(&disk, choice & 1 != 0, false).expect("readers' files are no part of the store");
    let repo = Repo::with_backend(Native::new(), backend.clone());
    let states = told(backend.collected()).expect("readers' files are no part of the store");
    assert!(states.processes > locked.len(), "a process that reads is not seen");
    repo.sweep(&[], &SweepLimits::default()).expect("readers' files are no part of the store");
    let number = |name: &String| name.strip_prefix("segments/")?.strip_suffix(".state")?.parse::<u64>().ok();
    let newest = before.iter().filter_map(number).max();
    // By the newest state, or by none that is known, everything is needed.
    if !locked.is_empty() && oldest.is_some_and(|oldest| oldest == 0 || Some(oldest) == newest) {
        let left = segments(&disk);
        let needed = before.iter().filter(|name| name.ends_with(".seg") || name.ends_with(".cold"));
        needed.for_each(|name| assert!(left.contains(name), "{name} is gone, and a process reads it"));
    }
    drop((repo, backend));
    let backend = open(&disk, false, false).expect("the store was sound");
    assert_eq!(backend.list_refs("").expect("the store was sound"), sound.refs);
    assert!(answers(&Repo::with_backend(Native::new(), backend)).is_some(), "the store was sound");
}

fn lock(reader: &SimStorage, name: &str) -> Option<Arc<dyn StorageFile>> {
    let file = reader.open(name, OpenMode::Write).ok().filter(|_| name.starts_with("readers/"))?;
    file.try_lock().ok()?.then_some(file)
}

fn segments(disk: &SimStorage) -> Vec<String> {
    disk.files().into_iter().map(|(name, _)| name).filter(|name| name.starts_with("segments/")).collect()
}

/// Returns by which state a process reads at least, as `docs/formats/disk.md` has it in section 9.
fn epoch(bytes: &[u8]) -> u64 {
    let is_sound = bytes.len() >= 24
        && bytes.starts_with(b"BCONEPIN")
        && word(bytes, 16) == XxHash3_64::oneshot_with_seed(SALT, &bytes[..16]);
    if is_sound { word(bytes, 8) } else { 0 }
}
