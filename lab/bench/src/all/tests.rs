//! The command from end to end, very small; pages made from files of results.

use bristlecone_testkit::scratch::scratch_parent;
use clap::Parser;

use super::*;
use crate::report::Row;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: AllArgs,
}

pub(super) fn args(words: &str) -> AllArgs {
    Command::try_parse_from(std::iter::once("all").chain(words.split_whitespace())).unwrap().args
}

fn files(dir: &Path) -> String {
    format!("--json {0}/results.json --out {0}/out", dir.display())
}

fn row(backend: &str, scenario: &str, rate: f64) -> Row {
    Row {
        name: format!("bristlecone {backend} none"),
        scenario: scenario.into(),
        backend: backend.into(),
        durability: "none".into(),
        ops_per_sec: rate,
        checked: true,
        cpu: "A processor".into(),
        date: "2026-11-21".into(),
        ..Row::default()
    }
}

fn texts(dir: &Path) -> Vec<(String, String)> {
    let mut texts: Vec<(String, String)> = fs::read_dir(dir)
        .unwrap()
        .map(|file| file.unwrap().path())
        .map(|file| (file.file_name().unwrap().display().to_string(), fs::read_to_string(&file).unwrap()))
        .collect();
    texts.sort();
    texts
}

#[test]
fn everything_is_measured_drawn_and_written() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let sizes = "--ncommits 3 --tree-add 40 --depth 2 --nreads 100 --quick --in-process --parallel-fibers 1,7";
    fs::create_dir(dir.path().join("stores")).unwrap();
    run(&args(&format!("{sizes} --dir {0}/stores {1}", dir.path().display(), files(dir.path()))), true).unwrap();
    let mut names: Vec<String> = texts(&dir.path().join("out")).into_iter().map(|(name, _)| name).collect();
    // Where Git is installed.
    names.retain(|name| name != "beside.svg");
    assert_eq!(
        names,
        ["backends.svg", "disk.svg", "git.svg", "memory.svg", "optimisations.svg", "results.md", "tasks.svg"]
    );
    let rows = json::rows(&dir.path().join("results.json")).unwrap();
    let of = |scenario: &str| rows.iter().filter(|row| row.scenario == scenario).count();
    assert_eq!(of("commits-20B-7-tasks"), 7);
    assert_eq!(of("reads-20B-7-tasks"), 4);
    assert!(rows.iter().all(|row| row.is_limit() || row.checked), "{rows:?}");
    let page = fs::read_to_string(dir.path().join("out/results.md")).unwrap();
    for text in ["![The tree suite in memory](./memory.svg)", "memory, +inline", "commits-20B, memory", "1 task |"] {
        assert!(page.contains(text), "{text}: {page}");
    }
}

#[test]
fn pages_are_made_again_from_the_file_alone() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let rows = [row("memory", "commits-20B", 3.2e6), row("disk", "commits-20B", 2.7e6), row("disk", "reads-20B", 4e6)];
    json::merge(&dir.path().join("results.json"), &rows).unwrap();
    let published = "where,system,scenario,ops_per_s\n12 cores,Another,commits-20B,68438\n";
    fs::write(dir.path().join("peers.csv"), published).unwrap();
    let regen = args(&format!("--regen {}", files(dir.path())));
    run(&regen, false).unwrap();
    let first = texts(&dir.path().join("out"));
    run(&regen, false).unwrap();
    assert_eq!(first, texts(&dir.path().join("out")), "the same file gives the same bytes");
    let (_, page) = first.iter().find(|(name, _)| name == "results.md").unwrap();
    assert!(
        page.contains("### Published elsewhere, on other machines") && page.contains("| Another | 68.4 k |"),
        "{page}"
    );
    assert!(page.contains("| [1] | A processor |"), "{page}");
    // What people write outside of the markers stays.
    let file = dir.path().join("out/results.md");
    fs::write(&file, page.replace("# Results", "# Mine")).unwrap();
    run(&args(&format!("--regen --skip-charts {}", files(dir.path()))), false).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), page.replace("# Results", "# Mine"));
}

