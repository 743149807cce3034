//! Edits of directories, and reads of values, whose objects lie about what is below them.

use super::{
    super::{
        cursor::view,
        node::{EncodeItem, NodeChild, encode, write_inner_item},
    },
    *,
};
use crate::{ObjectWalk, Window, codec::write_varint};

/// An item of an inner piece.
struct InnerItem(Vec<u8>);

impl EncodeItem for InnerItem {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn fingerprint(&self) -> u8 {
        0
    }
}

/// Gives pieces to the objects; few changes are shared out.
struct FewShared<'o>(Put<'o>);

impl Sink for FewShared<'_> {
    fn put(&mut self, kind: Kind, oid: Oid, body: &[u8], children: &[Location], metadata: &[u64]) -> Location {
        self.0.put(kind, oid, body, children, metadata)
    }

    fn known(&self, _: &Oid) -> Option<Location> {
        None
    }

    fn shared_min(&self) -> usize {
        16
    }
}

#[test]
fn weights_that_lie_do_not_overflow() {
    let native = Native::new();
    let objects = Objects::default();
    let map: Map = (0..40_000u32).map(|n| (n.to_be_bytes().to_vec(), vec![1])).collect();
    let root = build(&objects, &native, &map).unwrap();
    let object = objects.read(Kind::Node, &root).unwrap();
    let node = view(&object).unwrap();
    assert!(node.level > 0 && node.len() > 3);
    let steps: Vec<[u8; 5]> =
        (0..40_000u32).step_by(200).map(|n| [&n.to_be_bytes()[..], &[0]].concat().try_into().unwrap()).collect();
    for lies in [0..1, 1..2, node.len() - 1..node.len(), 0..node.len()] {
        let child = |at: usize| {
            let NodeChild { step, oid, count, weight } = node.child(at).unwrap();
            let mut item = Vec::new();
            let weight = if lies.contains(&at) { u64::MAX } else { weight };
            write_inner_item(&mut item, &NodeChild { step, oid, count, weight });
            InnerItem(item)
        };
        let (items, mut body): (Vec<InnerItem>, _) = ((0..node.len()).map(child).collect(), Vec::new());
        let hostile = ObjRef::from(encode(&mut body, node.level, &items, native.group));
        objects.objects.write().unwrap().insert(hostile.oid, (Kind::Node, body));
        for count in [1, 2, steps.len()] {
            let changes: Vec<Change<'_>> = steps[steps.len() - count..]
                .iter()
                .map(|step| Change {
                    step,
                    mode: Mode::USUAL,
                    to: Some((EntryKind::Value, ChangeTarget::Inline(b"2"))),
                })
                .collect();
            // Whatever comes of it.
            let _ = native.update(&objects, &mut FewShared(Put(&objects, 0)), Some(&hostile), &changes);
            let removed: Vec<Change<'_>> =
                steps[..count].iter().map(|step| Change { step: &step[..4], mode: Mode::USUAL, to: None }).collect();
            let _ = native.update(&objects, &mut FewShared(Put(&objects, 0)), Some(&hostile), &removed);
        }
    }
}

/// A few pieces of which each names the next one twice have more entries than anybody could go through.
#[test]
fn walks_over_pieces_that_are_named_twice_end() {
    let (native, objects) = (Native::new(), Objects::default());
    let map: Map = [b"a", b"b"].into_iter().map(|step| (step.to_vec(), vec![1])).collect();
    for count in [2, 0] {
        let mut root = build(&objects, &native, &map).unwrap();
        for level in 1..=LEVELS {
            let count = if level == 1 { count } else { 1 << 50 };
            let item = |step: &[u8]| {
                let mut item = Vec::new();
                write_inner_item(&mut item, &NodeChild { step, oid: root.oid, count, weight: 2 });
                InnerItem(item)
            };
            let (items, mut body) = ([item(b"a"), item(b"b")], Vec::new());
            let above = encode(&mut body, level, &items, native.group);
            objects.objects.write().unwrap().insert(above, (Kind::Node, body));
            root = above.into();
        }
        for direction in [Direction::Forward, Direction::Reverse] {
            for skip in [0, 10] {
                let mut window = Window::new(&objects);
                let mut listing = Format::listing::<Objects>(&native, &root, None, None, direction);
                assert!(skip == 0 || ObjectWalk::<Objects>::skip_items(&mut listing, skip));
                let refused = (0..ENOUGH).find_map(|_| window.advance(&mut listing).err());
                assert!(
                    matches!(refused, Some(FormatError::Inconsistent { .. })),
                    "{direction:?}, {skip}: {refused:?}"
                );
            }
        }
        let mut differences = native.diff(&objects, None, Some(&root), None, None).unwrap().take(ENOUGH);
        assert!(differences.any(|pair| pair.is_err()));
        let mut cursor = EntryCursor::new(&objects, Some(root));
        assert!((0..ENOUGH).any(|_| cursor.next().is_err()));
        cursor.seek_end().unwrap();
        assert!((0..ENOUGH).any(|_| cursor.previous().is_err()));
        // An edit looks at the pieces behind that in which it falls, and at those before.
        for step in [&b"aa"[..], b"c"] {
            let to = Some((EntryKind::Value, ChangeTarget::Inline(b"2")));
            let change = Change { step, mode: Mode::USUAL, to };
            let refused = native.update(&objects, &mut Put(&objects, 0), Some(&root), &[change]);
            assert!(matches!(refused, Err(FormatError::Inconsistent { .. })), "{count}, {step:?}: {refused:?}");
        }
    }
}

