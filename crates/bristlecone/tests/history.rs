//! History against naive references, against Git, and against counters of reads.
//!
//! Random histories (seeded; the seed is in every message) have several roots, merges of up to three parents,
//! clocks that go back, and trees taken from any parent. The references know all ancestors by brute force and
//! what is at every path by looking; the store must agree with them everywhere.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io::Write,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bristlecone::{
    Backend, Commit, CommitId, Counted, Durability, EntryKind, Error, Expected, Info, LogOptions, LogOrder,
    MemoryBackend, Oid, Path, ReadOnly, RefMove, RefTarget, Repo, Signature, Snapshot, Tree, core::native::Native,
    disk::DiskOptions, pass_backend,
};
use bristlecone_needs::needs;
use bristlecone_testkit::crash::step;

type Outcome = Result<(), Box<dyn std::error::Error>>;

const PATHS: [&str; 8] = ["a", "b/c", "b/d", "b", "e/f/g", "e/f", "h/i", "nowhere"];

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % end as u64) as usize
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A history with everything known about it. Commit `n` has parents below `n`.
#[derive(Clone)]
struct Dag {
    repo: Repo,
    at: Vec<CommitId>,
    parents: Vec<Vec<usize>>,
    seconds: Vec<i64>,
    // Ancestors of each commit, itself included.
    ancestors: Vec<BTreeSet<usize>>,
    // What is at each of `PATHS`.
    states: Vec<Vec<Option<String>>>,
    numbers: HashMap<ObjId, usize>,
}

type ObjId = bristlecone::Oid;

impl Dag {
    fn new(repo: Repo) -> Self {
        let (at, parents, seconds, ancestors, states) = Default::default();
        Self { repo, at, parents, seconds, ancestors, states, numbers: HashMap::new() }
    }

    /// Shows `check` what another process finds where a derived file is emptied, or has another bit in one byte.
    fn without(&self, lost: &str, damage: Option<usize>, check: impl FnOnce(&Self)) {
        let backend = self.repo.backend();
        let bytes = backend.read_derived(lost).unwrap().unwrap();
        let mut broken = bytes.clone();
        match damage {
            Some(at) => broken[at] ^= 1,
            None => broken.clear(),
        }
        backend.write_derived(lost, &broken).unwrap();
        check(&Self { repo: Repo::with_backend(Native::new(), backend.clone()), ..self.clone() });
        backend.write_derived(lost, &bytes).unwrap();
    }

    /// A history of `count` commits; parents are among the last `reach`.
    fn random(seed: u64, count: usize, reach: usize) -> Self {
        let mut dag = Self::new(Repo::memory());
        let random = &mut Random(seed);
        for n in 0..count {
            let wanted =
                [0, 1, 1, 1, 1, 1, 1, 2, 2, 3][if random.chance(30) { random.below(10) } else { 2 + random.below(7) }];
            let parents = dag.some(random, wanted, reach);
            // Unique, as Git and we need not agree on ties.
            let back = if random.chance(15) { random.below(400) as i64 } else { 0 };
            dag.commit(random, parents, 1_000_000 + 10 * (n as i64 - back) + n as i64 % 10);
        }
        dag
    }

    /// Different commits among the last `reach`.
    fn some(&self, random: &mut Random, count: usize, reach: usize) -> Vec<usize> {
        let mut some = Vec::new();
        let end = self.at.len();
        for _ in 0..count.min(end) {
            let one = end - 1 - random.below(reach.min(end));
            if !some.contains(&one) {
                some.push(one);
            }
        }
        some
    }

    fn commit(&mut self, random: &mut Random, parents: Vec<usize>, seconds: i64) {
        // Usually the first parent's tree, sometimes another's.
        let base = if random.chance(70) { parents.first() } else { parents.last() };
        let mut tree = base.map_or_else(|| self.repo.tree(), |&base| self.repo.checkout(self.at[base]).unwrap());
        for _ in 0..[0, 1, 1, 2][random.below(4)] {
            let path = PATHS[random.below(PATHS.len() - 1)];
            match random.below(4) {
                0 => tree.remove(path).unwrap(),
                _ => tree.replace(path, format!("{}", random.below(3))).unwrap(),
            }
        }
        self.add(tree, parents, seconds);
    }

    fn add(&mut self, mut tree: Tree, parents: Vec<usize>, seconds: i64) {
        let n = self.at.len();
        let who = Signature::new(*b"A <a@b>", seconds);
        let info = Info::message(format!("{n}")).by(who).durability(Durability::None);
        let above: Vec<CommitId> = parents.iter().map(|&parent| self.at[parent]).collect();
        let at = self.repo.commit_tree(&mut tree, &above, &info).unwrap();
        let mut ancestors = BTreeSet::from([n]);
        parents.iter().for_each(|&parent| ancestors.extend(&self.ancestors[parent]));
        self.states.push(PATHS.iter().map(|path| state(&tree, path)).collect());
        self.at.push(at);
        self.parents.push(parents);
        self.seconds.push(seconds);
        self.ancestors.push(ancestors);
        self.numbers.insert(at.oid(), n);
    }

    fn numbers(&self, commits: &[CommitId]) -> Vec<usize> {
        commits.iter().map(|at| self.numbers[&at.oid()]).collect()
    }

    fn log(&self, heads: &[usize], options: LogOptions) -> Vec<usize> {
        let heads: Vec<CommitId> = heads.iter().map(|&head| self.at[head]).collect();
        let entries = self.repo.log(&heads, options).map(|entry| entry.unwrap());
        entries
            .inspect(|entry| assert_eq!(entry.generation, self.repo.generation(entry.id).ok()))
            .map(|entry| self.numbers[&entry.id.oid()])
            .collect()
    }

    /// Those of `all` that no other of `all` descends from.
    fn best(&self, all: &BTreeSet<usize>) -> BTreeSet<usize> {
        let covered = |&one: &usize| all.iter().any(|&other| other != one && self.ancestors[other].contains(&one));
        all.iter().copied().filter(|one| !covered(one)).collect()
    }

    /// The naive log: everything is known before anything is listed.
    fn naive(&self, heads: &[usize], ask: &Ask) -> Vec<usize> {
        let mut out: BTreeSet<usize> = BTreeSet::new();
        ask.exclude.iter().for_each(|&one| out.extend(&self.ancestors[one]));
        let simplified = |n: usize| self.simplified(n, ask, &out);
        let mut tips: Vec<usize> = Vec::new();
        for &head in heads {
            if !out.contains(&head) && !tips.contains(&head) {
                tips.push(head);
            }
        }
        tips.sort_by_key(|&tip| std::cmp::Reverse(self.seconds[tip]));
        let order = match ask.order {
            LogOrder::Date => self.naive_by_date(tips, simplified),
            _ => self.naive_topological(tips, simplified),
        };
        order.into_iter().filter(|&n| simplified(n).1).collect()
    }

    fn naive_by_date(&self, tips: Vec<usize>, simplified: impl Fn(usize) -> (Vec<usize>, bool)) -> Vec<usize> {
        let (mut list, mut seen, mut order) = (tips.clone(), BTreeSet::from_iter(tips), vec![]);
        while let Some(place) = (0..list.len()).min_by_key(|&place| std::cmp::Reverse(self.seconds[list[place]])) {
            let one = list.remove(place);
            order.push(one);
            list.extend(simplified(one).0.into_iter().filter(|&parent| seen.insert(parent)));
        }
        order
    }

