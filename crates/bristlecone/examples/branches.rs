//! Many branches, many threads: branches are cheap, and compare-and-set keeps every update.
//!
//! Eight threads count votes on one branch, each by reading the count and committing one more. The thread that comes
//! second to the same commit learns so and tries again from the new one, so no vote is lost. Each thread also has a branch
//! of its own, where no other is in its way.
//!
//! ```text
//! cargo run -p bristlecone --example branches            # in memory
//! cargo run -p bristlecone --example branches -- DIR     # on disk
//! ```

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};

use bristlecone::{Durability, Error, Info, Native, Repo, Result, disk::DiskOptions};

const THREADS: u64 = 8;
const VOTES: u64 = 50;

fn main() -> Result<()> {
    let repo = open()?;
    let before = count(&repo, "main")?;
    let attempts = AtomicU64::new(0);

    thread::scope(|scope| {
        let start = |voter| {
            let (repo, attempts) = (&repo, &attempts);
            scope.spawn(move || vote(repo, voter, attempts))
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no voter panics"))
    })?;

    let votes = count(&repo, "main")? - before;
    println!("{votes} votes in {} attempts", attempts.load(Relaxed));
    assert_eq!(votes, THREADS * VOTES);
    for name in repo.branches()? {
        println!("  {name}: {}", count(&repo, &name)?);
    }

    // The same by hand: a branch moves only from where the caller believes it is.
    let main = repo.branch("main")?;
    let (head, release) = (main.head()?, repo.branch("release")?);
    let free = release.head()?;
    release.compare_and_set(free, head, Durability::Synced)?;
    let again = release.compare_and_set(free, head, Durability::Synced);
    assert!(free == head || matches!(again, Err(Error::RefMoved { .. })), "it is not there any more");
    Ok(())
}

fn vote(repo: &Repo, voter: u64, attempts: &AtomicU64) -> Result<()> {
    let (main, own) = (repo.branch("main")?, repo.branch(&format!("voters/{voter}"))?);
    let info = Info::message(format!("voter {voter}")).durability(Durability::Grouped);
    for _ in 0..VOTES {
        for branch in [&main, &own] {
            // Runs again from the start when another thread was faster.
            branch.edit(&info, |tree| {
                attempts.fetch_add(u64::from(branch.name() == "main"), Relaxed);
                let votes = tree.get("votes")?.map_or(0, |text| number(&text));
                tree.set("votes", (votes + 1).to_string())
            })?;
        }
    }
    Ok(())
}

fn count(repo: &Repo, branch: &str) -> Result<u64> {
    Ok(repo.branch(branch)?.tree()?.get("votes")?.map_or(0, |text| number(&text)))
}

fn number(text: &[u8]) -> u64 {
    String::from_utf8_lossy(text).parse().unwrap_or(0)
}

/// Opens the store in the folder that is the first argument, making it if need be; without one, in memory.
fn open() -> Result<Repo> {
    let Some(dir) = std::env::args().nth(1) else { return Ok(Repo::memory()) };
    match Repo::open(&dir, DiskOptions::default()) {
        Err(bristlecone::Error::NoStore { .. }) => Repo::create(&dir, Native::new(), DiskOptions::default()),
        opened => opened,
    }
}
