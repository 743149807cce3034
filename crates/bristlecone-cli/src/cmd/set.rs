//! `cone set`: values, as one commit.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt,
};

use bristlecone::{EntryKind, Path, StoredValue};
use clap::Args;

use super::Context;
use crate::{
    argument,
    commit::Change,
    failure::{Failure, Result},
    open::{Access, Opened},
    output::{fields, put_name},
    stdin, text,
    who::{CommitArgs, DurabilityArg},
};
use bristlecone_any::{Tree, path};

/// Set a value, or several, as one commit
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone set fruit/apple red -m \"An apple\"
  cone set photos/one.jpg - < one.jpg          the value from standard input
  cone set a%20b/c%0Ad value                   %XX stands for any byte but the slash
  cone set fruit/apple=red fruit/plum=blue     several values in one commit
  cone set temperature --value -5              a value that begins with a dash; or: cone set temperature -- -5
  cone set -b trial fruit/plum blue            on another branch
  cone set -b trial -c fruit/plum blue         on a new one, which begins at HEAD

What has a = in its first argument is a list of assignments: in a path a = is written %3D.")]
pub(super) struct SetArgs {
    /// Where, steps separated by slashes, and the value: from standard input if it is - or left out; or several of both
    #[arg(value_names = ["PATH", "VALUE"], num_args = 1.., required = true)]
    words: Vec<OsString>,
    /// The value, whatever it begins with
    #[arg(long, value_name = "VALUE", allow_hyphen_values = true)]
    value: Option<OsString>,
    /// Replace a directory, or a value on the way, too
    #[arg(long)]
    force: bool,
    /// When the commit is done
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArg,
    #[command(flatten)]
    commit: CommitArgs,
}

pub(super) fn run(args: SetArgs, context: &mut Context) -> Result<()> {
    let wanted = wanted(&args)?;
    let opened = context.globals.open(Access::Write)?;
    let message = match &wanted[..] {
        [(path, _)] => format!("Set {path}"),
        all => format!("Set {} values", all.len()),
    };
    let change = Change::new(&opened, &args.commit, &message, args.durability)?;
    if wanted.iter().any(|(_, given)| matches!(given, Given::StandardInput)) {
        check_early(&args, &opened, &wanted)?;
    }
    let values = wanted.iter().map(|(path, given)| Ok((path, given.read(&opened)?)));
    let values: Vec<(&Path, New<'_>)> = values.collect::<Result<_>>()?;
    let done =
        change.commit(&mut |tree| values.iter().try_for_each(|(path, value)| set(tree, path, value, args.force)))?;
    let (first, bytes) = (values[0].0, values.iter().map(|(_, value)| value.len()).sum::<u64>());
    let what = if values.len() == 1 { format!("set {first}") } else { format!("set {} values", values.len()) };
    done.tell(&mut context.out, &what)?;
    let mut all = done.fields(&opened);
    if values.len() == 1 {
        put_name(&mut all, "path", first.as_bytes());
    }
    all.extend(fields! { "values": values.len(), "bytes": bytes });
    context.out.document(all)
}

/// What stands against the commit is better said before a value is read and stored than after.
fn check_early(args: &SetArgs, opened: &Opened, wanted: &[(Path, Given<'_>)]) -> Result<()> {
    let branch = opened.branch_to_work_for()?;
    let tree = args.commit.begin.start(opened, &branch)?.tree(opened)?;
    wanted.iter().filter(|_| !args.force).try_for_each(|(path, _)| check_place(&tree, path))
}

/// Where a value comes from.
enum Given<'a> {
    Here(&'a [u8]),
    StandardInput,
}

impl<'a> Given<'a> {
    fn word(word: &'a OsStr) -> Self {
        if word == "-" { Self::StandardInput } else { Self::Here(word.as_bytes()) }
    }

    fn read(&self, opened: &Opened) -> Result<New<'a>> {
        match self {
            Self::Here(bytes) => Ok(New::Bytes(bytes)),
            Self::StandardInput => stdin::value(&opened.repo).map(New::Stored),
        }
    }
}

/// A value to be set.
pub(super) enum New<'a> {
    Bytes(&'a [u8]),
    Stored(StoredValue),
}

impl New<'_> {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Stored(value) => value.len(),
        }
    }
}

/// Returns what is to be set where.
fn wanted(args: &SetArgs) -> Result<Vec<(Path, Given<'_>)>> {
    let first = args.words.first().map(|word| word.as_bytes()).unwrap_or_default();
    if first.contains(&b'=') {
        return args.words.iter().map(|word| assignment(word, args.value.is_some())).collect();
    }
    let path = argument::value_path(&args.words[0])?;
    let given = match (&args.words[1..], &args.value) {
        ([], Some(value)) => Given::Here(value.as_bytes()),
        ([], None) => Given::StandardInput,
        ([word], None) => Given::word(word),
        ([_], Some(_)) => {
            return Err(Failure::usage("the value is given twice; give it behind the path or with --value"));
        }
        ([_, further, ..], _) => {
            let way = "quote a value that has spaces, or set several as PATH=VALUE PATH=VALUE";
            return Err(Failure::usage(format!("\"{}\" is one argument too many; {way}", text::show(further))));
        }
    };
    Ok(vec![(path, given)])
}

/// Parses `PATH=VALUE`.
fn assignment(word: &OsStr, valued: bool) -> Result<(Path, Given<'_>)> {
    let shown = text::show(word);
    if valued {
        let way = "write a = in a path as %3D";
        return Err(Failure::usage(format!("\"{shown}\" has its value behind the =, so --value has no place; {way}")));
    }
    let bytes = word.as_bytes();
    let Some(at) = bytes.iter().position(|&byte| byte == b'=') else {
        let way = "give each as PATH=VALUE, or write the = in the first path as %3D";
        return Err(Failure::usage(format!("\"{shown}\" is no assignment; {way}")));
    };
    Ok((argument::value_path(OsStr::from_bytes(&bytes[..at]))?, Given::Here(&bytes[at + 1..])))
}

/// Sets one value, which stays an executable where it is one.
pub(super) fn set(tree: &mut Tree, path: &Path, value: &New<'_>, force: bool) -> Result<()> {
    if !force {
        check_place(tree, path)?;
    }
    let kind = match tree.kind(path)? {
        Some(EntryKind::Executable) => EntryKind::Executable,
        Some(EntryKind::Dir) => {
            tree.remove(path)?;
            EntryKind::Value
        }
        _ => EntryKind::Value,
    };
    match value {
        New::Bytes(bytes) => tree.set_kind(path, kind, *bytes)?,
        New::Stored(value) => tree.set_stored(path, kind, value)?,
    }
    Ok(())
}

/// Refuses to set a value where that would take something else away.
pub(super) fn check_place(tree: &Tree, path: &Path) -> Result<()> {
    if let Some(above) = path::value_above(tree, path)? {
        let way = format!("remove it first (`cone del {above}`), or replace it with --force");
        return Err(Failure::usage(format!("{above} is a value, so nothing can lie below it; {way}")));
    }
    if tree.contains_tree(path)? {
        let way = format!("name an entry in it, remove it first (`cone del {path}`), or replace it with --force");
        return Err(Failure::usage(format!("{path} is a directory; {way}")));
    }
    Ok(())
}