    fn naive_topological(&self, tips: Vec<usize>, simplified: impl Fn(usize) -> (Vec<usize>, bool)) -> Vec<usize> {
        let mut children: BTreeMap<usize, usize> = BTreeMap::new();
        let (mut list, mut seen) = (tips.clone(), BTreeSet::from_iter(tips.clone()));
        while let Some(one) = list.pop() {
            for parent in simplified(one).0 {
                *children.entry(parent).or_default() += 1;
                if seen.insert(parent) {
                    list.push(parent);
                }
            }
        }
        let mut ready: Vec<usize> = tips.into_iter().rev().filter(|tip| !children.contains_key(tip)).collect();
        let mut order = vec![];
        while let Some(one) = ready.pop() {
            order.push(one);
            for parent in simplified(one).0 {
                let waits = children.get_mut(&parent).unwrap();
                *waits -= 1;
                if *waits == 0 {
                    ready.push(parent);
                }
            }
        }
        order
    }

    /// The parents that history goes on with, and whether a commit is listed.
    fn simplified(&self, n: usize, ask: &Ask, out: &BTreeSet<usize>) -> (Vec<usize>, bool) {
        let parents =
            &self.parents[n][..if ask.first_parent { 1.min(self.parents[n].len()) } else { self.parents[n].len() }];
        let inside = |all: &[usize]| all.iter().copied().filter(|parent| !out.contains(parent)).collect::<Vec<_>>();
        let Some(path) = ask.path else { return (inside(parents), true) };
        if parents.is_empty() {
            return (vec![], self.states[n][path].is_some());
        }
        let same = |parent: &&usize| self.states[n][path] == self.states[**parent][path];
        match parents.iter().find(same) {
            Some(&parent) => (vec![parent], false),
            None => (parents.to_vec(), true),
        }
    }

    fn naive_last_change(&self, head: usize, path: usize) -> Option<usize> {
        let mut n = head;
        loop {
            let same = |parent: &&usize| self.states[**parent][path] == self.states[n][path];
            match self.parents[n].iter().find(same) {
                Some(&parent) => n = parent,
                None if self.parents[n].is_empty() && self.states[n][path].is_none() => return None,
                None => return Some(n),
            }
        }
    }
}

/// What the naive log is asked.
#[derive(Debug, Default)]
struct Ask {
    order: LogOrder,
    exclude: Vec<usize>,
    path: Option<usize>,
    first_parent: bool,
}

impl Ask {
    fn random(random: &mut Random, dag: &Dag) -> Self {
        Self {
            order: if random.chance(50) { LogOrder::Date } else { LogOrder::Topological },
            exclude: (0..random.below(3)).map(|_| random.below(dag.at.len())).collect(),
            path: random.chance(60).then(|| random.below(PATHS.len())),
            first_parent: random.chance(20),
        }
    }

    fn options(&self, dag: &Dag) -> LogOptions {
        LogOptions::default()
            .order(self.order)
            .limit(None)
            .exclude(self.exclude.iter().map(|&one| dag.at[one]).collect())
            .paths(self.path.iter().map(|&path| PATHS[path].parse().unwrap()).collect())
            .first_parent(self.first_parent)
    }
}

/// What is at a path: a value with its kind, or a directory's root.
fn state(tree: &Tree, path: &str) -> Option<String> {
    let entry = tree.entry(path).unwrap()?;
    Some(match entry.kind() {
        EntryKind::Dir => format!("dir {}", entry.tree().unwrap().root().unwrap()),
        kind => format!("{kind:?} {:?}", entry.contents().unwrap()),
    })
}

/// Compares what the store says of any two commits with what is known.
fn check_pairs(dag: &Dag, context: &str) {
    let (repo, at) = (&dag.repo, &dag.at);
    for a in 0..at.len() {
        for b in 0..at.len() {
            let context = format!("{context}: {a} {b}");
            let (of_a, of_b) = (&dag.ancestors[a], &dag.ancestors[b]);
            assert_eq!(repo.is_ancestor(at[a], at[b]).unwrap(), of_b.contains(&a), "{context}");
            let common: BTreeSet<usize> = of_a.intersection(of_b).copied().collect();
            let bases = dag.numbers(&repo.merge_bases(at[a], at[b]).unwrap());
            assert_eq!(bases.len(), BTreeSet::from_iter(bases.clone()).len(), "{context}");
            assert!(bases.is_sorted_by_key(|&base| std::cmp::Reverse(repo.generation(at[base]).unwrap())), "{context}");
            assert_eq!(BTreeSet::from_iter(bases), dag.best(&common), "{context}");
            let ahead = of_a.difference(of_b).count() as u64;
            let behind = of_b.difference(of_a).count() as u64;
            assert_eq!(repo.count_between(at[a], at[b]).unwrap(), behind, "{context}");
            assert_eq!(repo.ahead_behind(at[a], at[b]).unwrap(), (ahead, behind), "{context}");
        }
    }
}

#[test]
fn ancestors_bases_and_counts_agree_with_brute_force() {
    // In a short run a third of the seeds, among which each shape is.
    for seed in (0..12).step_by(step(3, 1) as usize) {
        let dag = Dag::random(seed, 60, [4, 8, 30, 60][seed as usize % 4]);
        check_pairs(&dag, &format!("seed {seed}"));
        // With positions for the commits that led to some, then for all.
        let random = &mut Random(seed);
        for head in [random.below(20), 20 + random.below(40), random.below(60)] {
            dag.repo.index_history(dag.at[head]).unwrap();
            check_pairs(&dag, &format!("seed {seed}, with the graph of {head}"));
        }
        for &head in &dag.at {
            dag.repo.index_history(head).unwrap();
        }
        check_pairs(&dag, &format!("seed {seed}, with the whole graph"));
        // Another process finds what this one wrote, whatever of it there still is.
        for (lost, damage) in ["graph", "graph-0"].into_iter().flat_map(|name| [(name, None), (name, Some(40))]) {
            dag.without(lost, damage, |other| {
                if seed < 4 {
                    check_pairs(other, &format!("seed {seed}, without {lost} ({damage:?})"));
                }
            });
        }
        let again = Dag { repo: Repo::with_backend(Native::new(), dag.repo.backend().clone()), ..dag.clone() };
        check_pairs(&again, &format!("seed {seed}, with the graph as it was written"));
    }
}

#[test]
fn bases_of_many_agree_with_brute_force() {
    let repo = Repo::memory();
    assert_eq!(repo.merge_bases_many(&[]).unwrap(), []);
    for seed in 100..160 {
        let dag = Dag::random(seed, 80, 12);
        let random = &mut Random(seed);
        let tips: Vec<usize> = (0..[1, 2, 3, 5, 70][random.below(5)]).map(|_| random.below(dag.at.len())).collect();
        let common = tips.iter().map(|&tip| dag.ancestors[tip].clone());
        let common = common.reduce(|one, other| &one & &other).unwrap();
        let refs: Vec<CommitId> = tips.iter().map(|&tip| dag.at[tip]).collect();
        for indexed in [None, Some(40), Some(79)] {
            if let Some(head) = indexed {
                dag.repo.index_history(dag.at[head]).unwrap();
            }
            let bases = dag.numbers(&dag.repo.merge_bases_many(&refs).unwrap());
            assert_eq!(BTreeSet::from_iter(bases), dag.best(&common), "seed {seed}: {tips:?} {indexed:?}");
        }
    }
}

