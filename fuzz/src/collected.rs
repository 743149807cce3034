//! A store that has everything which a collection, many refs and a long history leave beside the log: the store from which the
//! targets of `parts.rs` begin.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, OnceLock},
};

use bristlecone::{
    Backend, CommitId, Durability, Expected, Format, Info, Kind, LogOptions, Native, ObjRef, Object, Oid, RefMove,
    RefTarget, Repo, SweepLimits,
    disk::{DiskBackend, DiskOptions, FormatTag},
    storage::Storage,
};
use bristlecone_testkit::sim::SimStorage;

use crate::{edits::write, seal::seal};

/// Seconds since 1970 at which everything in the store was written.
const TIME: u32 = 0x5566_7788;
/// The file of a process that reads, which the target locks.
const READER: &str = "readers/00000000000000aa";
/// What the store cannot have: an id that begins as none of its does.
pub(crate) const NEVER: Oid = Oid::from_array([7; 32]);

/// The store, and what is in it.
pub(crate) struct Collected {
    pub(crate) disk: SimStorage,
    pub(crate) objects: HashMap<Oid, (Kind, Vec<u8>)>,
    pub(crate) refs: BTreeMap<String, RefTarget>,
    pub(crate) answers: Answers,
}

/// What walks over the history say.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answers {
    /// Of each pair of heads whether one is the other's ancestor, how many commits only the second has, and their merge bases.
    pub(crate) pairs: Vec<(bool, u64, Vec<Oid>)>,
    /// The log of all heads.
    pub(crate) log: Vec<Oid>,
}

pub(crate) fn options() -> DiskOptions {
    let options = DiskOptions::default().segment_bytes(4096).background(false).prezero(false);
    options.lock_wait_ms(0).grouped_ms(0).cache_bytes(1 << 16).collect(false)
}

/// Returns the store: the same one in every process.
pub(crate) fn collected() -> &'static Collected {
    static COLLECTED: OnceLock<Collected> = OnceLock::new();
    COLLECTED.get_or_init(make)
}

fn open(disk: &SimStorage) -> Arc<DiskBackend> {
    Arc::new(DiskBackend::open(Arc::new(disk.clone()), None, options(), false).expect("a sound store"))
}

fn make() -> Collected {
    let disk = SimStorage::new();
    let tag = FormatTag { name: "native".to_owned(), version: 1, options: Native::new().options() };
    let backend = Arc::new(DiskBackend::create(Arc::new(disk.clone()), tag, options()).expect("a new store"));
    let repo = Repo::with_backend(Native::new(), backend.clone());
    let keep_few = "last 6 refs/heads/*\nlast 6 tags/*".parse().expect("rules");
    repo.set_retention(&keep_few).expect("a store of version 2");
    commits(&repo, 0..12);
    many_refs(&repo, 90);
    repo.sweep(&[], &SweepLimits::default()).expect("a sound store");
    commits(&repo, 12..20);
    repo.sweep(&[], &SweepLimits::default().partial(true)).expect("a sound store");
    // Until the segments of a run are all sealed, which then has a filter.
    let mut round = 20;
    while disk.contents("segments/00000017.seg").is_none() {
        commits(&repo, round..round + 1);
        round += 1;
        if round == 21 {
            many_refs(&repo, 30);
        }
    }
    drop((repo, backend));
    let backend = open(&disk);
    let repo = Repo::with_backend(Native::new(), backend.clone());
    for head in heads(&repo) {
        repo.index_history(head).expect("a sound store");
    }
    // Who asks for what is not there has indexes and filters made.
    assert!(backend.read(&NEVER.into()).expect("a sound store").is_none());
    let mut objects = HashMap::new();
    let keep = &mut |oid, object: &Object<'_>| {
        objects.insert(oid, (object.kind(), object.body().to_vec()));
        Ok(())
    };
    backend.each_object(keep, &mut |_| panic!("damage in a sound store")).expect("a sound store");
    let refs = backend.list_refs("").expect("a sound store").into_iter().collect();
    let answers = answers(&repo).expect("a sound store");
    backend.close().expect("a sound store");
    drop((repo, backend));
    settle(&disk);
    Collected { disk, objects, refs, answers }
}

/// Commits on two branches, merging one into the other now and then.
fn commits(repo: &Repo<Native>, rounds: std::ops::Range<usize>) {
    let (main, side) = (repo.branch("main").expect("a branch"), repo.branch("side").expect("a branch"));
    for round in rounds {
        let branch = if round % 3 == 2 { &side } else { &main };
        let mut tree = branch.tree().expect("the tree of a branch");
        for name in 0..3 {
            tree.set(format!("dir/{}{name}", round % 5), vec![b'a' + round as u8; 20 + 97 * name].as_slice())
                .expect("a path");
        }
        let mut parents: Vec<CommitId> = branch.head().expect("a sound store").into_iter().collect();
        if round % 4 == 3 {
            parents.extend(heads(repo).into_iter().filter(|head| !parents.contains(head)).collect::<Vec<_>>());
        }
        if round == 14 {
            // More than two parents stand apart.
            parents.extend(repo.read_commit(parents[0]).expect("a sound store").parents.get(..1).into_iter().flatten());
        }
        let info = Info::unsigned(format!("commit {round}"));
        branch.commit_with_parents(&mut tree, &parents, &info).expect("a commit");
    }
}

