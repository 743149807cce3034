//! Memory of many open stores, a measurement of some minutes that takes 4 GB of disk:
//! `cargo test --release -p bristlecone disk::tests::memory -- --ignored --nocapture`.

use bristlecone_needs::needs;

use super::*;

const STORES: usize = 4;
const STORE_BYTES: u64 = 1 << 30;
const HANDLES: usize = 100;
/// Enough that every page of bits of a store is touched, and that caches of objects overflow.
const READS: u64 = 20_000;
const OBJECT_BYTES: usize = 1000;
/// What a handle takes beside its budget: the table of segments, the rows of those that are open, the table of the cache.
const BESIDE_BYTES: u64 = 512 << 10;

/// Returns how much memory of this process shows no file, in bytes.
fn anonymous_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// Makes a store of 1 GB and returns where its objects are, by their numbers.
fn filled(dir: &Path) -> Vec<Location> {
    let backend = create(dir, DiskOptions::default().prezero(false));
    let mut places = Vec::new();
    while backend.stats().bytes_written < STORE_BYTES {
        let first = places.len() as u64;
        let batch = batch(first..first + 1000, OBJECT_BYTES);
        let within: Vec<usize> = batch.records().map(|record| record.offset as usize).collect();
        let base = backend.append(batch, &[], Durability::None).unwrap();
        places.extend(within.into_iter().map(|offset| Location(base.0 + offset as u64)));
    }
    places
}

/// Handles share nothing, so that many of one store take what handles of as many stores would.
#[needs(linux)]
#[test]
#[ignore = "a measurement"]
fn a_hundred_open_stores_keep_to_their_budgets() {
    let dirs: Vec<_> = (0..STORES).map(|_| tempfile::tempdir().unwrap()).collect();
    let places: Vec<Vec<Location>> = dirs.iter().map(|dir| filled(dir.path())).collect();
    // The small ones first: what the allocator keeps of the others would hide what these take.
    let budgets = [(true, 1 << 20), (false, 1 << 20), (true, 64 << 20), (false, 64 << 20)];
    for (maps, cache_bytes) in budgets {
        let options = DiskOptions::default().maps(maps).cache_bytes(cache_bytes);
        let handles = if maps || cache_bytes < 64 << 20 { HANDLES } else { HANDLES / 4 };
        let before = anonymous_bytes();
        let stores: Vec<DiskBackend> = (0..handles)
            .map(|handle| {
                DiskBackend::open(storage(dirs[handle % STORES].path()), None, options.clone(), true).unwrap()
            })
            .collect();
        let opened = anonymous_bytes().saturating_sub(before) / handles as u64;
        for (handle, store) in stores.iter().enumerate() {
            let (places, snapshot) = (&places[handle % STORES], store.snapshot(&[]));
            let mut state = handle as u64;
            for _ in 0..READS {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let number = (state >> 33) % places.len() as u64;
                let at = ObjRef::new(oid(number), places[number as usize]);
                assert_eq!(snapshot.read(&at).unwrap().unwrap().body().len(), OBJECT_BYTES);
            }
        }
        let taken = anonymous_bytes().saturating_sub(before) / handles as u64;
        let told = stores.iter().map(|store| store.stats().memory_bytes).sum::<u64>() / handles as u64;
        println!(
            "{handles} stores of 1 GB, maps {maps}, budget {} KiB: anonymous {} KiB a store (opened {} KiB, stats say {} KiB)",
            cache_bytes >> 10,
            taken >> 10,
            opened >> 10,
            told >> 10
        );
        assert!(told <= cache_bytes + cache_bytes / 8, "{told}");
        assert!(taken <= cache_bytes + cache_bytes / 8 + BESIDE_BYTES, "{taken} of {cache_bytes}");
    }
}
