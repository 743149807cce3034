//! The workloads that every engine goes through.

use bristlecone::Durability::{self, Grouped, None, Synced};

use super::{CrashStep, Workload};

/// Returns the named workloads of the crash suite.
#[must_use]
pub fn workloads() -> Vec<Workload> {
    [durabilities(), shapes(), refs(), handles(), sweeps()].concat()
}

fn workload(name: &'static str, steps: impl IntoIterator<Item = CrashStep>) -> Workload {
    Workload { name, steps: steps.into_iter().collect() }
}

fn commit(name: &str, sizes: &[usize], durability: Durability) -> CrashStep {
    commit_by(0, &[name], sizes, durability)
}

fn commit_by(handle: usize, refs: &[&str], sizes: &[usize], durability: Durability) -> CrashStep {
    let refs = refs.iter().map(|&name| name.to_owned()).collect();
    CrashStep::Commit { handle, refs, sizes: sizes.to_vec(), durability }
}

fn remove(refs: &[&str], durability: Durability) -> CrashStep {
    CrashStep::Remove { handle: 0, refs: refs.iter().map(|&name| name.to_owned()).collect(), durability }
}

const FLUSH: CrashStep = CrashStep::Flush { handle: 0 };
const CLOSE: CrashStep = CrashStep::Close { handle: 0 };
const OPEN: CrashStep = CrashStep::Open { handle: 0 };

/// What nothing leads to is dropped in between, by one handle and by two.
fn sweeps() -> Vec<Workload> {
    let sweep = |handle| CrashStep::Sweep { handle };
    vec![
        workload(
            "a sweep of removed refs",
            [
                commit_by(0, &["a", "b"], &[700, 40], Synced),
                commit("a", &[900], None),
                remove(&["a"], Synced),
                sweep(0),
                commit("b", &[300], Synced),
            ],
        ),
        workload(
            "sweeps between commits",
            (0..10).map(|n| match n % 5 {
                2 => remove(&["side"], mixed_pair(n)),
                3 => sweep(0),
                _ => commit(["main", "side"][n % 2], &[n * 170], mixed_pair(n)),
            }),
        ),
        workload(
            "sweeps of early values, over reopenings",
            [
                CrashStep::Early { handle: 0, sizes: vec![3000, 20] },
                sweep(0),
                commit("main", &[5000], None),
                CrashStep::Early { handle: 0, sizes: vec![800] },
                CLOSE,
                sweep(0),
                CLOSE,
                commit("main", &[10], Synced),
                sweep(0),
            ],
        ),
        workload("sweeps that leave garbage beside what is live, and rewrite it", {
            let names = ["a", "b", "c", "d", "e", "f"];
            let commits = names.iter().map(|&name| commit(name, &[350, 30], None));
            let mut steps: Vec<CrashStep> = commits.collect();
            for gone in [&["f"][..], &["a", "c"], &["b"], &["d"]] {
                steps.extend([remove(gone, Synced), sweep(0), commit("e", &[60], Synced)]);
            }
            steps.extend([commit("a", &[350, 30], None), sweep(0)]);
            steps
        }),
        workload("sweeps of a log of which most is live, in parts", {
            let names = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
            let mut steps: Vec<CrashStep> = names.iter().map(|&name| commit(name, &[1000, 50], None)).collect();
            steps.extend([remove(&["c"], None), sweep(0), commit("m", &[500], Synced)]);
            steps.extend([commit_by(1, &["c"], &[1000, 50], None), remove(&["a"], Synced), sweep(0)]);
            steps
        }),
        workload("sweeps beside segments without durability", {
            let part = |handle: usize, n| (0..n).map(move |n| commit_by(handle, &["main"], &[1100 + n], None));
            let mut steps: Vec<CrashStep> = part(0, 4).chain([commit("side", &[300], None), sweep(0)]).collect();
            steps.extend(part(0, 3).chain([remove(&["side"], None), sweep(0)]).chain(part(1, 3)));
            steps.extend([sweep(0)].into_iter().chain(part(1, 2)).chain([commit("main", &[5], Synced)]));
            steps
        }),
        workload("sweeps by two handles beside commits", {
            (0..12).map(|n| match n % 4 {
                1 => CrashStep::Remove { handle: n % 2, refs: vec!["b".to_owned()], durability: mixed_pair(n) },
                3 => sweep(n / 4 % 2),
                _ => commit_by(n % 2, &["a", "b"], &[n * 120], mixed_pair(n)),
            })
        }),
    ]
}

