//! Writing zlib streams: stored, in the fixed code, or deflated by the thread's own compressor.

use std::cell::RefCell;

use flate2::{Compress, FlushCompress, Status};
use zlib_rs::adler32::adler32;

/// The largest stored block, in bytes: its length has 16 bits.
const BLOCK_BYTES_MAX: usize = 0xffff;
/// Up to this many bytes a block in the fixed code is as short as one with a table of its own.
const SHORT_BYTES_MAX: usize = 64;
/// What a zlib stream of stored blocks begins with: deflate with a window of 32 KiB, fastest level.
const STORED_HEADER: [u8; 2] = [0x78, 0x01];

thread_local! {
    static DEFLATE: RefCell<Vec<(u32, Compress)>> = const { RefCell::new(Vec::new()) };
}

/// Appends a zlib stream of stored blocks that holds `raw`.
pub(crate) fn stored(raw: &[u8], out: &mut Vec<u8>) {
    // 2 = header; 5 = 1 kind + 2 length + 2 its complement, a block; 4 = checksum.
    out.reserve(2 + 5 * (raw.len() / BLOCK_BYTES_MAX + 1) + raw.len() + 4);
    out.extend_from_slice(&STORED_HEADER);
    let mut rest = raw;
    loop {
        let (block, after) = rest.split_at(rest.len().min(BLOCK_BYTES_MAX));
        let len = block.len() as u16;
        out.push(u8::from(after.is_empty()));
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&(!len).to_le_bytes());
        out.extend_from_slice(block);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    out.extend_from_slice(&adler32(1, raw).to_be_bytes());
}

/// Appends a zlib stream that holds `raw`, deflated at `level`, 0 to 9.
pub(crate) fn deflate(raw: &[u8], level: u32, out: &mut Vec<u8>) {
    if raw.len() <= SHORT_BYTES_MAX && level > 0 {
        return short(raw, out);
    }
    DEFLATE.with_borrow_mut(|kept| {
        let level = level.min(9);
        let at = kept.iter().position(|one| one.0 == level).unwrap_or_else(|| {
            kept.push((level, Compress::new(flate2::Compression::new(level), true)));
            kept.len() - 1
        });
        let state = &mut kept[at].1;
        state.reset();
        out.reserve(raw.len() / 2 + 64);
        loop {
            let rest = &raw[state.total_in() as usize..];
            let status = state.compress_vec(rest, out, FlushCompress::Finish).expect("a compressor after its reset");
            if status == Status::StreamEnd {
                break;
            }
            out.reserve(raw.len() / 4 + 64);
        }
    });
}

/// Appends a zlib stream of one block of literals in the fixed code: as short as any for a few bytes without repeats,
/// and made in no time, where a compressor would first have to clear its tables.
fn short(raw: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&STORED_HEADER);
    let (mut bits, mut count) = (0_u64, 0);
    // The last block, in the fixed code: 1, then 01, lowest bits first.
    let mut put = |code: u64, len: u32, out: &mut Vec<u8>| {
        bits |= code << count;
        count += len;
        while count >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            count -= 8;
        }
    };
    put(0b011, 3, out);
    for &byte in raw {
        // Codes go highest bit first: 8 bits from 0x30 up to byte 143, 9 bits from 0x190 for the others.
        match byte {
            0..=143 => put(u64::from((byte + 0x30).reverse_bits()), 8, out),
            _ => put(u64::from((byte - 144).wrapping_add(0x90).reverse_bits()) << 1 | 1, 9, out),
        }
    }
    // The end of the block is seven zero bits; seven more fill the last byte.
    put(0, 7, out);
    put(0, 7, out);
    out.extend_from_slice(&adler32(1, raw).to_be_bytes());
}
