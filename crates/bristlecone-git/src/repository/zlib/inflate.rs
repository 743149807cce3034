//! Reading zlib streams, whose claimed sizes are checked and not believed.

use std::cell::RefCell;

use flate2::{Decompress, FlushDecompress, Status};
use zlib_rs::adler32::adler32;

/// The largest object that is read, in bytes.
pub(crate) const OBJECT_BYTES_MAX: u64 = u32::MAX as u64;
/// What is said of a larger one, which Git may have made.
pub(crate) const TOO_LARGE: &str =
    "it says that it has 4 GiB or more; if that is so, it is not damaged, only too large to be read here";
/// The most memory that a claimed size alone makes a read reserve, in bytes.
pub(super) const STEP_BYTES: usize = 1 << 20;

thread_local! {
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(true));
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

/// Reads a zlib stream of stored blocks without an inflater. `None` if it is another kind of stream, damaged, or not
/// complete; `out` is unchanged then.
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
            break (whole && sum == Some(&adler32(1, &out[begin..]).to_be_bytes())).then_some(at + 4);
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
        return Err(TOO_LARGE.into());
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

/// Appends at most `bytes` bytes of what the zlib stream at the front of `input` holds, of which the end need not be
/// there.
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
    let valid = is_header(header) && head[0] & 0b110 == 0 && len == !complement;
    // A block that is not the last may go on in the next.
    let enough = usize::from(len) >= bytes || head[0] & 1 == 1;
    if valid && enough { block.get(..bytes.min(len.into())) } else { None }
}

/// Whether these bytes begin a zlib stream that needs no dictionary.
fn is_header(header: &[u8; 2]) -> bool {
    // 0x0f: deflate; 0x20: a dictionary is wanted.
    header[0] & 0x0f == 8 && header[1] & 0x20 == 0 && u16::from_be_bytes(*header).is_multiple_of(31)
}