/// When commits are acknowledged, in every mixture.
fn durabilities() -> Vec<Workload> {
    let mixed = |n: usize| [Synced, None, Grouped, None, None, Synced, Grouped][n % 7];
    vec![
        workload("creation", []),
        workload("creation, clean close, reopening", [FLUSH, CLOSE, OPEN]),
        workload("one synced commit", [commit("main", &[100], Synced)]),
        workload("one commit without durability", [commit("main", &[100], None)]),
        workload("one grouped commit", [commit("main", &[100], Grouped)]),
        workload("synced commits", (0..8).map(|n| commit("main", &[20 * n], Synced))),
        workload("commits without durability", (0..10).map(|n| commit("main", &[300 * n], None))),
        workload("grouped commits", (0..10).map(|n| commit("main", &[10, 700 + n], Grouped))),
        workload("mixed durabilities", (0..16).map(|n| commit("main", &[n * 77 % 600], mixed(n)))),
        workload(
            "flushes in the middle",
            (0..12).map(|n| if n % 4 == 3 { FLUSH } else { commit("main", &[200 + n], None) }),
        ),
        workload("many commits without durability, then one synced", {
            let many = (0..14).map(|n| commit("main", &[n * 41], None));
            many.chain([commit("main", &[5], Synced), commit("main", &[5], None)])
        }),
    ]
}

/// Batches of many sizes, so that segments roll in the middle, at the end and within one batch.
fn shapes() -> Vec<Workload> {
    vec![
        workload("segments roll under synced commits", (0..14).map(|n| commit("main", &[900, n], Synced))),
        workload("segments roll under commits without durability", (0..16).map(|n| commit("main", &[1100 + n], None))),
        workload("several segments without durability, then a synced commit", {
            let part = |n| (0..n).map(|n| commit("main", &[1500 + n], None));
            part(7).chain([commit("main", &[5], Synced)]).chain(part(3)).chain([FLUSH]).chain(part(2))
        }),
        workload("a batch larger than a segment", {
            [commit("main", &[10], Synced), commit("main", &[30_000, 10], Synced), commit("main", &[10], Synced)]
        }),
        workload("a batch larger than a segment, without durability", {
            [commit("main", &[10], None), commit("main", &[20_000], None), commit("main", &[10], None)]
        }),
        workload(
            "oversize batches in a row",
            (0..4).map(|n| commit("main", &[9_000 + n * 3000], [None, Synced][n % 2])),
        ),
        workload("many small values, then one large", {
            let many = (0..6).map(|n| commit("main", &[n; 20], None));
            many.chain([commit("main", &[12_345], Synced), commit("main", &[3], None)])
        }),
        workload("sizes around a sector", (0..12).map(|n| commit("main", &[512 * (n / 4) + 200 + n], mixed_pair(n)))),
        workload(
            "values appended early",
            [
                CrashStep::Early { handle: 0, sizes: vec![5_000] },
                commit("main", &[10], Synced),
                CrashStep::Early { handle: 0, sizes: vec![4_096, 100] },
                CrashStep::Early { handle: 0, sizes: vec![700] },
                FLUSH,
                commit("main", &[10], None),
                CrashStep::Early { handle: 0, sizes: vec![2_000] },
            ],
        ),
        workload("nothing but early values", (0..5).map(|n| CrashStep::Early { handle: 0, sizes: vec![1000 * n + 1] })),
    ]
}

fn mixed_pair(n: usize) -> Durability {
    [None, Synced, Grouped][n % 3]
}

/// Refs: several in one step, conflicts, removals, symbolic ones, hundreds.
fn refs() -> Vec<Workload> {
    let hundreds: Vec<String> = (0..150).map(|n| format!("branch/{n:03}")).collect();
    let many =
        |part: &[String], durability| CrashStep::Commit { handle: 0, refs: part.to_vec(), sizes: vec![10], durability };
    vec![
        workload("several refs in one step", {
            (0..6).map(|n| commit_by(0, &["a", "b", "c"][..=n % 3], &[n * 10], mixed_pair(n)))
        }),
        workload("branches taking turns", {
            (0..12).map(|n| commit(["main", "side", "other"][n % 3], &[n * 30], mixed_pair(n)))
        }),
        workload("conflicts in between", {
            (0..9).map(|n| match n % 3 {
                2 => CrashStep::Conflict { handle: 0, name: "main" },
                _ => commit("main", &[n * 50], mixed_pair(n / 2)),
            })
        }),
        workload(
            "removals of refs",
            [
                commit_by(0, &["a", "b", "c"], &[40], Synced),
                remove(&["a"], Synced),
                commit("a", &[10], None),
                remove(&["b", "c"], None),
                commit("c", &[10], Synced),
                remove(&["a", "c"], Synced),
            ],
        ),
        workload(
            "symbolic refs",
            [
                CrashStep::Symbolic { handle: 0, name: "HEAD", to: "main", durability: Synced },
                commit("main", &[40], Synced),
                CrashStep::Symbolic { handle: 0, name: "HEAD", to: "side", durability: None },
                commit_by(0, &["main", "side"], &[40], None),
                remove(&["HEAD"], Synced),
            ],
        ),
        workload(
            "hundreds of refs",
            [
                many(&hundreds[..100], Synced),
                many(&hundreds[50..], None),
                commit("main", &[10], Synced),
                remove(&["branch/007", "branch/149"], Synced),
                many(&hundreds[..30], None),
            ],
        ),
        workload(
            "hundreds of refs over reopenings",
            [many(&hundreds, Synced), CLOSE, many(&hundreds[..75], Synced), CLOSE, commit("main", &[2000], Synced)],
        ),
        workload(
            "hundreds of refs, segment after segment, by two handles and with sweeps",
            [
                many(&hundreds, Synced),
                commit("main", &[9000], None),
                many(&hundreds[20..60], Synced),
                commit_by(1, &["main", "branch/140"], &[9000], Synced),
                remove(&["branch/003", "branch/030", "branch/140"], Synced),
                CrashStep::Sweep { handle: 1 },
                commit("main", &[9000], Synced),
                many(&hundreds[100..], None),
                CrashStep::Sweep { handle: 0 },
                commit_by(1, &["branch/003"], &[5000], Synced),
            ],
        ),
    ]
}

