//! Traces of Tezos contexts.

use std::sync::Arc;

use bristlecone::{MemoryBackend, Repo, Tezos};
use bristlecone_tezos::{
    Reader, Writer,
    replay::{Replay, ReplayOptions},
};

use crate::input::Input;

/// The longest input, in bytes.
const BYTES_MAX: usize = 64 << 10;
/// More rows are not replayed.
const ROWS_MAX: usize = 300;

/// A trace: its rows can be written and read again, and replayed up to where they make no sense.
pub fn trace(data: &[u8]) {
    let bytes = Input::new(data, BYTES_MAX).rest();
    let Ok(mut reader) = Reader::new(bytes, "trace") else { return };
    let mut writer = Writer::new(Vec::new()).expect("a trace in memory");
    let mut rows = 0;
    while let Ok(Some(row)) = reader.next() {
        writer.row(&row).expect("a trace in memory");
        rows += 1;
    }
    assert!(reader.offset() <= bytes.len() as u64, "rows lie within the trace");
    let again = writer.finish().expect("a trace in memory");
    let (mut first, mut second) =
        (Reader::new(bytes, "first").expect("again"), Reader::new(&again[..], "second").expect("ours"));
    for _ in 0..rows {
        let (first, second) = (first.next().expect("again"), second.next().expect("what was written is read"));
        assert_eq!(first, second, "a row that is written is read");
    }
    assert!(second.next().expect("what was written is read").is_none());
    if rows <= ROWS_MAX {
        replay(&again);
    }
}

fn replay(trace: &[u8]) {
    let repo = Repo::with_backend(Tezos::new(), Arc::new(MemoryBackend::new()));
    let mut replay = Replay::new(&repo, ReplayOptions::default()).expect("a branch that can be");
    let mut reader = Reader::new(trace, "trace").expect("what was written is read");
    let ended = replay.run(&mut reader, &mut ());
    let head = repo.branch("main").and_then(|branch| branch.head()).expect("a store in memory");
    assert_eq!(head.is_some(), replay.report().commits > 0, "a branch follows the commits");
    drop(ended);
}
