//! Deltas made and applied, of versions and of noise, valid and hostile.

use super::*;

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

fn check(base: &[u8], target: &[u8], delta: &[u8]) {
    let mut out = b"kept".to_vec();
    apply(base, delta, &mut out).unwrap();
    assert!(out.strip_prefix(b"kept") == Some(target));
    assert_eq!(sizes(delta).unwrap().1, target.len() as u64);
}

#[test]
fn small_changes_make_small_deltas() {
    let mut rng = Rng(1);
    for len in [200, 5000, 31_000, 200_000] {
        let base = rng.bytes(len);
        let index = BaseIndex::new();
        for edits in [0, 1, 2, 10] {
            let mut target = base.clone();
            for _ in 0..edits {
                let at = rng.below(target.len());
                match rng.below(3) {
                    0 => target[at] ^= 1,
                    1 => drop(target.splice(at..at, [1, 2, 3, 4, 5])),
                    _ => drop(target.drain(at..(at + 30).min(len - 60).max(at))),
                }
            }
            // An edit in random bytes costs its bytes, a block at most around it, and two instructions.
            let bytes_max = 16 + len / 0x1_0000 * 8 + edits * 48;
            let delta = index.create(&base, &target, bytes_max).unwrap_or_else(|| panic!("{len} bytes, {edits} edits"));
            check(&base, &target, &delta);
        }
    }
}

#[test]
fn moved_and_repeated_parts_are_found() {
    let mut rng = Rng(2);
    let (one, two, three) = (rng.bytes(10_000), rng.bytes(10_000), rng.bytes(10_000));
    let base = [&one[..], &two, &three].concat();
    let target = [&three[..], &one, &one, b"new", &two].concat();
    let delta = create(&base, &target).unwrap();
    assert!(delta.len() < 150, "{}", delta.len());
    check(&base, &target, &delta);
}

#[test]
fn noise_has_no_delta() {
    let mut rng = Rng(3);
    for len in [0, 1, 50, 5000] {
        let (base, target) = (rng.bytes(len + 10), rng.bytes(len));
        assert_eq!(create(&base, &target), None);
    }
    assert_eq!(create(b"", &[0; 1000]), None);
}

#[test]
fn whatever_is_made_gives_the_target() {
    let mut rng = Rng(4);
    for _ in 0..3000 {
        // Few different bytes, so that there are matches of every length.
        let (len, letters) = (rng.below(400), 1 + rng.below(4));
        let base: Vec<u8> = (0..len).map(|_| rng.below(letters) as u8).collect();
        let len = rng.below(400);
        let mut target: Vec<u8> = (0..len).map(|_| rng.below(letters) as u8).collect();
        if !base.is_empty() && rng.below(2) == 0 {
            let at = rng.below(base.len());
            target.extend_from_slice(&base[at..]);
        }
        let bound = rng.below(500);
        if let Some(delta) = BaseIndex::new().create(&base, &target, bound) {
            assert!(delta.len() <= bound);
            check(&base, &target, &delta);
        }
        // Own bytes need one more for each 127; beyond that there always is one.
        let delta = BaseIndex::new().create(&base, &target, target.len() + 100).expect("a delta of own bytes");
        check(&base, &target, &delta);
    }
}

#[test]
fn equal_blocks_cost_no_more_time_than_others() {
    let (base, target) = (vec![0; 1 << 20], [vec![1], vec![0; 1 << 20], vec![2]].concat());
    let delta = create(&base, &target).unwrap();
    check(&base, &target, &delta);
    assert!(delta.len() < 200);
}

#[test]
fn hostile_deltas_are_refused() {
    let base = [7; 100];
    let good = [100, 103, 0x90, 100, 3, b'a', b'b', b'c'];
    check(&base, &[&base[..], b"abc"].concat(), &good);
    for cut in 0..good.len() {
        assert!(apply(&base, &good[..cut], &mut Vec::new()).is_err());
    }
    for bad in [
        &[101, 100, 0x90, 100][..],
        &[100, 99, 0x90, 100],
        &[100, 101, 0x90, 100],
        &[100, 101, 0x90, 101],
        &[100, 1, 0x91, 100, 1],
        &[100, 1, 0],
        &[100, 1, 0x80],
        &[100, 1, 2, 1],
        &[0xff; 40],
        &[100, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0x90, 100],
    ] {
        let mut out = Vec::new();
        assert!(apply(&base, bad, &mut out).is_err(), "{bad:?}");
        assert!(out.capacity() < 10_000);
    }
    let mut rng = Rng(5);
    for _ in 0..20_000 {
        let mut delta = good.to_vec();
        let at = rng.below(delta.len());
        delta[at] = rng.next() as u8;
        let mut out = Vec::new();
        if apply(&base, &delta, &mut out).is_ok() {
            assert_eq!(out.len() as u64, sizes(&delta).unwrap().1);
        }
    }
}