/// Several lines that share nothing, each with side branches that are merged or are not; most have positions, some have none.
fn lines(random: &mut Random) -> (Dag, Vec<Vec<usize>>) {
    let mut dag = Dag::new(Repo::memory());
    let mut lines = Vec::new();
    for _ in 0..2 + random.below(3) {
        let mut line: Vec<usize> = Vec::new();
        for _ in 0..2 + random.below(12) {
            let n = dag.at.len();
            let mut parents: Vec<usize> = line.last().copied().into_iter().collect();
            if line.len() > 2 && random.chance(25) {
                // What was committed between on a side.
                let from = line[random.below(line.len() - 1)];
                dag.commit(random, vec![from], n as i64);
                parents.push(dag.at.len() - 1);
            }
            dag.commit(random, parents, n as i64 + 1);
            line.push(dag.at.len() - 1);
        }
        lines.push(line);
    }
    (dag, lines)
}

#[test]
fn bases_of_tips_on_lines_agree_with_brute_force() {
    let (mut apart, mut on_one_line) = (0, 0);
    for seed in 1000..1120 {
        let random = &mut Random(seed);
        let (dag, lines) = lines(random);
        // Some lines are in the graph from their beginning to some commit.
        for line in &lines {
            if random.chance(60) {
                let head = line[random.below(line.len())];
                dag.repo.index_history(dag.at[head]).unwrap();
            }
        }
        for _ in 0..60 {
            let main = random.below(lines.len());
            let most = if random.chance(10) { 10 } else { 4 };
            let tips: Vec<usize> = (0..1 + random.below(most))
                .map(|_| {
                    let line = &lines[if random.chance(75) { main } else { random.below(lines.len()) }];
                    if random.chance(10) { random.below(dag.at.len()) } else { line[random.below(line.len())] }
                })
                .collect();
            let common = tips.iter().map(|&tip| dag.ancestors[tip].clone());
            let wanted = dag.best(&common.reduce(|one, other| &one & &other).unwrap());
            let refs: Vec<CommitId> = tips.iter().map(|&tip| dag.at[tip]).collect();
            let bases = dag.numbers(&dag.repo.merge_bases_many(&refs).unwrap());
            assert_eq!(BTreeSet::from_iter(bases), wanted, "seed {seed}: {tips:?}");
            apart += usize::from(tips.len() > 2 && wanted.is_empty());
            on_one_line += usize::from(tips.len() > 2 && !wanted.is_empty());
        }
    }
    assert!(apart > 500 && on_one_line > 500, "{apart} {on_one_line}");
}

#[test]
fn tips_of_which_one_shares_nothing_have_no_base_though_others_are_on_one_line() {
    // The line has positions, and the commit that stands alone has none: nothing of it is left when the stored graph is asked.
    let mut dag = Dag::new(Repo::memory());
    let random = &mut Random(1);
    for n in 0..5_usize {
        dag.commit(random, n.checked_sub(1).into_iter().collect(), n as i64);
    }
    dag.repo.index_history(dag.at[4]).unwrap();
    dag.commit(random, vec![], 9);
    for tips in [[1, 4, 5], [4, 1, 5], [1, 5, 4], [5, 1, 4]] {
        let refs = tips.map(|tip| dag.at[tip]);
        assert_eq!(dag.repo.merge_bases_many(&refs).unwrap(), [], "{tips:?}");
        assert_eq!(dag.repo.merge_bases_many(&[dag.at[1], dag.at[4]]).unwrap(), [dag.at[1]]);
    }
}

#[test]
fn logs_agree_with_naive_ones() {
    for seed in 200..240 {
        let dag = Dag::random(seed, 80, [3, 10, 80][seed as usize % 3]);
        let random = &mut Random(seed);
        for _ in 0..30 {
            let heads: Vec<usize> = (0..1 + random.below(3)).map(|_| random.below(dag.at.len())).collect();
            let mut ask = Ask::random(random, &dag);
            // What these come to together depends on the order of Git's walk: `git_agrees` has them.
            if ask.path.is_some() {
                ask.exclude.clear();
            }
            ask.first_parent &= ask.order == LogOrder::Date;
            let naive = dag.naive(&heads, &ask);
            let context = format!("seed {seed}: {heads:?} {ask:?}");
            assert_eq!(dag.log(&heads, ask.options(&dag)), naive, "{context}");
            let limit = random.below(naive.len() + 2);
            let limited = dag.log(&heads, ask.options(&dag).limit(limit));
            assert_eq!(limited[..], naive[..limit.min(naive.len())], "{context}");
        }
    }
}

/// Logs with many commits that are left out, in either order.
fn check_ranges(dag: &Dag, random: &mut Random, context: &str) {
    for _ in 0..40 {
        let some = |random: &mut Random, most| -> Vec<usize> {
            (0..1 + random.below(most)).map(|_| random.below(dag.at.len())).collect()
        };
        let (heads, exclude) = (some(random, 3), some(random, 9));
        let order = if random.chance(60) { LogOrder::Date } else { LogOrder::Topological };
        let ask = Ask { order, exclude, path: None, first_parent: order == LogOrder::Date && random.chance(20) };
        let naive = dag.naive(&heads, &ask);
        assert_eq!(dag.log(&heads, ask.options(dag)), naive, "{context}: {heads:?} {ask:?}");
    }
}

#[test]
fn what_is_left_out_agrees_with_naive_logs_whatever_there_is_of_the_graph() {
    for seed in 240..264 {
        let dag = Dag::random(seed, 120, [3, 10, 120][seed as usize % 3]);
        let random = &mut Random(seed);
        check_ranges(&dag, random, &format!("seed {seed}"));
        for head in [random.below(60), 60 + random.below(60), random.below(120)] {
            dag.repo.index_history(dag.at[head]).unwrap();
            check_ranges(&dag, random, &format!("seed {seed}, with the graph of {head}"));
        }
        dag.at.iter().for_each(|&head| _ = dag.repo.index_history(head).unwrap());
        check_ranges(&dag, random, &format!("seed {seed}, with the whole graph"));
        for (lost, damage) in [("graph", None), ("graph-0", None), ("graph-0", Some(40))] {
            dag.without(lost, damage, |other| {
                check_ranges(other, random, &format!("seed {seed}, without {lost} ({damage:?})"));
            });
        }
    }
}

#[test]
fn a_merge_is_simplified_before_its_parents_are_known_to_be_left_out() {
    // `M ^B2 -- a`: M has at `a` what R has, so that R stands for all that M leads to; and R is left out.
    let mut dag = Dag::new(Repo::memory());
    let values = ["a", "b", "b", "a"];
    for (n, parents) in [vec![], vec![0], vec![1], vec![2, 0]].into_iter().enumerate() {
        let mut tree = dag.repo.tree();
        tree.set("a", values[n]).unwrap();
        dag.add(tree, parents, n as i64);
    }
    for order in [LogOrder::Date, LogOrder::Topological] {
        let ask = Ask { order, exclude: vec![2], path: Some(0), first_parent: false };
        assert_eq!(dag.log(&[3], ask.options(&dag)), [0; 0], "{order:?}");
    }
}

