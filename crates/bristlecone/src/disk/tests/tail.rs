//! The table of the tail, which is made from the segment and from what is appended.

use super::*;
use crate::sync::{read_lock, write_lock};

/// Returns where the table of the tail leads for each id, as far as it goes, and how far that is.
fn table(backend: &DiskBackend, numbers: std::ops::Range<u64>) -> (Vec<Vec<u32>>, u64) {
    let index = read_lock(&backend.shared.tail_index);
    let offsets = |number: u64| {
        let mut offsets = Vec::new();
        index.find(oid(number).prefix(), |offset| {
            offsets.push(offset);
            false
        });
        offsets.sort_unstable();
        offsets
    };
    (numbers.map(offsets).collect(), index.upto)
}

#[test]
fn what_is_appended_is_in_the_table_as_if_it_had_been_read() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), small().segment_bytes(1 << 20));
    let other = open(dir.path(), small());
    let end = || backend.shared.published.end() & 0xffff_ffff;
    let snapshot = backend.snapshot(&[]);
    let (mut at_once, mut later) = (0, 0);
    for number in 0..400 {
        // Some are there twice, some come in a frame that has others, too, or from another process.
        let numbers = number * 7 % 390..number * 7 % 390 + number % 4;
        let through = if number % 23 == 5 { &other } else { &backend };
        through.append(batch(numbers, 40 + number as usize), &[], Durability::None).unwrap();
        let upto = read_lock(&backend.shared.tail_index).upto;
        at_once += usize::from(upto == end());
        if number % 3 > 0 {
            let found = snapshot.locate(&oid(number * 7 % 390));
            assert!(found.is_some() || number % 4 == 0 || number % 23 == 5, "{number}");
            later += usize::from(upto < end());
        }
    }
    assert!(at_once > 200 && later > 50, "{at_once}, {later}");
    let followed = {
        snapshot.locate(&oid(1));
        table(&backend, 0..400)
    };
    write_lock(&backend.shared.tail_index).reset(0, 0);
    snapshot.locate(&oid(1));
    assert_eq!(followed, table(&backend, 0..400));
    assert!(followed.1 == end() && followed.0.iter().filter(|offsets| !offsets.is_empty()).count() > 300);
}
