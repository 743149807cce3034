//! What goes to the operating system past the storage seam is listed, file by file, with the reason.

use std::{collections::BTreeSet, fs, path::Path};

/// What a line of code has that calls the system itself.
const CALLS: [&str; 10] = [
    "fs::",
    "rustix",
    "process::id",
    "env::var",
    "canonicalize(",
    "symlink_metadata",
    ".is_dir()",
    ".is_file()",
    ".exists()",
    "File::open",
];

/// Adds the files below `dir` whose code, tests left out, calls the system.
fn add_callers(top: &Path, dir: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            add_callers(top, &path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        if code.lines().any(is_call) {
            found.insert(path.strip_prefix(top).unwrap().to_str().unwrap().to_owned());
        }
    }
}

/// Whether a line of code calls the system. `refs::` is not `fs::`.
fn is_call(line: &str) -> bool {
    let begins = |at: usize| !line[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_');
    let has = |call: &str| line.match_indices(call).any(|(at, _)| call.starts_with('.') || begins(at));
    !line.trim_start().starts_with("//") && CALLS.iter().any(|call| has(call))
}

#[test]
fn files_that_call_the_system_are_those_that_the_page_lists() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    add_callers(&crate_dir.join("src"), &crate_dir.join("src"), &mut found);
    let page = fs::read_to_string(crate_dir.join("../../docs/formats/git-backend.md")).unwrap();
    let (_, section) = page.split_once("## 7. What does not go through the storage seam").unwrap();
    let first_cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let listed: BTreeSet<String> =
        first_cells.flat_map(|cell| cell.split('`')).filter(|name| name.ends_with(".rs")).map(str::to_owned).collect();
    assert_eq!(found, listed, "what calls the system, and what docs/formats/git-backend.md lists in section 7");
}