/// Moves so many refs, of which some lead to other refs.
fn many_refs(repo: &Repo<Native>, count: usize) {
    let head = ObjRef::from(heads(repo)[0]);
    let moves: Vec<RefMove> = (0..count)
        .map(|number| {
            let to = if number % 8 == 7 {
                RefTarget::Symbolic("refs/heads/main".to_owned())
            } else {
                RefTarget::Object(head)
            };
            let to = (count > 50 || number % 5 > 0).then_some(to);
            RefMove { name: format!("tags/number-{:03}", number * 7 % 90), expected: Expected::Any, to }
        })
        .collect();
    repo.move_refs(&moves, Durability::None).expect("a sound store");
}

pub(crate) fn heads(repo: &Repo<Native>) -> Vec<CommitId> {
    let names = ["main", "side"];
    names.iter().filter_map(|name| repo.branch(name).ok()?.head().ok()?).collect()
}

/// Asks what the graph of commits answers; `None` where something cannot be read.
pub(crate) fn answers(repo: &Repo<Native>) -> Option<Answers> {
    let mut tips = Vec::new();
    for name in ["main", "side"] {
        tips.push(repo.branch(name).ok()?.head().ok()??);
    }
    let mut log = Vec::new();
    for entry in repo.log(&tips, LogOptions::default()) {
        log.push(entry.ok()?.id.oid());
    }
    let further = [log.len() / 3, log.len() / 2, log.len() - 1];
    tips.extend(further.map(|place| repo.commit_id(log[place].into())));
    let mut pairs = Vec::new();
    for one in &tips {
        for other in &tips {
            let bases = repo.merge_bases(*one, *other).ok()?;
            pairs.push((
                repo.is_ancestor(*one, *other).ok()?,
                repo.count_between(*one, *other).ok()?,
                bases.into_iter().map(|base| base.oid()).collect(),
            ));
        }
    }
    Some(Answers { pairs, log })
}

/// Makes every time the same, adds the file of a reader, and seals all.
fn settle(disk: &SimStorage) {
    for (name, _) in disk.files() {
        let Some(mut bytes) = disk.contents(&name).filter(|_| name.ends_with(".state")) else { continue };
        let mut put = |at: usize| bytes[at..at + 4].copy_from_slice(&TIME.to_le_bytes());
        put(20);
        let sections = disk.contents(&name).unwrap_or_default();
        let word32 = |at: usize| u32::from_le_bytes(sections[at..at + 4].try_into().expect("4 bytes")) as usize;
        let mut at = 40;
        while at < sections.len() {
            let (tag, body) = (word32(at), word32(at + 8));
            if tag == 5 {
                put(at + 16 + 12);
            }
            at = (at + 16 + body).next_multiple_of(8);
        }
        // An object that nothing leads to, and that the grace keeps.
        bytes.extend([4_u32, 0, 40, 0, 32, TIME].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([5; 32]);
        write(disk, &name, &bytes);
    }
    let mut note = b"BCONEPIN".to_vec();
    note.extend_from_slice(&3_u64.to_le_bytes());
    note.extend_from_slice(&[0; 8]);
    note.extend_from_slice(&4711_u32.to_le_bytes());
    note.extend_from_slice(&TIME.to_le_bytes());
    note.extend_from_slice(&[0; 8]);
    write(disk, READER, &note);
    // Filters are made anew, of the sealed segments that there are.
    let is_filter = |name: &String| name.ends_with("flt");
    let names =
        |disk: &SimStorage| disk.files().into_iter().map(|(name, _)| name).filter(is_filter).collect::<Vec<_>>();
    names(disk).iter().for_each(|name| disk.remove(name).expect("the file was there"));
    seal(disk);
    let copy = disk.fork();
    assert!(open(&copy).read(&NEVER.into()).expect("a sound store").is_none());
    for name in names(&copy) {
        write(disk, &name, &copy.contents(&name).expect("the file was there"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_has_everything_and_is_the_same_each_time() {
        let (one, other) = (make(), make());
        let names = |disk: &SimStorage| disk.files().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(&one.disk), names(&other.disk));
        let again = one.disk.fork();
        seal(&again);
        for name in names(&one.disk) {
            assert!(one.disk.contents(&name) == other.disk.contents(&name), "{name} depends on chance");
            assert!(
                one.disk.contents(&name) == again.contents(&name),
                "{name} is sealed otherwise than it was written"
            );
        }
        let count = |ending: &str| names(&one.disk).iter().filter(|name| name.ends_with(ending)).count();
        let counts = [".cold", ".cids", ".state", ".refs", ".ids", ".flt", ".seg"].map(count);
        assert!(counts.iter().zip([1, 1, 1, 2, 2, 1, 3]).all(|(&count, least)| count >= least), "{counts:?}");
        assert!(names(&one.disk).iter().any(|name| name.starts_with("derived/graph-")));
        // What is sealed is sound, and says what it said before.
        let backend = open(&one.disk.fork());
        backend.check(&mut |damage| panic!("{damage:?}")).unwrap();
        assert_eq!(answers(&Repo::with_backend(Native::new(), backend.clone())), Some(one.answers));
        assert_eq!(backend.list_refs("").unwrap(), one.refs);
        assert!(backend.collected().unwrap().states > 1);
    }
}