#[test]
fn topological_order_shows_no_parent_before_its_children() {
    for seed in 300..330 {
        let dag = Dag::random(seed, 200, 10);
        let order = dag.log(&[199, 150], LogOptions::default().order(LogOrder::Topological));
        let places: HashMap<usize, usize> = order.iter().enumerate().map(|(place, &n)| (n, place)).collect();
        let all: BTreeSet<usize> = &dag.ancestors[199] | &dag.ancestors[150];
        assert_eq!(BTreeSet::from_iter(order.clone()), all);
        for &n in &order {
            assert!(dag.parents[n].iter().all(|parent| places[parent] > places[&n]), "seed {seed}: {n}");
        }
    }
}

#[test]
fn last_changes_agree_with_naive_ones_whatever_happens_to_the_index() {
    for seed in (400..404).step_by(step(2, 1) as usize) {
        let random = &mut Random(seed);
        let mut dag = Dag::random(seed, 10, 5);
        for round in 0..12 {
            grow(&mut dag, random);
            match random.below(6) {
                0 => dag.repo.backend().write_derived("history", b"no manifest").unwrap(),
                1 => dag.repo.backend().write_derived(&format!("history-{}", random.below(3)), b"no run").unwrap(),
                2 => {}
                _ => _ = dag.repo.index_history(*dag.at.last().unwrap()).unwrap(),
            }
            for _ in 0..40 {
                let (head, path) = (dag.at.len() - 1 - random.below(dag.at.len().min(300)), random.below(PATHS.len()));
                let found = dag.repo.last_change(dag.at[head], PATHS[path]).unwrap();
                let found = found.map(|entry| dag.numbers[&entry.id.oid()]);
                let naive = dag.naive_last_change(head, path);
                assert_eq!(found, naive, "seed {seed}, round {round}: {head} {}", PATHS[path]);
                let options = LogOptions::default().paths(vec![PATHS[path].parse().unwrap()]).limit(1);
                assert_eq!(dag.log(&[head], options).first(), naive.as_ref(), "the log's first");
            }
        }
    }
}

/// Adds a line of commits with side branches that are merged back, most of which change nothing that is looked at.
fn grow(dag: &mut Dag, random: &mut Random) {
    for _ in 0..50 + random.below(300) {
        let last = dag.at.len() - 1;
        let parents = if random.chance(8) { vec![last, last - random.below(9.min(last))] } else { vec![last] };
        let parents = if parents.len() == 2 && parents[0] == parents[1] { vec![last] } else { parents };
        let seconds = 2_000_000 + dag.at.len() as i64;
        if random.chance(3) {
            dag.commit(random, parents, seconds);
        } else {
            let mut tree = dag.repo.checkout(dag.at[*parents.last().unwrap()]).unwrap();
            tree.set(format!("noise/{}", random.below(1000)), format!("{}", random.below(9))).unwrap();
            dag.add(tree, parents, seconds);
        }
    }
}

/// A line of commits, each of which changes one of 5,000 files in 50 folders.
fn line(repo: &Repo, count: usize, each: impl Fn(usize, &mut Tree)) -> Vec<CommitId> {
    let (mut tree, mut at) = (repo.tree(), Vec::<CommitId>::new());
    for n in 0..count {
        tree.set(format!("dir-{}/file-{}", n % 50, n * 7 % 4999), format!("{n}")).unwrap();
        each(n, &mut tree);
        let info = Info::message("").by(Signature::new("", n as i64)).durability(Durability::None);
        let parents: Vec<CommitId> = at.last().copied().into_iter().collect();
        at.push(repo.commit_tree(&mut tree, &parents, &info).unwrap());
    }
    at
}

#[test]
fn last_change_reads_far_fewer_commits_than_there_are() {
    const COUNT: usize = 20_000;
    let counted = Counted::new(Arc::new(MemoryBackend::new()));
    let counts = counted.counts();
    let repo = Repo::with_backend(Native::new(), Arc::new(counted));
    let at = line(&repo, COUNT, |n, tree| {
        if [1234, 9000].contains(&n) {
            tree.set("rare/one", format!("{n}")).unwrap();
        }
        if n == 5 {
            tree.set("rarest", "once").unwrap();
        }
    });
    let ask = |what: &str, path: &str, head: usize| {
        let before = counts.reads.load(Relaxed);
        let found = repo.last_change(at[head], path).unwrap().map(|entry| entry.id);
        let reads = counts.reads.load(Relaxed) - before;
        println!("{what}: {path} at {head}: {reads} reads");
        (found, reads)
    };
    let before = counts.reads.load(Relaxed);
    assert_eq!(repo.index_history(at[COUNT - 2]).unwrap(), COUNT as u64 - 1);
    println!("index: {} reads for {} commits", counts.reads.load(Relaxed) - before, COUNT - 1);
    for (path, n) in [("rare/one", 9000), ("rarest", 5), ("rare", 9000)] {
        let (found, reads) = ask("indexed", path, COUNT - 1);
        assert_eq!(found, Some(at[n]), "{path}");
        assert!(reads < 100, "{reads} reads for {path}");
    }
    assert_eq!(ask("indexed, older head", "rare/one", 8999), ask("again", "rare/one", 8999));
    assert_eq!(ask("indexed, older head", "rare/one", 8999).0, Some(at[1234]));
    assert!(ask("indexed", "never/there", COUNT - 1).1 < 100);
    // Indexing again costs next to nothing.
    let before = counts.reads.load(Relaxed);
    assert_eq!(repo.index_history(at[COUNT - 1]).unwrap(), 1);
    assert!(counts.reads.load(Relaxed) - before < 100);

    // A lost run costs a walk of it, and comes back; so does everything after a lost manifest.
    for name in ["history-2", "history"] {
        repo.backend().write_derived(name, b"damage").unwrap();
        for (path, n) in [("rare/one", 9000), ("rarest", 5)] {
            assert_eq!(ask("damaged", path, COUNT - 1).0, Some(at[n]));
        }
        for (path, n) in [("rare/one", 9000), ("rarest", 5)] {
            let (found, reads) = ask("repaired", path, COUNT - 1);
            assert_eq!(found, Some(at[n]));
            assert!(reads < 100, "{reads} reads after {name} was damaged");
        }
    }
}

#[test]
fn last_change_works_where_nothing_can_be_written() {
    let memory: Arc<dyn Backend> = Arc::new(MemoryBackend::new());
    let at = line(&Repo::with_backend(Native::new(), memory.clone()), 4000, |n, tree| {
        if n == 100 {
            tree.set("rare", "x").unwrap();
        }
    });
    let repo = Repo::with_backend(Native::new(), Arc::new(ReadOnly(memory)));
    assert_eq!(repo.last_change(at[3999], "rare").unwrap().map(|entry| entry.id), Some(at[100]));
    assert!(matches!(repo.index_history(at[3999]), Err(Error::ReadOnly)));
}

