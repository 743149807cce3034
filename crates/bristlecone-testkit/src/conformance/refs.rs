//! Refs move by compare-and-set, several in one step, or not at all.

use std::collections::HashMap;

use bristlecone::{Backend, Batch, Durability, Error, Expected, RefMove, RefTarget};

use super::{Make, append_all, append_one, family, object, set};
use crate::sample::{Family, Sample};

/// A ref moves if and only if it holds what is expected, for every expectation and every state.
///
/// # Panics
/// If it is not so.
pub fn compare_and_set_moves_only_what_is_expected(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let targets: Vec<RefTarget> = (0..3).map(|n| object(append_one(&*backend, &family.contents(n, 20)).oid)).collect();
    let symbolic = |name: &str| RefTarget::Symbolic(family.ref_name(name));
    let main = &family.ref_name("main");
    let held = [None, Some(targets[0].clone()), Some(symbolic("other"))];
    let expectations = [
        Expected::Any,
        Expected::Absent,
        Expected::Is(targets[0].clone()),
        Expected::Is(targets[1].clone()),
        Expected::Is(symbolic("other")),
        Expected::Is(symbolic("another")),
    ];
    let wanted = [None, Some(targets[2].clone()), Some(symbolic("third"))];
    for before in &held {
        for expected in &expectations {
            for after in &wanted {
                force(&*backend, main, before.clone());
                let asked = RefMove { name: main.clone(), expected: expected.clone(), to: after.clone() };
                let allowed = asked.allows(before.as_ref());
                let moved = backend.append(Batch::new(), std::slice::from_ref(&asked), Durability::None);
                match moved {
                    Ok(_) => assert!(allowed, "{asked:?} on {before:?}"),
                    Err(Error::RefMoved { name, found }) => {
                        assert!(!allowed && name == *main && found == *before, "{asked:?} on {before:?}");
                    }
                    Err(error) => panic!("{asked:?} on {before:?}: {error}"),
                }
                assert_eq!(backend.get_ref(main).unwrap(), if allowed { after.clone() } else { before.clone() });
            }
        }
    }
}

fn force(backend: &dyn Backend, name: &str, to: Option<RefTarget>) {
    let wanted = RefMove { name: name.to_owned(), expected: Expected::Any, to };
    backend.append(Batch::new(), &[wanted], Durability::None).expect("a move from anything");
}

/// Several refs move in one step; if one is not as expected, none moves.
///
/// # Panics
/// If it is not so.
pub fn several_refs_move_together_or_not_at_all(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let (one, two) = (family.contents(1, 10), family.contents(2, 10));
    if !backend.capabilities().several_refs {
        let moves = ["a", "b"].map(|name| set(family.ref_name(name), Expected::Absent, object(one.oid)));
        let moved = append_all(&*backend, std::slice::from_ref(&one), &moves, Durability::None);
        assert!(matches!(moved, Err(Error::Usage { .. })), "{moved:?}");
        assert!(backend.list_refs("").unwrap().is_empty() && backend.read(&one.oid.into()).unwrap().is_none());
        return;
    }
    let moves = [set("a", Expected::Absent, object(one.oid)), set("b", Expected::Absent, object(two.oid))];
    append_all(&*backend, &[one.clone(), two.clone()], &moves, Durability::Synced).unwrap();
    assert_eq!(backend.get_ref("a").unwrap(), Some(object(one.oid)));
    assert_eq!(backend.get_ref("b").unwrap(), Some(object(two.oid)));
    let before = backend.list_refs("").unwrap();
    for wrong in 0..3 {
        let expected = |n: usize, right: Expected| {
            if n == wrong { Expected::Is(object(family.contents(9, 0).oid)) } else { right }
        };
        let moves = [
            set("a", expected(0, Expected::Is(object(one.oid))), object(two.oid)),
            set("c", expected(1, Expected::Absent), object(two.oid)),
            RefMove { name: "b".to_owned(), expected: expected(2, Expected::Any), to: None },
        ];
        let moved = append_all(&*backend, &[family.contents(10, 5)], &moves, Durability::None);
        assert!(matches!(moved, Err(Error::RefMoved { .. })), "{moved:?}");
        assert_eq!(backend.list_refs("").unwrap(), before);
    }
    let hundreds: Vec<RefMove> =
        (0..300).map(|n| set(format!("many/{n}"), Expected::Absent, object(one.oid))).collect();
    backend.append(Batch::new(), &hundreds, Durability::None).unwrap();
    assert_eq!(backend.list_refs("many/").unwrap().len(), 300);
}

