//! `cone import`: a folder of files as one commit.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Instant,
};

use clap::Args;

use super::{
    Context,
    import_git::{self, Wanted},
    set,
};
use crate::{
    commit::Change,
    failure::{Failure, Result},
    open::Access,
    output::{Fields, fields, put_name, say},
    progress::with_progress,
    text::{self, show},
    who::{CommitArgs, DurabilityArg},
};
use bristlecone_any::{
    Tree,
    folder::{self, Ignored, ImportOptions, Imported},
    path,
};

/// The option whose patterns leave out what no file does.
const EXCLUDE: &str = "--exclude";
/// How many things that were left out are named on standard error.
const NAMED_MAX: usize = 20;

/// Take in a folder of files, as one commit; or the whole history of a Git repository
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone import photos                            the whole tree becomes what is in the folder
  cone import photos --path backup/photos       only what is below that path
  cone import . --exclude '*.tmp' --exclude cache/
  cone import . -b snapshots -m \"Before lunch\"  on another branch
  cone import --git ../project                  the whole history of a Git repository, with all its refs
  cone import --git ../project --ref main --ref 'v*'

Executable bits and links are kept; times, owners and other permissions are not. Empty folders, pipes,
sockets and devices are left out, counted and named; so is the store itself. A format that has no executables
or links refuses them, unless they are to be --plain. The branch moves at the very end: whatever stops an import
before, the store holds what it held.

In a Git repository what Git ignores is left out, and a repository inside the folder becomes the id of its commit,
as with git add. Elsewhere a file .coneignore in the folder says what is left out, with the same syntax. How much
that is, and by which file, is reported. What is left out is not at the path afterwards.

A history goes into stores of the formats git and native, commit by commit, with its branches, tags and other
refs under their full names. The same command again brings what is new; one that was interrupted goes on. Refs
move only forward, unless with --force; those below refs/remotes/ follow. Exit code 1: something was left out.")]
pub(super) struct ImportArgs {
    /// The folder
    #[arg(value_name = "DIR", required_unless_present = "git", conflicts_with = "git")]
    dir: Option<PathBuf>,
    /// The whole history of the Git repository there: a working tree, its .git, or a bare repository
    #[arg(long, value_name = "PATH")]
    git: Option<PathBuf>,
    /// Only these refs: full names, globs such as refs/heads/*, or short names of tags and branches
    #[arg(long = "ref", value_name = "PATTERN", requires = "git")]
    refs: Vec<String>,
    /// Where objects of the repository are missing or damaged, take what does not depend on them
    #[arg(long, requires = "git")]
    skip_missing: bool,
    /// Where in the tree [default: the root]
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true, conflicts_with = "git")]
    path: OsString,
    /// Replace a value on the way to that path, or at it; with --git, move refs that would let go of commits
    #[arg(long)]
    force: bool,
    /// Take executables as plain values, and links, too, as their targets
    #[arg(long, conflicts_with = "git")]
    plain: bool,
    /// Take also what ignore files leave out, and files that a killed cone left unfinished
    #[arg(long, conflicts_with = "git")]
    all: bool,
    /// Leave out what this pattern is for, as in a .gitignore of the folder; as often as needed
    #[arg(long, value_name = "PATTERN", conflicts_with = "git")]
    exclude: Vec<OsString>,
    /// Leave out files that cannot be read, and end with exit code 1
    #[arg(long, conflicts_with = "git")]
    skip_unreadable: bool,
    /// Begin also if there seems to be too little free space
    #[arg(long)]
    ignore_free_space: bool,
    #[command(flatten)]
    commit: CommitArgs,
}

pub(super) fn run(args: ImportArgs, context: &mut Context) -> Result<()> {
    // A conflict of DIR with --git takes the demand for it away.
    let of_git = [("--ref", !args.refs.is_empty()), ("--skip-missing", args.skip_missing)];
    if let (None, Some((option, _))) = (&args.git, of_git.into_iter().find(|(_, given)| *given)) {
        return Err(Failure::usage(format!("{option} is for whole histories; give --git PATH, or leave it out")));
    }
    if args.git.is_some() && args.commit.is_given() {
        return Err(Failure::usage("--git brings commits as they are: leave out what is for a new one, such as -m"));
    }
    if args.git.is_some() && context.globals.worktree() {
        let why = "an import of a whole history leaves a branch that Git has checked out where it is";
        return Err(Failure::usage(format!("--worktree is for a commit, and {why}; leave it out")));
    }
    let dir = match (&args.git, &args.dir) {
        (Some(from), _) => {
            let (skip_missing, force, check_room) = (args.skip_missing, args.force, !args.ignore_free_space);
            let mut refs = args.refs;
            refs.extend(context.globals.branch()?.map(|name| format!("refs/heads/{name}")));
            return import_git::run(Wanted { from, refs, skip_missing, force, check_room }, context);
        }
        (None, Some(dir)) => dir,
        (None, None) => return Err(Failure::usage("name a folder, or a repository with --git PATH")),
    };
    import_dir(&args, dir, context)
}

