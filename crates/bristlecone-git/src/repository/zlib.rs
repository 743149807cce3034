//! Deflate and inflate with state that is reused from object to object.
//!
//! Making a compressor costs more than compressing a small object, so each thread keeps its own. Streams of stored
//! blocks, which is how small objects are written here, are made and read without any.
//!
//! What is inflated claims its size first. The claim is checked: memory grows in steps with what really comes out, and
//! a stream that is longer or shorter than it said is damaged.

use std::cell::RefCell;

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

/// The largest object that is read, in bytes.
pub(crate) const OBJECT_BYTES_MAX: u64 = u32::MAX as u64;
/// The largest stored block, in bytes: its length has 16 bits.
const BLOCK_BYTES_MAX: usize = 0xffff;
/// How much is made room for at once, on the word of a claimed size.
const STEP_BYTES: usize = 1 << 20;
/// Up to here no table of codes of its own is worth writing.
const SHORT_BYTES_MAX: usize = 64;
/// What a zlib stream of stored blocks begins with: deflate with a window of 32 KiB, fastest level.
const STORED_HEADER: [u8; 2] = [0x78, 0x01];

thread_local! {
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(true));
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
    out.extend_from_slice(&adler32(raw).to_be_bytes());
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
    out.extend_from_slice(&adler32(raw).to_be_bytes());
}

/// Appends the `size` bytes of the zlib stream that `input` begins with, and returns how long that stream is.
///
/// # Errors
/// What is wrong with it. `out` may then hold a part.
pub(crate) fn inflate(input: &[u8], size: u64, out: &mut Vec<u8>) -> Result<usize, &'static str> {
    if let Some(used) = inflate_stored(input, size, out) {
        return Ok(used);
    }
    inflating(size, out, |stream| match stream.push(input)? {
        Some(used) => Ok(used as usize),
        None => Err("the compressed bytes end too early"),
    })
}

/// Reads a zlib stream of stored blocks without an inflater. `None`: it is none, or damaged, or not all there; `out`
/// is as it was then.
fn inflate_stored(input: &[u8], size: u64, out: &mut Vec<u8>) -> Option<usize> {
    let header = input.first_chunk::<2>()?;
    if !is_header(header) {
        return None;
    }
    let begin = out.len();
    let mut at = 2;
    let done = loop {
        let Some(head) = input.get(at..at + 5) else { break None };
        let (len, complement) = (u16::from_le_bytes([head[1], head[2]]), u16::from_le_bytes([head[3], head[4]]));
        if head[0] & 0b110 != 0 || len != !complement {
            break None;
        }
        at += 5;
        let Some(block) = input.get(at..at + usize::from(len)) else { break None };
        if (out.len() - begin + block.len()) as u64 > size {
            break None;
        }
        if at == 7 {
            // What is claimed is taken on trust as far as bytes are here.
            out.reserve(input.len().min(size as usize));
        }
        out.extend_from_slice(block);
        at += block.len();
        if head[0] & 1 == 1 {
            let whole = (out.len() - begin) as u64 == size;
            let sum = input.get(at..at + 4);
            break (whole && sum == Some(&adler32(&out[begin..]).to_be_bytes())).then_some(at + 4);
        }
    };
    if done.is_none() {
        out.truncate(begin);
    }
    done
}

/// Runs `work` with this thread's inflater set to a new stream, of which `size` bytes will be appended to `out`.
///
/// # Errors
/// Those of `work`; a size above [`OBJECT_BYTES_MAX`].
pub(crate) fn inflating<R, E: From<&'static str>>(
    size: u64,
    out: &mut Vec<u8>,
    work: impl FnOnce(&mut Stream<'_>) -> Result<R, E>,
) -> Result<R, E> {
    if size > OBJECT_BYTES_MAX {
        return Err("it claims more than 4 GiB".into());
    }
    INFLATE.with_borrow_mut(|state| {
        state.reset(true);
        let begin = out.len();
        work(&mut Stream { state, begin, size: size as usize, out })
    })
}

