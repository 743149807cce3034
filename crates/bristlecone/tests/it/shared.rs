//! Threads share large commits: the objects, their order and places are those that one thread gives, whatever was edited; the
//! objects are the same however finely it is divided; and a failure in any part leaves the edits.

use std::sync::Arc;

use bristlecone::{
    Backend, Durability, Error, Format, Info, Location, MemoryBackend, Native, Oid, Repo, Tree,
    disk::{DiskBackend, DiskOptions},
};
use bristlecone_testkit::{
    crash::step,
    generate::Rng,
    sim::{Fault, SimStorage, Times},
};

use crate::engine::format_tag;

/// From how many changes on a directory is shared out.
const SHARED: [usize; 4] = [2, 9, 70, 1000];

fn info() -> Info {
    Info::unsigned("many edits").durability(Durability::None)
}

/// Edits of wide directories: many at once in one place, some everywhere, gaps, and values of every length.
fn edit<F: Format>(tree: &mut Tree<F>, round: u64, seed: u64) -> Result<(), Error> {
    let mut rng = Rng::new(seed * 100 + round);
    let value = |rng: &mut Rng| vec![rng.below(250) as u8; 1 + rng.below(90) as usize];
    let space = 6000;
    match round {
        0 => {
            for _ in 0..3000 {
                tree.set(format!("wide/{:05}", rng.below(space)), value(&mut rng))?;
                tree.set(format!("{:02}/{:03}", rng.below(40), rng.below(50)), value(&mut rng))?;
            }
        }
        // New values alone, of one length and of others.
        1 => {
            let names: Vec<_> =
                tree.list("wide")?.map(|entry| entry.map(|entry| entry.step().to_vec())).collect::<Result<_, _>>()?;
            for name in &names {
                if rng.chance(1, 3) {
                    tree.set(format!("wide/{}", String::from_utf8_lossy(name)), value(&mut rng))?;
                }
            }
        }
        // All between two neighbours, before the first, and behind the last.
        2 => {
            for n in 0..1500 {
                tree.set(format!("wide/03000-{n:04}"), value(&mut rng))?;
                tree.set(format!("wide/!{:04}", rng.below(2000)), value(&mut rng))?;
                tree.set(format!("wide/x{n:04}"), value(&mut rng))?;
            }
        }
        // Much goes in a row, a little stays; some everywhere.
        3 => {
            for n in 0..2500 {
                if !rng.chance(1, 200) {
                    tree.remove(format!("wide/{n:05}"))?;
                }
                match rng.below(3) {
                    0 => tree.remove(format!("wide/{:05}", rng.below(space)))?,
                    1 => tree.set(format!("wide/{:05}", rng.below(space)), value(&mut rng))?,
                    _ => tree.remove(format!("{:02}/{:03}", rng.below(40), rng.below(50)))?,
                }
            }
        }
        _ => {
            for n in 0..space {
                if n % 500 != 0 {
                    tree.remove(format!("wide/{n:05}"))?;
                }
            }
        }
    }
    Ok(())
}

/// What was written, in order.
type Written = Vec<(Oid, Vec<u8>, Location, Vec<Location>)>;

fn written<F: Format>(repo: &Repo<F>) -> Written {
    let mut written = Vec::new();
    let note = &mut |oid, object: &bristlecone::Object<'_>| {
        let children = (0..object.children()).map(|child| object.child(child)).collect();
        written.push((oid, object.body().to_vec(), object.location(), children));
        Ok(())
    };
    repo.backend().each_object(note, &mut |damage| panic!("{damage:?}")).unwrap();
    written.sort_by_key(|object| object.2.0);
    written
}

fn commits<F: Format>(format: &F, seed: u64, threads: usize, shared_min: usize) -> (Vec<String>, Written) {
    let repo = Repo::with_backend(format.clone(), Arc::new(MemoryBackend::new()));
    repo.set_threads(threads);
    repo.set_shared_min(shared_min);
    let main = repo.branch("main").unwrap();
    let mut roots = Vec::new();
    for round in 0..5 {
        let mut tree = main.tree().unwrap();
        edit(&mut tree, round, seed).unwrap();
        main.commit(&mut tree, &info()).unwrap();
        let root = main.tree().unwrap().root().unwrap();
        assert_eq!(tree.root().unwrap(), root);
        roots.push(root.to_string());
    }
    (roots, written(&repo))
}

fn nothing_depends_on_threads<F: Format>(format: &F, seed: u64) {
    let whole = commits(format, seed, 1, usize::MAX);
    for (turn, shared_min) in SHARED.into_iter().enumerate() {
        // What is divided has its values right before the pieces that name them.
        let alone = commits(format, seed, 1, shared_min);
        assert_eq!(alone.0, whole.0, "{}: divided from {shared_min} changes on", F::NAME);
        assert!(contents(&alone.1) == contents(&whole.1), "{}: divided from {shared_min} changes on", F::NAME);
        // In a short run each from so many changes on with one of them.
        for threads in [2, 3].into_iter().cycle().skip(turn).take(step(1, 2) as usize) {
            let shared = commits(format, seed, threads, shared_min);
            assert!(shared == alone, "{}: {threads} threads from {shared_min} changes on", F::NAME);
        }
        #[cfg(feature = "rayon")]
        if turn == 1 {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
            let shared = pool.install(|| commits(format, seed, 1, shared_min));
            assert!(shared == alone, "{}: in a pool", F::NAME);
        }
    }
}

