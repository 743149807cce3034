//! Measurements, run by hand: `cargo test --release -p bristlecone disk::tests::speed -- --ignored --nocapture`.

use super::*;

fn rate(what: &str, count: u64, start: Instant) {
    let took = start.elapsed();
    println!(
        "{what}: {:.0}/s, {:.1} ns each",
        count as f64 / took.as_secs_f64(),
        took.as_nanos() as f64 / count as f64
    );
}

#[test]
#[ignore = "a measurement"]
fn appends_of_4_kb() {
    for (durability, count) in [(Durability::None, 50_000), (Durability::Grouped, 50_000), (Durability::Synced, 5_000)]
    {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), DiskOptions::default());
        let batches: Vec<Batch> = (0..count).map(|number| batch(number..number + 1, 4000)).collect();
        let start = Instant::now();
        for (number, batch) in batches.into_iter().enumerate() {
            backend.append(batch, &[to("main", number as u64, Expected::Any)], durability).unwrap();
        }
        rate(&format!("append 4 KB, {}", durability.name()), count, start);
    }
}

#[test]
#[ignore = "a measurement"]
fn groups_of_100_branches() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), DiskOptions::default());
    let rounds = 500;
    let mut groups: Vec<Vec<(Batch, Vec<RefMove>)>> = (0..rounds)
        .map(|round| {
            (0..100)
                .map(|branch| {
                    let number = round * 100 + branch;
                    (batch(number..number + 1, 1000), vec![to(&format!("branch-{branch}"), number, Expected::Any)])
                })
                .collect()
        })
        .collect();
    let start = Instant::now();
    for group in groups.drain(..) {
        assert!(backend.append_many(group, Durability::Synced).iter().all(Result::is_ok));
    }
    rate("append_many of 100, synced", rounds * 100, start);
    println!("{:?}", backend.stats());
    let start = Instant::now();
    for _ in 0..1_000_000 {
        std::hint::black_box(backend.get_ref("branch-50").unwrap());
    }
    rate("get_ref", 1_000_000, start);
}

#[test]
#[ignore = "a measurement"]
fn writers_on_two_threads() {
    for durability in [Durability::None, Durability::Synced] {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), DiskOptions::default());
        let each = if durability == Durability::None { 30_000 } else { 3_000 };
        let start = Instant::now();
        thread::scope(|scope| {
            for thread in 0..2 {
                let backend = &backend;
                scope.spawn(move || {
                    for number in thread * 1_000_000..thread * 1_000_000 + each {
                        let moves = [to(&format!("b{thread}"), number, Expected::Any)];
                        backend.append(batch(number..number + 1, 4000), &moves, durability).unwrap();
                    }
                });
            }
        });
        rate(&format!("append 4 KB on two threads, {}", durability.name()), each * 2, start);
    }
}

#[test]
#[ignore = "a measurement"]
fn reads_and_opens() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), DiskOptions::default());
    let count = 1_000_000;
    let mut places = Vec::new();
    let start = Instant::now();
    for first in (0..count).step_by(1000) {
        let batch = batch(first..first + 1000, 100);
        let offsets: Vec<(Oid, u32)> = batch.offsets().collect();
        let base = backend.append(batch, &[to("main", first, Expected::Any)], Durability::None).unwrap();
        places.extend(offsets.into_iter().map(|(oid, at)| ObjRef::new(oid, Location(base.0 + u64::from(at)))));
    }
    rate("objects in, 1000 a batch", count, start);
    let snapshot = backend.snapshot(&[]);
    let mut order: Vec<usize> = (0..places.len()).collect();
    let mut state = 1_u64;
    for index in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(index, (state >> 33) as usize % (index + 1));
    }
    for round in 0..3 {
        let start = Instant::now();
        for &index in &order {
            std::hint::black_box(snapshot.read(&places[index]).unwrap().unwrap());
        }
        rate(&format!("random reads of {count}, round {round}"), count, start);
    }
    let hot = &order[..1000];
    let start = Instant::now();
    for _ in 0..1000 {
        for &index in hot {
            std::hint::black_box(snapshot.read(&places[index]).unwrap().unwrap());
        }
    }
    rate("reads of 1000 hot objects", count, start);
    let start = Instant::now();
    for &index in &order {
        std::hint::black_box(snapshot.read(&places[index].oid.into()).unwrap().unwrap());
    }
    rate("random reads by id", count, start);
    drop(snapshot);
    kill(backend);
    for read_only in [true, false, false] {
        let start = Instant::now();
        let backend = DiskBackend::open(storage(dir.path()), None, DiskOptions::default(), read_only).unwrap();
        println!("open (read only: {read_only}): {:?}", start.elapsed());
        let start = Instant::now();
        backend.read(&oid(999_999).into()).unwrap().unwrap();
        println!("first read by id: {:?}", start.elapsed());
        let start = Instant::now();
        assert!(backend.read(&oid(count).into()).unwrap().is_none());
        println!("first that is absent: {:?}", start.elapsed());
        let (absent, start) = (200_000, Instant::now());
        for number in count..count + absent {
            assert!(std::hint::black_box(backend.read(&oid(number).into()).unwrap()).is_none());
        }
        rate("reads by id of what is absent", absent, start);
    }
}

#[test]
#[ignore = "a measurement"]
fn hot_reads() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), DiskOptions::default());
    let base = backend.append(batch(0..16, 100), &[], Durability::None).unwrap();
    let places: Vec<ObjRef> = (0..16)
        .map(|n| backend.read(&oid(n).into()).unwrap().map(|o| ObjRef::new(oid(n), o.location())).unwrap())
        .collect();
    assert!(places.iter().any(|place| place.at == base));
    let snapshot = std::hint::black_box(backend.snapshot(&[]));
    let start = Instant::now();
    for _ in 0..1_000_000 {
        for place in &places {
            std::hint::black_box(snapshot.read(place).unwrap().unwrap());
        }
    }
    rate("read of 16 hot objects", 16_000_000, start);
    let start = Instant::now();
    for _ in 0..1_000_000 {
        for place in &places {
            std::hint::black_box(snapshot.peek(place.oid.as_bytes(), place.at).unwrap());
        }
    }
    rate("peek at 16 hot objects", 16_000_000, start);
    let memory = crate::MemoryBackend::new();
    memory.append(batch(0..16, 100), &[], Durability::None).unwrap();
    let places: Vec<ObjRef> = (0..16).map(|n| ObjRef::new(oid(n), memory.locate(&oid(n)).unwrap())).collect();
    let snapshot = std::hint::black_box(memory.snapshot(&[]));
    let start = Instant::now();
    for _ in 0..1_000_000 {
        for place in &places {
            std::hint::black_box(snapshot.read(place).unwrap().unwrap());
        }
    }
    rate("the memory backend's read of 16", 16_000_000, start);
}
