//! Many refs: in tables from some number on, whatever the order of moves, openings, kills and other handles.

use super::*;

/// Random numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Returns the files of tables in a store.
fn table_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(dir.join("segments")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files.filter(|path| path.extension().is_some_and(|ext| ext == "refs")).collect();
    found.sort();
    found
}

fn name(number: u64) -> String {
    format!("heads/{:02}/branch-{number}", number % 37)
}

fn listed(backend: &DiskBackend, prefix: &str) -> Vec<(String, Oid)> {
    let oid = |target| match target {
        RefTarget::Object(at) => at.oid,
        RefTarget::Symbolic(_) => panic!("no such ref was made"),
    };
    backend.list_refs(prefix).unwrap().into_iter().map(|(name, target)| (name, oid(target))).collect()
}

fn assert_same(backend: &DiskBackend, model: &BTreeMap<String, u64>, numbers: &mut Numbers) {
    for prefix in ["", "heads/", "heads/07/", "heads/36/branch-1", "heads/4", "i"] {
        let expected = model.iter().filter(|(name, _)| name.starts_with(prefix));
        let expected: Vec<_> = expected.map(|(name, target)| (name.clone(), oid(*target))).collect();
        assert_eq!(listed(backend, prefix), expected, "below {prefix:?}");
    }
    for _ in 0..50 {
        let name = name(numbers.below(1200));
        let found = backend.get_ref(&name).unwrap().map(|target| matches!(target, RefTarget::Object(_)));
        assert_eq!(found, model.contains_key(&name).then_some(true), "{name}");
        assert_eq!(holds(backend, &name).map(|at| at.oid), model.get(&name).map(|target| oid(*target)), "{name}");
    }
}

#[test]
fn random_moves_of_many_refs_agree_with_a_model() {
    let dir = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(11);
    let mut model: BTreeMap<String, u64> = BTreeMap::new();
    let mut handles = vec![create(dir.path(), small()), open(dir.path(), small())];
    let mut tables_max = 0;
    for step in 0..1500_u64 {
        let handle = &handles[numbers.below(2) as usize];
        let mut moves = BTreeMap::new();
        for _ in 0..=numbers.below(if step % 100 == 0 { 200 } else { 4 }) {
            let name = name(numbers.below(1000));
            let before = model.get(&name).map(|target| RefTarget::Object(ObjRef::new(oid(*target), Location::NONE)));
            let to = (numbers.below(5) > 0).then_some(step);
            let target = to.map(|to| RefTarget::Object(ObjRef::new(oid(to), Location::pending(0))));
            let expected =
                if numbers.below(2) == 0 { Expected::Any } else { before.map_or(Expected::Absent, Expected::Is) };
            moves.insert(name.clone(), (to, RefMove { name, expected, to: target }));
        }
        let wanted: Vec<_> = moves.values().map(|(_, wanted)| wanted.clone()).collect();
        handle.append(batch(step..step + 1, 40), &wanted, Durability::None).unwrap();
        for (name, (to, _)) in moves {
            match to {
                Some(to) => model.insert(name, to),
                None => model.remove(&name),
            };
        }
        match numbers.below(60) {
            0 => handles.iter().for_each(|handle| assert_same(handle, &model, &mut numbers)),
            1 => {
                handles.swap(0, 1);
                kill(handles.pop().unwrap());
                handles.push(open(dir.path(), small()));
            }
            2 => {
                handles.remove(0).close().unwrap();
                handles.push(open(dir.path(), small()));
            }
            _ => {}
        }
        tables_max = tables_max.max(handles[0].shared.published.refs().head_tables());
    }
    handles.iter().for_each(|handle| assert_same(handle, &model, &mut numbers));
    assert!((2..=6).contains(&tables_max), "{tables_max} tables at a time");
    assert_eq!(handles[0].check(&mut |damage| panic!("{damage:?}")).unwrap().damages, 0);
    let stale = to(&name(1), 0, Expected::Is(RefTarget::Object(ObjRef::new(oid(999_999), Location::NONE))));
    let refused = handles[0].append(Batch::new(), &[stale], Durability::None);
    assert!(matches!(&refused, Err(Error::RefMoved { found, .. }) if found.is_some() == model.contains_key(&name(1))));
    drop(handles);
    let reader = DiskBackend::open(storage(dir.path()), None, small(), true).unwrap();
    assert_same(&reader, &model, &mut numbers);
}

/// Makes a store of 600 refs, most of them in tables, and returns how many tables there are.
fn many(dir: &Path) -> usize {
    let backend = create(dir, small());
    for number in 0..600 {
        backend
            .append(batch(number..number + 1, 8), &[to(&name(number), number, Expected::Absent)], Durability::None)
            .unwrap();
    }
    backend.close().unwrap();
    let head = backend.shared.published.refs().head_tables();
    assert!(head > 0);
    head
}

