use std::{
    cell::{Cell, RefCell},
    path::Path,
    sync::Arc,
};

use bristlecone::{Batch, Durability, Kind, Object, Sink, SweepStatus, SweepStep, engine::FormatTag};

use super::{
    super::{LmdbOptions, append::CallerAppends, snapshot::LmdbSnapshot},
    *,
};

fn make(dir: &Path) -> Arc<OpenStore> {
    let format = FormatTag { name: "native".to_owned(), version: 1, options: String::new() };
    OpenStore::create(dir, format, &LmdbOptions::default().map_bytes(1 << 20)).unwrap()
}

fn oid(number: u16) -> Oid {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    Oid::from_array(bytes)
}

fn append(store: &OpenStore, oids: &[Oid]) {
    let mut batch = Batch::new();
    for oid in oids {
        batch.put(Kind::Contents, *oid, b"a value", &[], &[]);
    }
    let appends = CallerAppends { appends: vec![(batch, Vec::new())], durability: Durability::None };
    store.append(appends).remove(0).unwrap();
}

#[test]
fn the_map_can_grow_between_the_parts_in_which_objects_are_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let store = make(dir.path());
    append(&store, &[oid(2)]);
    assert!(store.young_objects(1).unwrap().is_empty(), "no snapshot is held");
    let snapshot = LmdbSnapshot::take(&store, &[]);
    [4, 1, 3].into_iter().for_each(|number| append(&store, &[oid(number)]));
    let (mut met, mut from) = (Vec::new(), Some(Vec::new()));
    while let Some(key) = from {
        from = store.each_append(&key, 1, &mut |oid, _| met.push(oid)).unwrap();
        store.grow(1 << 20).unwrap();
    }
    assert_eq!(met, [1, 2, 3, 4].map(oid));
    assert_eq!(store.young_objects(1).unwrap(), [1, 3, 4].map(oid));
    assert_eq!(store.young_objects(LOOK_BYTES).unwrap(), [1, 3, 4].map(oid));
    drop(snapshot);
}

#[test]
fn what_is_appended_beside_a_sweep_stays_with_all_below_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = make(dir.path());
    let live: Vec<Oid> = (1..=300).map(oid).collect();
    let [named, gone, new] = [1001, 1002, 1003].map(oid);
    append(&store, &live);
    append(&store, &[named, gone]);
    let told = Cell::new(false);
    let watch = |_: &SweepStatus| -> Result<()> {
        if !told.replace(true) {
            append(&store, &[new]);
        }
        Ok(())
    };
    let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| -> Result<()> {
        if *oid == new {
            each(named);
        }
        Ok(())
    };
    let swept = store.sweep(&Roots::new(&live, &children).watch(&watch), &SweepLimits::default()).unwrap();
    assert!(told.get());
    assert_eq!(swept.objects, 1);
    assert_eq!([named, gone, new].map(|oid| store.locate(&oid).is_some()), [true, false, true]);
    // Nothing leads to them: the next sweep drops them.
    let swept = store.sweep(&Roots::new(&live, &children), &SweepLimits::default()).unwrap();
    assert_eq!(swept.objects, 2);
}

#[test]
fn what_is_appended_during_the_last_round_beside_appends_stays() {
    let dir = tempfile::tempdir().unwrap();
    let store = make(dir.path());
    // A round marks so many, and as many come meanwhile.
    let many: u16 = 1280;
    assert!(usize::from(many) >= ROUND_OBJECTS, "another round follows");
    let batch = |number: u16| -> Vec<Oid> { (number * many..(number + 1) * many).map(oid).collect() };
    let live = batch(0);
    append(&store, &live);
    let rounds = Cell::new(0_u16);
    let watch = |status: &SweepStatus| -> Result<()> {
        if usize::from(rounds.get()) < ROUNDS_MAX && status.objects % u64::from(many) == 256 {
            rounds.set(rounds.get() + 1);
            append(&store, &batch(rounds.get()));
        }
        Ok(())
    };
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| -> Result<()> { Ok(()) };
    let swept = store.sweep(&Roots::new(&live, &children).watch(&watch), &SweepLimits::default()).unwrap();
    assert_eq!((usize::from(rounds.get()), swept.objects), (ROUNDS_MAX, 0));
}