/// A ref may hold the name of another; it is not followed.
///
/// # Panics
/// If it is not so.
pub fn symbolic_refs_name_other_refs(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let main = family.ref_name("main");
    let head = RefTarget::Symbolic(main.clone());
    backend.append(Batch::new(), &[set("HEAD", Expected::Absent, head.clone())], Durability::None).unwrap();
    assert_eq!(backend.get_ref("HEAD").unwrap(), Some(head.clone()));
    assert_eq!(backend.get_ref(&main).unwrap(), None);
    let sample = family.contents(1, 10);
    let moves = [set(main, Expected::Absent, object(sample.oid))];
    append_all(&*backend, &[sample], &moves, Durability::None).unwrap();
    assert_eq!(backend.get_ref("HEAD").unwrap(), Some(head));
}

/// A removed ref is gone, counts as absent, and can be made again.
///
/// # Panics
/// If it is not so.
pub fn removed_refs_are_gone(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let target = object(append_one(&*backend, &family.contents(1, 10)).oid);
    let x = family.ref_name("x");
    for durability in [Durability::None, Durability::Synced] {
        backend.append(Batch::new(), &[set(&x, Expected::Absent, target.clone())], durability).unwrap();
        let remove = RefMove { name: x.clone(), expected: Expected::Is(target.clone()), to: None };
        backend.append(Batch::new(), std::slice::from_ref(&remove), durability).unwrap();
        assert_eq!(backend.get_ref(&x).unwrap(), None);
        assert!(backend.list_refs("").unwrap().is_empty());
        assert!(backend.append(Batch::new(), &[remove], durability).is_err());
    }
    force(&*backend, &family.ref_name("never-was"), None);
}

/// Refs are listed in the order of their names, those of a prefix and no others.
///
/// # Panics
/// If it is not so.
pub fn refs_are_listed_by_prefix_in_order(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let target = object(append_one(&*backend, &family.contents(1, 10)).oid);
    let long = match family {
        Family::Plain => "l".repeat(RefMove::NAME_BYTES_MAX),
        Family::Git(_) => format!("refs/heads/{}", "l/".repeat(100) + &"l".repeat(250)),
    };
    let names = match family {
        Family::Plain => {
            ["heads/main", "heads/main2", "heads", "heads/a/b", "tags/é", "tags/1", "a b\n", "headsx", &long]
        }
        // Refs are files: none has a name that is a folder of another's.
        Family::Git(_) => [
            "refs/heads/main",
            "refs/heads/main2",
            "refs/x",
            "refs/heads/a/b",
            "refs/tags/é",
            "refs/tags/1",
            "HEAD",
            "refs/headsx",
            &long,
        ],
    };
    for name in names {
        backend.append(Batch::new(), &[set(name, Expected::Absent, target.clone())], Durability::None).unwrap();
    }
    let listed = |prefix: &str| backend.list_refs(prefix).unwrap().into_keys().collect::<Vec<_>>();
    let short = ["", "heads", "heads/", "heads/main", "tags/", "nothing", "l", "tags/é", "~", "re", "HEAD", "heads/a"];
    for prefix in short.into_iter().flat_map(|prefix| [prefix.to_owned(), format!("refs/{prefix}")]) {
        let mut wanted: Vec<&str> = names.into_iter().filter(|name| name.starts_with(&prefix)).collect();
        wanted.sort_unstable();
        assert_eq!(listed(&prefix), wanted, "prefix \"{prefix}\"");
    }
    for none in ["heads/", "refs/heads/", "refs/heads/a", "refs"] {
        assert_eq!(backend.get_ref(none).unwrap(), None);
    }
}