/// Returns the objects in the order of their ids.
fn contents(written: &Written) -> Vec<(&Oid, &[u8])> {
    let mut contents: Vec<_> = written.iter().map(|(oid, body, ..)| (oid, &body[..])).collect();
    contents.sort_unstable();
    contents
}

#[test]
fn the_objects_do_not_depend_on_the_number_of_threads() {
    for seed in 0..step(1, 3) {
        nothing_depends_on_threads(&Native::new(), seed);
    }
    nothing_depends_on_threads(&Native::new().inline(0), 7);
    nothing_depends_on_threads(&Native::new().split(false), 8);
    #[cfg(feature = "tezos")]
    nothing_depends_on_threads(&bristlecone::Tezos::new(), 3);
    #[cfg(feature = "git")]
    nothing_depends_on_threads(&bristlecone::Git::sha1(), 4);
}

#[test]
fn a_value_in_place_of_a_directory_is_said_whichever_thread_meets_it() {
    for dir in [0, 1, 700, 1498, 1499] {
        let repo = Repo::memory();
        repo.set_threads(2);
        repo.set_shared_min(20);
        let main = repo.branch("main").unwrap();
        let mut tree = repo.tree();
        for n in 0..1500 {
            tree.set(format!("wide/{n:04}{}", if n == dir { "/below" } else { "" }), "1").unwrap();
        }
        main.commit(&mut tree, &info()).unwrap();
        for n in 0..1500 {
            tree.set(format!("wide/{n:04}"), format!("value {n}")).unwrap();
        }
        let error = main.commit(&mut tree, &info()).unwrap_err();
        let Error::IsDirectory { path } = &error else { panic!("{error}") };
        assert_eq!(path.to_string(), format!("wide/{dir:04}"));
        assert!(tree.is_edited());
        assert_eq!(tree.get("wide/0007").unwrap().as_deref(), Some(&b"value 7"[..]));
        tree.replace(format!("wide/{dir:04}"), format!("value {dir}")).unwrap();
        main.commit(&mut tree, &info()).unwrap();
        let mut again = repo.tree();
        (0..1500).for_each(|n| again.set(format!("wide/{n:04}"), format!("value {n}")).unwrap());
        assert_eq!(again.root().unwrap(), main.tree().unwrap().root().unwrap());
    }
}

#[test]
fn a_fault_in_any_part_leaves_the_edits() {
    let disk = SimStorage::new();
    let options = DiskOptions::default().segment_bytes(1 << 16).maps(false).background(false).collect(false);
    let backend: Arc<dyn Backend> =
        Arc::new(DiskBackend::create(Arc::new(disk.clone()), format_tag(), options.clone()).unwrap());
    let repo = Repo::with_backend(Native::new(), backend);
    let main = repo.branch("main").unwrap();
    let mut tree = repo.tree();
    edit(&mut tree, 0, 1).unwrap();
    main.commit(&mut tree, &info()).unwrap();
    drop((tree, main, repo));
    let opened = || {
        let disk = disk.fork();
        disk.number_reads();
        disk.keep_trace();
        let backend = DiskBackend::open(Arc::new(disk.clone()), None, options.clone(), false).unwrap();
        let repo = Repo::with_backend(Native::new(), Arc::new(backend));
        repo.set_threads(2);
        repo.set_shared_min(30);
        let mut tree = repo.branch("main").unwrap().tree().unwrap();
        edit(&mut tree, 3, 1).unwrap();
        (disk, tree)
    };
    let (sound, mut tree) = opened();
    let opening = sound.calls();
    tree.write().unwrap();
    let (calls, wanted) = (sound.calls() - opening, tree.root().unwrap());
    let mut failed = 0;
    for call in 1..=calls {
        let (disk, mut tree) = opened();
        let before = disk.calls();
        // Where an index cannot be read, its segment is gone over instead: few of these calls tell all.
        if sound.call(opening + call).unwrap().name.ends_with(".idx") && call % 16 != 0 {
            continue;
        }
        disk.fail_at(before + call, Fault::Io, Times::Once);
        let written = tree.write();
        disk.heal();
        if let Err(error) = &written {
            // After a sync that failed nothing more is written, and each later append says so.
            assert!(matches!(error, Error::Io { .. } | Error::Poisoned { .. }), "{error}");
            assert!(tree.is_edited());
            failed += u64::from(matches!(error, Error::Io { .. }));
        }
        assert_eq!(tree.root().unwrap(), wanted, "call {call} fails");
    }
    assert!(failed > 5, "{failed} calls failed");
}
