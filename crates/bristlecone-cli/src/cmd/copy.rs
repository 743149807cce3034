//! `cone copy`: all that refs lead to, from one store into another.

use std::{ffi::OsString, path::PathBuf, time::Instant};

use bristlecone_any::{
    AnyFormat, Found, Place, STORE_DIR,
    copy::{self, CopiedRef, CopyOptions, CopyReport, Loss, RefChange},
    store_dir,
};
use clap::{Args, builder::PossibleValuesParser};

use super::{
    Context,
    import_git::{NAMED_MAX, describe_unnamed, line, tell_unnamed},
    init::BackendArg,
};
use crate::{
    ending::{self, Made},
    failure::{Failure, Result},
    open::{Access, is_okra, no_store_but_okra, refuse_within_store, tell_of_losses},
    output::{Fields, fields, put_text, say},
    progress::Progress,
    text::{self, count, show},
};

/// Copy a store into another one: branches, tags, and all that they lead to
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone copy data backup                    a store like it, which is made if need be
  cone copy data backup                    once more: what is new since
  cone copy data new --format git          the same history in another format
  cone copy data new --backend lsm         the same store in another backend
  cone copy data git+file:///srv/data.git  into a Git repository without a working tree
  cone copy data backup -b main            one branch alone
  cone copy data backup --dry-run          only tell what would be done

FROM and TO are folders, urls such as git+file:///srv/data.git or lsm+file:///srv/data, or `memory:`. What is there is not copied
again, and a copy that was stopped goes on where it was: run it again. Between stores of the same format and options all ids are the same. Else
each commit is converted, and the command says what the other format cannot keep, with the first example of each.

A ref that is there moves only forward, unless with --force. Exit code 1: a ref stayed where it was, a ref or an entry was
left out; there is nothing to copy; with --strict, something cannot be kept, and nothing was written.")]
pub(super) struct CopyArgs {
    /// The store that is copied
    #[arg(value_name = "FROM")]
    from: OsString,
    /// Where the copy is, or is made
    #[arg(value_name = "TO")]
    to: OsString,
    /// Only these refs: full names, globs such as refs/heads/*, or short names of tags and branches
    #[arg(long = "ref", value_name = "PATTERN")]
    refs: Vec<String>,
    /// The format of a store that is made [default: that of FROM, with its options]
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(AnyFormat::ALL.iter().map(|one| one.0)))]
    format: Option<String>,
    /// The backend of a store that is made [default: disk, unless TO is a url]
    #[arg(long, value_enum)]
    backend: Option<BackendArg>,
    /// Move refs also if they would let go of commits
    #[arg(long)]
    force: bool,
    /// Write nothing if anything cannot be kept
    #[arg(long)]
    strict: bool,
    /// Write nothing, and tell what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(args: CopyArgs, context: &mut Context) -> Result<()> {
    let began = Instant::now();
    if context.globals.repo().is_some() {
        return Err(Failure::usage("`cone copy` takes both stores as arguments: cone copy FROM TO; leave --repo out"));
    }
    let globals = &context.globals;
    let from_place = place(&args.from)?;
    let to_place = in_backend(place(&args.to)?, args.backend)?;
    if let Place::Folder(dir) = &from_place
        && is_okra(dir)
        && from_place.find().is_err()
    {
        return Err(no_store_but_okra(dir));
    }
    let from = globals.options(Access::Read)?.open(from_place)?;
    tell_of_losses(&from);
    let mut refs = args.refs.clone();
    refs.extend(globals.branch()?.map(|name| format!("refs/heads/{name}")));
    let options = CopyOptions::default().refs(refs).force(args.force).strict(args.strict).dry_run(args.dry_run);
    let format = args.format.as_deref().and_then(AnyFormat::standard);
    let is_there = to_place.find().is_ok();
    let access = if args.dry_run && is_there { Access::Read } else { Access::Write };
    let (to, made) = if args.dry_run && !is_there {
        copy::check_free(&to_place)?;
        // What would be made is looked at in memory.
        copy::open_or_make(
            &Place::Memory,
            &from,
            format.or_else(|| git_format(&to_place, &from)),
            &globals.options(access)?,
        )?
    } else {
        ending::makes(made_at(&to_place, globals.wait_ms()?)?);
        ending::made(copy::open_or_make(&to_place, &from, format, &globals.options(access)?))?
    };
    tell_of_losses(&to);
    if access == Access::Write {
        ending::writes_to(&to);
        ending::fills();
    }
    let mut progress = Progress::new("copied", None);
    let report = copy::copy(&from, &to, &options, &mut |status| progress.tick_with(|seconds| line(&status, seconds)))?;
    drop(progress);
    to.close()?;
    ending::made_it();
    let seconds = began.elapsed().as_secs_f64();
    if made {
        tell_no_repository(&to_place);
    }
    tell(&report, args.dry_run, seconds);
    let did = if args.dry_run { "would copy" } else { "copied" };
    context.out.made(format!("{did} {} to {}", show(&args.from), show(&args.to)))?;
    let mut all = fields! {};
    put_text(&mut all, "from", args.from.as_encoded_bytes());
    put_text(&mut all, "to", args.to.as_encoded_bytes());
    all.extend(described(&report, &args, made && !args.dry_run, to.format().name(), seconds));
    context.out.document(all)?;
    if report.is_whole() { Ok(()) } else { Err(Failure::answered()) }
}