/// Where refs are files, a ref whose name is a folder of another's cannot be made as long as the other is there.
///
/// # Panics
/// If it is not so.
pub fn refs_in_the_way_of_others_are_told(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let Family::Git(_) = family else { return };
    let target = object(append_one(&*backend, &family.contents(1, 10)).oid);
    for (first, second) in [("a", "a/b"), ("c/d/e", "c"), ("c/d/e", "c/d"), ("f", "f/g/h/i")] {
        let (first, second) = (family.ref_name(first), family.ref_name(second));
        for durability in [Durability::None, Durability::Synced] {
            force(&*backend, &first, Some(target.clone()));
            let moved = backend.append(Batch::new(), &[set(&second, Expected::Absent, target.clone())], durability);
            assert!(matches!(&moved, Err(Error::RefClash { other, .. }) if *other == first), "{moved:?}");
            assert_eq!(backend.get_ref(&second).unwrap(), None);
            assert_eq!(backend.list_refs("").unwrap().into_keys().collect::<Vec<_>>(), std::slice::from_ref(&first));
            // Once it is gone there is room.
            force(&*backend, &first, None);
            backend.append(Batch::new(), &[set(&second, Expected::Absent, target.clone())], durability).unwrap();
            assert_eq!(backend.get_ref(&second).unwrap(), Some(target.clone()));
            force(&*backend, &second, None);
        }
    }
}

/// A name that no ref can have, and one given twice in a step, are refused with an error that says so; nothing moves.
///
/// # Panics
/// If it is not so.
pub fn bad_ref_names_are_refused(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let target = object(append_one(&*backend, &family.contents(1, 10)).oid);
    let long = "l".repeat(RefMove::NAME_BYTES_MAX + 1);
    let mut bad = vec!["", "a\0b", &long];
    if family != Family::Plain {
        bad.extend(["main", "refs/heads/a.lock", "refs/heads/a..b", "../refs/heads/a", "refs/heads/a b", "refs/"]);
    }
    for name in bad {
        let moved = backend.append(Batch::new(), &[set(name, Expected::Any, target.clone())], Durability::None);
        assert!(matches!(moved, Err(Error::RefName { .. })), "{moved:?}");
    }
    let x = family.ref_name("x");
    let twice = [set(&x, Expected::Any, target.clone()), set(&x, Expected::Any, target)];
    assert!(matches!(backend.append(Batch::new(), &twice, Durability::None), Err(Error::RefName { .. })));
    assert!(backend.list_refs("").unwrap().is_empty());
}

/// After a conflict the refs are as before, and so is what a walk over the objects meets.
///
/// # Panics
/// If it is not so.
pub fn a_conflict_adds_and_moves_nothing(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let main = &family.ref_name("main");
    let sample = family.contents(1, 10);
    let first = sample.oid;
    append_all(&*backend, &[sample], &[set(main, Expected::Absent, object(first))], Durability::Synced).unwrap();
    let before = backend.list_refs("").unwrap();
    for n in 2..20 {
        let lost = family.contents(n, 1000 * n as usize);
        let moves = [set(main, Expected::Absent, object(lost.oid))];
        let moved = append_all(&*backend, std::slice::from_ref(&lost), &moves, Durability::Synced);
        assert!(matches!(moved, Err(Error::RefMoved { .. })), "{moved:?}");
        assert!(backend.read(&lost.oid.into()).unwrap().is_none(), "a conflict added an object");
    }
    assert_eq!(backend.list_refs("").unwrap(), before);
    let mut met = Vec::new();
    backend
        .each_object(
            &mut |oid, _| {
                met.push(oid);
                Ok(())
            },
            &mut |damage| panic!("{damage:?}"),
        )
        .unwrap();
    assert_eq!(met, [first]);
}

/// Batches that are appended in one call have their answers in order, each moves its refs or nothing, and a later one meets
/// what an earlier one left.
///
/// # Panics
/// If it is not so.
pub fn batches_in_one_call_are_answered_each_on_its_own(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let (main, side) = (family.ref_name("main"), family.ref_name("side"));
    let samples: Vec<Sample> = (0..7).map(|n| family.contents(n, 100 + n as usize)).collect();
    let to = |n: usize| object(samples[n].oid);
    let remove = |expected| RefMove { name: main.clone(), expected, to: None };
    let moves = [
        Some(set(&main, Expected::Absent, to(0))),
        Some(set(&side, Expected::Is(to(0)), to(1))),
        Some(set(&main, Expected::Is(to(0)), to(2))),
        None,
        Some(remove(Expected::Is(to(2)))),
        Some(set(&main, Expected::Absent, to(5))),
        Some(set(&main, Expected::Absent, to(6))),
    ];
    for durability in [Durability::None, Durability::Synced] {
        let batches = samples.iter().zip(&moves).map(|(sample, wanted)| {
            let mut batch = Batch::new();
            sample.put(&mut batch, &HashMap::new());
            (batch, wanted.iter().cloned().collect())
        });
        let answers = backend.append_many(batches.collect(), durability);
        let done: Vec<bool> = answers.iter().map(Result::is_ok).collect();
        assert_eq!(done, [true, false, true, true, true, true, false], "{answers:?}");
        assert!(matches!(&answers[1], Err(Error::RefMoved { name, found: None }) if *name == side));
        assert!(matches!(&answers[6], Err(Error::RefMoved { name, found }) if *name == main && *found == Some(to(5))));
        assert_eq!(backend.get_ref(&main).unwrap(), Some(to(5)));
        for (n, sample) in samples.iter().enumerate() {
            assert_eq!(backend.read(&sample.oid.into()).unwrap().is_some(), done[n], "object {n}");
        }
        assert!(backend.append_many(Vec::new(), durability).is_empty());
        force(&*backend, &main, None);
    }
}

