use super::*;
use crate::{hashes::HashesBuf, key::KeyBuf, writer::Writer};

fn info(rows: &[Row<'_>]) -> TraceInfo {
    let mut writer = Writer::new(Vec::new()).unwrap();
    rows.iter().for_each(|row| writer.row(row).unwrap());
    let bytes = writer.finish().unwrap();
    let (mut reader, mut info) = (Reader::new(&bytes[..], "test").unwrap(), TraceInfo::new());
    while info.read_row(&mut reader).unwrap() {}
    assert_eq!(info.bytes(), bytes.len() as u64 - 13);
    info
}

#[test]
fn everything_is_counted() {
    let (short, long) = (KeyBuf::from_steps(["a"]), KeyBuf::from_steps(["a"; 40]));
    let (short, long) = (short.as_key(), long.as_key());
    let mut parents = HashesBuf::new();
    parents.push(Scoped::keep(b"CoA"));
    let add = |value, input, output| Row::Add { key: short, value, input, output: Scoped::keep(output) };
    let commit = |hash, parents, input| Row::Commit {
        hash: Scoped::keep(hash),
        date: 7,
        message: b"hello",
        parents,
        input: Scoped::forget(input),
    };
    let info = info(&[
        add(&[0; 31], Scoped::keep(0), 1),
        add(&[0; 32], Scoped::keep(1), 2),
        add(&[0; 512], Scoped::forget(0), 3),
        Row::Find { key: long, found: true, input: Scoped::forget(3) },
        Row::Find { key: short, found: false, input: Scoped::keep(2) },
        commit(b"CoA", Default::default(), 2),
        Row::Checkout { hash: Scoped::keep(b"CoA"), output: Scoped::keep(4) },
        commit(b"CoB", parents.as_hashes(), 4),
        Row::Checkout { hash: Scoped::forget(b"CoA"), output: Scoped::keep(5) },
        Row::MemTree { key: short, found: true, input: Scoped::keep(5) },
    ]);
    assert_eq!(RowKind::ALL.map(|kind| info.rows(kind)), [2, 3, 0, 0, 2, 0, 1, 2]);
    assert_eq!((info.rows_all(), info.rows_uncommitted(), info.old_checkouts()), (10, 2, 1));
    assert_eq!((info.found(RowKind::Find), info.found(RowKind::Mem), info.found(RowKind::MemTree)), (1, 0, 1));
    assert_eq!(info.values().map(|bucket| (bucket.count, bucket.bytes)), [(1, 31), (1, 32), (0, 0), (1, 512)]);
    assert_eq!((info.depths()[1], info.depths()[32]), (Depth { added: 3, others: 2 }, Depth { added: 0, others: 1 }));
    assert_eq!(info.contexts(), (3, 2), "0, 1 and 2 at a time; 1 and 5 are left");
    let spread = info.rows_per_commit().unwrap();
    assert_eq!((spread.min, spread.mean, spread.max), (2, 4.0, 6));
    let largest: Vec<_> = info.largest().iter().map(|commit| (commit.index, commit.rows, &commit.hash[..])).collect();
    assert_eq!(largest, [(0, 6, &b"CoA"[..]), (1, 2, b"CoB")]);
    assert_eq!((info.dates(), info.last_commit()), (Some((7, 7)), &b"CoB"[..]));
    assert_eq!(info.shapes(1)[0].pattern, "a");
}

#[test]
fn the_ten_largest_are_kept_in_order() {
    let rows = |count: usize| {
        let read = Row::Mem { key: Default::default(), found: false, input: Scoped::keep(0) };
        let parents = Default::default();
        let (hash, input) = (Scoped::keep(&b"Co"[..]), Scoped::keep(0));
        let commit = Row::Commit { hash, date: 0, message: b"", parents, input };
        std::iter::repeat_n(read, count).chain([commit])
    };
    // 0, 7, 14, 1, 8, …
    let all: Vec<Row<'_>> = (0..20).flat_map(|n| rows(n * 7 % 20)).collect();
    let info = info(&all);
    let sizes: Vec<u64> = info.largest().iter().map(|commit| commit.rows).collect();
    assert_eq!(sizes, (11..=20).rev().collect::<Vec<_>>());
    assert!(info.largest().iter().all(|commit| commit.rows == commit.index * 7 % 20 + 1));
    assert!(info.largest()[0].bytes > info.largest()[9].bytes);
}

#[test]
fn of_long_hashes_and_messages_little_is_kept() {
    let (long, other) = ([b'a'; 10_000], [b'b'; 10_000]);
    let commit = Row::Commit {
        hash: Scoped::keep(&long),
        date: 0,
        message: &long,
        parents: Default::default(),
        input: Scoped::keep(0),
    };
    let checkout = |hash| Row::Checkout { hash: Scoped::keep(hash), output: Scoped::keep(1) };
    let info = info(&[commit, checkout(&long[..]), checkout(&other[..])]);
    assert_eq!((info.last_commit(), info.old_checkouts()), (&long[..200], 1));
    let largest = &info.largest()[0];
    assert_eq!((largest.hash.len(), largest.message.len()), (200, 200));
    assert!(largest.hash.capacity() < 10_000);
}
