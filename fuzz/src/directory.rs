//! What every format promises of directories: questions about hostile ones have an answer or an error, and answers about sound
//! ones fit each other.

use std::collections::BTreeMap;

use bristlecone_core::{
    Change, ChangeTarget, Checked, Direction, EntryKind, Format, Kind, Mode, ObjRef, Oid, Path, Source, Target,
};

use crate::{
    input::Input,
    objects::{Decoded, Store, VALUE_BYTES, VALUE_ID, decode, id_of},
};

/// What a name is bound to, as two directories are compared.
type Bound = (EntryKind, Mode, Target<'static>);
type Model = BTreeMap<Vec<u8>, Bound>;

/// The names that questions are about, and that are changed.
const NAMES_MAX: usize = 24;
const NEW: &[u8] = b"new";

/// A name, and whether it is to be bound anew or removed.
struct Asked {
    name: Vec<u8>,
    removed: bool,
}

/// Reads names and pieces from an input, and asks everything of the last two pieces as directories.
///
/// `oid_bytes`: the length of ids. The input: the number of names in a byte; of each a byte, odd if it is to be removed, and a
/// short run; then the pieces. Returns whether the last piece is a directory that the format made, so that all laws were looked at.
pub(crate) fn directory<F: Format>(format: &F, oid_bytes: usize, input: &mut Input<'_>) -> bool {
    let asked = asked(input);
    let Decoded { mut store, ids, all_decode } = decode(format, oid_bytes, input, |_| Kind::Node);
    let Some(root) = ids.last().copied().map(ObjRef::from) else { return false };
    let other = ids[ids.len().saturating_sub(2)].into();
    let changes = changes(format, oid_bytes, &asked);
    ask(format, &mut store, [&root, &other], &asked, &changes);
    let [read, lent] = [false, true].map(|lends| looked_up(format, &mut store, lends, &root, &asked));
    if all_decode {
        assert!(read == lent, "what is read and what is lent differ: {read:?}, {lent:?}");
    }
    let sound = all_decode && is_sound(format, &mut store, &ids);
    if sound {
        laws(format, &mut store, &root, &asked, &changes);
    }
    sound
}

fn asked(input: &mut Input<'_>) -> Vec<Asked> {
    let mut asked = BTreeMap::new();
    for _ in 0..usize::from(input.byte()).min(NAMES_MAX) {
        let removed = input.byte() & 1 == 1;
        let name = input.short_run().to_vec();
        if Path::from_steps([&name[..]]).is_ok() {
            asked.insert(name, removed);
        }
    }
    asked.into_iter().map(|(name, removed)| Asked { name, removed }).collect()
}

fn changes<'a, F: Format>(format: &F, oid_bytes: usize, asked: &'a [Asked]) -> Vec<Change<'a>> {
    let object = || {
        let (at, bytes) = (id_of(VALUE_ID, oid_bytes).into(), VALUE_BYTES as u64);
        ChangeTarget::Object { at, bytes }
    };
    let target = || if format.inline_bytes_max() >= NEW.len() { ChangeTarget::Inline(NEW) } else { object() };
    let to = |asked: &Asked| (!asked.removed).then(|| (EntryKind::Value, target()));
    asked.iter().map(|asked| Change { step: &asked.name, mode: Mode::USUAL, to: to(asked) }).collect()
}