/// Names of refs are bytes of UTF-8: those that a path, a pattern or a table would take for its own are names like others.
///
/// # Panics
/// If it is not so.
pub fn odd_ref_names_are_kept_apart(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let mut names: Vec<String> = [
        "é",
        "e\u{301}",
        "ß",
        "\u{10ffff}",
        "%41",
        "A",
        "a",
        "+x",
        "-x",
        "x=y",
        "x,y",
        "con",
        "nul.txt",
        "a%2fb",
        "a.b",
    ]
    .map(|name| family.ref_name(name))
    .into();
    if family == Family::Plain {
        let odd = [
            ".", "..", "../x", "/", "//", "/x", "x/", "a//b", "*", "a\\b", "a:b", "\u{1}", "\u{7f}", " ", "\n", "HEAD",
            "refs",
        ];
        names.extend(odd.map(str::to_owned));
        names.extend((1..40).map(|n| "long".repeat(n * 6)));
        names.push("\u{10ffff}".repeat(RefMove::NAME_BYTES_MAX / 4));
    }
    let targets: Vec<RefTarget> =
        (0..names.len()).map(|n| object(append_one(&*backend, &family.contents(n as u64, 20)).oid)).collect();
    for (name, target) in names.iter().zip(&targets) {
        backend.append(Batch::new(), &[set(name, Expected::Absent, target.clone())], Durability::None).unwrap();
    }
    for (name, target) in names.iter().zip(&targets) {
        assert_eq!(backend.get_ref(name).unwrap().as_ref(), Some(target), "{name:?}");
    }
    assert!(backend.list_refs("").unwrap().keys().eq(names.iter().collect::<std::collections::BTreeSet<_>>()));
    for name in &names {
        assert!(backend.list_refs(name).unwrap().keys().all(|found| found.starts_with(name)), "{name:?}");
        force(&*backend, name, None);
        assert_eq!(backend.get_ref(name).unwrap(), None);
    }
    assert!(backend.list_refs("").unwrap().is_empty());
}

/// An append without moves leaves the refs as they are.
///
/// # Panics
/// If it is not so.
pub fn unmoved_appends_leave_refs_alone(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let sample = family.contents(1, 10);
    let to = object(sample.oid);
    append_all(&*backend, &[sample], &[set(family.ref_name("main"), Expected::Any, to)], Durability::None).unwrap();
    let before = backend.list_refs("").unwrap();
    for n in 2..50 {
        append_one(&*backend, &family.contents(n, 100));
    }
    assert_eq!(backend.list_refs("").unwrap(), before);
}

/// A flush changes nothing that can be read, however often.
///
/// # Panics
/// If it is not so.
pub fn flushing_keeps_everything(make: Make<'_>) {
    let backend = make();
    let family = family(&*backend);
    let main = &family.ref_name("main");
    backend.flush().unwrap();
    for n in 0..10 {
        let sample = family.contents(n, 300);
        let to = object(sample.oid);
        let moves = [set(main, Expected::Any, to.clone())];
        append_all(&*backend, std::slice::from_ref(&sample), &moves, Durability::Grouped).unwrap();
        backend.flush().unwrap();
        backend.flush().unwrap();
        sample.expect(&*backend, bristlecone_core::Location::NONE).unwrap();
        assert_eq!(backend.get_ref(main).unwrap(), Some(to));
    }
}
