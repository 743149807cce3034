//! x
use bristlecone::*;
use std::time::Instant;
fn main() {
    let tmp = tempfile::tempdir().unwrap();
    let repo = if std::env::args().nth(1).is_some() {
        Repo::create(tmp.path(), Native::new(), DiskOptions::default()).unwrap()
    } else {
        Repo::memory()
    };
    let main = repo.branch("main").unwrap();
    let mut tree = repo.tree();
    let long = "d0/d1/d2/d3/d4/d5/d6/d7/d8/d9";
    for n in 1..=1000 {
        tree.set(format!("{long}/{n}"), &[b'x'; 20][..]).unwrap();
    }
    for a in 0..100 {
        for b in 0..100 {
            for c in 0..4 {
                tree.set(format!("w/directory{a}/below{b}/file{c}"), &[b'y'; 20][..]).unwrap();
            }
        }
    }
    main.commit(&mut tree, &Info::unsigned("m")).unwrap();
    let tree = main.tree().unwrap();
    let mut word = 7u64;
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word
    };
    let one: Vec<Path> = (0..200_000).map(|_| format!("{long}/{}", 1 + next() % 1000).parse().unwrap()).collect();
    let many: Vec<Path> = (0..200_000)
        .map(|_| format!("w/directory{}/below{}/file{}", next() % 100, next() % 100, next() % 4).parse().unwrap())
        .collect();
    let names: Vec<Path> = (0..200_000).map(|_| format!("{}", 1 + next() % 1000).parse().unwrap()).collect();
    let below = tree.get_tree(long).unwrap().unwrap();
    let only = std::env::var("ONLY").ok();
    for round in 0..(if only.is_some() { 60 } else { 9 }) {
        let run = |name: &str, f: &mut dyn FnMut() -> usize| {
            if only.as_deref().is_some_and(|o| o != name) {
                return;
            }
            let t = Instant::now();
            let mut n = 0;
            for _ in 0..2 {
                n += f();
            }
            if round > 2 {
                print!("{name} {:.1} ns  ", t.elapsed().as_nanos() as f64 / 400_000.0);
            }
            assert_eq!(n, 2 * 200_000 * 20);
        };
        run("one", &mut || one.iter().map(|p| tree.get(p).unwrap().unwrap().len()).sum());
        run("many", &mut || many.iter().map(|p| tree.get(p).unwrap().unwrap().len()).sum());
        run("reader", &mut || {
            let mut r = tree.reader();
            one.iter().map(|p| r.get(p).unwrap().unwrap().len()).sum()
        });
        run("subtree", &mut || names.iter().map(|p| below.get(p).unwrap().unwrap().len()).sum());
        println!();
    }
}
