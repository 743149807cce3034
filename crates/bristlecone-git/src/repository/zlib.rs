//! Deflate and inflate with state that is reused from object to object.
//!
//! Making a compressor costs more than compressing a small object, so each thread keeps its own. Streams of stored
//! blocks, which is how small objects are written here, are made and read without any.
//!
//! What is inflated claims its size first. The claim is checked: memory grows in steps with what really comes out, and
//! a stream that is longer or shorter than it said is damaged.

mod deflate;
mod inflate;

pub(crate) use deflate::{deflate, stored};
pub(crate) use inflate::{OBJECT_BYTES_MAX, TOO_LARGE, inflate, inflate_front, inflating};

#[cfg(test)]
mod tests {
    use flate2::{Decompress, FlushDecompress, Status};

    use super::{inflate::STEP_BYTES, *};

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