fn import_dir(args: &ImportArgs, dir: &Path, context: &mut Context) -> Result<()> {
    let began = Instant::now();
    let path = path::parse(&args.path)?;
    check_folder(dir)?;
    let opened = context.globals.open(Access::Write)?;
    let message = format!("Import {}", show(dir));
    let change = Change::new(&opened, &args.commit, &message, DurabilityArg::Synced)?;
    // What cannot be bound is better said before the work than after.
    let check = |tree: &Tree| {
        if args.force || path.is_root() || tree.contains_tree(&path)? {
            return Ok(());
        }
        set::check_place(tree, &path.join(b"x")?)
    };
    let branch = opened.branch_to_work_for()?;
    check(&args.commit.begin.start(&opened, &branch)?.tree(&opened)?)?;
    let (mut imported, summary) = with_progress(|tell| folder::import(&opened.repo, dir, &args.options(), tell))?;
    if !imported.is_empty()? {
        imported.write()?;
    } else if !summary.ignored.is_empty() {
        return Err(all_ignored(dir, &summary));
    }
    let done = change.commit(&mut |tree| {
        check(tree)?;
        Ok(tree.set_tree(&path, &imported)?)
    })?;
    let seconds = began.elapsed().as_secs_f64();
    tell(&summary, seconds);
    done.tell(&mut context.out, &format!("imported {}", show(dir)))?;
    let mut all = done.fields(&opened);
    put_name(&mut all, "path", path.as_bytes());
    all.extend(describe(&summary, seconds));
    context.out.document(all)?;
    if summary.unreadable > 0 { Err(Failure::answered()) } else { Ok(()) }
}

impl ImportArgs {
    fn options(&self) -> ImportOptions {
        ImportOptions::default()
            .plain(self.plain)
            .check_room(!self.ignore_free_space)
            .skip_unreadable(self.skip_unreadable)
            .all(self.all)
            .exclude(self.exclude.clone())
    }
}

/// Refuses to import what is no folder.
fn check_folder(dir: &Path) -> Result<()> {
    let shown = show(dir);
    let found = std::fs::metadata(dir).map_err(|error| Failure::file("read", &shown, &error))?;
    if !found.is_dir() {
        let way = "name a folder, or set one value with `cone set PATH - < FILE`";
        return Err(Failure::usage(format!("{shown} is no folder; {way}")));
    }
    Ok(())
}

fn tell(summary: &Imported, seconds: f64) {
    for left_out in summary.left_out.iter().take(NAMED_MAX) {
        say!("left out: {} ({})", left_out.path, left_out.what);
    }
    let more = summary.left_out.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        say!("left out: {more} more; -o json names all");
    }
    if !summary.ignored.is_empty() {
        let by: Vec<_> = summary.ignored.iter().map(|(source, count)| ignored_by(source.as_deref(), *count)).collect();
        say!("ignored: {}", by.join("; "));
    }
    for taken in summary.submodules.iter().filter(|taken| !taken.registered).take(NAMED_MAX) {
        say!("taken as the id of its commit: {} (a repository, with commit {})", taken.path, taken.commit);
    }
    if summary.sparse > 0 {
        let many = text::count(summary.sparse, "file", "files");
        say!("kept as the index has it: {many} that the sparse checkout leaves out");
    }
    if summary.plain > 0 {
        let many = text::count(summary.plain, "executable or link", "executables and links");
        say!("taken as plain values: {many}");
    }
    let files = summary.files + summary.executables;
    let rate = (files + summary.links) as f64 / seconds;
    say!(
        "{}, {}, {}, {} in {seconds:.2} s: {rate:.0} files/s, {}/s",
        text::count(files, "file", "files"),
        text::count(summary.links, "link", "links"),
        text::count(summary.dirs, "folder", "folders"),
        text::bytes(summary.bytes),
        text::bytes((summary.bytes as f64 / seconds) as u64),
    );
}

/// Refuses to leave nothing where everything is ignored.
fn all_ignored(dir: &Path, summary: &Imported) -> Failure {
    let by: Vec<_> = summary.ignored.iter().map(|(source, count)| ignored_by(source.as_deref(), *count)).collect();
    let (dir, by) = (show(dir), by.join("; "));
    let of = |own: bool| summary.ignored.iter().any(|(source, _)| source.is_none() == own);
    // What is excluded by the caller does not come with --all.
    let way = match (of(true), of(false)) {
        (true, true) => "take it with --all and without --exclude",
        (true, false) => "take it without --exclude",
        _ => "take it with --all",
    };
    Failure::usage(format!("all of {dir} is left out: {by}; {way}, or remove what is there with `cone del`"))
}

/// Says how much a file of patterns left out: `2 files and 1 folder by .gitignore`.
fn ignored_by(source: Option<&str>, count: Ignored) -> String {
    let files = (count.files > 0).then(|| text::count(count.files, "file", "files"));
    let dirs = (count.dirs > 0).then(|| text::count(count.dirs, "folder", "folders"));
    let many: Vec<_> = files.into_iter().chain(dirs).collect();
    format!("{} by {}", many.join(" and "), source.unwrap_or(EXCLUDE))
}

fn describe(summary: &Imported, seconds: f64) -> Fields {
    let left_out = summary.left_out.iter().map(|left_out| {
        let mut one = fields! {};
        put_name(&mut one, "path", left_out.path.as_bytes());
        one.insert("what".to_owned(), left_out.what.into());
        serde_json::Value::Object(one)
    });
    let left_out: Vec<_> = left_out.collect();
    let ignored = summary.ignored.iter();
    let ignored = ignored.map(
        |(by, count)| fields! { "by": by.as_deref().unwrap_or(EXCLUDE), "files": count.files, "dirs": count.dirs },
    );
    let ignored: Vec<_> = ignored.map(serde_json::Value::Object).collect();
    let submodules = summary.submodules.iter().map(|taken| {
        let mut one = fields! {};
        put_name(&mut one, "path", taken.path.as_bytes());
        one.extend(fields! { "oid": taken.commit.to_string(), "registered": taken.registered });
        serde_json::Value::Object(one)
    });
    let submodules: Vec<_> = submodules.collect();
    fields! {
        "files": summary.files,
        "executables": summary.executables,
        "links": summary.links,
        "plain": summary.plain,
        "dirs": summary.dirs,
        "bytes": summary.bytes,
        "seconds": seconds,
        "left_out": left_out,
        "ignored": ignored,
        "submodules": submodules,
        "sparse": summary.sparse,
    }
}
