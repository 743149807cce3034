//! Traces that are cut, flipped and lying: a clear error or a sound trace, in bounded memory.

use std::io::{self, Read};

use bristlecone_tezos::{Reader, TraceError, Writer};

use crate::shipped::{self, EARLY, FLAT, REAL, Random};

/// What any trace begins with.
const HEADER: &[u8] = b"IrmRepBT\0\0\0\0\0";

/// Reads a trace to its end or to where it is cut, and checks that what was read can be written and read again. Returns
/// the offset of each row, and how many bytes of a row are there behind them.
fn read(bytes: &[u8]) -> Result<(Vec<u64>, u64), TraceError> {
    let mut reader = Reader::new(bytes, "hostile.repr")?;
    let (mut offsets, mut writer) = (Vec::new(), Writer::new(Vec::new()).unwrap());
    let ended = loop {
        match reader.next() {
            Ok(Some(row)) => writer.row(&row).unwrap(),
            Ok(None) => {
                assert_eq!((reader.offset(), reader.partial()), (bytes.len() as u64, 0));
                break Ok(0);
            }
            Err(error) => {
                let again = reader.next().unwrap_err();
                assert_eq!(error.to_string(), again.to_string());
                break is_cut(&reader, error);
            }
        }
        offsets.push(reader.row_offset());
    };
    assert_eq!(reader.rows(), offsets.len() as u64);
    assert!(reader.offset() <= bytes.len() as u64);
    let again = writer.finish().unwrap();
    let (mut first, mut second) = (Reader::new(bytes, "first")?, Reader::new(&again[..], "second")?);
    for _ in &offsets {
        assert_eq!(first.next().unwrap(), second.next().unwrap());
    }
    assert_eq!(second.next().unwrap(), None);
    assert_eq!(second.partial(), 0);
    Ok((offsets, ended?))
}

/// Returns how much of a row is there if that is what is wrong.
fn is_cut(reader: &Reader<&[u8]>, error: TraceError) -> Result<u64, TraceError> {
    let TraceError::Cut { file, offset, row, bytes } = &error else { return Err(error) };
    assert_eq!((file.as_str(), *offset, *row), (reader.name(), reader.offset(), reader.rows()));
    assert!(*bytes > 0 && *bytes == reader.partial());
    let says = error.to_string();
    for part in [format!("{file} is cut within row {row}"), format!("at byte {offset}"), format!("{bytes} bytes")] {
        assert!(says.contains(&part), "{says}");
    }
    Ok(*bytes)
}

/// A row of these bytes, after the header.
fn row(bytes: &[u8]) -> Vec<u8> {
    [HEADER, &[bytes.len() as u8], bytes].concat()
}

