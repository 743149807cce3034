//! The options, and a tiny suite from end to end.

use clap::Parser;

use super::*;
use crate::measure::Run;
use bristlecone_testkit::scratch::scratch_parent;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: BenchArgs,
}

fn args(words: &str) -> BenchArgs {
    Command::try_parse_from(std::iter::once("bench").chain(words.split_whitespace())).unwrap().args
}

fn tiny(dir: &Path, more: &str) -> BenchArgs {
    let sizes = "--ncommits 3 --tree-add 70 --depth 2 --nreads 200 --runs 1 --in-process";
    args(&format!("{sizes} --dir {} {more}", dir.display()))
}

fn measured(dir: &Path, more: &str) -> Vec<Row> {
    let args = tiny(dir, more);
    let mut session = measure(&args).unwrap();
    assert!(session.failed.is_none(), "{:?}", session.failed);
    std::mem::take(&mut session.rows)
}

#[test]
fn a_tiny_suite_is_right_on_every_backend() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let rows = measured(dir.path(), "--value-size 100 --skip-git");
    let results: Vec<&Row> = rows.iter().filter(|row| !row.is_limit()).collect();
    for row in &results {
        assert!(row.checked, "{} {}: {:?}", row.name, row.scenario, row.wrong);
        assert!(row.total_ops > 0 && row.total_time > 0.0, "{} {}", row.name, row.scenario);
        let is_ours = matches!(&row.backend[..], "memory" | "disk");
        assert!(row.store_bytes > 0 || !is_ours, "{} {}", row.name, row.scenario);
    }
    let heads = |scenario: &str| {
        let heads: Vec<_> = results.iter().filter(|row| row.scenario == scenario).map(|row| &row.head).collect();
        let without_files = if scenario == "commits-10K-distinct" { 2 } else { 0 };
        assert_eq!(heads.len(), 9 - without_files, "{scenario}");
        assert!(heads[0].is_some() && heads.iter().all(|head| *head == heads[0]), "{scenario}: {heads:?}");
    };
    for scenario in ["commits-20B", "commits-100B", "commits-10K-distinct", "incremental-10K", "large-values"] {
        heads(scenario);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no store is left behind");
}

#[test]
fn a_tiny_suite_is_right_in_git_repositories_and_git_agrees() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let scenarios = "commits-20B,commits-10K-distinct,large-values,incremental-20B,incremental-long-20B,reads-20B,\
                     reads-random-20B-1t,reads-random-subtree-long-20B-2t,concurrent-20B";
    let rows = measured(dir.path(), &format!("--only-backend git --only-scenario {scenarios}"));
    let results: Vec<&Row> = rows.iter().filter(|row| !row.is_limit()).collect();
    for row in &results {
        assert!(row.checked, "{} {}: {:?}", row.name, row.scenario, row.wrong);
        assert!(row.total_ops > 0 && row.total_time > 0.0, "{} {}", row.name, row.scenario);
        let bare = row.durability == "synced" && row.backend == "git";
        assert_eq!(row.bare_us.is_some(), bare, "{} {}", row.name, row.scenario);
    }
    for (scenario, ours) in [("commits-20B", 4), ("incremental-20B", 4), ("commits-10K-distinct", 2), ("reads-20B", 2)]
    {
        let heads: Vec<_> = results.iter().filter(|row| row.scenario == scenario).map(|row| &row.head).collect();
        assert!(heads.len() >= ours, "{scenario}: {heads:?}");
        assert!(heads[0].is_some() && heads.iter().all(|head| *head == heads[0]), "{scenario}: {heads:?}");
    }
    let sized = |row: &&&Row| row.folded_bytes.is_some_and(|bytes| bytes > 0) && row.gc_bytes.is_some();
    let count = results.iter().filter(sized).count();
    assert_eq!(count, if peers::program::find("git").is_some() { 2 } else { 0 });
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no repository is left behind");
}

