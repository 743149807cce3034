use super::*;

fn oid(number: u8) -> Oid {
    Algorithm::Sha1.digest(&[&[number]])
}

fn sample(version: u32) -> Index {
    let mut index = Index { version, ..Index::empty(Algorithm::Sha1) };
    let stat = IndexStat { ctime: (1, 2), mtime: (3, 4), device: 5, inode: 6, user: 7, group: 8, bytes: 9 };
    let paths: [&[u8]; 6] = [b"a", b"a/b", b"a/bc", b"b\xff\n", &[b'c'; 4095], b"d"];
    let changes: Vec<_> = paths.iter().map(|path| (*path, Some((stat, 0o100_644, oid(path.len() as u8))))).collect();
    index.change(&changes);
    index.entries[2].extended = SKIP_WORKTREE;
    index.entries[3].flags = 0x8000;
    index.resolved = Some(b"resolved".to_vec());
    index
}

fn listed(index: &Index) -> Vec<(Vec<u8>, IndexStat, u32, Oid, u16, u16)> {
    let one = |entry: &IndexEntry| {
        let flags = entry.flags & (0x8000 | STAGE);
        (index.path(entry).to_vec(), entry.stat, entry.mode, entry.oid, flags, entry.extended)
    };
    index.entries.iter().map(one).collect()
}

#[test]
fn indexes_come_back_in_every_version() {
    for (version, written) in [(2, 3), (3, 3), (4, 4)] {
        let index = sample(version);
        let bytes = index.encode();
        assert_eq!(bytes[7], written);
        let back = Index::decode(Algorithm::Sha1, &bytes).unwrap();
        assert_eq!(listed(&back), listed(&index));
        assert_eq!((back.resolved.as_deref(), back.encode()), (Some(&b"resolved"[..]), bytes));
    }
}

#[test]
fn entries_are_found_changed_and_removed() {
    let mut index = sample(2);
    assert_eq!(index.get(b"a/b").unwrap().oid, oid(3));
    assert!(index.get(b"a/").is_none());
    assert_eq!(index.below(b"a").count(), 2);
    assert_eq!(index.below(b"d").count(), 0);
    let new = Some((IndexStat::default(), 0o120_000, oid(0)));
    index.change(&[(b"A", new), (b"a/b", None), (b"d", new), (b"e", new), (b"f", None)]);
    let paths: Vec<_> = index.entries.iter().map(|entry| index.path(entry)[0]).collect();
    assert_eq!(paths, b"AaabcdeXX"[..7]);
    assert_eq!((index.get(b"d").unwrap().kind(), index.get(b"d").unwrap().oid), (EntryKind::Link, oid(0)));
    index.doubt(|_, path| path == b"a");
    assert_eq!((index.get(b"a").unwrap().stat.bytes, index.get(b"a/bc").unwrap().stat.bytes), (0, 9));
}

#[test]
fn damage_is_an_error_wherever_it_is() {
    for version in [2, 4] {
        let bytes = sample(version).encode();
        for end in 0..bytes.len() {
            assert!(Index::decode(Algorithm::Sha1, &bytes[..end]).is_err(), "{end}");
        }
        // Behind the check of the hash: every byte of it flipped, with a hash that fits.
        for at in 0..bytes.len() - 20 {
            for bit in [1, 0x80] {
                let mut damaged = bytes[..bytes.len() - 20].to_vec();
                damaged[at] ^= bit;
                let hash = Algorithm::Sha1.digest(&[&damaged]);
                damaged.extend_from_slice(hash.as_bytes());
                if let Ok(index) = Index::decode(Algorithm::Sha1, &damaged) {
                    let _ = index.encode();
                }
            }
        }
    }
}

#[test]
fn what_must_not_be_left_out_is_refused() {
    let with = |name: &[u8; 4]| {
        let mut bytes = sample(2).encode();
        bytes.truncate(bytes.len() - 20);
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(&[0, 0, 0, 1, 7]);
        let hash = Algorithm::Sha1.digest(&[&bytes]);
        bytes.extend_from_slice(hash.as_bytes());
        Index::decode(Algorithm::Sha1, &bytes)
    };
    for name in [b"TREE", b"UNTR", b"FSMN", b"EOIE", b"XYZW"] {
        assert!(with(name).is_ok());
    }
    for name in [b"link", b"sdir", b"what"] {
        assert!(matches!(with(name), Err(IndexError::Unsupported(_))));
    }
}

#[test]
fn short_input_does_not_fill_the_memory() {
    let entries = |count: u8| {
        let mut bytes = b"DIRC\0\0\0\x04\0\0\0".to_vec();
        bytes.push(count);
        for number in 1..=count {
            bytes.extend_from_slice(&[0; 40]);
            bytes.extend_from_slice(oid(0).as_bytes());
            // Of each path but the first all but the last byte is that of the one before.
            bytes.extend_from_slice(&[0, 0, u8::from(number > 1)]);
            bytes.extend_from_slice(if number == 1 { &[b'a'; 4000] } else { b"" });
            bytes.extend_from_slice(&[number, 0]);
        }
        let hash = Algorithm::Sha1.digest(&[&bytes]);
        bytes.extend_from_slice(hash.as_bytes());
        Index::decode(Algorithm::Sha1, &bytes)
    };
    assert_eq!(entries(10).unwrap().entries.len(), 10);
    assert!(matches!(entries(100), Err(IndexError::Damaged(_, "its paths are longer than any real ones"))));
}