/// Handles: closing, reopening, two of them in turn; derived files.
fn handles() -> Vec<Workload> {
    vec![
        workload("clean close, reopening, more commits", {
            let part = |n| [commit("main", &[n * 300], None), commit("main", &[n], Synced), FLUSH, CLOSE, OPEN];
            (1..4).flat_map(part)
        }),
        workload("closing without a flush", {
            (0..5).flat_map(|n| [commit("main", &[n * 500], None), CLOSE, commit("main", &[7], None)])
        }),
        workload("two handles taking turns", {
            (0..12).map(|n| commit_by(n % 2, &["main"], &[n * 60], mixed_pair(n)))
        }),
        workload("two handles, segments rolling", {
            (0..14).map(|n| commit_by(n / 2 % 2, &["main"], &[1300], [None, Synced][n % 2]))
        }),
        workload("two handles, segments rolling without durability", {
            let part = |handle: usize, n| (0..n).map(move |n| commit_by(handle, &["main"], &[1400 + n], None));
            part(0, 3)
                .chain(part(1, 3))
                .chain([commit_by(0, &["side"], &[40], Synced)])
                .chain(part(1, 2))
                .chain(part(0, 2))
                .chain([CrashStep::Flush { handle: 1 }, CrashStep::Close { handle: 0 }])
                .chain(part(1, 2))
        }),
        workload("two handles, one of which closes", {
            (0..5).flat_map(|n| {
                [
                    commit_by(0, &["main"], &[n * 200], None),
                    commit_by(1, &["side"], &[n * 90], Synced),
                    CrashStep::Close { handle: n % 2 },
                ]
            })
        }),
        workload("two handles, one of which flushes", {
            (0..4).flat_map(|n| [commit_by(0, &["main"], &[n * 400], None), CrashStep::Flush { handle: 1 }])
        }),
        workload("derived files in between", {
            (0..5).flat_map(|n| {
                [
                    CrashStep::Derived { handle: 0, name: "history", bytes: 300 * n + 10 },
                    commit("main", &[n * 30], mixed_pair(n)),
                    CrashStep::Derived { handle: 0, name: "filters", bytes: 700 },
                ]
            })
        }),
    ]
}

/// Returns workloads of two processes, of which that of handle 0 may be stopped dead anywhere and the other goes on.
#[must_use]
pub fn deaths() -> Vec<Workload> {
    let first = |bytes: usize, durability| commit_by(0, &["main"], &[bytes], durability);
    let second = |bytes: usize, durability| commit_by(1, &["main"], &[bytes], durability);
    let open = CrashStep::Open { handle: 1 };
    vec![
        workload(
            "a process that is opened after another was stopped",
            [first(10, Synced), first(300, None), first(700, None), second(20, Synced), second(30, None)],
        ),
        workload("a process beside one that commits without durability and rolls", {
            let rolls = (0..6).map(move |n| first(1300 + n, None));
            [first(10, Synced), open.clone()].into_iter().chain(rolls).chain([second(20, Synced), second(2000, Synced)])
        }),
        workload("a process that rolls without durability after another that was stopped while it did", {
            let rolls = (0..5).map(move |n| first(1500 + n, None));
            let more = (0..3).map(move |n| second(1500 + n, None));
            rolls.chain([open.clone()]).chain(more).chain([second(20, Synced), second(1500, None)])
        }),
        workload("two processes in turn, segments rolling", {
            (0..10).map(move |n| match n % 2 {
                0 => first(1300, [None, Synced][n / 2 % 2]),
                _ => second(900 + n, [Synced, Grouped][n / 2 % 2]),
            })
        }),
        workload("a process that flushes for one that was stopped", {
            let part = |n: usize| {
                [first(400 * n, None), first(50, Grouped), second(60 * n, None), CrashStep::Flush { handle: 1 }]
            };
            (1..4).flat_map(part)
        }),
        workload(
            "a process that is stopped while it closes",
            [
                first(10, None),
                open,
                first(900, Grouped),
                CLOSE,
                second(40, Synced),
                first(50, None),
                CLOSE,
                second(1500, Synced),
                second(30, Synced),
            ],
        ),
        workload(
            "early values and oversize batches of a process that was stopped",
            [
                first(10, Synced),
                CrashStep::Early { handle: 0, sizes: vec![900, 3000] },
                first(10, None),
                CrashStep::Open { handle: 1 },
                CrashStep::Early { handle: 0, sizes: vec![7000] },
                first(20_000, None),
                second(100, Synced),
                second(2500, Synced),
            ],
        ),
    ]
}
