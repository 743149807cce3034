//! Two branches change one list, and are merged: what both changed is a conflict, which the program settles.
//!
//! ```text
//! cargo run -p bristlecone --example merge
//! ```

use bristlecone::{Info, Repo, Result, merge};

fn main() -> Result<()> {
    let repo = Repo::memory().with_committer("Ann <ann@example.org>");
    let main = repo.branch("main")?;
    let base = main.edit(&Info::message("a shopping list"), |tree| {
        tree.set("list/apples", "2")?;
        tree.set("list/bread", "1")
    })?;
    let side = repo.branch("side")?;
    side.compare_and_set(None, Some(base), Default::default())?;

    let ours = main.edit(&Info::message("more apples"), |tree| tree.set("list/apples", "4"))?;
    let theirs = side.edit(&Info::message("fewer apples, and plums"), |tree| {
        tree.set("list/apples", "1")?;
        tree.set("list/plums", "12")
    })?;

    // What both have in common, and what each side made of it.
    let common = repo.merge_bases(ours, theirs)?;
    let base = common.first().map(|at| repo.checkout(*at)).transpose()?;
    let sides = (repo.checkout(ours)?, repo.checkout(theirs)?);
    let merged = merge::trees(base.as_ref(), &sides.0, &sides.1)?;

    // In a conflict the merged tree has what ours has. Here the larger number wins.
    let mut tree = merged.tree;
    for conflict in &merged.conflicts {
        let number = |side: &bristlecone::Tree| -> Result<u32> {
            let value = side.get(&conflict.path)?;
            Ok(value.and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok()).unwrap_or(0))
        };
        let larger = number(&sides.0)?.max(number(&sides.1)?);
        println!("conflict at {}: {larger} it is", conflict.path);
        tree.set(&conflict.path, larger.to_string())?;
    }
    main.commit_with_parents(&mut tree, &[ours, theirs], &Info::message("merge side"))?;

    for entry in main.tree()?.list("list")? {
        let entry = entry?;
        let value = entry.contents()?.unwrap_or_default();
        println!("  {} {}", bristlecone::escape(entry.step()), bristlecone::escape(&value));
    }
    assert_eq!(main.tree()?.get("list/apples")?.as_deref(), Some(&b"4"[..]));
    assert_eq!(main.tree()?.count("list")?, 3);
    Ok(())
}
