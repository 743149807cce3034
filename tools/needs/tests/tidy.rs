//! No test returns early for want of something: it would count as passed.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Marks of a test that looks for something and goes on, or returns, without it.
const MARKS: [&str; 8] = [
    "SKIPPED",
    "../shared",
    "git_is_there",
    "is_there(\"",
    "not compared with it",
    "nothing was tested",
    "not tested\"",
    "return eprintln!",
];

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
}

/// Returns the lines of tests that return nothing, or nothing but success, when a helper has nothing for them, or on a
/// condition at their start.
fn early_returns(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut found = Vec::new();
    for at in (0..lines.len()).filter(|&at| lines[at] == "#[test]") {
        let Some(open) = (at..lines.len().min(at + 6)).find(|&at| lines[at].ends_with('{')) else { continue };
        for next in lines.iter().skip(open + 1).take(3) {
            let leaves = ["else { return };", "else { return Ok(()) };", "return;", "return Ok(());"];
            if leaves.iter().any(|leaves| next.ends_with(leaves)) {
                found.push(format!("{}: {next}", line_of_function(&lines, at)));
            }
        }
    }
    found
}

fn line_of_function<'a>(lines: &[&'a str], from: usize) -> &'a str {
    lines[from..].iter().find(|line| line.starts_with("fn ")).unwrap_or(&"")
}

#[test]
fn no_test_returns_early_for_want_of_something() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut files, mut found) = (Vec::new(), Vec::new());
    ["crates", "lab", "tools"].iter().for_each(|folder| sources(&root.join(folder), &mut files));
    assert!(files.len() > 100, "the sources are not where they are looked for: {}", files.len());
    for file in files.iter().filter(|file| !file.ends_with("needs/tests/tidy.rs")) {
        let text = fs::read_to_string(file).unwrap();
        // A test may look beside the project where it says that it needs that.
        let is_said = |mark: &str| mark == "../shared" && text.contains("#[needs(chain)]");
        let marks = MARKS.iter().filter(|mark| text.contains(**mark) && !is_said(mark)).map(|mark| format!("{mark:?}"));
        found.extend(marks.chain(early_returns(&text)).map(|what| format!("{}: {what}", file.display())));
    }
    assert!(found.is_empty(), "mark these tests with `#[needs(…)]` instead:\n{}", found.join("\n"));
}

#[test]
fn early_returns_are_found() {
    let bad = [
        "let Some(x) = y() else { return };",
        "if !there() {\n        return;\n    }",
        "let Ok(a) = b() else { return Ok(()) };",
    ];
    for bad in bad {
        assert_eq!(early_returns(&format!("#[test]\nfn one() {{\n    {bad}\n}}\n")).len(), 1, "{bad}");
    }
    assert_eq!(early_returns("#[test]\nfn one() {\n    let x = y();\n    assert!(x);\n}\n").len(), 0);
}
