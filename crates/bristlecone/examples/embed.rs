//! Embeds a store in a program: open it, edit a tree, commit, look things up.
//!
//! ```text
//! cargo run -p bristlecone --example embed            # in memory
//! cargo run -p bristlecone --example embed -- DIR     # on disk; run it again, and it goes on
//! ```

use bristlecone::{Info, Listing, Native, Repo, Result, disk::DiskOptions};

fn main() -> Result<()> {
    let repo = open()?;
    let main = repo.branch("main")?;

    // A tree is a value: edits wait in memory, and nothing is hashed or written before the commit.
    let mut tree = main.tree()?;
    let visits = tree.get("visits")?.map_or(0, |bytes| bytes.len()) + 1;
    tree.set("visits", vec![b'|'; visits])?;
    tree.set("fruit/apple", "red")?;
    tree.set("fruit/plum", "blue")?;
    tree.set("fruit/quince", "yellow")?;
    tree.remove("fruit/apple")?;

    // The commit writes what changed and moves the branch in one step; once it returns, it is on the disk.
    let at = main.commit(&mut tree, &Info::message(format!("visit {visits}")))?;
    println!("committed {at}, root {}", tree.root()?);

    // Lookups load what they pass. Listings are in order, within bounds.
    println!("the plum is {}", main.tree()?.get("fruit/plum")?.map_or_else(String::new, |value| text(&value)));
    for entry in main.tree()?.list_with("fruit", &Listing::new().limit(10))? {
        let entry = entry?;
        println!("  fruit/{} has {} bytes", text(entry.step()), entry.bytes().unwrap_or(0));
    }

    // Equal contents have equal roots, whatever led to them.
    let mut other = repo.tree();
    other.set("plum", "blue")?;
    other.set("quince", "yellow")?;
    let fruit = main.tree()?.get_tree("fruit")?.unwrap_or_else(|| repo.tree());
    assert!(other.same(&fruit)?);
    Ok(())
}

/// Opens the store in the folder that is the first argument, making it if need be; without one, in memory.
fn open() -> Result<Repo> {
    let Some(dir) = std::env::args().nth(1) else { return Ok(Repo::memory()) };
    match Repo::open(&dir, DiskOptions::default()) {
        Err(bristlecone::Error::NoStore { .. }) => Repo::create(&dir, Native::new(), DiskOptions::default()),
        opened => opened,
    }
}

fn text(bytes: &[u8]) -> String {
    bristlecone::escape(bytes)
}
