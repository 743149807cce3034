//! Blocks and chunks of a Cardano chain.

use std::fs;

use bristlecone_cardano::{Block, ChainReader, ReadOptions, TornTail, utxo::lovelace};

use crate::input::Input;

/// The longest input, in bytes.
const BYTES_MAX: usize = 64 << 10;
/// The number of the chunk.
const CHUNK: &str = "00000";

/// A block: all that is lent of it lies within it, and reading it again gives the same.
pub fn cardano_block(data: &[u8]) {
    let bytes = Input::new(data, BYTES_MAX).rest();
    let Ok(block) = Block::first(bytes) else {
        assert!(Block::parse(bytes).is_err(), "what does not begin with a block is none");
        return;
    };
    assert!(block.bytes().len() <= bytes.len() && !block.header().is_empty());
    assert_eq!(Block::parse(block.bytes()).map(|again| again.point()), Ok(block.point()));
    let _ = block.is_body_sound();
    let Ok(transactions) = block.transactions() else { return };
    let mut count = 0;
    for transaction in transactions {
        let Ok(transaction) = transaction else { break };
        count += 1;
        assert!(transaction.body().len() <= bytes.len());
        let _ = (transaction.id(), transaction.fee());
        let spent = transaction.spent().take_while(Result::is_ok).count();
        let created = transaction.created().take_while(Result::is_ok).map(Result::unwrap);
        let mut outputs = 0;
        for (_, cbor) in created {
            let _ = lovelace(cbor);
            outputs += 1;
        }
        assert!(spent <= bytes.len() && outputs <= bytes.len());
    }
    assert!(count <= bytes.len());
}

/// The three files of a chunk: what is read of it with its end cut off is a prefix of what it holds, whatever is done about the end.
pub fn cardano_chunk(data: &[u8]) {
    let mut input = Input::new(data, BYTES_MAX);
    let (primary, secondary, chunk) = (input.run(), input.run(), input.rest());
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (extension, bytes) in [("primary", primary), ("secondary", secondary), ("chunk", chunk)] {
        fs::write(dir.path().join(format!("{CHUNK}.{extension}")), bytes).expect("a temporary file");
    }
    let read = |tail| {
        let options = ReadOptions::default().tail(tail);
        let mut points = Vec::new();
        let mut reader = ChainReader::open(&[dir.path().to_owned()], options).expect("a folder with a chunk");
        let ended = loop {
            match reader.next_block() {
                Ok(Some(stored)) => {
                    let end = stored.place.offset + u64::from(stored.place.bytes);
                    assert!(end <= chunk.len() as u64, "a block lies within its chunk");
                    points.push(stored.block.point());
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        (points, ended)
    };
    let (cut, _) = read(TornTail::Cut);
    for tail in [TornTail::Incomplete, TornTail::Refuse] {
        let (points, ended) = read(tail);
        assert!(cut.starts_with(&points), "{tail:?}");
        assert!(!ended || points == cut, "{tail:?}: a chunk that is read to its end has the same blocks");
    }
}
