//! What completes a word of the command line: branches, revisions and paths of the store that it is about.
//!
//! A shell asks for them ([`super::completions`]). Whatever fails then offers nothing.

use std::{
    env,
    ffi::{OsStr, OsString},
};

use bristlecone::{EntryKind, Listing};
use bristlecone_any::path;
use clap::Parser;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::Cli;
use crate::open::{Globals, Opened};

/// The most names that are offered.
const OFFERED_MAX: usize = 1000;

/// Completes names of branches.
pub(super) fn branches() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| with_store(|opened| Some(starting(current, opened.repo.branches().ok()?))))
}

/// Completes revisions: HEAD, branches and tags.
pub(super) fn revisions() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| with_store(|opened| Some(starting(current, revision_names(opened)?))))
}

/// Completes what is either.
pub(super) fn revisions_and_paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        with_store(|opened| {
            let mut names = revision_names(opened)?;
            names.extend(path_names(opened, current).unwrap_or_default());
            Some(starting(current, names))
        })
    })
}

fn revision_names(opened: &Opened) -> Option<Vec<String>> {
    let mut names = vec!["HEAD".to_owned()];
    names.extend(opened.repo.branches().ok()?);
    names.extend(opened.repo.tags().ok()?);
    Some(names)
}

/// Completes paths of the tree that the other words choose: that of `--at`, of the branch, or of what is checked out.
pub(super) fn paths() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| with_store(|opened| Some(starting(current, path_names(opened, current)?))))
}

fn path_names(opened: &Opened, current: &OsStr) -> Option<Vec<String>> {
    let typed = current.to_str()?;
    let (above, step) = typed.rsplit_once('/').map_or(("", typed), |(above, step)| (above, step));
    let tree = opened.tree_to_read(word_behind(&["--at"]).as_ref()).ok()?;
    // An escape that is not typed to its end tells nothing of the byte that it stands for.
    let plain = step.split('%').next().unwrap_or_default();
    let listing = Listing::new().prefix(plain.as_bytes()).limit(OFFERED_MAX);
    let mut found = Vec::new();
    for entry in tree.list_with(path::parse(OsStr::new(above)).ok()?, &listing).ok()? {
        let entry = entry.ok()?;
        let end = if entry.kind() == EntryKind::Dir { "/" } else { "" };
        let above = if above.is_empty() { String::new() } else { format!("{above}/") };
        found.push(format!("{above}{}{end}", word(entry.step())));
    }
    Some(found)
}

/// Returns a step as a path of the command line has it, without what a shell takes for its own.
fn word(step: &[u8]) -> String {
    let mut word = String::new();
    for char in bristlecone::escape(step).chars() {
        if char.is_alphanumeric() || "-_.,+%".contains(char) {
            word.push(char);
        } else {
            let mut bytes = [0; 4];
            for byte in char.encode_utf8(&mut bytes).bytes() {
                word.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    word
}

fn starting(current: &OsStr, names: Vec<String>) -> Vec<CompletionCandidate> {
    let start = current.to_str().unwrap_or_default();
    let offered = names.into_iter().filter(|name| name.starts_with(start) && is_word(name));
    offered.take(OFFERED_MAX).map(CompletionCandidate::new).collect()
}

/// Whether a shell takes a name as one word and nothing else: bash puts it into the line as it is, and somebody else's branch may be
/// called `x;reboot`.
fn is_word(name: &str) -> bool {
    !name.starts_with('#') && name.chars().all(|char| char.is_alphanumeric() || "-_.,+%/@=#".contains(char))
}

fn with_store(find: impl Fn(&Opened) -> Option<Vec<CompletionCandidate>>) -> Vec<CompletionCandidate> {
    let opened = globals().and_then(|globals| globals.open_silently().ok());
    opened.and_then(|opened| find(&opened)).unwrap_or_default()
}

/// Returns the options of every command as the words that are typed have them.
fn globals() -> Option<Globals> {
    // Whoever waits for a word does not wait for a lock.
    let mut arguments: Vec<OsString> = ["cone", "--wait", "0"].map(OsString::from).into();
    for (names, option) in [(["-r", "--repo"], "-r"), (["-b", "--branch"], "-b")] {
        if let Some(value) = word_behind(&names) {
            arguments.extend([option.into(), value]);
        }
    }
    arguments.push("info".into());
    Some(Cli::try_parse_from(arguments).ok()?.globals)
}

/// Returns the value of an option among the words that are typed, which follow `--`.
fn word_behind(names: &[&str]) -> Option<OsString> {
    let mut words = env::args_os().skip_while(|word| word != "--").skip(2);
    let mut found = None;
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        for name in names {
            match text.strip_prefix(name) {
                Some("") => found = words.next(),
                Some(rest) if name.starts_with("--") => {
                    found = rest.strip_prefix('=').map(OsString::from).or(found.take());
                }
                Some(rest) if !rest.is_empty() => found = Some(rest.into()),
                _ => continue,
            }
            break;
        }
    }
    found.filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::argument;

    #[test]
    fn steps_are_words_of_a_shell_that_are_paths() {
        for (step, wanted) in
            [("apple-1.txt", "apple-1.txt"), ("a b", "a%20b"), ("$x'\"", "%24x%27%22"), ("100%", "100%25")]
        {
            assert_eq!(word(step.as_bytes()), wanted);
            assert!(is_word(wanted));
            assert_eq!(argument::step(OsStr::new(wanted)).unwrap(), step.as_bytes());
        }
        assert_eq!(argument::step(OsStr::new(&word(b"\xff\n"))).unwrap(), b"\xff\n");
    }

    #[test]
    fn names_that_a_shell_would_take_apart_are_no_words() {
        for name in ["main", "fix/issue#12", "v1.0+rc@1", "h\u{e9}ron"] {
            assert!(is_word(name), "{name}");
        }
        for name in ["x;reboot", "$(id)", "`id`", "a&b", "a|b", "a>b", "it's", "\"", "wow!", "{a,b}", "#1", "a(b)"] {
            assert!(!is_word(name), "{name}");
        }
    }
}