/// Returns the place that an argument names: a url, or a path in any bytes.
fn place(argument: &OsString) -> Result<Place> {
    // The system would take it for the folder we are in.
    if argument.is_empty() {
        return Err(Failure::usage("the name of a store is empty; write . for the folder we are in"));
    }
    match argument.to_str() {
        Some(text) => Ok(Place::parse(text)?),
        None => Ok(Place::from(PathBuf::from(argument))),
    }
}

/// Returns the place where a store is made in the backend that was asked for, if one was.
fn in_backend(place: Place, backend: Option<BackendArg>) -> Result<Place> {
    let Some(backend) = backend else { return Ok(place) };
    let Place::Folder(dir) = place else {
        return Err(Failure::usage("a url names the backend itself: leave --backend out, or give TO as a folder"));
    };
    // One that is there says what it is if it is another.
    let top = Place::Folder(dir.clone());
    let inner = if dir.join(STORE_DIR).is_dir() || top.find().is_err() { store_dir(&dir) } else { dir };
    // One that is there is looked at once nobody else makes a store in it.
    if !inner.exists() {
        copy::check_free(&top)?;
    }
    Ok(backend.place(inner).0)
}

/// Says that a Git repository is not what is made, where the name of a folder is that of one.
fn tell_no_repository(place: &Place) {
    if let Place::Folder(dir) = place
        && dir.extension().is_some_and(|end| end == "git")
    {
        say!("note: this makes a store in {}, no Git repository, which the url git+file:///PATH makes", show(dir));
    }
}

/// Returns the format of Git if a Git repository would be made.
fn git_format(place: &Place, from: &bristlecone_any::AnyRepo) -> Option<AnyFormat> {
    let is_git = matches!(from.format(), AnyFormat::Git(_));
    if matches!(place, Place::Git(_)) && !is_git { AnyFormat::standard("git") } else { None }
}

/// Returns what is removed again if it was made and the copy fails. What a copy has saved stays.
fn made_at(place: &Place, wait_ms: u64) -> Result<Option<Made>> {
    // One without a header may be one that another process is making: that is waited for.
    match place.find() {
        Ok(Found::Disk(dir)) if !dir.join("store").exists() => {}
        Ok(_) => return Ok(None),
        Err(_) => {}
    }
    match place {
        Place::Folder(dir) => {
            refuse_within_store(dir)?;
            Made::store(&store_dir(dir), wait_ms)
        }
        Place::Disk(dir) | Place::Fs(dir) | Place::Lmdb(dir) | Place::Lsm(dir) => {
            refuse_within_store(dir)?;
            Made::store(dir, wait_ms)
        }
        Place::Git(dir) => {
            refuse_within_store(dir)?;
            Made::git(dir, wait_ms)
        }
        _ => Ok(None),
    }
}

fn tell(report: &CopyReport, dry_run: bool, seconds: f64) {
    for (name, why) in report.refs.iter().filter_map(|one| Some((&one.name, stayed(one)?))).take(NAMED_MAX) {
        say!("left where it is: {} ({why})", show(name));
    }
    tell_unnamed(&report.unnamed);
    for loss in &report.losses {
        say!("not kept: {loss}");
    }
    if let Some(head) = &report.head {
        say!("HEAD is {}", show(head.strip_prefix("refs/heads/").unwrap_or(head)));
    }
    let changed = |change| !matches!(change, RefChange::Same) && !RefChange::stays(change);
    let refs = report.refs.iter().filter(|one| changed(one.change)).count() as u64;
    let (commits, refs) = (count(report.commits, "commit", "commits"), count(refs, "ref", "refs"));
    if dry_run {
        let at_most = if report.at_most { "at most " } else { "" };
        say!("{at_most}{commits}, {refs}; nothing was written");
        return;
    }
    let what = if report.converted { ("value", "values") } else { ("object", "objects") };
    let (objects, bytes) = (count(report.objects, what.0, what.1), text::bytes(report.bytes));
    say!("{commits}, {objects}, {refs} in {seconds:.2} s, {bytes}");
}

/// Returns why a ref did not move although it should have.
fn stayed(one: &CopiedRef) -> Option<&'static str> {
    match one.change {
        RefChange::Kept => Some("what it names would be let go of; --force moves it"),
        RefChange::CheckedOut => Some(
            "Git has it checked out in a working tree, and files would not follow; check another branch out there first",
        ),
        RefChange::LeftOut if one.name == "HEAD" => Some(
            "no ref leads to the commit that it names, and in a Git repository HEAD is Git's; make a branch there first",
        ),
        RefChange::LeftOut => Some("the other format cannot hold what it names"),
        _ => None,
    }
}

fn described(report: &CopyReport, args: &CopyArgs, made: bool, format: &str, seconds: f64) -> Fields {
    let refs = report.refs.iter().map(|one| fields! { "name": one.name.as_str(), "state": one.change.name() });
    let refs: Vec<_> = refs.map(serde_json::Value::Object).collect();
    let losses: Vec<_> = report.losses.iter().map(lost).map(serde_json::Value::Object).collect();
    fields! {
        "format": format,
        "made": made,
        "dry_run": args.dry_run,
        "converted": report.converted,
        "commits": report.commits,
        "commits_at_most": report.at_most,
        "objects": report.objects,
        "bytes": report.bytes,
        "refs": refs,
        "unnamed": describe_unnamed(&report.unnamed),
        "head": report.head.as_deref(),
        "lost": losses,
        "seconds": seconds,
    }
}

fn lost(loss: &Loss) -> Fields {
    fields! {
        "what": loss.kind.name(),
        "count": loss.count,
        "commit": loss.commit.map(|id| id.to_string()),
        "place": loss.place.as_str(),
    }
}
