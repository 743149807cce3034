//! `cone bench` in Git repositories, very small, in processes of its own.

use bristlecone_needs::needs;

use crate::git_harness::GitPlace;

#[needs(git)]
#[test]
fn a_history_comes_in_as_it_was_by_every_way() {
    let place = GitPlace::new();
    place.git(["tag", "-a", "-m", "first", "v1"]);
    std::fs::create_dir(place.path("../stores")).unwrap();
    let rows = place.json(["bench", "git-import", ".", "--runs", "1", "--dir", "../stores", "--json", "../rows.json"]);
    let rows = rows["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    for row in rows {
        assert_eq!((&row["scenario"], &row["checked"]), (&"git-import-work".into(), &true.into()), "{row}");
        assert_eq!((&row["import"]["refs"], &row["import"]["refs_same"]), (&2.into(), &2.into()), "{row}");
    }
    assert!(rows[1]["rss_anon_kb"].as_u64().unwrap() > 0, "{}", rows[1]);
    assert!(place.path("../rows.json").is_file());
    assert_eq!(std::fs::read_dir(place.path("../stores")).unwrap().count(), 0, "no store is left behind");
    place.clean();
    place.fails(2, &["not a git repository"], ["bench", "git-import", ".."]);
}

#[needs(git)]
#[test]
fn rows_of_repositories_are_compared_with_others() {
    let place = GitPlace::unborn(&[]);
    let sizes = ["--ncommits", "3", "--tree-add", "40", "--depth", "2", "--nreads", "100", "--quick", "--dir", ".."];
    let what = ["bench", "--only-backend", "git", "--only-scenario", "commits-20B,incremental-20B"];
    let rows = place.json(what.into_iter().chain(sizes));
    // Rows of other sizes than usual do not replace the usual ones.
    let of = |name: &str| {
        let name = format!("{name} ncommits=3 tree-add=40 depth=2 nreads=100");
        let rows = rows["rows"].as_array().unwrap().iter();
        rows.filter(|row| row["name"] == name[..] && row["checked"] == true).cloned().collect::<Vec<_>>()
    };
    for name in ["bristlecone git packs none", "bristlecone git loose none", "git fast-import"] {
        assert_eq!(of(name).len(), 2, "{name}: {rows}");
    }
    assert_eq!(of("git fast-import")[1]["head"], of("bristlecone git packs synced")[1]["head"]);
    assert!(of("git fast-import")[0]["version"].as_str().unwrap().starts_with("git version"));
}