#[test]
fn the_index_is_kept_on_disk() -> Outcome {
    let dir = tempfile::tempdir()?;
    let repo = Repo::create(dir.path(), Native::new(), DiskOptions::default())?;
    let at = line(&repo, 1500, |n, tree| {
        if n == 100 {
            tree.set("rare", "x").unwrap();
        }
    });
    assert_eq!(repo.index_history(at[1499])?, 1500);
    drop(repo);
    let repo = Repo::<Native>::open(dir.path(), DiskOptions::default())?;
    assert_eq!(repo.index_history(at[1499])?, 0);
    assert_eq!(repo.last_change(at[1499], "rare")?.map(|entry| entry.id), Some(at[100]));
    for file in std::fs::read_dir(dir.path().join("derived"))? {
        std::fs::write(file?.path(), b"damage")?;
    }
    assert_eq!(repo.last_change(at[1499], "rare")?.map(|entry| entry.id), Some(at[100]));
    assert_eq!(repo.index_history(at[1499])?, 0, "the question brought the index back");
    Ok(())
}

/// In this commit something changes that was written before it.
const ONCE: usize = 2_000;

/// Commits 9,000 times what `random` says, to a new store in a folder; returns the commits.
fn edited_in_many_ways(dir: &std::path::Path, indexing: bool) -> Result<(Repo, Vec<CommitId>), Error> {
    let repo = Repo::create(dir, Native::new(), DiskOptions::default())?;
    repo.set_indexing(indexing);
    let (mut random, mut at) = (Random(17), Vec::<CommitId>::new());
    let mut tree = repo.tree();
    for n in 0..9_000 {
        let mut parents: Vec<CommitId> = at.last().copied().into_iter().collect();
        match random.below(40) {
            // Edits over another commit than the first parent.
            0 if n > 10 => {
                tree = repo.checkout(at[n - 1 - random.below(9)])?;
                parents.push(at[n - 10]);
            }
            // Some of what is edited is written before the commit.
            1 => {
                tree.replace(PATHS[random.below(7)], format!("{}", random.below(3)))?;
                tree.write()?;
            }
            2 if n > 10 => {
                let other = repo.checkout(at[n - 1 - random.below(9)])?;
                tree.set_tree("h", &other)?;
            }
            _ => {}
        }
        if n == ONCE {
            tree.set("once", "1")?;
            tree.write()?;
        }
        // Rarely anything but "b/c" and "i", so that most of what is asked was changed long ago.
        let path = match random.below(1000) {
            0..900 => "i",
            900..995 => "b/c",
            _ => PATHS[random.below(PATHS.len() - 1)],
        };
        match random.below(4) {
            0 if path != "i" => tree.remove(path)?,
            1 => tree.replace(path, "same")?,
            _ => tree.replace(path, format!("{n}"))?,
        }
        let who = Signature::new(*b"A <a@b>", n as i64);
        let info = Info::message("").by(who).durability(Durability::None);
        at.push(repo.commit_tree(&mut tree, &parents, &info)?);
        if n % 3_000 == 0 {
            repo.wait_for_indexing();
        }
    }
    repo.wait_for_indexing();
    Ok((repo, at))
}

#[test]
fn what_commits_keep_up_gives_the_same_answers() -> Outcome {
    let dirs = [tempfile::tempdir()?, tempfile::tempdir()?];
    let (kept, at) = edited_in_many_ways(dirs[0].path(), true)?;
    let (plain, same) = edited_in_many_ways(dirs[1].path(), false)?;
    assert_eq!(at, same);
    for name in ["graph", "graph-0", "history", "history-0"] {
        assert!(kept.backend().read_derived(name)?.is_some(), "{name}");
        assert!(plain.backend().read_derived(name)?.is_none(), "{name}");
    }
    let random = &mut Random(3);
    for _ in 0..150 {
        let (head, path) = (random.below(at.len()), PATHS[random.below(PATHS.len())]);
        let found = [&kept, &plain].map(|repo| repo.last_change(at[head], path).unwrap().map(|entry| entry.id));
        assert_eq!(found[0], found[1], "{path} before {head}");
        let (one, other) = (at[head], at[random.below(at.len())]);
        let found = [&kept, &plain].map(|repo| repo.is_ancestor(one, other).unwrap());
        assert_eq!(found[0], found[1]);
        let found = [&kept, &plain].map(|repo| repo.merge_bases(one, other).unwrap());
        assert_eq!(found[0], found[1]);
    }
    assert_eq!(kept.last_change(at[3_999], "once")?.map(|entry| entry.id), Some(at[ONCE]));
    // What was kept up is what would have been made.
    assert!(kept.index_history(at[8_999])? < 4_096 + 1_000);
    Ok(())
}

#[test]
fn history_ends_where_it_ends_now() {
    let repo = Repo::memory();
    let at = line(&repo, 100, |_, _| ());
    repo.index_history(at[99]).unwrap();
    let indexed = repo.indexed_commits().unwrap();
    assert_eq!((indexed.graph, indexed.changes), (100, 100));
    let cut = RefMove {
        name: format!("{}{}", bristlecone::SHALLOW, at[50].oid()),
        expected: Expected::Absent,
        to: Some(RefTarget::Object(at[50].into())),
    };
    for cut_off in [false, true, false] {
        assert_eq!(repo.is_ancestor(at[3], at[99]).unwrap(), !cut_off);
        assert_eq!(repo.merge_bases(at[3], at[99]).unwrap().len(), usize::from(!cut_off));
        assert_eq!(repo.count_between(at[0], at[99]).unwrap(), if cut_off { 50 } else { 99 });
        repo.index_history(at[99]).unwrap();
        assert_eq!(repo.is_ancestor(at[3], at[99]).unwrap(), !cut_off);
        let shallow =
            RefMove { expected: Expected::Any, to: (!cut_off).then_some(cut.to.clone()).flatten(), ..cut.clone() };
        repo.move_refs(&[shallow], Durability::None).unwrap();
    }
}

/// Commits that were indexed before history was made to end above them count no more.
#[test]
fn a_last_change_is_none_below_where_history_was_made_to_end() {
    let repo = Repo::memory();
    let at = line(&repo, 100, |n, tree| {
        if n == 3 {
            tree.set("once", "1").unwrap()
        }
    });
    repo.index_history(at[99]).unwrap();
    let last = |path: &str| repo.last_change(at[99], path).unwrap().map(|entry| entry.id);
    let logged = |path: &str| {
        let options = LogOptions::default().paths(vec![path.parse::<Path>().unwrap()]);
        repo.log(&[at[99]], options).next().map(|entry| entry.unwrap().id)
    };
    assert_eq!((last("once"), logged("once")), (Some(at[3]), Some(at[3])));
    for end in [50, 99, 3, 10] {
        let name = format!("{}{}", bristlecone::SHALLOW, at[end].oid());
        let wanted = |to| RefMove { name: name.clone(), expected: Expected::Any, to };
        repo.move_refs(&[wanted(Some(RefTarget::Object(at[end].into())))], Durability::None).unwrap();
        assert_eq!((last("once"), last("never")), (Some(at[end]), None), "{end}");
        assert_eq!((logged("once"), logged("never")), (Some(at[end]), None), "{end}");
        repo.move_refs(&[wanted(None)], Durability::None).unwrap();
    }
    assert_eq!(last("once"), Some(at[3]));
}

