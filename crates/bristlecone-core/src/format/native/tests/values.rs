//! Values of a list of changes that become objects of their own.

use alloc::{collections::BTreeMap, format, vec::Vec};

use super::{Asked, InOrder, Objects, Put, random};
use crate::{
    Change, ChangeTarget, EntryKind, Format, Kind, Location, Mode, ObjRef,
    format::native::{Native, contents, node::NodeView},
};

/// On both sides of every bound: within a directory, one block, one chunk of the hash, one object.
const LENGTHS: [usize; 8] = [0, 10, 64, 65, 100, 1024, 1025, 5000];

type Values = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

fn value(number: u64) -> Vec<u8> {
    let length = if number.is_multiple_of(331) { 300 << 10 } else { LENGTHS[number as usize % LENGTHS.len()] };
    (0..length as u64).map(|byte| (byte * 7 + number / 5) as u8).collect()
}

fn changes(values: &Values) -> Vec<Change<'_>> {
    let to = |value: &'_ Option<Vec<u8>>| value.is_some().then_some(EntryKind::Value);
    let put = |value| ChangeTarget::Inline(value);
    values
        .iter()
        .map(|(step, value)| Change { step, mode: Mode::USUAL, to: to(value).zip(value.as_deref().map(put)) })
        .collect()
}

/// Returns what a list becomes, and what the sink was given.
fn listed(
    objects: &Objects,
    native: &Native,
    base: Option<&ObjRef>,
    changes: &[Change<'_>],
    (shared_min, beside): (usize, bool),
) -> (Option<ObjRef>, InOrder) {
    let mut sink = InOrder::new(shared_min, beside);
    let root = native.update_list(objects, &mut sink, base, &Asked(changes)).unwrap();
    (root, sink)
}

/// Returns what values become that the sink was given before.
fn given(objects: &Objects, native: &Native, base: Option<&ObjRef>, changes: &[Change<'_>]) -> Option<ObjRef> {
    let mut sink = Put(objects, 0);
    let mut given = changes.to_vec();
    for change in &mut given {
        if let Some((_, target)) = &mut change.to
            && let ChangeTarget::Inline(value) = *target
            && value.len() > native.inline_bytes_max()
        {
            let at = contents::put(&mut Put(objects, 0), value);
            *target = ChangeTarget::Object { at, bytes: value.len() as u64 };
        }
    }
    native.update(objects, &mut sink, base, &given).unwrap()
}

/// Each child is where its directory says; returns how many were looked at.
fn check_places(native: &Native, sink: &InOrder) -> usize {
    let mut found = 0;
    for (_, body, children) in sink.objects.iter().filter(|(_, _, children)| !children.is_empty()) {
        let mut ids = Vec::new();
        if native.children(Kind::Node, body, &mut |_, oid| ids.push(oid)).is_err() {
            continue;
        }
        for (oid, at) in ids.iter().zip(children) {
            if let Some(place) = at.pending_offset() {
                assert_eq!(sink.objects[place as usize].0, *oid);
                found += 1;
            }
        }
    }
    found
}

#[test]
fn they_have_the_ids_and_places_that_they_have_when_they_are_given_before() {
    for native in [Native::new(), Native::new().inline(0), Native::new().split(false)] {
        let objects = Objects::default();
        let (mut base, mut state) = (None, 77);
        for round in 0..4_u64 {
            let mut values = Values::new();
            for _ in 0..700 {
                let number = random(&mut state) % 1500;
                let removed = round > 0 && random(&mut state).is_multiple_of(4);
                values.insert(format!("{number:05}").into_bytes(), (!removed).then(|| value(number * 5 + round)));
            }
            let changes = changes(&values);
            let wanted = given(&objects, &native, base.as_ref(), &changes);
            for shared_min in [2, 40, 300, usize::MAX] {
                let [alone, shared] = [false, true]
                    .map(|beside| listed(&objects, &native, base.as_ref(), &changes, (shared_min, beside)));
                assert_eq!(alone.0.map(|root| root.oid), wanted.map(|root| root.oid), "from {shared_min} on");
                assert_eq!(alone.0, shared.0);
                assert!(alone.1.objects == shared.1.objects, "other objects from {shared_min} on");
                assert!(check_places(&native, &alone.1) > 300);
            }
            base = wanted.map(|root| ObjRef::new(root.oid, Location::NONE));
        }
    }
}

#[test]
fn each_comes_right_before_the_piece_that_names_it() {
    let (objects, native) = (Objects::default(), Native::new());
    let values: Values = (0..900_u64)
        .map(|number| (format!("{number:05}").into_bytes(), Some(format!("{number:080}").into_bytes())))
        .collect();
    let (_, sink) = listed(&objects, &native, None, &changes(&values), (40, true));
    let (mut next, mut leaves) = (0, 0);
    for (at, (_, body, children)) in sink.objects.iter().enumerate() {
        if !children.is_empty() && NodeView::parse(body).is_ok_and(|node| node.level == 0) {
            let behind: Vec<Location> = (next..at as u64).map(Location::pending).collect();
            assert_eq!(children, &behind, "the object {at}");
            (next, leaves) = (at as u64 + 1, leaves + 1);
        }
    }
    assert!(leaves > 10, "{leaves} leaves");
}