#[test]
fn every_flip_in_a_table_is_told_and_shows_no_wrong_ref() {
    let dir = tempfile::tempdir().unwrap();
    many(dir.path());
    let expected = listed(&open(dir.path(), small()), "");
    assert_eq!(expected.len(), 600);
    let (mut told, mut harmless) = (0, 0);
    for path in table_files(dir.path()) {
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(bristlecone_testkit::crash::step(301, 151) as usize).chain(0..56) {
            let mut flipped = whole.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(&path, &flipped).unwrap();
            let opened = DiskBackend::open(storage(dir.path()), None, small(), true);
            let is_right = |error: &Error| matches!(error, Error::Corrupt { file, .. } if file.ends_with(".refs"));
            let mut damages = Vec::new();
            match opened {
                Err(error) => assert!(is_right(&error), "byte {at}: {error:?}"),
                Ok(backend) => {
                    match backend.list_refs("") {
                        Ok(refs) => assert_eq!(refs.len(), 600, "byte {at} of {}", path.display()),
                        Err(error) => assert!(is_right(&error), "byte {at}: {error:?}"),
                    }
                    for (name, oid) in expected.iter().step_by(41) {
                        match backend.get_ref(name) {
                            Ok(Some(RefTarget::Object(found))) => assert_eq!(found.oid, *oid, "byte {at}: {name}"),
                            Err(error) => assert!(is_right(&error), "byte {at}: {error:?}"),
                            other => panic!("byte {at}: {name}: {other:?}"),
                        }
                    }
                    backend.check(&mut |damage| damages.push(damage)).unwrap();
                    assert!(damages.iter().any(|damage| damage.file.ends_with(".refs")), "byte {at}: {damages:?}");
                }
            }
            told += 1;
        }
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        harmless += usize::from(DiskBackend::open(storage(dir.path()), None, small(), true).is_ok());
        std::fs::write(&path, &whole).unwrap();
    }
    // Tables that only earlier segments name are read by collections alone.
    assert!(told > 200 && harmless < table_files(dir.path()).len(), "{told} flips, {harmless} cut tables");
    assert_eq!(listed(&open(dir.path(), small()), ""), expected);
}

#[test]
fn a_store_closed_after_many_moves_opens_by_a_table() {
    let dir = tempfile::tempdir().unwrap();
    let backend = create(dir.path(), DiskOptions::default().background(false));
    let moves: Vec<_> = (0..20_000).map(|number| to(&name(number), 0, Expected::Absent)).collect();
    backend.append(batch(0..1, 8), &moves, Durability::None).unwrap();
    assert_eq!(table_files(dir.path()).len(), 0);
    backend.close().unwrap();
    assert_eq!(table_files(dir.path()).len(), 1);
    drop(backend);
    let backend = open(dir.path(), DiskOptions::default().background(false));
    assert_eq!((backend.shared.published.refs().head_tables(), listed(&backend, "").len()), (1, 20_000));
    let twice: Vec<_> = [&moves[7], &moves[7]].map(|wanted| to(&wanted.name, 0, Expected::Any)).into();
    let refused = backend.append(Batch::new(), &twice, Durability::None);
    assert!(matches!(&refused, Err(Error::RefName { name }) if *name == moves[7].name), "{refused:?}");
}

#[test]
fn refs_go_on_without_a_table_that_is_gone_but_no_head_is_made_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let (one, other) = (create(dir.path(), small()), open(dir.path(), small()));
    for number in 0..600 {
        let wanted = to(&name(number), number, Expected::Absent);
        other.append(batch(number..number + 1, 8), &[wanted], Durability::None).unwrap();
    }
    assert!(other.shared.published.refs().head_tables() > 0);
    let expected = listed(&other, "");
    for file in table_files(dir.path()) {
        std::fs::rename(&file, file.with_extension("gone")).unwrap();
    }
    assert_eq!(listed(&one, ""), expected);
    let refused = (600..2000).find_map(|number| {
        let wanted = to(&name(number), number, Expected::Absent);
        one.append(batch(number..number + 1, 300), &[wanted], Durability::None).err()
    });
    assert!(matches!(&refused, Some(Error::Corrupt { .. })), "{refused:?}");
    for file in std::fs::read_dir(dir.path().join("segments")).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|ext| ext == "gone") {
            std::fs::rename(&file, file.with_extension("refs")).unwrap();
        }
    }
    drop((one, other));
    let refs = listed(&open(dir.path(), small()), "");
    assert!(refs.len() >= 600 && expected.iter().all(|row| refs.contains(row)), "{} refs", refs.len());
}
