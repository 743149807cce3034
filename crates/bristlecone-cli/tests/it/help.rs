//! Help, manual pages and completions: what they show of each verb is true, and nothing is missing.

use std::{collections::BTreeMap, env, fs, process::Command};

use bristlecone_needs::needs;

use crate::harness::{Place, Run};

/// The manual pages by their names, without `.1`.
fn pages(place: &Place) -> BTreeMap<String, String> {
    place.ok(["man", "--out", "pages"]);
    let page = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().unwrap();
        (name.strip_suffix(".1").unwrap().to_owned(), plain(&fs::read_to_string(entry.path()).unwrap()))
    };
    fs::read_dir(place.path("pages")).unwrap().map(|entry| page(entry.unwrap())).collect()
}

/// Returns a page without fonts and escapes.
fn plain(page: &str) -> String {
    [("\\fB", ""), ("\\fI", ""), ("\\fR", ""), ("\\-", "-"), ("\\*(Aq", "'")]
        .iter()
        .fold(page.to_owned(), |page, (from, to)| page.replace(from, to))
}

/// The verb of a page, as words.
fn words(name: &str) -> Vec<String> {
    // One verb has a dash of its own.
    let name = name.replace("git-import", "git_import");
    name.split('-').skip(1).map(|word| word.replace('_', "-")).collect()
}

fn help(place: &Place, words: &[String], columns: &str) -> String {
    let mut command = place.command(words);
    command.arg("--help").env("COLUMNS", columns);
    let run = Run::of(command);
    assert_eq!(run.code, 0, "{words:?}: {run:?}");
    String::from_utf8(run.out).unwrap()
}

/// The options in help: the line that names each, and the first line of its text.
fn options(help: &str) -> Vec<(&str, &str)> {
    let lines: Vec<&str> = help.lines().collect();
    let named = lines.iter().enumerate().filter(|(_, line)| {
        let line = line.trim_start();
        line.starts_with('-') && !line.starts_with("- ")
    });
    named.map(|(at, line)| (line.trim(), lines.get(at + 1).copied().unwrap_or_default().trim())).collect()
}

#[test]
fn every_option_of_every_verb_has_text_and_what_it_takes() {
    let place = Place::empty();
    let pages = pages(&place);
    assert!(pages.len() > 30 && pages.contains_key("cone-subtree-split"), "{:?}", pages.keys());
    for (name, page) in &pages {
        let help = help(&place, &words(name), "100");
        let shown = options(&help);
        assert!(!shown.is_empty(), "{name}");
        let has_examples = help.contains("Examples:\n  ");
        assert!(has_examples || name == "cone-replay" || name.starts_with("cone-bench-"), "{name} has no examples");
        let synopsis = page.split(".SH SYNOPSIS\n").nth(1).unwrap().split("\n.SH").next().unwrap();
        for (option, text) in shown {
            assert!(text.starts_with(char::is_alphanumeric), "{name}: {option} has no text: {text:?}");
            let long = option.split_once("--").map_or(option, |(_, long)| long);
            let (long, takes) = long.split_once(' ').unwrap_or((long, ""));
            let takes = takes.trim_end_matches("...");
            let wanted = format!("--{long} {takes}");
            assert!(synopsis.contains(wanted.trim_end()), "{name}: {wanted} is not in {synopsis}");
        }
        for option in page.split("\n.TP\n").skip(1) {
            let mut lines = option.lines();
            let (head, text) = (lines.next().unwrap(), lines.next().unwrap_or_default());
            assert!(text.starts_with(char::is_alphanumeric), "{name}: {head} has no text: {text:?}");
        }
    }
}