/// A stream that is being inflated.
pub(crate) struct Stream<'a> {
    state: &'a mut Decompress,
    out: &'a mut Vec<u8>,
    begin: usize,
    size: usize,
}

impl Stream<'_> {
    /// Takes in the next bytes of the stream, and returns how long the stream is once it ended as it should: with all
    /// of its bytes and their checksum. What follows it in `input` is not looked at.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn push(&mut self, input: &[u8]) -> Result<Option<u64>, &'static str> {
        let before = self.state.total_in();
        loop {
            let made = self.out.len() - self.begin;
            if self.out.capacity() == self.out.len() {
                self.out.reserve_exact((self.size - made).min(STEP_BYTES.max(made)));
            }
            let (total_in, total_out) = (self.state.total_in(), self.state.total_out());
            let rest = &input[(total_in - before) as usize..];
            let status = self.state.decompress_vec(rest, self.out, FlushDecompress::None);
            let status = status.map_err(|_| "the compressed bytes are damaged")?;
            let made = self.out.len() - self.begin;
            if made > self.size {
                return Err("it is longer than it claims");
            }
            if status == Status::StreamEnd {
                return if made == self.size {
                    Ok(Some(self.state.total_in()))
                } else {
                    Err("it is shorter than it claims")
                };
            }
            if (self.state.total_in(), self.state.total_out()) == (total_in, total_out) {
                // No step forward: either all input is used up, or there is more output than there may be.
                let used_up = (total_in - before) as usize == input.len();
                return if used_up { Ok(None) } else { Err("it is longer than it claims") };
            }
        }
    }
}

/// Appends at most `bytes` bytes of what the zlib stream at the front of `input` holds, of which the end need not be there.
///
/// # Errors
/// If not even that can be read: the bytes are damaged.
pub(crate) fn inflate_front(input: &[u8], bytes: usize, out: &mut Vec<u8>) -> Result<(), &'static str> {
    if let Some(front) = stored_front(input, bytes) {
        out.extend_from_slice(front);
        return Ok(());
    }
    INFLATE.with_borrow_mut(|state| {
        state.reset(true);
        let begin = out.len();
        out.resize(begin + bytes, 0);
        let mut made = 0;
        let done = loop {
            let (total_in, total_out) = (state.total_in(), state.total_out());
            let rest = &input[total_in as usize..];
            let status = state.decompress(rest, &mut out[begin + made..], FlushDecompress::None);
            made = state.total_out() as usize;
            match status {
                Err(_) => break Err("the compressed bytes are damaged"),
                Ok(Status::StreamEnd) => break Ok(()),
                Ok(_) if made == bytes || (state.total_in(), state.total_out()) == (total_in, total_out) => {
                    break Ok(());
                }
                Ok(_) => {}
            }
        };
        out.truncate(begin + made);
        done
    })
}

/// Returns the first bytes of a stream whose first block is stored, if that is enough of them.
fn stored_front(input: &[u8], bytes: usize) -> Option<&[u8]> {
    let (header, rest) = input.split_first_chunk::<2>()?;
    let (head, block) = rest.split_first_chunk::<5>()?;
    let (len, complement) = (u16::from_le_bytes([head[1], head[2]]), u16::from_le_bytes([head[3], head[4]]));
    let sound = is_header(header) && head[0] & 0b110 == 0 && len == !complement;
    // A block that is not the last may go on in the next.
    let enough = usize::from(len) >= bytes || head[0] & 1 == 1;
    if sound && enough { block.get(..bytes.min(len.into())) } else { None }
}

/// Whether these bytes begin a zlib stream that needs no dictionary.
fn is_header(header: &[u8; 2]) -> bool {
    // 0x0f: deflate; 0x20: a dictionary is wanted.
    header[0] & 0x0f == 8 && header[1] & 0x20 == 0 && u16::from_be_bytes(*header).is_multiple_of(31)
}

