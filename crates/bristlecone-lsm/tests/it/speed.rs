//! How fast it is: run alone on a quiet machine, with `cargo test --release -p bristlecone-lsm --test it speed -- --ignored
//! --nocapture --test-threads=1`.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use bristlecone::{
    Backend as _, Batch, Durability, Info, Kind, Location, Native, ObjRef, Oid, Repo, Sink as _, Snapshot,
};
use bristlecone_lsm::LsmOptions;
use bristlecone_testkit::generate::Rng;

use crate::create;

/// Prints how many calls were made in a second, and how long the slow ones took.
fn report(what: &str, elapsed: Duration, mut took: Vec<Duration>) -> f64 {
    took.sort_unstable();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize];
    let rate = took.len() as f64 / elapsed.as_secs_f64();
    println!(
        "{what}: {rate:.0}/s, p50 {:?}, p99 {:?}, p99.9 {:?}, longest {:?}",
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    );
    rate
}

/// A repository with a thousand values, ten steps deep.
fn repo(dir: &std::path::Path) -> (Repo<Native>, Vec<String>) {
    let repo = Repo::with_backend(Native::default(), Arc::new(create(dir, LsmOptions::default())));
    let paths: Vec<String> = (0..1000).map(|n| format!("a/b/c/d/e/f/g/h/i/{n:08}")).collect();
    let main = repo.branch("main").unwrap();
    let mut tree = main.tree().unwrap();
    for path in &paths {
        tree.set(path, &[7; 20][..]).unwrap();
    }
    main.commit(&mut tree, &Info::message("all")).unwrap();
    (repo, paths)
}

#[ignore = "a measurement"]
#[test]
fn commits_of_one_entry() {
    for (durability, count) in [(Durability::None, 40_000), (Durability::Synced, 10_000)] {
        let dir = tempfile::tempdir().unwrap();
        let (repo, paths) = repo(dir.path());
        let main = repo.branch("main").unwrap();
        let info = Info::unsigned("one").durability(durability);
        let (began, mut took) = (Instant::now(), Vec::with_capacity(count));
        for n in 0..count {
            let since = Instant::now();
            let mut tree = main.tree().unwrap();
            tree.set(&paths[n * 7 % 1000], &(n as u64).to_le_bytes()[..]).unwrap();
            main.commit(&mut tree, &info).unwrap();
            took.push(since.elapsed());
        }
        let rate = report(&format!("one entry, {}", durability.name()), began.elapsed(), took);
        assert!(rate > 100.0, "{rate} commits a second");
    }
}

/// Objects of 200 bytes, in batches of 500.
fn fill(backend: &dyn bristlecone::Backend, from: u64, count: u64, places: &mut Vec<ObjRef>) {
    for first in (from..from + count).step_by(500) {
        let mut batch = Batch::new();
        let mut pending = Vec::new();
        for number in first..first + 500 {
            let mut id = [0; 32];
            Rng::new(number).fill(&mut id);
            let oid = Oid::from_array(id);
            pending.push((oid, batch.put(Kind::Contents, oid, &[number as u8; 150], &[], &[])));
        }
        let base = backend.append(batch, &[], Durability::None).unwrap();
        places.extend(pending.into_iter().map(|(oid, at)| ObjRef::new(oid, at.resolve(base))));
    }
}

fn lookups(snapshot: &dyn Snapshot, places: &[ObjRef], by_id: bool, until: &AtomicBool) -> (Duration, Vec<Duration>) {
    let (began, mut took, mut rng) = (Instant::now(), Vec::new(), Rng::new(1));
    while !until.load(Relaxed) {
        let mut at = *rng.pick(places);
        if by_id {
            at.at = Location::NONE;
        }
        let since = Instant::now();
        assert!(snapshot.read(&at).unwrap().is_some());
        took.push(since.elapsed());
    }
    (began.elapsed(), took)
}

#[ignore = "a measurement"]
#[test]
fn lookups_while_tables_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), LsmOptions::default());
    let mut places = Vec::new();
    let began = Instant::now();
    fill(&backend, 0, 2_000_000, &mut places);
    println!("puts: {:.0}/s", 2e6 / began.elapsed().as_secs_f64());
    let (places, backend) = (&places, &backend);
    for by_id in [false, true] {
        let mut rates = Vec::new();
        for busy in [false, true] {
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let done = &done;
                let reader = scope.spawn(move || lookups(&*backend.snapshot(&[]), places, by_id, done));
                let began = Instant::now();
                let mut from = 1 << 32;
                while began.elapsed() < Duration::from_secs(5) {
                    if busy {
                        fill(backend, from, 50_000, &mut Vec::new());
                        from += 50_000;
                    } else {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                }
                done.store(true, Relaxed);
                let (elapsed, took) = reader.join().unwrap();
                let what = if by_id { "lookups by id" } else { "lookups by place" };
                rates.push(report(&format!("{what}, writing: {busy}"), elapsed, took));
            });
        }
        println!("throughput beside writing: {:.2}", rates[1] / rates[0]);
        assert!(rates[1] > 0.0, "{rates:?}");
    }
}