/// What lookups answer; nothing stands for an error.
type Answers = (Vec<Option<Option<(EntryKind, Target<'static>)>>>, Option<Option<ObjRef>>, Option<u64>);

/// Looks names up, and a path of all of them.
fn looked_up<F: Format>(format: &F, store: &mut Store, lends: bool, root: &ObjRef, asked: &[Asked]) -> Answers {
    store.begin(lends);
    let names: Vec<&[u8]> = asked.iter().map(|asked| &asked.name[..]).collect();
    let find = |name: &&[u8]| {
        format.find(store, root, name).ok().map(|found| found.map(|(kind, to)| (kind, to.into_static())))
    };
    let found = names.iter().map(find).collect();
    (found, format.descend(store, root, &names.join(&b'/')).ok(), format.count(store, root).ok())
}

/// Asks for everything of two directories; answers do not matter.
fn ask<F: Format>(format: &F, store: &mut Store, [root, other]: [&ObjRef; 2], asked: &[Asked], changes: &[Change<'_>]) {
    let names: Vec<&[u8]> = asked.iter().map(|asked| &asked.name[..]).collect();
    let (from, to) = (names.first().copied(), names.last().copied());
    for direction in [Direction::Forward, Direction::Reverse] {
        for (from, to) in [(None, None), (from, None), (from, to)] {
            store.begin(false);
            let _ = format.entries(store, root, from, to, direction).map(|walk| walk.take_while(Result::is_ok).count());
        }
    }
    for (before, after) in
        [(None, Some(root)), (Some(root), None), (Some(root), Some(other)), (Some(other), Some(root))]
    {
        store.begin(false);
        let _ = format.diff(store, before, after, None, to).map(|walk| walk.take_while(Result::is_ok).count());
    }
    for name in &names {
        store.begin(false);
        let _ = format.read_for_update(store, root, name, true);
    }
    store.begin(false);
    let mut new = Store::default();
    let _ = format.update(store, &mut new, Some(root), changes);
    store.begin(false);
    let _ = store.read(Kind::Node, root).and_then(|object| {
        format.check_structure(store, &object, true, &mut Checked::new())?;
        format.object_id(store, &object)
    });
}

/// Whether the last piece is a directory that the format made, with all of its pieces.
fn is_sound<F: Format>(format: &F, store: &mut Store, ids: &[Oid]) -> bool {
    store.begin(false);
    let (store, mut checked) = (&*store, Checked::new());
    let mut is_sound = |index: usize, oid: &Oid| {
        let object = store.read(Kind::Node, &(*oid).into())?;
        format.check_structure(store, &object, index + 1 == ids.len(), &mut checked)?;
        format.object_id(store, &object)
    };
    ids.iter().enumerate().all(|(index, oid)| is_sound(index, oid).is_ok_and(|own| own == *oid))
        && ids.last().is_some_and(|root| listed(format, store, &(*root).into(), Direction::Forward).is_some())
}

/// The entries of a directory in the order of a walk; `None` where it fails.
fn listed<F: Format>(format: &F, store: &Store, at: &ObjRef, direction: Direction) -> Option<Vec<(Vec<u8>, Bound)>> {
    let walk = format.entries(store, at, None, None, direction).ok()?;
    walk.map(|entry| {
        entry.ok().map(|entry| (entry.step.to_vec(), (entry.kind, entry.mode, entry.target.into_static())))
    })
    .collect()
}

/// What must hold of a directory that the format made.
fn laws<F: Format>(format: &F, store: &mut Store, root: &ObjRef, asked: &[Asked], changes: &[Change<'_>]) {
    store.begin(false);
    let entries = listed(format, store, root, Direction::Forward).expect("a sound directory is listed");
    assert!(entries.is_sorted_by(|one, other| one.0 < other.0), "entries are in order");
    let mut backward = listed(format, store, root, Direction::Reverse).expect("a sound directory is listed backward");
    backward.reverse();
    assert!(entries == backward, "both directions have the same entries");
    assert_eq!(format.count(store, root).ok(), Some(entries.len() as u64), "the count is right");
    let added = format.diff(store, None, Some(root), None, None).expect("a sound directory is compared");
    let added: Vec<Vec<u8>> =
        added.map(|pair| pair.ok().and_then(|pair| pair.1).expect("an entry").step.to_vec()).collect();
    assert!(entries.iter().map(|entry| &entry.0).eq(&added), "all entries are new beside nothing");
    let model: Model = entries.into_iter().collect();
    store.begin(false);
    for (name, (kind, _, target)) in &model {
        let found = format.find(store, root, name).ok().flatten();
        assert_eq!(found, Some((*kind, target.clone())), "what is listed is found");
    }
    for asked in asked {
        let found = format.find(store, root, &asked.name).expect("a sound directory is searched");
        assert_eq!(found.is_some(), model.contains_key(&asked.name), "what is found is listed");
    }
    // What the format would not take anew it cannot build again: Git's old names and modes.
    let Some(again) = build(format, &model) else { return };
    assert_eq!(again, (!model.is_empty()).then_some(root.oid), "one directory has one id");
    store.begin(false);
    let mut made = Store::default();
    let Ok(changed) = format.update(store, &mut made, Some(root), changes) else { return };
    let wanted = changed_model(&model, changes);
    if let Some(built) = build(format, &wanted) {
        let changed = changed.map(|at| at.oid).filter(|_| !wanted.is_empty());
        assert_eq!(changed, built, "an update makes what the entries alone make");
    }
}

/// What changes make of a directory.
fn changed_model(model: &Model, changes: &[Change<'_>]) -> Model {
    let mut model = model.clone();
    for change in changes {
        match change.to {
            None => drop(model.remove(change.step)),
            Some((kind, ChangeTarget::Inline(value))) => {
                let target = Target::Inline(value.to_vec().into());
                model.insert(change.step.to_vec(), (kind, change.mode, target));
            }
            Some((kind, ChangeTarget::Object { at, bytes })) => {
                model.insert(change.step.to_vec(), (kind, change.mode, Target::Object { at, bytes }));
            }
            Some((kind, ChangeTarget::Foreign(oid))) => {
                model.insert(change.step.to_vec(), (kind, change.mode, Target::Foreign(oid)));
            }
        }
    }
    model
}

/// The id of the directory with these entries, made of nothing; `None` within where there are no entries.
fn build<F: Format>(format: &F, model: &Model) -> Option<Option<Oid>> {
    let changes: Vec<Change<'_>> = model
        .iter()
        .map(|(name, (kind, mode, target))| {
            let target = match target {
                Target::Inline(value) => ChangeTarget::Inline(value),
                Target::Object { at, bytes } => ChangeTarget::Object { at: *at, bytes: *bytes },
                Target::Foreign(oid) => ChangeTarget::Foreign(*oid),
            };
            Change { step: name, mode: *mode, to: Some((*kind, target)) }
        })
        .collect();
    let made = format.update(&Store::default(), &mut Store::default(), None, &changes).ok()?;
    Some(made.map(|at| at.oid))
}