#[test]
fn pages_refer_to_pages_that_there_are() {
    let place = Place::empty();
    let pages = pages(&place);
    let mut seen = 0;
    for (name, page) in &pages {
        for word in page.split_whitespace().filter_map(|word| word.strip_suffix("(1)")) {
            assert!(pages.contains_key(word), "{name} refers to {word}(1)");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
    let cone = String::from_utf8(place.run(["man"]).out).unwrap();
    assert_eq!(plain(&cone), pages["cone"]);
}

#[test]
fn a_page_that_is_there_is_replaced_by_a_whole_one() {
    let place = Place::empty();
    let page = place.file("pages/cone.1", "of an earlier version");
    fs::hard_link(&page, place.path("kept")).unwrap();
    // Only pages are in the folder then.
    let pages = pages(&place);
    assert_eq!(fs::read_to_string(place.path("kept")).unwrap(), "of an earlier version");
    assert!(pages["cone"].contains("SYNOPSIS"));
    place.file("file", "");
    place.fails(3, &["cannot make the folder file"], ["man", "--out", "file"]);
}

#[test]
fn options_that_mean_nothing_to_a_verb_are_not_shown_there() {
    let place = Place::empty();
    let pages = pages(&place);
    // The options of every command but for --output, by what has them.
    let all = ["--repo", "--branch", "--wait", "--worktree"];
    for (name, wanted) in [
        ("cone", &all[..]),
        ("cone-set", &all),
        ("cone-del", &all),
        ("cone-import", &all),
        ("cone-map-set", &all[..3]),
        ("cone-map-load", &all[..3]),
        ("cone-map-stat", &all[..2]),
        ("cone-subtree", &all),
        ("cone-subtree-add", &all),
        ("cone-subtree-pull", &all),
        ("cone-subtree-push", &all[..3]),
        ("cone-subtree-split", &all[..3]),
        ("cone-subtree-status", &all[..2]),
        ("cone-branches", &all[..3]),
        ("cone-copy", &["--branch", "--wait"]),
        ("cone-checkout", &all[..3]),
        ("cone-init", &all[..3]),
        ("cone-tag", &all[..3]),
        ("cone-retention-set", &["--repo", "--wait"]),
        ("cone-get", &all[..2]),
        ("cone-list", &all[..2]),
        ("cone-log", &all[..2]),
        ("cone-export", &all[..2]),
        ("cone-replay-tezos", &all[..2]),
        ("cone-check", &all[..1]),
        ("cone-info", &all[..1]),
        ("cone-repair", &["--repo", "--wait"]),
        ("cone-gc", &["--repo", "--wait"]),
        ("cone-upgrade", &["--repo", "--wait"]),
        ("cone-trace", &[]),
        ("cone-trace-info", &[]),
        ("cone-bench", &[]),
        ("cone-bench-io", &[]),
        ("cone-man", &[]),
        ("cone-completions", &[]),
    ] {
        let help = help(&place, &words(name), "100");
        for option in all {
            let shown = options(&help).iter().any(|(line, _)| line.split([' ', ',']).any(|word| word == option));
            assert_eq!(shown, wanted.contains(&option), "{name} {option}");
            let described = pages[name].lines().any(|line| {
                line.split([' ', ',']).next_back() == Some(option) || line.contains(&format!("{option} <"))
            });
            assert_eq!(described, wanted.contains(&option), "{name}(1) {option}");
        }
    }
}

#[test]
fn paragraphs_are_wrapped_once() {
    let place = Place::empty();
    for name in pages(&place).keys() {
        for columns in [60, 90] {
            let help = help(&place, &words(name), &columns.to_string());
            let lines: Vec<&str> = help.lines().collect();
            for two in lines.windows(2) {
                let prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
                if !prose(two[0]) || !prose(two[1]) {
                    continue;
                }
                let next = two[1].split(' ').next().unwrap();
                let fits = two[0].chars().count() + 1 + next.chars().count() < columns;
                assert!(!fits, "{name} in {columns} columns: {two:?}");
            }
        }
    }
    // Examples stay lines of their own in a page, and paragraphs are filled.
    let page = &pages(&place)["cone-import"];
    let examples = page.split("\n.nf\n").nth(1).unwrap().split("\n.fi\n").next().unwrap();
    assert!(examples.lines().all(|line| line.starts_with("  cone ")) && examples.lines().count() > 4, "{examples}");
}

#[test]
fn where_a_verb_is_missing_the_help_is_that_of_h() {
    let place = Place::empty();
    for words in [&["map"][..], &["subtree"], &["retention"], &["trace"], &[]] {
        let run = place.run(words);
        assert_eq!((run.code, run.out.len()), (2, 0), "{run:?}");
        assert_eq!(run.err, place.ok([words, &["-h"]].concat()), "{words:?}");
    }
}

/// What bash offers for these words, the last of which is being typed.
fn offered(place: &Place, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <(cone completions bash)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        function=$(complete -p cone); function=${function##*-F }; function=${function%% *}
        $function cone "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let mut command = place.command([] as [&str; 0]);
    let binary = std::path::Path::new(command.get_program()).parent().unwrap().to_owned();
    let path = env::join_paths([binary].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap()))).unwrap();
    command = Command::new("bash");
    command.args(["--norc", "-c", script, "bash", "cone"]).args(words).env("PATH", path).current_dir(place.path(""));
    let run = Run::of(command);
    assert!(run.code == 0 && run.err.is_empty(), "{run:?}");
    String::from_utf8(run.out).unwrap().lines().map(str::to_owned).collect()
}

#[needs(bash)]
#[test]
fn bash_completes_verbs_branches_revisions_and_paths() {
    let place = Place::with_store();
    for path in ["fruit/apple", "fruit/plum", "fruit salad", "other"] {
        place.ok(["set", path, "1"]);
    }
    place.ok(["branches", "side"]);
    place.ok(["checkout", "side"]);
    place.ok(["set", "on/side", "1"]);
    fs::create_dir(place.path("folder")).unwrap();
    assert_eq!(offered(&place, &["che"]), ["checkout", "check"]);
    assert_eq!(offered(&place, &["get", "fr"]), ["fruit/", "fruit%20salad"]);
    assert_eq!(offered(&place, &["get", "fruit/"]), ["fruit/apple", "fruit/plum"]);
    assert_eq!(offered(&place, &["del", "fruit/a"]), ["fruit/apple"]);
    assert_eq!(offered(&place, &["get", "on/"]), ["on/side"]);
    assert_eq!(offered(&place, &["-b", "main", "get", "on/"]), [""]);
    assert_eq!(offered(&place, &["list", "--at", "main", "o"]), ["other"]);
    assert_eq!(offered(&place, &["-b", "s"]), ["side"]);
    assert_eq!(offered(&place, &["branches", "--delete", "m"]), ["main"]);
    assert_eq!(offered(&place, &["get", "other", "--at", ""]), ["HEAD", "main", "side"]);
    assert_eq!(offered(&place, &["diff", "H"]), ["HEAD"]);
    assert_eq!(offered(&place, &["import", "fo"]), ["folder/"]);
    assert_eq!(offered(&place, &["subtree", "split", "-P", "fr"]), ["fruit/", "fruit%20salad"]);
    let worktree = |verb: &str| offered(&place, &[verb, "--"]).contains(&"--worktree".to_owned());
    assert!(worktree("set") && !worktree("get"));
    // What is missing from a store is told by its commands, and not between the words that are typed.
    let segment = place.path(".bristlecone/segments/00000001.seg");
    let mut bytes = fs::read(&segment).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    bytes[end - 400..].fill(0);
    fs::write(&segment, &bytes).unwrap();
    assert!(place.run(["list"]).err.contains("warning: "));
    assert_eq!(offered(&place, &["-b", "main", "get", "fruit/"]), ["fruit/apple", "fruit/plum"]);
    // From elsewhere, and where there is no store.
    let place = Place::at(&place.path("folder"));
    assert_eq!(offered(&place, &["-r", "..", "get", "ot"]), ["other"]);
    assert_eq!(offered(&place, &["-r", "nowhere", "get", "ot"]), [""]);
}

#[needs(bash)]
#[test]
fn names_that_a_shell_would_take_apart_are_not_offered() {
    let place = Place::with_store();
    place.ok(["set", "a", "1"]);
    for name in ["v1", "v2;id", "v3$(id)", "v#4"] {
        place.ok(["tag", name]);
    }
    let mut names = offered(&place, &["show", "v"]);
    names.sort();
    assert_eq!(names, ["v#4", "v1"]);
}

#[test]
fn every_shell_has_completions() {
    let place = Place::empty();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = place.ok(["completions", shell]);
        assert!(script.contains("CONE_COMPLETE"), "{shell}: {script}");
    }
}