#[test]
fn switches_change_roots_and_names_but_not_answers() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let usual = measured(dir.path(), "--quick --only-backend disk --only-scenario incremental-20B");
    let other = measured(
        dir.path(),
        "--quick --only-backend disk --only-scenario incremental-20B --no-inode --no-inline --no-maps --cache 65536 --no-direct",
    );
    let (usual, other) = (usual.last().unwrap(), other.last().unwrap());
    let sizes = "ncommits=3 tree-add=70 depth=2 nreads=200";
    assert_eq!(usual.name, format!("bristlecone disk synced {sizes}"));
    assert_eq!(other.name, format!("bristlecone disk synced no-inline no-inode no-maps no-direct cache=65536 {sizes}"));
    assert_eq!((&usual.sizes[..], &usual.variant[..]), (sizes, ""));
    assert!(usual.checked && other.checked);
    assert_ne!(usual.root, other.root);
}

#[test]
fn parallel_forms_and_optimisations_are_right() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let rows = measured(
        dir.path(),
        "--skip-git --parallel-domains 2 --parallel-fibers 3 --only-scenario commits,incremental,reads --optims",
    );
    assert!(rows.iter().all(|row| row.is_limit() || row.checked));
    let ops = |scenario: &str| rows.iter().find(|row| row.scenario == scenario).unwrap().total_ops;
    assert_eq!(ops("commits-20B-p2x3"), 2 * 3 * 3 * 70);
    assert_eq!(ops("incremental-20B-p2x3"), 2 * 3 * 3);
    assert_eq!(ops("reads-20B-p2x3"), 2 * 3 * 200);
    assert!(rows.iter().all(|row| row.backend != "disk" || row.store_bytes > 0));
    assert!(rows.iter().any(|row| row.variant == "baseline" && row.backend == "disk"));
}

#[test]
fn long_forms_are_right_when_small() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let args = tiny(dir.path(), "--big --big-bytes 2000000 --big-entries 5000 --skip-memory");
    let mut jobs = jobs(&args, dir.path()).unwrap();
    // The directory to compare with is as wide as ever; here it need not be.
    jobs.retain(|job| job.work != Work::Big(Big::Wide { entries: WIDE_ENTRIES }));
    assert_eq!(jobs.len(), 5);
    for job in jobs {
        for run in crate::scenario::run(&job).unwrap() {
            assert_eq!(run.wrong, None, "{} {}", job.scenario(), run.part);
        }
    }
}

