//! `cone export`: a tree as a folder of files.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Instant,
};

use bristlecone_any::{
    Error,
    folder::{self, FolderError},
    path,
};
use clap::Args;

use super::{
    Context,
    export_git::{self, Wanted},
};
use crate::{
    ending,
    failure::{Failure, Result},
    open::{Access, refuse_url, refuse_within_store},
    output::{fields, put_name, say},
    progress::with_progress,
    text::{self, show},
};

/// Write a tree into a folder of files; or the whole history into a Git repository
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone export out                          the branch's head
  cone export out --at HEAD~3 --path fruit a part of an older commit
  cone export out --force                  into a folder that holds something: files in the way are replaced,
                                           whatever else is there stays
  cone export --git ../project.git         the whole history, into a repository that is made if need be

Files are made anew, with executable bits and links as they were imported. No link is followed, and nothing
outside the folder is touched. Names that no file can have, and paths that are longer than the system takes, are
refused before anything is written.

A history that came from Git has the same ids again. In a repository that is there, refs move only forward, unless
with --force, and those that Git has checked out stay. Exit code 1: a ref stayed where it was.")]
pub(super) struct ExportArgs {
    /// The folder, which is made unless it is there
    #[arg(value_name = "DIR", required_unless_present = "git", conflicts_with = "git")]
    dir: Option<PathBuf>,
    /// The whole history, into the Git repository there, which is made unless it is there
    #[arg(long, value_name = "PATH", conflicts_with_all = ["at", "path"])]
    git: Option<PathBuf>,
    /// Only these refs: full names, globs such as refs/heads/*, or short names of tags and branches
    #[arg(long = "ref", value_name = "PATTERN", requires = "git")]
    refs: Vec<String>,
    /// Make a repository without a working tree, as one whose name ends in .git is made
    #[arg(long, requires = "git")]
    bare: bool,
    /// The hash of a repository that is made from a store of the format native [default: sha1]
    #[arg(long, value_name = "NAME", requires = "git", value_parser = ["sha1", "sha256"])]
    hash: Option<String>,
    /// Which revision [default: the branch's head]
    #[arg(long, value_name = "REV")]
    at: Option<OsString>,
    /// Only what is below this path
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    path: OsString,
    /// Write into a folder that is not empty; with --git, move refs that would let go of commits
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: ExportArgs, context: &mut Context) -> Result<()> {
    // A conflict of DIR with --git takes the demand for it away.
    let of_git = [("--ref", !args.refs.is_empty()), ("--bare", args.bare), ("--hash", args.hash.is_some())];
    if let (None, Some((option, _))) = (&args.git, of_git.into_iter().find(|(_, given)| *given)) {
        return Err(Failure::usage(format!("{option} is for whole histories; give --git PATH, or leave it out")));
    }
    let dir = match (&args.git, &args.dir) {
        (Some(to), _) => {
            let (bare, force, mut refs) = (args.bare, args.force, args.refs);
            refs.extend(context.globals.branch()?.map(|name| format!("refs/heads/{name}")));
            return export_git::run(Wanted { to, refs, bare, force, hash: args.hash }, context);
        }
        (None, Some(dir)) => dir.clone(),
        (None, None) => return Err(Failure::usage("name a folder, or a repository with --git PATH")),
    };
    export_dir(&args, &dir, context)
}

fn export_dir(args: &ExportArgs, dir: &Path, context: &mut Context) -> Result<()> {
    let began = Instant::now();
    refuse_url(dir, "name a folder, or copy the whole store to a url with `cone copy`")?;
    refuse_within_store(dir)?;
    let path = path::parse(&args.path)?;
    let opened = context.globals.open(Access::Read)?;
    let tree = opened.tree_to_read(args.at.as_ref())?;
    let commit = tree.origin();
    path::check_dir(&tree, &path)?;
    let Some(tree) = tree.get_tree(&path)? else { return Err(path::nothing_at(&tree, &path)?.into()) };
    let held = ending::hold();
    let goes_on = || ending::asked().is_none();
    let exported = with_progress(|tell| folder::export_while(&opened.repo, &tree, dir, args.force, &goes_on, tell));
    drop(held);
    let plan = match (exported, ending::asked()) {
        (Err(Error::Folder(FolderError::Stopped)), Some(signal)) => {
            let holds = "the files that were written are whole, and others are missing; export again with --force";
            return Err(Failure::stopped_by(signal, holds));
        }
        (exported, _) => exported?,
    };
    let seconds = began.elapsed().as_secs_f64();
    for left_out in &plan.foreign {
        say!("left out: {left_out} (id of another store)");
    }
    let files = plan.files + plan.executables;
    let shown = [
        text::count(files, "file", "files"),
        text::count(plan.links, "link", "links"),
        text::count(plan.dirs, "folder", "folders"),
    ];
    let rate = text::bytes((plan.bytes as f64 / seconds) as u64);
    say!(
        "{}, {} in {seconds:.2} s: {:.0} files/s, {rate}/s",
        shown.join(", "),
        text::bytes(plan.bytes),
        (files + plan.links) as f64 / seconds
    );
    context.out.made(format!("exported to {}", show(dir)))?;
    let mut all = fields! {};
    opened.put_commit(&mut all, commit.as_ref());
    put_name(&mut all, "path", path.as_bytes());
    let foreign = plan.foreign.iter().map(|path| {
        let mut one = fields! {};
        put_name(&mut one, "path", path.as_bytes());
        one.insert("what".to_owned(), "id of another store".into());
        serde_json::Value::Object(one)
    });
    let foreign: Vec<_> = foreign.collect();
    all.extend(fields! {
        "files": plan.files,
        "executables": plan.executables,
        "links": plan.links,
        "dirs": plan.dirs,
        "bytes": plan.bytes,
        "seconds": seconds,
        "left_out": foreign,
    });
    context.out.document(all)
}
