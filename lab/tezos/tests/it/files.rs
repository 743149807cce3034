//! The shipped traces: every row of the real one, and every byte of all of them through reader and writer.

use bristlecone_tezos::{KeyBuf, Reader, Row, Scoped, TraceError, Writer};

use crate::shipped::{self, EARLY, FLAT, REAL};

#[test]
fn the_real_trace_row_by_row() {
    let path = shipped::path(REAL);
    let key = |path: &str| KeyBuf::from_steps(path.split('/'));
    let (version, sandbox) = (key("data/version"), key("data/sandbox_parameter"));
    let (protocol, test_chain) = (key("protocol"), key("test_chain"));
    let protocol_hash: Vec<u8> = std::fs::read(&path).unwrap()[0x82..0xa2].to_vec();
    assert!(protocol_hash.starts_with(&[0x38, 0xec, 0xde, 0xf0]) && protocol_hash.ends_with(&[0x63, 0x17, 0xda, 0x21]));
    let expected = [
        (0x0d, Row::Find { key: version.as_key(), found: false, input: Scoped::keep(0) }),
        (
            0x27,
            Row::Add { key: version.as_key(), value: b"genesis", input: Scoped::forget(0), output: Scoped::keep(1) },
        ),
        (0x51, Row::Find { key: sandbox.as_key(), found: false, input: Scoped::keep(1) }),
        (
            0x75,
            Row::Add {
                key: protocol.as_key(),
                value: &protocol_hash,
                input: Scoped::forget(1),
                output: Scoped::keep(2),
            },
        ),
        (0xb4, Row::Add { key: test_chain.as_key(), value: &[0], input: Scoped::forget(2), output: Scoped::keep(3) }),
        (
            0xd6,
            Row::Commit {
                hash: Scoped::keep(b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj"),
                date: 1_530_374_852,
                message: b"Genesis",
                parents: Default::default(),
                input: Scoped::forget(3),
            },
        ),
    ];
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!((reader.bytes_total(), reader.offset(), reader.rows()), (Some(300), 13, 0));
    for (offset, row) in expected {
        assert_eq!(reader.next().unwrap(), Some(row));
        assert_eq!(reader.row_offset(), offset);
    }
    for _ in 0..2 {
        let cut = reader.next().unwrap_err();
        assert!(matches!(cut, TraceError::Cut { offset: 0x128, row: 6, bytes: 4, .. }), "{cut}");
    }
    assert_eq!((reader.rows(), reader.offset(), reader.partial()), (6, 0x128, 4));
}

#[test]
fn what_is_read_and_written_is_the_same() {
    for (name, rows) in [(REAL, 6), (EARLY, 40_617), (FLAT, 38_613)] {
        let bytes = shipped::whole(name);
        let mut reader = Reader::new(&bytes[..], name).unwrap();
        let mut writer = Writer::new(Vec::new()).unwrap();
        while let Some(row) = reader.next().unwrap() {
            writer.row(&row).unwrap();
        }
        assert_eq!((reader.rows(), writer.offset()), (rows, reader.offset()), "{name}");
        assert!(writer.finish().unwrap() == bytes, "{name}");
    }
}
