//! A repository made by git, imported and compared.

use bristlecone_needs::needs;
use clap::Parser;

use super::*;
use crate::peers::program::said_by_git;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: GitImportArgs,
}

fn args(words: &str) -> GitImportArgs {
    Command::try_parse_from(std::iter::once("git-import").chain(words.split_whitespace())).unwrap().args
}

/// Makes a repository with a merge, a tag of a commit and an annotated one, through git fast-import.
fn repository(dir: &Path) {
    use std::io::Write;
    said_by_git(dir, &["init", "--bare", "-q", "."]).unwrap();
    let who = "A <a@example.org> 1750000000 +0100";
    let commit = |branch: &str, mark: usize, lines: &str| {
        format!("commit refs/heads/{branch}\nmark :{mark}\ncommitter {who}\ndata 5\ntext\n\n{lines}\n")
    };
    let file = |name: &str, text: &str| format!("M 100644 inline {name}\ndata {}\n{text}\n", text.len());
    let stream = [
        commit("main", 1, &(file("one", "1") + &file("dir/two", "22"))),
        commit("side", 2, &format!("from :1\n{}", file("dir/three", "333"))),
        commit("main", 3, &file("one", "1111")),
        commit("main", 4, &format!("merge :2\n{}", file("dir/three", "333"))),
        format!("tag v1\nfrom :4\ntagger {who}\ndata 5\nfirst\n"),
        "reset refs/tags/light\nfrom :2\n\n".into(),
    ];
    let mut import = program::git(dir).args(["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(stream.concat().as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
}

/// Returns a folder with a repository in it.
fn home() -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("source.git");
    fs::create_dir(&source).unwrap();
    repository(&source);
    (dir, source)
}

#[needs(git)]
#[test]
fn a_history_comes_in_by_every_way() {
    let (dir, source) = home();
    fs::create_dir(dir.path().join("stores")).unwrap();
    let args = args(&format!("{} --dir {}/stores --runs 2 --in-process", source.display(), dir.path().display()));
    let rows = measure(&args, &source).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| &row.name[..]).collect();
    assert_eq!(
        names,
        ["bristlecone disk git", "bristlecone disk native", "git fast-export | git fast-import", "git clone"]
    );
    for row in &rows {
        assert!(row.checked, "{}: {:?} {:?}", row.name, row.wrong, row.import);
        assert_eq!((&row.scenario[..], row.runs), ("git-import-source", 2));
        let import = row.import.as_ref().unwrap();
        assert_eq!((import.commits, import.refs, import.refs_same), (4, 4, 4), "{}", row.name);
        assert_eq!((row.total_ops, row.threads), (import.objects, 0));
        assert_eq!(import.times_fast_import.is_some(), row.backend == "disk");
    }
    assert_eq!(fs::read_dir(dir.path().join("stores")).unwrap().count(), 0, "no store is left behind");
}

#[needs(git)]
#[test]
fn a_ref_that_is_another_is_found() {
    let (dir, source) = home();
    let mut source = Repository::read(&source).unwrap();
    let dest = dir.path().join("clone.git");
    theirs::clone(&source, &dest).unwrap();
    let mut results = Results { by: By::Clone, runs: vec![], refs_same: 0 };
    let mut compare = |source: &Repository| {
        let mut run = Run::default();
        results.compare(source, &dest, &mut run).unwrap();
        (run.wrong, results.refs_same)
    };
    assert_eq!(compare(&source), (None, 4));
    source.refs.insert("refs/heads/side".into(), "0".repeat(40));
    let (wrong, same) = compare(&source);
    assert!(wrong.unwrap().contains("refs/heads/side is "));
    assert_eq!(same, 3);
}

#[test]
fn ratios_are_medians_of_rounds_and_of_nothing_wrong() {
    let results = |by: By, seconds: &[f64]| {
        let run = |&seconds: &f64| Run { seconds, ..Run::default() };
        Results { by, runs: seconds.iter().map(run).collect(), refs_same: 0 }
    };
    // The machine became slower: the ratio of the medians would be 1.
    let ours = results(By::Git, &[1.0, 2.0, 4.0]);
    let mut theirs = results(By::Clone, &[2.0, 4.0, 2.0]);
    assert_eq!((ours.times(&theirs), theirs.times(&ours)), (Some(2.0), Some(0.5)));
    assert_eq!(ours.times(&results(By::FastImport, &[])), None);
    theirs.runs[2] = Run { wrong: Some("it ended".into()), ..Run::default() };
    assert_eq!((ours.times(&theirs), theirs.times(&ours)), (None, None));
}

#[needs(git)]
#[test]
fn a_way_of_gits_that_fails_later_is_wrong_and_one_that_fails_at_first_is_left_out() {
    let (dir, source) = home();
    let source = Repository::read(&source).unwrap();
    let (args, dest) = (args("source.git"), dir.path().join("taken"));
    fs::create_dir(&dest).unwrap();
    fs::write(dest.join("file"), "git clones into no folder that holds something").unwrap();
    let mut results = Results { by: By::Clone, runs: vec![], refs_same: 0 };
    results.once(&args, &source, &dest, true);
    results.once(&args, &source, &dest, false);
    assert!(results.runs.is_empty(), "{:?}", results.runs);
    results.once(&args, &source, &dir.path().join("free"), true);
    results.once(&args, &source, &dest, false);
    let wrong: Vec<bool> = results.runs.iter().map(|run| run.wrong.is_some()).collect();
    assert_eq!(wrong, [false, true]);
    let row = rows(&args, &source, &[results], &Machine::default()).remove(0);
    assert!(!row.checked && row.wrong.unwrap().contains("git clone"));
}

#[needs(git)]
#[test]
fn what_an_import_found_wrong_stays_wrong() {
    let (dir, source) = home();
    let mut source = Repository::read(&source).unwrap();
    let dest = dir.path().join("store");
    ours::import(&ImportJob { by: By::Git, source: source.path.clone(), dest: dest.clone() }).unwrap();
    let mut results = Results { by: By::Git, runs: vec![], refs_same: 0 };
    let mut run = Run { wrong: Some("the blob 00 is missing".into()), ..Run::default() };
    results.compare(&source, &dest, &mut run).unwrap();
    assert_eq!((run.wrong.as_deref(), results.refs_same), (Some("the blob 00 is missing"), 4));
    source.refs.insert("refs/heads/side".into(), "0".repeat(40));
    results.compare(&source, &dest, &mut run).unwrap();
    assert_eq!((run.wrong.as_deref(), results.refs_same), (Some("the blob 00 is missing"), 3));
}

#[needs(git)]
#[test]
fn what_is_no_repository_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let reason = |path: &Path| run(&args(&path.display().to_string()), false).unwrap_err().to_string();
    assert!(reason(dir.path()).contains("not a git repository"));
    assert!(reason(&dir.path().join("nowhere")).contains("nowhere"));
    said_by_git(dir.path(), &["init", "--bare", "-q", "."]).unwrap();
    assert!(reason(dir.path()).contains("no refs to import"));
}