/// The walk by date would end before it has met all that is left out.
#[test]
fn what_is_left_out_stays_out_where_clocks_were_wrong() {
    let repo = Repo::memory();
    let mut dag = Dag::new(repo);
    let mut tree = dag.repo.tree();
    tree.set("a", "1").unwrap();
    let mut add = |parents: Vec<usize>, seconds: i64| {
        dag.add(tree.clone(), parents, seconds);
        dag.at.len() - 1
    };
    let root = add(vec![], 890);
    let above = add(vec![root], 900);
    let mut side = above;
    for _ in 0..6 {
        side = add(vec![side], 1);
    }
    let (left_out, head) = (add(vec![side], 800), add(vec![above], 1000));
    for (order, first_parent) in [
        (LogOrder::TopologicalByDate, false),
        (LogOrder::TopologicalByDate, true),
        (LogOrder::Topological, true),
        (LogOrder::Topological, false),
        (LogOrder::Date, false),
    ] {
        let options = || LogOptions::default().order(order).first_parent(first_parent).exclude(vec![dag.at[left_out]]);
        assert_eq!(dag.log(&[head], options()), [head], "{order:?}");
        assert_eq!(dag.log(&[head], options().since(0)), [head], "{order:?}");
    }
}

/// What is asked for needs few commits, and one far below them cannot be read.
#[test]
fn what_is_left_out_is_found_though_history_ends_in_damage() {
    let (repo, count) = (Repo::memory(), 20_000);
    let mut tree = repo.tree();
    tree.set("a", "1").unwrap();
    let root = tree.write().unwrap();
    let write = |n: usize, parents: Vec<CommitId>, generation: u64| {
        let commit = Commit::new(root, parents, Signature::new("", n as i64), "");
        repo.write_commit(&commit, generation, Durability::None).unwrap()
    };
    // A commit of which only the id is known.
    let missing =
        Repo::memory().write_commit(&Commit::new(root, vec![], Signature::new("", 0), ""), 1, Durability::None);
    let mut at = vec![write(0, vec![missing.unwrap()], 2)];
    for n in 1..count {
        at.push(write(n, vec![at[n - 1]], n as u64 + 2));
    }
    let side = write(count, vec![at[11_000]], 11_003);
    let listed: Vec<CommitId> =
        repo.log(&[side], LogOptions::default().exclude(vec![at[count - 1]])).map(|entry| entry.unwrap().id).collect();
    assert_eq!(listed, [side]);
}

#[test]
fn deep_histories_need_no_stack() {
    const COUNT: usize = 200_000;
    let repo = Repo::memory();
    let mut tree = repo.tree();
    tree.set("a", "1").unwrap();
    let root = tree.write().unwrap();
    let mut at: Vec<CommitId> = Vec::with_capacity(COUNT);
    let write = |n: usize, parents: Vec<CommitId>, generation: u64| {
        let commit = Commit::new(root, parents, Signature::new("", n as i64), "");
        repo.write_commit(&commit, generation, Durability::None).unwrap()
    };
    for n in 0..COUNT {
        at.push(write(n, at.last().copied().into_iter().collect(), n as u64 + 1));
    }
    let (first, last) = (at[0], at[COUNT - 1]);
    // A side line from the root, whose commits have no generation numbers.
    let mut side = vec![first];
    for n in 0..COUNT / 4 {
        side.push(write(COUNT + n, vec![side[n]], 0));
    }
    let tip = *side.last().unwrap();
    assert_eq!(repo.log(&[last], LogOptions::default()).count(), COUNT);
    let topological = LogOptions::default().order(LogOrder::Topological);
    assert_eq!(repo.log(&[last, tip], topological).count(), COUNT + COUNT / 4);
    assert!(repo.is_ancestor(first, last).unwrap());
    assert!(!repo.is_ancestor(side[1], last).unwrap());
    assert_eq!(repo.merge_bases(last, tip).unwrap(), [first]);
    assert_eq!(repo.ahead_behind(last, tip).unwrap(), (COUNT as u64 - 1, COUNT as u64 / 4));
    assert_eq!(repo.revparse(&format!("{}~{}", last.oid(), COUNT - 1)).unwrap(), first);
    assert_eq!(repo.last_change(last, "a").unwrap().map(|entry| entry.id), Some(first));
    let entry = repo.log(&[tip], LogOptions::default().limit(1)).next().unwrap().unwrap();
    assert_eq!(entry.generation, Some(COUNT as u64 / 4 + 1));
}

#[test]
fn what_has_positions_is_not_read_again() {
    let counted = Counted::new(Arc::new(MemoryBackend::new()));
    let counts = counted.counts();
    let repo = Repo::with_backend(Native::new(), Arc::new(counted));
    let mut tree = repo.tree();
    tree.set("a", "1").unwrap();
    let root = tree.write().unwrap();
    let write = |n: usize, parents: &[CommitId], generation: usize| {
        let commit = Commit::new(root, parents.to_vec(), Signature::new("", n as i64), "");
        repo.write_commit(&commit, generation as u64, Durability::None).unwrap()
    };
    // A main line of 30,000 commits, into which side branches of two commits are merged.
    let mut main = vec![write(0, &[], 1)];
    let mut sides = Vec::new();
    for n in 1..30_000 {
        let mut parents = vec![main[n - 1]];
        if n % 5 == 0 {
            let from = n - 3;
            let side = write(100_000 + n, &[main[from]], from + 2);
            sides.push(write(200_000 + n, &[side], from + 3));
            parents.extend(sides.last());
        }
        main.push(write(n, &parents, n + 1));
    }
    let (first, last) = (main[0], main[29_999]);
    let loose = write(300_000, &[main[20_000]], 20_002);
    // The first question that takes many commits gives them positions.
    assert!(repo.is_ancestor(first, last).unwrap());
    let reopened = Repo::with_backend(Native::new(), repo.backend().clone());
    for repo in [&repo, &reopened] {
        for round in 0..2 {
            let before = counts.reads.load(Relaxed);
            assert!(repo.is_ancestor(first, last).unwrap());
            assert!(repo.is_ancestor(main[17_001], main[29_001]).unwrap());
            assert!(!repo.is_ancestor(main[17_001], main[17_000]).unwrap());
            assert!(repo.is_ancestor(sides[0], last).unwrap());
            assert!(!repo.is_ancestor(sides[3000], main[12_000]).unwrap());
            assert!(!repo.is_ancestor(loose, last).unwrap());
            assert!(repo.is_ancestor(sides[10], loose).unwrap());
            assert_eq!(repo.merge_bases(first, last).unwrap(), [first]);
            assert_eq!(repo.merge_bases(loose, last).unwrap(), [main[20_000]]);
            assert_eq!(repo.merge_bases(sides[100], sides[200]).unwrap(), [sides[100]]);
            assert_eq!(repo.count_between(main[1000], main[2000]).unwrap(), 1000 + 400);
            assert_eq!(repo.ahead_behind(last, loose).unwrap(), (9_999 + 2 * 1999, 1));
            let reads = counts.reads.load(Relaxed) - before;
            assert!(reads < 60, "{reads} reads in round {round}");
        }
    }
    // What a log leaves out is not read, either, be it as long as it may.
    let reopened = Repo::with_backend(Native::new(), repo.backend().clone());
    for repo in [&repo, &reopened] {
        let log = |heads: &[CommitId], exclude: &[CommitId], order| {
            let before = counts.reads.load(Relaxed);
            let entries = repo.log(heads, LogOptions::default().order(order).exclude(exclude.to_vec()));
            let listed: Vec<CommitId> = entries.map(|entry| entry.unwrap().id).collect();
            let reads = counts.reads.load(Relaxed) - before;
            assert!(reads as usize <= 3 * listed.len() + exclude.len() + 9, "{reads} reads for {}", listed.len());
            listed
        };
        for order in [LogOrder::Date, LogOrder::Topological] {
            assert_eq!(log(&[loose], &[last], order), [loose]);
            assert_eq!(log(&[main[10]], &[last], order), []);
            assert_eq!(log(&[sides[7], loose], &[last, main[5]], order), [loose]);
            assert_eq!(log(&[main[25_002]], &[main[25_001], loose, sides[4000]], order), [main[25_002]]);
            let many: Vec<CommitId> = main[1000..].iter().step_by(1000).copied().collect();
            assert_eq!(log(&[loose], &many, order), [loose]);
            // Left out by a side branch alone, which is no part of a line of first parents.
            let (side, stem) = (sides[5990], main[29_952]);
            assert_eq!(log(&[side], &[stem], order).len(), 2, "{order:?}");
            assert_eq!(log(&[side], &[last], order), []);
        }
        // The same commit is not left out and listed, and those between are listed in order.
        let wanted: Vec<CommitId> = main[28_001..28_004].iter().rev().copied().collect();
        assert_eq!(log(&[main[28_003]], &[main[28_000], loose], LogOrder::Date), wanted);
    }
}