#[test]
fn only_lookups_beyond_the_budget_are_bound_to_it() {
    let budgeted = tiny(Path::new("."), "--big --big-bytes 2000000 --cache 1048576");
    for job in jobs(&budgeted, Path::new(".")).unwrap() {
        let is_bound = matches!(job.work, Work::Big(Big::Budget { .. }));
        for (anon_kb, is_beyond) in [(65 << 10, false), ((65 << 10) + 1, true)] {
            let mut runs = [Run { rss_anon_kb: anon_kb, ..Run::default() }];
            crate::big::judge_memory(&job, &mut runs);
            assert_eq!(runs[0].wrong.is_some(), is_bound && is_beyond, "{}, {anon_kb} KiB", job.scenario());
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let reason = |words: &str| {
        let error = run(&args(words), false).unwrap_err();
        assert!(error.is_usage(), "{words}: {error}");
        error.to_string()
    };
    assert!(reason("--trace file").contains("bench all --trace"));
    assert!(reason("--only-backend tape").contains("memory, disk, lsm, lmdb, fs and git"));
    assert!(reason("--only-scenario nothing").contains("commits-10K-distinct"));
    assert!(reason("--only-scenario commits,lookups").contains("no scenario or row lookups"));
    for left_out in ["incremental-long-20B", "commits-10K-distinct"] {
        let words = format!("--quick --only-scenario commits,{left_out}");
        assert!(reason(&words).contains(&format!("--quick leaves {left_out} out")));
    }
    assert!(reason("--big --only-backend lsm").contains("long forms are"));
    assert!(reason("--big --only-scenario open,nosuch").contains("no long form nosuch here; long forms are"));
    // An option that means nothing is not passed over.
    assert!(reason("--only-backend lsm --no-maps").contains("--no-maps means nothing"));
    assert!(reason("--only-backend memory --cache 4096 --no-inline").contains("--cache=4096 means nothing"));
    assert!(reason("--big --only-backend memory --no-direct").contains("--no-direct means nothing"));
    assert!(jobs(&args("--no-maps --no-direct --only-backend disk"), Path::new("")).is_ok());
    assert!(Command::try_parse_from(["bench", "--big", "--optims"]).is_err());
    assert!(
        reason("--skip-memory --skip-disk --skip-lsm --skip-lmdb --skip-fs --skip-git").contains("nothing is left")
    );
    // The last of 1,000 entries and 100 commits is value 1,100.
    assert!(reason("--value-size 9 --only-scenario incremental-9B").contains("it takes 10;"));
    let fits = args("--value-size 10 --only-scenario incremental-10B --skip-peers");
    assert!(jobs(&fits, Path::new("")).is_ok());
    assert!(Command::try_parse_from(["bench", "--runs", "0"]).is_err());
    // A path has at most 1,024 steps, of which one is the entry.
    assert!(Command::try_parse_from(["bench", "--depth", "1024"]).is_err());
    assert_eq!(args("--depth 1023").common.depth, 1023);
    assert!(Command::try_parse_from(["bench", "--regen"]).is_err());
}

#[test]
fn rows_are_merged_and_a_page_is_made_of_them() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let (file, page) = (dir.path().join("results.json"), dir.path().join("page.md"));
    std::fs::write(&page, format!("before\n{}\n{}\nafter\n", readme::BEGIN, readme::END)).unwrap();
    let files = format!("--json {} --readme {}", file.display(), page.display());
    // Tests are no release build, so the revision that they measure is no commit.
    let refused = run(&tiny(dir.path(), &format!("--quick {files}")), true).unwrap_err();
    assert!(refused.is_usage() && refused.to_string().contains("--allow-dirty") && !file.exists(), "{refused}");
    // Nor does a page without a place for results cost a run.
    for page in ["nowhere.md", "unmarked.md"].map(|name| dir.path().join(name)) {
        if page.ends_with("unmarked.md") {
            std::fs::write(&page, "a page\n").unwrap();
        }
        let words = format!("--quick --allow-dirty --json {} --readme {}", file.display(), page.display());
        assert!(run(&tiny(dir.path(), &words), true).is_err() && !file.exists(), "{}", page.display());
    }
    let files = format!("{files} --allow-dirty");
    run(&tiny(dir.path(), &format!("--quick --skip-git --only-scenario commits-20B {files}")), true).unwrap();
    run(&tiny(dir.path(), &format!("--quick --skip-git --only-scenario reads {files}")), true).unwrap();
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("| commits-20B |") && text.contains("| reads-20B |"), "{text}");
    run(&args(&format!("--regen {files}")), false).unwrap();
    assert_eq!(std::fs::read_to_string(&page).unwrap(), text, "the same rows give the same page");
}

#[test]
fn a_row_is_in_the_file_before_the_next_is_measured() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let file = dir.path().join("results.json");
    let args = tiny(dir.path(), "--quick --only-backend memory --only-scenario commits-20B,reads-20B");
    let mut session = Session::start(&args.common, Some(&file)).unwrap();
    let limits = json::rows(&file).unwrap().len();
    assert!(limits > 0 && json::rows(&file).unwrap().iter().all(Row::is_limit));
    let jobs = jobs(&args, session.dir()).unwrap();
    for (index, job) in jobs.iter().enumerate() {
        session.measure(std::slice::from_ref(job), 1);
        let rows = json::rows(&file).unwrap();
        assert_eq!(rows.len(), limits + index + 1);
        assert_eq!(rows.last().unwrap().scenario, job.scenario());
    }
    // A file that breaks meanwhile is told, and the measuring goes on.
    std::fs::write(&file, "broken").unwrap();
    session.measure(&jobs[..1], 1);
    assert!(matches!(session.failed, Some(BenchError::Results { .. })), "{:?}", session.failed);
    assert_eq!(session.rows.len(), limits + jobs.len() + 1);
}
