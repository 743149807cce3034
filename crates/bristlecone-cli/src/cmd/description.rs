//! The command line as help, manual pages and completions describe it: each verb with what means something to it.

use std::{any::TypeId, path::PathBuf};

use clap::{Arg, Command, CommandFactory};

use super::{Cli, complete};
use crate::{
    failure::{Failure, Result},
    open::Globals,
};

/// Verbs that open no store, and those below them.
const WITHOUT_STORE: [&str; 4] = ["bench", "completions", "man", "trace"];
/// Verbs that are given their stores as arguments.
const WITHOUT_REPO: [&str; 1] = ["copy"];
/// Verbs that have no part in a branch, beside those.
const WITHOUT_BRANCH: [&str; 6] = ["check", "gc", "info", "repair", "retention", "upgrade"];
/// Verbs that only read, or write where there is no lock to wait for.
const WITHOUT_LOCK: [&str; 12] =
    ["check", "diff", "export", "get", "info", "list", "log", "replay", "show", "stat", "status", "tree"];
/// Verbs that never commit to the branch that is checked out, beside those.
const WITHOUT_WORKTREE: [&str; 13] = [
    "branches",
    "checkout",
    "copy",
    "gc",
    "init",
    "map",
    "push",
    "repair",
    "retention",
    "split",
    "tag",
    "upgrade",
    "utxo",
];
/// Verbs whose output is the same for people and programs.
const WITHOUT_STYLE: [&str; 1] = ["completions"];

/// Returns the whole command line.
pub(super) fn description() -> Command {
    let mut command = Cli::command();
    command.build();
    described(command, &[])
}

/// Describes the command that these words lead to, and those below it.
fn described(command: Command, words: &[&str]) -> Command {
    let text = command.get_after_help().map(|text| rewrapped(&text.to_string()));
    let elsewhere = command.get_positionals().any(|arg| value_name(arg) == Some("REPO"));
    let command = match text {
        Some(text) => command.after_help(text),
        None => command,
    };
    let command = command.mut_args(|arg| {
        let hidden = arg.is_hide_set() || !words.is_empty() && !means(words, arg.get_id().as_str());
        completed(arg.hide(hidden), words, elsewhere)
    });
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    names.into_iter().filter(|name| name != "help").fold(command, |command, name| {
        let words = [words, &[&name]].concat();
        command.mut_subcommand(&name, |below| described(below, &words))
    })
}

/// Whether an option of every command means something to the one that these words lead to. A verb that is not known
/// takes them all.
fn means(words: &[&str], option: &str) -> bool {
    let any = |names: &[&str]| words.iter().any(|word| names.contains(word));
    let (store, lock) = (!any(&WITHOUT_STORE), !any(&WITHOUT_LOCK));
    match option {
        "repo" => store && !any(&WITHOUT_REPO),
        "branch" => store && !any(&WITHOUT_BRANCH),
        "wait" => store && lock,
        "worktree" => store && lock && !any(&WITHOUT_WORKTREE),
        "output" => !any(&WITHOUT_STYLE),
        _ => true,
    }
}

/// Refuses options that mean nothing to the verb of these words and would be taken for something else; those for waiting and output
/// may stand anywhere. Verbs with a store say themselves what they take a folder or a branch for.
pub(super) fn refuse_idle(verb: &[String], globals: &Globals) -> Result<()> {
    let words: Vec<&str> = verb.iter().map(String::as_str).collect();
    let shown = words.join(" ");
    if globals.worktree() && !means(&words, "worktree") {
        return Err(Failure::usage(format!(
            "--worktree is for a commit to the branch that Git has checked out, and `cone {shown}` makes none; leave it out"
        )));
    }
    if !words.iter().any(|word| WITHOUT_STORE.contains(word)) {
        return Ok(());
    }
    match [("-r", globals.repo().is_some()), ("-b", globals.branch()?.is_some())].into_iter().find(|(_, given)| *given)
    {
        Some((option, _)) => Err(Failure::usage(format!("`cone {shown}` opens no store of yours; leave {option} out"))),
        None => Ok(()),
    }
}

/// Gives an argument what completes it, by what it stands for. `elsewhere`: revisions are of another store.
fn completed(arg: Arg, words: &[&str], elsewhere: bool) -> Arg {
    let file = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    match value_name(&arg) {
        Some("PATH") if !file => arg.add(complete::paths()),
        Some("REV|PATH") => arg.add(complete::revisions_and_paths()),
        Some("REV" | "REV|ID" | "NAME|REV" | "START" | "BEFORE" | "AFTER") if !elsewhere => {
            arg.add(complete::revisions())
        }
        Some("NAME") if arg.get_id() == "branch" || words == ["branches"] => arg.add(complete::branches()),
        _ => arg,
    }
}

fn value_name(arg: &Arg) -> Option<&str> {
    arg.get_value_names()?.first().map(|name| name.as_str())
}

/// Joins the lines of each paragraph, so that they are wrapped once, where they are shown. Lines that begin with a blank
/// stay, and so does what follows a colon.
fn rewrapped(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let last = out.rsplit('\n').next().unwrap_or_default();
        let goes_on = !last.is_empty() && !last.ends_with(':') && !line.is_empty() && !line.starts_with(' ');
        if goes_on && !last.starts_with(' ') {
            out.push(' ');
        } else if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(line);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_joined_and_examples_stay() {
        let text = "Examples:\n  one\n  two\n\nA paragraph that\ngoes on.\n\nAnother\none.";
        assert_eq!(rewrapped(text), "Examples:\n  one\n  two\n\nA paragraph that goes on.\n\nAnother one.");
    }

    #[test]
    fn the_lists_name_verbs_that_there_are() {
        fn names(command: &Command, all: &mut Vec<String>) {
            for below in command.get_subcommands() {
                all.push(below.get_name().to_owned());
                names(below, all);
            }
        }
        let mut all = Vec::new();
        names(&Cli::command(), &mut all);
        for name in WITHOUT_STORE
            .iter()
            .chain(&WITHOUT_REPO)
            .chain(&WITHOUT_BRANCH)
            .chain(&WITHOUT_LOCK)
            .chain(&WITHOUT_WORKTREE)
        {
            assert!(all.iter().any(|known| known == name), "{name}");
        }
    }
}