#[test]
fn what_a_log_leaves_out_gets_positions_where_it_is_much() {
    let counted = Counted::new(Arc::new(MemoryBackend::new()));
    let counts = counted.counts();
    let repo = Repo::with_backend(Native::new(), Arc::new(counted));
    let at = line(&repo, 20_000, |_, _| ());
    let mut tree = repo.tree();
    let side = repo.commit_tree(&mut tree, &[at[5]], &Info::message("side")).unwrap();
    for round in 0..3 {
        let before = counts.reads.load(Relaxed);
        let options = LogOptions::default().exclude(vec![at[19_999]]);
        let listed: Vec<CommitId> = repo.log(&[side], options).map(|entry| entry.unwrap().id).collect();
        assert_eq!(listed, [side]);
        let reads = counts.reads.load(Relaxed) - before;
        assert!(round == 0 || reads < 10, "{reads} reads in round {round}");
    }
    assert_eq!(repo.indexed_commits().unwrap().graph, 20_000);
}

#[test]
fn the_first_entries_cost_no_walk() {
    let counted = Counted::new(Arc::new(MemoryBackend::new()));
    let counts = counted.counts();
    let repo = Repo::with_backend(Native::new(), Arc::new(counted));
    let at = line(&repo, 3000, |_, _| ());
    for (order, exclude) in
        [(LogOrder::Date, vec![]), (LogOrder::Topological, vec![]), (LogOrder::Date, vec![at[2900]])]
    {
        let before = counts.reads.load(Relaxed);
        let options = LogOptions::default().order(order).exclude(exclude).limit(10);
        assert_eq!(repo.log(&[at[2999]], options).count(), 10);
        assert!(counts.reads.load(Relaxed) - before <= 13);
    }
    let before = counts.reads.load(Relaxed);
    assert!(!repo.is_ancestor(at[2999], at[2990]).unwrap());
    assert_eq!(repo.count_between(at[2980], at[2990]).unwrap(), 10);
    assert_eq!(repo.merge_bases(at[2980], at[2990]).unwrap(), [at[2980]]);
    assert!(counts.reads.load(Relaxed) - before <= 40);
}