#[test]
fn appends_go_on_while_a_sweep_chooses_what_goes_and_between_its_steps() {
    let dir = tempfile::tempdir().unwrap();
    let store = make(dir.path());
    let many = SweepList::STEP_OBJECTS as u16 + 100;
    let gone: Vec<Oid> = (1..=many).map(oid).collect();
    append(&store, &gone);
    let [beside, between] = [60_001, 60_002].map(oid);
    let (chooses, kept, told) = (Cell::new(false), Cell::new(None::<Oid>), RefCell::new(Vec::new()));
    let children = |of: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| -> Result<()> {
        // Nothing is live: the first that is looked at may go.
        if !chooses.replace(true) {
            append(&store, &[beside]);
        }
        if *of == beside {
            each(gone[0]);
        } else if *of == between {
            kept.get().into_iter().for_each(each);
        }
        Ok(())
    };
    let watch = |status: &SweepStatus| -> Result<()> {
        if status.step == SweepStep::Remove {
            if told.borrow().is_empty() {
                kept.set(gone[1..].iter().copied().find(|oid| store.locate(oid).is_some()));
                append(&store, &[between]);
            }
            told.borrow_mut().push(status.objects);
        }
        Ok(())
    };
    let swept = store.sweep(&Roots::new(&[], &children).watch(&watch), &SweepLimits::default()).unwrap();
    assert_eq!((swept.objects, swept.more), (u64::from(many) - 2, false));
    let told = told.into_inner();
    assert!(told.len() == 2 && told[0] < told[1] && told[1] == swept.objects, "{told:?}");
    for oid in [beside, between, gone[0], kept.get().expect("something is left for the second step")] {
        assert!(store.locate(&oid).is_some(), "{oid}");
    }
}

#[test]
fn who_watches_a_sweep_ends_it_between_two_steps() {
    let dir = tempfile::tempdir().unwrap();
    let store = make(dir.path());
    let many = SweepList::STEP_OBJECTS as u16 + 100;
    append(&store, &(1..=many).map(oid).collect::<Vec<Oid>>());
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| -> Result<()> { Ok(()) };
    let watch = |status: &SweepStatus| -> Result<()> {
        if status.step == SweepStep::Remove { Err(Error::Stopped) } else { Ok(()) }
    };
    let sweep = || store.sweep(&Roots::new(&[], &children).watch(&watch), &SweepLimits::default()).unwrap();
    let (first, second) = (sweep(), sweep());
    assert_eq!((first.objects, first.more), (SweepList::STEP_OBJECTS as u64, true));
    assert_eq!((second.objects, second.more), (100, false));
}

#[test]
fn what_a_refused_append_needs_stays_until_it_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = make(dir.path());
    let many = SweepList::STEP_OBJECTS as u16 + 100;
    let all: Vec<Oid> = (1..=many).map(oid).collect();
    append(&store, &all);
    let needed = Cell::new(None::<Oid>);
    let children = |_: &Oid, _: &Object<'_>, _: &mut dyn FnMut(Oid)| -> Result<()> { Ok(()) };
    let watch = |status: &SweepStatus| -> Result<()> {
        if status.step == SweepStep::Remove && needed.get().is_none() {
            let is_there = |oid: &Oid| store.locate(oid).is_some();
            let there = all.iter().copied().find(is_there).expect("something is left for the second step");
            let gone = all.iter().copied().find(|oid| !is_there(oid)).expect("the first step has removed something");
            needed.set(Some(there));
            let mut batch = Batch::since(0);
            [there, gone].into_iter().for_each(|oid| batch.leave_out(oid));
            let appends = CallerAppends { appends: vec![(batch, Vec::new())], durability: Durability::None };
            let refused = store.append(appends).remove(0);
            assert!(matches!(&refused, Err(Error::Gone { oids }) if *oids == [gone]), "{refused:?}");
        }
        Ok(())
    };
    let swept = store.sweep(&Roots::new(&[], &children).watch(&watch), &SweepLimits::default()).unwrap();
    assert_eq!((swept.objects, swept.more), (u64::from(many) - 1, false));
    assert!(store.locate(&needed.get().unwrap()).is_some());
}