/// The checksum that ends a zlib stream.
fn adler32(bytes: &[u8]) -> u32 {
    zlib_rs::adler32::adler32(1, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Vec<u8>> {
        let mut state = 1_u64;
        let mut noise = |len: usize| -> Vec<u8> {
            let step = |state: &mut u64| {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*state >> 56) as u8
            };
            (0..len).map(|_| step(&mut state)).collect()
        };
        let mut all: Vec<Vec<u8>> =
            [0, 1, 2, 3, 20, 63, 64, 65, 100, 65_534, 65_535, 65_536, 131_070, 200_001].map(&mut noise).to_vec();
        all.push((0..64).collect());
        all.push((0..64).map(|i| 255 - 3 * i).collect());
        all.push(b"again and ".repeat(1000));
        all.push(vec![0; 3_000_000]);
        all
    }

    #[test]
    fn what_was_deflated_or_stored_comes_back() {
        for raw in samples() {
            for level in [None, Some(0), Some(1), Some(6), Some(9)] {
                let mut stream = b"before".to_vec();
                match level {
                    None => stored(&raw, &mut stream),
                    Some(level) => deflate(&raw, level, &mut stream),
                }
                let length = stream.len() - 6;
                stream.extend_from_slice(b"after");
                let mut out = vec![7];
                assert_eq!(inflate(&stream[6..], raw.len() as u64, &mut out), Ok(length));
                assert_eq!(out[0], 7);
                assert!(out[1..] == raw);

                // The same in small bites.
                let mut out = Vec::new();
                let end = inflating::<_, &str>(raw.len() as u64, &mut out, |one| {
                    for bite in stream[6..6 + length].chunks(1 + length / 7) {
                        if let Some(end) = one.push(bite)? {
                            return Ok(end);
                        }
                    }
                    Err("no end")
                });
                assert_eq!(end, Ok(length as u64));
                assert!(out == raw);
            }
        }
    }

    #[test]
    fn a_stored_stream_is_one_to_others() {
        for raw in samples() {
            let mut stream = Vec::new();
            stored(&raw, &mut stream);
            let mut out = Vec::with_capacity(raw.len() + 1);
            let status = Decompress::new(true).decompress_vec(&stream, &mut out, FlushDecompress::Finish).unwrap();
            assert_eq!(status, Status::StreamEnd);
            assert!(out == raw);
        }
    }

    #[test]
    fn lies_and_damage_are_found() {
        for raw in samples() {
            for level in [None, Some(6)] {
                let mut stream = Vec::new();
                match level {
                    None => stored(&raw, &mut stream),
                    Some(level) => deflate(&raw, level, &mut stream),
                }
                let size = raw.len() as u64;
                for wrong in [size + 1, size.wrapping_sub(1), size * 2 + 7, OBJECT_BYTES_MAX, u64::MAX] {
                    let mut out = Vec::new();
                    assert!(inflate(&stream, wrong, &mut out).is_err());
                    assert!(out.capacity() <= 2 * raw.len() + 2 * STEP_BYTES, "{} for {size}", out.capacity());
                }
                for cut in [0, 1, 2, 5, stream.len() / 2, stream.len() - 1] {
                    assert!(inflate(&stream[..cut.min(stream.len() - 1)], size, &mut Vec::new()).is_err());
                }
                let last = stream.len() - 1;
                stream[last] ^= 1;
                assert!(inflate(&stream, size, &mut Vec::new()).is_err());
            }
        }
    }

    #[test]
    fn the_front_of_a_stream_is_enough() {
        for raw in samples() {
            for level in [None, Some(0), Some(6)] {
                let mut stream = Vec::new();
                match level {
                    None => stored(&raw, &mut stream),
                    Some(level) => deflate(&raw, level, &mut stream),
                }
                let mut out = Vec::new();
                inflate_front(&stream[..stream.len().min(600)], 20, &mut out).unwrap();
                assert_eq!(out, raw[..raw.len().min(20)]);
            }
        }
    }
}