#[test]
fn names_lead_to_commits() -> Outcome {
    let repo = Repo::memory();
    assert!(matches!(repo.revparse("HEAD"), Err(Error::NoRef { name }) if name == "HEAD"));
    let main = repo.branch("main")?;
    let commit = |text: &str| main.edit(&Info::unsigned(text), |tree| tree.set("a", text));
    let (one, two, three) = (commit("1")?, commit("2")?, commit("3")?);
    let mut tree = main.tree()?;
    let merge = main.commit_with_parents(&mut tree, &[three, one], &Info::unsigned("merge"))?;
    repo.set_head("main")?;
    let hex = merge.oid().to_string();
    for (text, wanted) in [
        ("main", merge),
        ("HEAD", merge),
        ("@", merge),
        ("heads/main", merge),
        ("refs/heads/main", merge),
        (&hex, merge),
        (&hex[..12], merge),
        (&hex[..12].to_uppercase(), merge),
        ("main~0", merge),
        ("main^0", merge),
        ("main~", three),
        ("main^", three),
        ("HEAD^2", one),
        ("@^^", two),
        ("main~3", one),
        ("main~1^1~1", one),
        (&format!("{}^2", &hex[..8]), one),
    ] {
        assert_eq!(repo.revparse(text)?, wanted, "{text}");
    }
    for (text, missing) in [
        ("other", "other"),
        ("main~4", "main~4"),
        ("main^3~1", "main^3"),
        ("", ""),
        ("~1", ""),
        ("00ff00ff", "00ff00ff"),
    ] {
        match repo.revparse(text) {
            Err(Error::NoRef { name }) => assert_eq!(name, missing, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    for text in ["main~x", "main^{tree}", "main~99999999999", "main~1x"] {
        assert!(matches!(repo.revparse(text), Err(Error::Usage { .. })), "{text}");
    }
    let root = repo.read_commit(merge)?.tree.oid().to_string();
    assert!(matches!(repo.revparse(&root), Err(Error::WrongKind { .. })));
    assert!(matches!(repo.revparse(&root[..20]), Err(Error::NoRef { .. })), "a short id means a commit");
    Ok(())
}

/// Counts snapshots.
#[derive(Debug)]
struct CountedSnapshots(Arc<dyn Backend>, Arc<AtomicU64>);

impl Backend for CountedSnapshots {
    fn snapshot(&self, roots: &[Oid]) -> Arc<dyn Snapshot> {
        self.1.fetch_add(1, Relaxed);
        self.0.snapshot(roots)
    }

    pass_backend! {
        0: name, capabilities, read, locate, append, get_ref, list_refs, sweeps, flush, each_object, each_with_prefix,
        stats, read_derived, write_derived
    }
}

#[test]
fn a_name_takes_one_snapshot_for_all_its_steps() -> Outcome {
    let taken = Arc::new(AtomicU64::new(0));
    let counted = CountedSnapshots(Arc::new(MemoryBackend::new()), taken.clone());
    let repo = Repo::with_backend(Native::new(), Arc::new(counted));
    let main = repo.branch("main")?;
    let mut at = Vec::new();
    for n in 0..40 {
        at.push(main.edit(&Info::unsigned("m"), |tree| tree.set("a", n.to_string()))?);
    }
    let named = |text: &str| {
        let before = taken.load(Relaxed);
        repo.revparse(text).map(|found| (found, taken.load(Relaxed) - before))
    };
    let (near, snapshots) = named("main~1")?;
    assert_eq!(near, at[38]);
    assert_eq!(named("main~30^~5")?, (at[3], snapshots));
    Ok(())
}

#[test]
fn tags_come_before_branches() -> Outcome {
    let repo = Repo::memory();
    let main = repo.branch("main")?;
    let commit = |text: &str| main.edit(&Info::unsigned(text), |tree| tree.set("a", text));
    let (one, two) = (commit("1")?, commit("2")?);
    for (name, at) in [("refs/tags/v1", one), ("refs/tags/main", one), ("refs/tags/release/1", two)] {
        repo.compare_and_set(name, None, Some(RefTarget::Object(at.into())), Durability::None)?;
    }
    assert_eq!(repo.tags()?, ["main", "release/1", "v1"]);
    for (text, wanted) in [
        ("v1", one),
        ("tags/v1", one),
        ("refs/tags/v1", one),
        ("release/1~1", one),
        ("main", one),
        ("heads/main", two),
        ("refs/heads/main", two),
    ] {
        assert_eq!(repo.revparse(text)?, wanted, "{text}");
    }
    assert_eq!(repo.peel(two)?, two);
    let root = repo.read_commit(one)?.tree;
    assert!(matches!(repo.peel(root), Err(Error::WrongKind { .. })));
    assert!(matches!(repo.read_tag(one.oid().into()), Err(Error::WrongKind { .. })));
    repo.compare_and_set("refs/tags/tree", None, Some(RefTarget::Object(root.into())), Durability::None)?;
    assert!(matches!(repo.revparse("tree"), Err(Error::WrongKind { .. })));
    Ok(())
}

#[test]
fn commits_are_compared_below_a_path() -> Outcome {
    let repo = Repo::memory();
    let main = repo.branch("main")?;
    let one = main.edit(&Info::unsigned("1"), |tree| tree.set("a/b", "1").and_then(|()| tree.set("c", "1")))?;
    let two = main.edit(&Info::unsigned("2"), |tree| tree.set("a/b", "2").and_then(|()| tree.remove("c")))?;
    for (path, wanted) in [("", vec!["a/b", "c"]), ("a", vec!["a/b"]), ("none", vec![])] {
        let (before, after) = (repo.checkout(one)?, repo.checkout(two)?);
        let found: Vec<Path> = before.diff(&after, path)?.map(|found| Ok(found?.path)).collect::<Result<_, Error>>()?;
        assert_eq!(found, wanted.iter().map(|path| path.parse()).collect::<Result<Vec<_>, _>>()?);
    }
    Ok(())
}

/// The same history in a Git repository.
struct Git {
    dir: tempfile::TempDir,
    // Ids by number, and the reverse.
    ids: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Git {
    fn import(dag: &Dag) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("git").args(["init", "-q", "--bare"]).current_dir(dir.path()).status();
        assert!(made.unwrap().success());
        let mut import = Command::new("git")
            .args(["fast-import", "--quiet", "--export-marks=marks"])
            .current_dir(dir.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        import.stdin.take().unwrap().write_all(&stream(dag)).unwrap();
        assert!(import.wait().unwrap().success());
        let mut ids = vec![String::new(); dag.at.len()];
        for line in std::fs::read_to_string(dir.path().join("marks")).unwrap().lines() {
            let (mark, id) = line[1..].split_once(' ').unwrap();
            ids[mark.parse::<usize>().unwrap() - 1] = id.to_owned();
        }
        let numbers = ids.iter().cloned().enumerate().map(|(n, id)| (id, n)).collect();
        Self { dir, ids, numbers }
    }

    fn lines(&self, args: &[String]) -> Vec<String> {
        let output = Command::new("git").args(args).current_dir(self.dir.path()).output().unwrap();
        assert!(output.status.code().is_some_and(|code| code < 2), "{args:?}");
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    fn commits(&self, args: &[String]) -> Vec<usize> {
        self.lines(args).iter().map(|id| self.numbers[id]).collect()
    }
}

/// The history for `git fast-import`.
fn stream(dag: &Dag) -> Vec<u8> {
    let mut out = Vec::new();
    for (n, at) in dag.at.iter().enumerate() {
        let seconds = dag.seconds[n];
        writeln!(out, "commit refs/heads/c{n}\nmark :{}\ncommitter A <a@b> {seconds} +0000", n + 1).unwrap();
        writeln!(out, "data {}\n{n}", n.to_string().len()).unwrap();
        for (index, parent) in dag.parents[n].iter().enumerate() {
            writeln!(out, "{} :{}", if index == 0 { "from" } else { "merge" }, parent + 1).unwrap();
        }
        writeln!(out, "deleteall").unwrap();
        for entry in dag.repo.checkout(*at).unwrap().walk_all("").unwrap() {
            let (path, entry) = entry.unwrap();
            if let Some(value) = entry.contents().unwrap() {
                writeln!(out, "M 100644 inline {path}\ndata {}", value.len()).unwrap();
                out.extend_from_slice(&value);
                out.push(b'\n');
            }
        }
        out.push(b'\n');
    }
    out
}

#[needs(git)]
#[test]
fn git_agrees() {
    for seed in 500..504 {
        let dag = Dag::random(seed, 100, [4, 10, 25, 100][seed as usize % 4]);
        let git = Git::import(&dag);
        let random = &mut Random(seed);
        for _ in 0..25 {
            let (a, b) = (random.below(100), 50 + random.below(50));
            let context = format!("seed {seed}: {a} {b}");
            let bases = dag.numbers(&dag.repo.merge_bases(dag.at[a], dag.at[b]).unwrap());
            let theirs = git.commits(&["merge-base".into(), "--all".into(), git.ids[a].clone(), git.ids[b].clone()]);
            assert_eq!(BTreeSet::from_iter(bases), BTreeSet::from_iter(theirs), "{context}");
            let (ahead, behind) = dag.repo.ahead_behind(dag.at[a], dag.at[b]).unwrap();
            let range = format!("{}...{}", git.ids[a], git.ids[b]);
            let theirs = git.lines(&["rev-list".into(), "--count".into(), "--left-right".into(), range]);
            assert_eq!(theirs, [format!("{ahead}\t{behind}")], "{context}");
        }
        for _ in 0..40 {
            let ask = Ask::random(random, &dag);
            let heads = [random.below(100), 50 + random.below(50)];
            let theirs = git.commits(&rev_list(&git, &heads, &ask));
            let context = format!("seed {seed}: {heads:?} {ask:?}");
            assert_eq!(dag.log(&heads, ask.options(&dag)), theirs, "{context}");
        }
    }
}

fn rev_list(git: &Git, heads: &[usize], ask: &Ask) -> Vec<String> {
    let mut args = vec!["rev-list".to_owned()];
    if ask.order == LogOrder::Topological {
        args.push("--topo-order".into());
    }
    if ask.first_parent {
        args.push("--first-parent".into());
    }
    args.extend(ask.exclude.iter().map(|&one| format!("^{}", git.ids[one])));
    args.extend(heads.iter().map(|&head| git.ids[head].clone()));
    if let Some(path) = ask.path {
        args.extend(["--".into(), PATHS[path].into()]);
    }
    args
}
