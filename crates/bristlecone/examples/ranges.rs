//! A directory as an ordered map: ranges from either end, pages, and a cursor.
//!
//! ```text
//! cargo run -p bristlecone --example ranges
//! ```

use bristlecone::{Info, Listing, Repo, Result};

fn main() -> Result<()> {
    let repo = Repo::memory();
    let main = repo.branch("main")?;
    main.edit(&Info::message("a year of temperatures"), |tree| {
        tree.set_many((0..365).map(|day| (format!("day/{day:03}"), ((day * 37) % 30).to_string())))
    })?;
    let tree = main.tree()?;

    // Bounds as those of the standard library's maps, entries from either end.
    let mut april = tree.range("day", "090".."120")?;
    let (first, last) = (april.next().transpose()?, april.next_back().transpose()?);
    println!("April begins with {} and ends with {}", step(first.as_ref()), step(last.as_ref()));
    println!("and has {} days between them", april.count());

    // A page: the pieces that hold the directory say how many entries they have, so that those left out are not read.
    let page = Listing::new().skip(200).limit(3);
    for entry in tree.list_with("day", &page)? {
        let entry = entry?;
        println!("  {} {}", step(Some(&entry)), bristlecone::escape(&entry.contents()?.unwrap_or_default()));
    }

    // A cursor goes to and fro, and lends the entry that it is on.
    let mut cursor = tree.cursor("day")?;
    cursor.seek(b"180");
    let mut warm = 0;
    while let Some(entry) = cursor.next()? {
        if entry.contents()?.is_some_and(|value| value[..] == *b"29") {
            break;
        }
        warm += 1;
    }
    println!("{warm} days after day 180 it has 29 degrees; the day before is {}", step(cursor.previous()?));
    Ok(())
}

fn step(entry: Option<&bristlecone::DirEntry<'_>>) -> String {
    entry.map_or_else(|| "nothing".to_owned(), |entry| bristlecone::escape(entry.step()))
}
