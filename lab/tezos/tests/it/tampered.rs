//! Shipped traces with one thing changed, and a disk that fills up: the replay says where, and what was committed
//! until then is there.

use std::sync::Arc;

use bristlecone::{
    Durability, Error, Format, MemoryBackend, Repo, Tezos,
    disk::{DiskBackend, DiskOptions, FormatTag},
};
use bristlecone_testkit::sim::{Policy, SimStorage};
use bristlecone_tezos::{
    CommitHash, Reader, Row, RowKind, Scoped, Writer,
    replay::{End, Fault, Place, Replay, ReplayError, ReplayOptions, Report},
};

use crate::shipped::{self, EARLY, FLAT};

/// Returns a trace with the rows that `change` returns; it is given commit and row, the first of each being 1.
fn changed(trace: &[u8], mut change: impl for<'r> FnMut(u64, u64, Row<'r>) -> Row<'r>) -> Vec<u8> {
    let mut reader = Reader::new(trace, "trace").unwrap();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let (mut commit, mut number) = (1, 1);
    while let Some(row) = reader.next().unwrap() {
        writer.row(&change(commit, number, row)).unwrap();
        number += 1;
        if row.kind() == RowKind::Commit {
            (commit, number) = (commit + 1, 1);
        }
    }
    writer.finish().unwrap()
}

fn replay(repo: &Repo<Tezos>, trace: &[u8], durability: Durability) -> (Result<(), ReplayError>, Report) {
    let options = ReplayOptions::default().check_hashes(Some(CommitHash::oid as _)).durability(durability);
    let mut replay = Replay::new(repo, options).unwrap();
    let ended = replay.run(&mut Reader::new(trace, "trace").unwrap(), &mut ());
    (ended, replay.report())
}

#[track_caller]
fn fails(trace: &[u8]) -> (Place, Fault, Report) {
    let repo = Repo::with_backend(Tezos::new(), Arc::new(MemoryBackend::new()));
    let (ended, report) = replay(&repo, trace, Durability::None);
    let Err(ReplayError::Row { place, fault }) = ended else { panic!("{ended:?}") };
    assert_eq!(report.end, End::Open);
    assert_eq!(repo.branch("main").unwrap().head().unwrap().is_some(), report.commits > 0 || report.hashes_wrong > 0);
    (*place, *fault, report)
}

#[test]
fn every_flipped_answer_is_noticed_in_its_row() {
    let trace = shipped::bytes(FLAT);
    for (wanted, commit) in [(RowKind::Find, 1), (RowKind::Mem, 9), (RowKind::MemTree, 17), (RowKind::Find, 25)] {
        let mut at = None;
        let tampered = changed(&trace, |in_commit, number, row| {
            if at.is_some() || in_commit != commit || row.kind() != wanted {
                return row;
            }
            at = Some(number);
            match row {
                Row::Find { key, found, input } => Row::Find { key, found: !found, input },
                Row::Mem { key, found, input } => Row::Mem { key, found: !found, input },
                Row::MemTree { key, found, input } => Row::MemTree { key, found: !found, input },
                other => other,
            }
        });
        let (place, fault, report) = fails(&tampered);
        assert_eq!((place.commit, Some(place.row), place.operation), (commit, at, wanted.name()));
        assert!(matches!(fault, Fault::Answer { .. }), "{fault}");
        assert_eq!((report.commits, report.answers_wrong, report.hashes_wrong), (commit - 1, 1, 0));
    }
}

#[test]
fn a_changed_hash_value_date_or_message_is_noticed_at_the_commit() {
    let trace = shipped::bytes(EARLY);
    // The hash of another commit.
    let other: &'static [u8] = b"CoV8SQumiVU9saiu3FVNeDNewJaJH8yWdsGF3WLdsRr2P9S7MzCj";
    let mut value_changed = false;
    let tampered: [(&str, Vec<u8>); 4] = [
        (
            "hash",
            changed(&trace, |commit, _, row| match row {
                Row::Commit { hash, date, message, parents, input } if commit == 40 => {
                    let hash = Scoped { value: other, ..hash };
                    Row::Commit { hash, date, message, parents, input }
                }
                row => row,
            }),
        ),
        (
            "value",
            changed(&trace, |commit, _, row| match row {
                Row::Add { key, input, output, .. } if commit == 40 && !value_changed => {
                    value_changed = true;
                    Row::Add { key, value: b"never written by a node", input, output }
                }
                row => row,
            }),
        ),
        (
            "date",
            changed(&trace, |commit, _, row| match row {
                Row::Commit { hash, date, message, parents, input } if commit == 40 => {
                    Row::Commit { hash, date: date + 1, message, parents, input }
                }
                row => row,
            }),
        ),
        (
            "message",
            changed(&trace, |commit, _, row| match row {
                Row::Commit { hash, date, parents, input, .. } if commit == 40 => {
                    Row::Commit { hash, date, message: b"", parents, input }
                }
                row => row,
            }),
        ),
    ];
    for (what, tampered) in tampered {
        let (place, fault, report) = fails(&tampered);
        // A value may be overwritten before the commit, which is then the same.
        assert_eq!((place.commit, place.operation), (40, "Commit"), "{what}");
        assert!(matches!(fault, Fault::Hash { expected, found } if expected != found), "{what}: {fault}");
        assert_eq!((report.hashes_checked, report.hashes_wrong, report.answers_wrong), (39, 1, 0), "{what}");
    }
}

#[test]
fn a_full_disk_ends_a_replay_and_loses_no_commit() {
    let trace = shipped::bytes(EARLY);
    let format = Tezos::new();
    let options = DiskOptions::default().segment_bytes(256 << 10).prezero(false);
    for durability in [Durability::None, Durability::Synced] {
        let disk = SimStorage::new();
        let tag = FormatTag { name: Tezos::NAME.into(), version: Tezos::VERSION, options: format.options() };
        let backend = DiskBackend::create(Arc::new(disk.clone()), tag, options.clone()).unwrap();
        let repo = Repo::with_backend(format, Arc::new(backend));
        disk.limit_space(Some(3 << 20));
        let (ended, report) = replay(&repo, &trace, durability);
        let error = ended.unwrap_err();
        assert!(matches!(error.store(), Some(Error::NoSpace { .. })), "{error}");
        assert!(!error.is_wrong() && error.to_string().contains("no space left"), "{error}");
        assert!((2..101).contains(&report.commits), "{report:?}");
        drop(repo);
        disk.limit_space(None);
        // Synced commits survive a power cut, too.
        let cut = [disk.reboot(1, Policy::ALL[0]), disk.reboot(2, Policy::ALL[1])];
        let mut disks = vec![disk.fork()];
        disks.extend(cut.into_iter().filter(|_| durability == Durability::Synced));
        for disk in disks {
            let backend = DiskBackend::open(Arc::new(disk), Some(Tezos::NAME), options.clone(), false).unwrap();
            let repo = Repo::with_backend(format, Arc::new(backend));
            let head = repo.branch("main").unwrap().head().unwrap();
            assert_eq!(head.map(|head| head.oid()), report.head.map(|(head, _)| head.oid()));
            assert!(!repo.branch("main").unwrap().tree().unwrap().is_empty().unwrap());
        }
    }
}
