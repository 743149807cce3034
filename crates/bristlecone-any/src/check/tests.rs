use std::{fs, num::NonZero, sync::Arc, time::Duration};

use bristlecone::{Backend, Batch, DiskOptions, Durability, Info, MemoryBackend, Native, Repo};
use bristlecone_testkit::slow::Slow;

use super::*;

/// What many objects name is looked at many a call, and each answer is that of a look at one.
#[test]
fn references_are_looked_at_many_a_call() {
    let memory = Arc::new(MemoryBackend::new());
    let slow = Slow::new(memory.clone(), Duration::ZERO);
    let format = Native::new();
    let mut batch = Batch::new();
    let values: Vec<ObjRef> =
        (0..1000_u32).map(|n| format.put_contents(&mut batch, &n.to_le_bytes()).unwrap().oid.into()).collect();
    memory.append(batch, &[], Durability::None).unwrap();
    let root = Repo::with_backend(format, memory).tree().write().unwrap();
    let nowhere = ObjRef::from(Oid::from_array([9; 32]));
    slow.break_object(values[500].oid);
    slow.break_object(values[999].oid);

    let snapshot = slow.snapshot(&[]);
    let mut named = References { snapshot, waiting: Vec::new(), wrong: Vec::new() };
    slow.take_reads();
    for (n, at) in values.iter().enumerate() {
        named.add(root.oid(), if n == 10 { Kind::Node } else { Kind::Contents }, *at);
        if n == 300 {
            named.add(root.oid(), Kind::Commit, nowhere);
        }
    }
    named.look();
    let reads = slow.take_reads();
    assert!(reads.calls <= 8, "{reads:?}");
    let wrong: Vec<String> = named.wrong.into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    assert!(wrong[0].ends_with("as a node object, which is a contents object"), "{}", wrong[0]);
    assert!(wrong[1].contains("commit object 0909") && wrong[1].ends_with("which is missing"));
    assert!(wrong[2].contains(&values[500].oid.to_string()) && wrong[2].ends_with("which is damaged"));
    assert!(wrong[3].contains(&values[999].oid.to_string()) && wrong[3].ends_with("which is damaged"));
}

/// A store of many segments, sound and damaged at many places, has the same report on any number of threads.
#[test]
fn a_report_is_the_same_on_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions::default().segment_bytes(16 << 10).background(false);
    let repo = Repo::create(dir.path(), Native::new(), options).unwrap();
    let (branch, info) = (repo.branch("main").unwrap(), Info::unsigned("m"));
    let mut tree = repo.tree();
    for n in 0..60 {
        for entry in 0..40 {
            let value = format!("{n} {entry} ").repeat(entry % 30);
            tree.set(format!("{}/{}", entry % 7, n * entry), value.as_str()).unwrap();
        }
        branch.commit(&mut tree, &info).unwrap();
    }
    drop((tree, branch, repo));
    let report = |threads: usize| {
        let repo = AnyRepo::open(dir.path().to_str().unwrap()).unwrap();
        let mut told = Vec::new();
        let mut tell = |objects, bytes| told.push((objects, bytes));
        let report = check_with(&repo, NonZero::new(threads).unwrap(), &mut tell).unwrap();
        (format!("{report:?}"), report, told)
    };
    let (text, sound, told) = report(1);
    assert!(sound.findings.is_empty() && sound.engine.segments > 20, "{text}");
    assert_eq!(told.last().unwrap().0, sound.objects);
    assert_eq!((report(2).0, report(5).0), (text.clone(), text));

    let mut files: Vec<_> =
        fs::read_dir(dir.path().join("segments")).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "seg"));
    files.sort();
    for (index, file) in files.iter().enumerate().skip(1).step_by(3) {
        let mut bytes = fs::read(file).unwrap();
        let at = bytes.len() / 2 - index * 97;
        bytes[at] ^= 0x10;
        fs::write(file, bytes).unwrap();
    }
    fs::remove_file(&files[6]).unwrap();
    let (text, damaged, _) = report(1);
    assert!(damaged.findings.len() > 6 && !damaged.affected.is_empty(), "{text}");
    assert!(damaged.findings.iter().any(|finding| finding.reason.contains("missing")), "{text}");
    for threads in [2, 3, 8] {
        assert_eq!(report(threads).0, text);
    }
}

/// Refs that cannot be listed are one damage. What else is damaged is named all the same.
#[test]
fn a_damaged_table_of_refs_ends_no_check() {
    let dir = tempfile::tempdir().unwrap();
    let options = DiskOptions::default().segment_bytes(16 << 10).background(false);
    let repo = Repo::create(dir.path(), Native::new(), options).unwrap();
    let (branch, mut tree) = (repo.branch("main").unwrap(), repo.tree());
    tree.set("a", "a value that decays ".repeat(20).as_str()).unwrap();
    let head = branch.commit(&mut tree, &Info::unsigned("m")).unwrap();
    for n in 0..400 {
        let branch = repo.branch(&format!("branch-{n}")).unwrap();
        branch.compare_and_set(None, Some(head), Durability::None).unwrap();
    }
    drop((tree, branch, repo));
    let mut tables = 0;
    for file in fs::read_dir(dir.path().join("segments")).unwrap().map(|file| file.unwrap().path()) {
        let mut bytes = fs::read(&file).unwrap();
        if file.extension().is_some_and(|extension| extension == "refs") {
            // In the first block of refs.
            bytes[60] ^= 1;
            tables += 1;
        } else if let Some(at) = bytes.windows(20).position(|window| window == b"a value that decays ") {
            bytes[at] ^= 1;
        }
        fs::write(file, bytes).unwrap();
    }
    assert!(tables > 0);
    let repo = AnyRepo::open(dir.path().to_str().unwrap()).unwrap();
    let report = check(&repo, &mut |_, _| {}).unwrap();
    let is_named = |ending: &str| {
        report.findings.iter().any(|finding| finding.place.as_ref().is_some_and(|place| place.0.ends_with(ending)))
    };
    assert!(is_named(".refs") && is_named(".seg"), "{report:?}");
}

#[test]
fn no_more_threads_are_started_than_machines_have() {
    for (asked, started) in [(1, 1), (256, 256), (257, 256), (65_535, 256), (usize::MAX, 256)] {
        assert_eq!(bounded(NonZero::new(asked).unwrap()).get(), started);
    }
}