#[track_caller]
fn corrupt(bytes: &[u8], at: u64, says: &str) {
    match read(bytes) {
        Err(TraceError::Corrupt { file, offset, reason, .. }) => {
            assert_eq!((file.as_str(), offset), ("hostile.repr", at), "{reason}");
            assert!(reason.contains(says), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_cut_is_told_and_what_is_whole_before_it_is_read() {
    let bytes = shipped::bytes(REAL);
    let (whole, _) = read(&bytes).unwrap();
    for length in 0..bytes.len() {
        let cut = read(&bytes[..length]);
        // Within the header: 8 bytes, 4 bytes, and the length of what else is in it.
        if length < 13 {
            assert!(matches!(cut, Err(TraceError::NotATrace { .. })), "{length}: {cut:?}");
            continue;
        }
        let (offsets, partial) = cut.unwrap();
        assert!(whole.starts_with(&offsets), "{length}");
        let next = whole.get(offsets.len()).map_or(0x128, |&at| at as usize);
        assert_eq!(partial as usize, length.saturating_sub(next), "{length}");
        // A cut between two rows goes unnoticed: nothing in a trace says how many it has.
        assert_eq!(partial == 0, length == next, "{length}");
    }
}

#[test]
fn every_flip_is_an_error_or_a_sound_trace() {
    let sound = shipped::bytes(REAL);
    let (whole, _) = read(&sound).unwrap();
    let mut damaged = 0;
    for bit in 0..sound.len() * 8 {
        let (at, mut bytes) = (bit / 8, sound.clone());
        bytes[at] ^= 1 << (bit % 8);
        match (at, read(&bytes)) {
            (0..8, Err(TraceError::NotATrace { .. })) | (8..12, Err(TraceError::Version { .. })) => {}
            (12.., Err(TraceError::Corrupt { offset, row, .. })) => {
                // Nothing before the row with the flip is blamed.
                let before = whole.iter().filter(|&&offset| offset <= at as u64).count() as u64;
                assert!(row + 1 >= before && offset < 300, "bit {bit}: row {row}, offset {offset}");
                damaged += 1;
            }
            (13.., Ok((offsets, _))) => assert!(!offsets.is_empty() || at < 0x27),
            (_, other) => panic!("bit {bit}: {other:?}"),
        }
    }
    assert!(damaged > 300, "{damaged}");
}

#[test]
fn lengths_that_are_none() {
    corrupt(&[HEADER, &[0x80; 9]].concat(), 13, "a length");
    corrupt(&[HEADER, &[0x80; 8], &[0x40]].concat(), 13, "a length");
    corrupt(&[HEADER, &[0xff; 300]].concat(), 13, "a length");
    assert_eq!(read(&[HEADER, &[0x80; 8]].concat()).unwrap(), (vec![], 8), "it may go on");
    // The header's own.
    corrupt(b"IrmRepBT\0\0\0\0\x01\0", 12, "header");
    corrupt(&[&HEADER[..12], &[0xff; 9]].concat(), 12, "a length");
    for cut in [&HEADER[..12], &[&HEADER[..12], &[0x80]].concat()] {
        let refused = read(cut).unwrap_err().to_string();
        assert!(refused.contains("hostile.repr") && refused.contains("within its header"), "{refused}");
    }
}

#[test]
fn rows_that_are_none() {
    corrupt(&row(b""), 14, "ends inside a number");
    corrupt(&row(&[8]), 14, "no operation");
    corrupt(&row(&[0xff; 12]), 15 - 1, "more than 9 bytes");
    // Find of the key `a`: 1 step of 1 byte, found, keep 0; then with one thing wrong each.
    let find = [&[4, 1, 1, b'a', 0xff, 1][..], &[0; 8]].concat();
    assert_eq!(read(&row(&find)).unwrap(), (vec![13], 0));
    let with = |at: usize, byte: u8| {
        let mut wrong = find.clone();
        wrong[at] = byte;
        row(&wrong)
    };
    assert!(read(&with(4, 1)).is_ok(), "any byte but 0 is true");
    corrupt(&with(5, 2), 14 + 5, "scope");
    corrupt(&with(2, 0x7f), 14 + 3, "longer than what is left");
    corrupt(&row(&[&find[..], &[0]].concat()), 14 + 14, "longer than what is in it");
    corrupt(&row(&find[..13]), 14 + 6, "64-bit");
    corrupt(&row(&find[..4]), 14 + 4, "");
    // Counts that no bytes follow are found out at once.
    let many = [&[4][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f], &[0; 100]].concat();
    corrupt(&row(&many), 14 + 110, "ends inside a number");
    let parents = [&[7, 1, 0][..], &[0; 8], &[0], &[0xff, 0xff, 0xff, 0x7f], &[1, 0, 1, 0]].concat();
    corrupt(&row(&parents), 14 + parents.len() as u64, "ends inside a number");
}

#[test]
fn numbers_may_be_longer_than_needed() {
    let plain = [&[4, 1, 1, b'a', 0xff, 1][..], &[0; 8]].concat();
    let padded = [&[0x84, 0, 0x81, 0x80, 0, 0x81, 0, b'a', 0xff, 0x81, 0][..], &[0; 8]].concat();
    let (plain, padded) = (row(&plain), [HEADER, &[0x80 | padded.len() as u8, 0], &padded].concat());
    read(&padded).unwrap();
    let (mut one, mut other) = (Reader::new(&plain[..], "a").unwrap(), Reader::new(&padded[..], "b").unwrap());
    assert_eq!(one.next().unwrap(), other.next().unwrap());
}

#[test]
fn other_files() {
    let wrong = |bytes: &[u8]| Reader::new(bytes, "x.repr").unwrap_err().to_string();
    for bytes in [&b""[..], b"Irm", b"IrmRepBT", b"IrmRepBT\0\0\0"] {
        assert!(wrong(bytes).contains("x.repr") && wrong(bytes).contains("fewer than 12 bytes"), "{}", wrong(bytes));
    }
    assert!(wrong(b"IrmRepBU\0\0\0\0\0").contains("IrmRepBT"));
    assert!(wrong(b"garbage!").contains("IrmRepBT"));
    let later = wrong(b"TezosRep\0\0\0\0\0");
    assert!(later.contains("later format") && later.contains("TezosRep"), "{later}");
    assert!(wrong(b"IrmRepBT\0\0\0\x01\0").contains("version 1"));
    assert!(wrong(b"IrmRepBT\xff\xff\xff\xff\0").contains("version -1"));
    assert!(matches!(Reader::open("no such file"), Err(TraceError::Io { file, .. }) if file == "no such file"));
}

/// Gives bytes in small pieces, with interruptions, and notes how much room it was given.
struct Dribble<'a> {
    bytes: &'a [u8],
    piece: usize,
    turn: usize,
    room_max: usize,
}

impl Read for &mut Dribble<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.turn += 1;
        if self.turn.is_multiple_of(5) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.room_max = self.room_max.max(room.len());
        let piece = self.piece.min(self.bytes.len());
        self.bytes.read(&mut room[..piece])
    }
}

#[test]
fn what_is_announced_is_not_allocated() {
    for announced in [&[0xff, 0xff, 0xff, 0xff, 0x0f][..], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f]] {
        let bytes = [HEADER, announced, &[1; 1000]].concat();
        let mut dribble = Dribble { bytes: &bytes, piece: 100, turn: 0, room_max: 0 };
        let mut reader = Reader::new(&mut dribble, "x").unwrap();
        let there = 1000 + announced.len() as u64;
        let cut = reader.next().unwrap_err();
        assert!(matches!(cut, TraceError::Cut { offset: 13, row: 0, bytes, .. } if bytes == there), "{cut}");
        assert_eq!(reader.partial(), there);
        assert!(dribble.room_max <= 1 << 20, "{}", dribble.room_max);
    }
}

