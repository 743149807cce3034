//! Travels in time: every version stays, and history answers questions.
//!
//! ```text
//! cargo run -p bristlecone --example time_travel            # in memory
//! cargo run -p bristlecone --example time_travel -- DIR     # on disk
//! ```

use bristlecone::{
    CommitId, DirEntry, Durability, Info, LogEntry, LogOptions, Native, Repo, Result, Signature, disk::DiskOptions,
    escape,
};

fn main() -> Result<()> {
    let repo = open()?;
    write_history(&repo)?;
    let head = repo.revparse("garden")?;

    println!("The last five days, newest first:");
    for entry in repo.log(&[head], LogOptions::default().limit(5)) {
        show(&entry?);
    }

    println!("Every change below beds/north:");
    let options = LogOptions::default().paths(vec!["beds/north".parse()?]);
    for entry in repo.log(&[head], options) {
        show(&entry?);
    }

    // An old version is opened like a new one, in constant time.
    let old = repo.revparse("garden~330")?;
    for (name, at) in [("now", head), ("330 days ago", old)] {
        let tree = repo.checkout(at)?;
        println!("{name} it grows {:?} in the north", tree.get("beds/north/1")?);
    }

    // The last change of a path does not visit every commit: an index of history says which to pass over.
    repo.index_history(head)?;
    for path in ["beds/north/1", "beds/south", "gnome", "pond"] {
        match repo.last_change(head, path)? {
            Some(entry) => println!("{path} changed last on {}", escape(&entry.commit.message)),
            None => println!("there never was a {path}"),
        }
    }

    println!("What is different since then, in the north:");
    let (before, after) = (repo.checkout(old)?, repo.checkout(head)?);
    for difference in before.diff(&after, "beds/north")? {
        let difference = difference?;
        let value = |side: Option<_>| -> Result<_> { side.map_or(Ok(None), |entry: DirEntry<_>| entry.contents()) };
        println!("  {}: {:?} became {:?}", difference.path, value(difference.before)?, value(difference.after)?);
    }
    println!("{} days lie between, and {}", repo.count_between(old, head)?, relation(&repo, old, head)?);
    Ok(())
}

fn relation(repo: &Repo, old: CommitId, head: CommitId) -> Result<&'static str> {
    Ok(if repo.is_ancestor(old, head)? { "one led to the other" } else { "they are apart" })
}

/// A year in a garden, one commit a day. Starts over if there is one.
fn write_history(repo: &Repo) -> Result<()> {
    let garden = repo.branch("garden")?;
    garden.compare_and_set(garden.head()?, None, Durability::None)?;
    let plants = ["beans", "kale", "leeks", "peas"];
    let mut tree = repo.tree();
    for day in 0..365 {
        if day % 40 == 0 {
            tree.set("beds/north/1", plants[day / 40 % 4])?;
        }
        tree.set(format!("beds/south/{}", day % 12), format!("watered on day {day}"))?;
        match day {
            50 => tree.set("gnome", "red hat")?,
            90 => tree.remove("gnome")?,
            _ => {}
        }
        let gardener = Signature::new("Rosa <rosa@garden>", day as i64 * 86_400);
        let info = Info::message(format!("day {day}")).by(gardener).durability(Durability::None);
        garden.commit(&mut tree, &info)?;
    }
    repo.flush()
}

fn show(entry: &LogEntry) {
    println!("  {} {}", &entry.id.to_string()[..10], escape(&entry.commit.message));
}

/// Opens the store in the folder that is the first argument, making it if need be; without one, in memory.
fn open() -> Result<Repo> {
    let Some(dir) = std::env::args().nth(1) else { return Ok(Repo::memory()) };
    match Repo::open(&dir, DiskOptions::default()) {
        Err(bristlecone::Error::NoStore { .. }) => Repo::create(&dir, Native::new(), DiskOptions::default()),
        opened => opened,
    }
}