/// How many levels there are of pieces that are named twice, and how many steps a walk over them may take.
const LEVELS: u8 = 30;
const ENOUGH: usize = 100;

/// Returns a value of pieces of one byte, in lists of lists.
fn value_of_tiny_pieces(objects: &Objects, bytes: usize) -> (ObjRef, Vec<u8>) {
    let put = |kind, body: Vec<u8>| {
        let oid = Native::new().object_id(&NoSource, &Object::from_body(kind, body[..].into())).unwrap();
        objects.objects.write().unwrap().insert(oid, (kind, body));
        oid
    };
    let value: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
    let mut pieces: Vec<(u64, Oid)> = value.iter().map(|&byte| (1, put(Kind::Contents, vec![byte]))).collect();
    let mut level = 0;
    while pieces.len() > 1 {
        pieces = pieces
            .chunks(512)
            .map(|pieces| {
                let mut body = vec![level];
                write_varint(&mut body, pieces.len() as u64);
                for (bytes, oid) in pieces {
                    write_varint(&mut body, *bytes);
                    body.extend_from_slice(oid.as_bytes());
                }
                (pieces.iter().map(|piece| piece.0).sum(), put(Kind::Pieces, body))
            })
            .collect();
        level += 1;
    }
    (pieces[0].1.into(), value)
}

#[test]
fn values_of_tiny_pieces_are_read_some_at_a_time() {
    let objects = Objects::default();
    let (root, value) = value_of_tiny_pieces(&objects, 20_000);
    for range in [0..20_000, 0..u64::MAX, 8191..16_385, 1..8193, 19_999..20_000, 20_000..20_001] {
        let found = contents::read(&objects, &root, range.clone()).unwrap();
        let end = range.end.min(20_000) as usize;
        assert_eq!(*found, value[range.start as usize..end], "{range:?}");
    }
}

#[test]
fn a_few_lists_that_tell_of_more_than_memory_has_are_refused_unread() {
    let objects = Objects::default();
    let put = |kind, body: Vec<u8>| {
        let oid = Native::new().object_id(&NoSource, &Object::from_body(kind, body[..].into())).unwrap();
        objects.objects.write().unwrap().insert(oid, (kind, body));
        oid
    };
    let (mut bytes, mut child) = (1 << 18, put(Kind::Contents, vec![7; 1 << 18]));
    for (level, count) in [(0, 512), (1, 34)] {
        let mut body = vec![level];
        write_varint(&mut body, count);
        for _ in 0..count {
            write_varint(&mut body, bytes);
            body.extend_from_slice(child.as_bytes());
        }
        (bytes, child) = (bytes * count, put(Kind::Pieces, body));
    }
    assert!(bytes > 1 << 32);
    for range in [0..u64::MAX, 1..bytes, 0..1 << 32] {
        let refused = contents::read(&objects, &child.into(), range);
        assert!(matches!(refused, Err(FormatError::Unsupported { .. })), "{refused:?}");
    }
    assert_eq!(*objects.reads.read().unwrap(), 3);
    assert_eq!(*contents::read(&objects, &child.into(), bytes - 9..u64::MAX).unwrap(), [7; 9]);
}