#[test]
fn the_way_bytes_arrive_does_not_matter() {
    let bytes = shipped::bytes(EARLY);
    let bytes = &bytes[..200_000];
    let (whole, partial) = read(bytes).unwrap();
    for piece in [1, 7, 1000] {
        let mut dribble = Dribble { bytes, piece, turn: 0, room_max: 0 };
        let (mut reader, mut offsets) = (Reader::new(&mut dribble, "x").unwrap(), Vec::new());
        while let Ok(Some(_)) = reader.next() {
            offsets.push(reader.row_offset());
        }
        assert!(matches!(reader.next(), Err(TraceError::Cut { .. })));
        assert_eq!((offsets, reader.partial()), (whole.clone(), partial), "{piece}");
    }
}

#[test]
fn long_rows_are_read() {
    let value = vec![7; 5_000_000];
    let mut writer = Writer::new(Vec::new()).unwrap();
    let input = bristlecone_tezos::Scoped::keep(0);
    let long = bristlecone_tezos::Row::Add { key: Default::default(), value: &value, input, output: input };
    let short = bristlecone_tezos::Row::Mem { key: Default::default(), found: true, input };
    [short, long, short, long].iter().for_each(|row| writer.row(row).unwrap());
    let bytes = writer.finish().unwrap();
    let mut reader = Reader::new(&bytes[..], "x").unwrap();
    for row in [short, long, short, long] {
        assert!(reader.next().unwrap() == Some(row));
    }
    assert_eq!(reader.next().unwrap(), None);
    // One that announces more than there is.
    let cut = &bytes[..bytes.len() - 1];
    let mut reader = Reader::new(cut, "x").unwrap();
    while let Ok(Some(_)) = reader.next() {}
    assert!(matches!(reader.next(), Err(TraceError::Cut { row: 3, .. })));
    assert_eq!((reader.rows(), reader.partial()), (3, cut.len() as u64 - reader.offset()));
}

#[test]
fn mutations() {
    let (mut random, mut errors, mut sound) = (Random(1), 0, 0);
    for (name, bytes, rounds) in [(REAL, 300, 60_000), (EARLY, 1_500, 40_000), (FLAT, 3_000, 20_000)] {
        let whole = shipped::bytes(name);
        for _ in 0..rounds {
            match read(&random.mutate(&whole[..bytes])) {
                Ok(_) => sound += 1,
                Err(TraceError::Io { .. }) => panic!("nothing can fail here"),
                Err(error) => {
                    assert!(error.to_string().contains("hostile.repr"), "{error}");
                    errors += 1;
                }
            }
        }
        assert!(errors > rounds / 10 && sound > rounds / 10, "{name}: {errors} and {sound}");
    }
}