#[test]
fn a_broken_file_is_refused_before_anything_is_measured() {
    let dir = tempfile::tempdir_in(scratch_parent()).unwrap();
    let reason = |words: &str| run(&args(&format!("{words} {}", files(dir.path()))), false).unwrap_err().to_string();
    assert!(reason("--regen").contains("has no rows"));
    assert!(reason("--trace nothing.repr").contains("no such trace"));
    assert!(reason("--chain nothing").contains("nothing: there is no such chain"));
    assert!(reason("--chain src --chain-genesis none.json").contains("none.json: there is no such"));
    assert!(reason("--irmin nothing").contains("nothing: there is no program `bristlecone-irmin`"));
    let file = dir.path().join("results.json");
    for (text, why) in [
        ("{", "EOF"),
        ("{}", "array"),
        ("[{\"name\":1}]", "row 0"),
        ("[{\"name\":\"a\",\"scenario\":\"b\",\"runs\":-1}]", "-1"),
    ] {
        fs::write(&file, text).unwrap();
        let said = reason("--regen");
        assert!(said.contains("results.json") && said.contains(why), "{text}: {said}");
    }
    fs::write(&file, "").unwrap();
    fs::write(dir.path().join("peers.csv"), "where,system,scenario,ops_per_s\na,b,c,fast\n").unwrap();
    assert!(reason("").contains("line 2"));
    assert!(!dir.path().join("out").exists());
    fs::remove_file(dir.path().join("peers.csv")).unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    fs::write(dir.path().join("out/results.md"), "a page\n").unwrap();
    assert!(reason("").contains("there must be a line"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "", "nothing was measured");
}

#[test]
fn options_are_checked() {
    assert_eq!(args("").parallel_fibers, sweep::COUNTS);
    assert_eq!(args("--parallel-fibers 1,5").parallel_fibers, [1, 5]);
    assert!(Command::try_parse_from(["all", "--parallel-fibers", "0"]).is_err());
    // What says how a trace or a chain is replayed says nothing without one.
    for words in [&["--no-flatten"][..], &["--trace-commits", "5"], &["--chain-genesis", "file"]] {
        assert!(Command::try_parse_from([&["all"][..], words].concat()).is_err(), "{words:?}");
    }
    assert!(args("--trace file --trace-commits 5 --no-flatten").trace.no_flatten);
    assert_eq!(relative(Path::new("docs/page.md"), Path::new("docs/results")), "results");
    assert_eq!(relative(Path::new("README.md"), Path::new("lab/results")), "lab/results");
    assert_eq!(relative(Path::new("out/results.md"), Path::new("out")), ".");
}

/// The rows are no part of the repository, so that a checkout has pages and charts alone.
#[test]
fn the_pages_of_the_repository_show_charts_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut shown = 0;
    for (page, charts) in [("README.md", "lab/results/"), ("lab/results/README.md", "")] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        let (_, section) = text.split_once(readme::BEGIN).unwrap_or_else(|| panic!("{page} has no section of results"));
        let (section, _) = section.split_once(readme::END).unwrap_or_else(|| panic!("{page}: its section has no end"));
        for link in section.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let Some(file) = link.strip_suffix(".svg") else {
                let to = root.join(page).with_file_name(link);
                assert!(link.starts_with("http") || to.exists(), "{page} links {link}, which is not there");
                continue;
            };
            assert!(link.starts_with(charts), "{page} shows {file} from elsewhere");
            let svg = fs::read_to_string(root.join("lab/results").join(link.trim_start_matches(charts)));
            report::svg_tests::check(&svg.unwrap_or_else(|error| panic!("{page} shows {link}: {error}")));
            shown += 1;
        }
    }
    assert!(shown > 5, "only {shown} charts are shown");
    published::read(&root.join("lab/results/peers.csv")).unwrap();
}
