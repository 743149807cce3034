//! `cone tag`: listing, making and removing tags.

use std::ffi::OsString;

use bristlecone::{Durability, Error, Kind, ObjRef, PeeledTags, RefTarget, Tag, core::FormatError};
use bristlecone_any::{path, revision};
use bristlecone_git::history;
use clap::Args;

use super::Context;
use crate::{
    failure::{Failure, Result, is_won},
    open::{Access, Opened, short},
    output::fields,
    text::show,
    who::{DurabilityArg, WhyArgs},
};

const TAGS: &str = "refs/tags/";

/// List tags, make one or remove some
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone tag                          all tags
  cone tag -l 'v1.*'                those whose names match
  cone tag v1.0                     name the last commit; cone tag v1.0 HEAD~2 another one
  cone tag -a v1.0 -m \"The first\"   the same with a message, a date and who made it
  cone tag -d v1.0                  remove it; what it named stays

An annotated tag is also what -m alone asks for. `cone show v1.0` shows one.")]
pub(super) struct TagArgs {
    /// Make a tag of this name; with -l list those that match it, with -d remove it
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// What it names [default: the branch's head]; with -l or -d more names
    #[arg(value_name = "REV")]
    more: Vec<OsString>,
    /// List tags, those that match the patterns: * stands for anything, ? for one letter
    #[arg(short, long, conflicts_with_all = ["delete", "annotate", "message", "author", "date", "force"])]
    list: bool,
    /// Make a tag that is an object of its own, with a message
    #[arg(short, long, conflicts_with = "delete")]
    annotate: bool,
    /// Remove these tags
    #[arg(short, long, conflicts_with_all = ["message", "author", "date", "force"], requires = "name")]
    delete: bool,
    /// Move the tag if there is one of this name
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    why: WhyArgs,
}

pub(super) fn run(args: TagArgs, context: &mut Context) -> Result<()> {
    if args.name.is_none() || args.list || args.delete || !args.more.is_empty() {
        context.globals.refuse_idle_branch("says at the head of which branch a tag is made, where no REV does")?;
    }
    match &args.name {
        Some(_) if args.delete => delete(&args, context),
        Some(name) if !args.list => make(name, &args, context),
        None if args.annotate || args.force || args.why.is_given() => {
            Err(Failure::usage("name the tag that is to be made, as in `cone tag -a v1.0 -m MESSAGE`"))
        }
        _ => list(&args, context),
    }
}

impl TagArgs {
    /// Returns all names that were given.
    fn names(&self) -> Result<Vec<String>> {
        let text = |name: &OsString| name.to_str().map(str::to_owned);
        let more = self.more.iter().map(text).collect::<Option<Vec<String>>>();
        let more = more.ok_or_else(|| Failure::usage("the name of a tag is UTF-8; name one that `cone tag` lists"))?;
        Ok(self.name.iter().cloned().chain(more).collect())
    }
}

fn list(args: &TagArgs, context: &mut Context) -> Result<()> {
    let globs = args.names()?;
    let opened = context.globals.open(Access::Read)?;
    context.out.begin(&fields! {}, "tags")?;
    let mut peeled = PeeledTags::default();
    for name in opened.repo.tags()? {
        if !globs.is_empty() && !globs.iter().any(|glob| history::matches(glob.as_bytes(), name.as_bytes())) {
            continue;
        }
        context.out.line(show(&name))?;
        if let (true, Some(at)) = (context.out.json(), opened.repo.resolve(&format!("{TAGS}{name}"))?) {
            context.out.item(describe(&opened, &name, at, &mut peeled)?)?;
        }
    }
    context.out.end(&fields! {})
}

/// Describes a tag in JSON: the object that the ref names, and what an annotated tag leads to.
fn describe(opened: &Opened, name: &str, at: ObjRef, peeled: &mut PeeledTags) -> Result<crate::output::Fields> {
    let kind = kind_of(opened, at)?;
    let mut all = fields! { "name": name, "oid": at.oid.to_string(), "kind": path::kind_name(kind) };
    let commit = match kind {
        Kind::Commit => Some(opened.repo.commit_id(at)),
        Kind::Tag => match opened.repo.peel_noting(at, peeled) {
            Ok(at) => Some(at),
            Err(Error::WrongKind { .. }) => None,
            Err(error) => return Err(error.into()),
        },
        _ => None,
    };
    opened.put_commit(&mut all, commit.as_ref());
    Ok(all)
}

fn kind_of(opened: &Opened, at: ObjRef) -> Result<Kind> {
    match opened.backend().read(&at)? {
        Some(object) => Ok(object.kind()),
        None => Err(Error::Missing { kind: Kind::Commit, oid: at.oid }.into()),
    }
}

fn make(name: &str, args: &TagArgs, context: &mut Context) -> Result<()> {
    let full = checked(name)?;
    let target = match &args.more[..] {
        [] => None,
        [rev] => Some(rev),
        _ => return Err(Failure::usage("a tag names one revision; to list or remove several tags use -l or -d")),
    };
    if args.annotate && !args.why.has_message() {
        return Err(Failure::usage("an annotated tag has a message; give it with -m MSG"));
    }
    if args.why.is_given() && !args.why.has_message() {
        let way = "give it a message with -m MSG, or leave --author and --date out";
        return Err(Failure::usage(format!("a light tag has no author and no date; {way}")));
    }
    let opened = context.globals.open(Access::Write)?;
    let (kind, target) = match target {
        Some(text) => match revision::itself(&opened.repo, text)? {
            Some(found) => found,
            None => revision::object(&opened.repo, text)?,
        },
        None => match opened.commit_to_read(None)? {
            Some(at) => (Kind::Commit, at.into()),
            None => return Err(Failure::usage("there is no commit yet to name; make one first with `cone set`")),
        },
    };
    let old = opened.repo.resolve(&full)?;
    if old.is_some() && !args.force {
        let way = "choose another name, or move it with --force";
        return Err(Failure::usage(format!("there is a tag \"{}\" already; {way}", show(name))));
    }
    let annotated = args.annotate || args.why.has_message();
    let from = old.map(RefTarget::Object);
    let put = if annotated {
        annotate(&opened, (name, &*full), from, (kind, target), &args.why)?
    } else {
        let to = Some(RefTarget::Object(target));
        is_won(opened.repo.compare_and_set(&full, from, to, Durability::Synced))?.then_some(target)
    };
    let Some(at) = put else {
        return Err(Failure::failed(format!("the tag \"{}\" has moved meanwhile; look again", show(name))));
    };
    opened.repo.close()?;
    let moved = if old.is_some() { "moved" } else { "made" };
    context.out.made(format!(
        "{moved} the tag {}, which names the {} {}",
        show(name),
        path::kind_name(kind),
        short(&target.into())
    ))?;
    context.out.document(describe(&opened, name, at, &mut PeeledTags::default())?)
}

/// Writes the object of an annotated tag and moves its ref, `full`, there; `None` if that does not hold `from` any more.
fn annotate(
    opened: &Opened,
    (name, full): (&str, &str),
    from: Option<RefTarget>,
    (kind, target): (Kind, ObjRef),
    why: &WhyArgs,
) -> Result<Option<ObjRef>> {
    let info = why.info(opened, "", DurabilityArg::Synced)?;
    let mut message = info.message;
    if !message.ends_with(b"\n") {
        message.push(b'\n');
    }
    let name = name.as_bytes().to_vec();
    let tag = Tag { target, kind, name, tagger: info.committer, headers: Vec::new(), message };
    match opened.repo.write_tag_at(full, from, &tag, Durability::Synced) {
        Err(Error::RefMoved { .. }) => Ok(None),
        Err(Error::Format(FormatError::Unsupported { .. })) => {
            let format = opened.repo.format().name();
            let way = "make one without -a and -m";
            Err(Failure::usage(format!("the format {format} has no annotated tags; {way}")))
        }
        written => Ok(Some(written?.into())),
    }
}

/// Returns the ref of a tag, whose name Git would take, too.
fn checked(name: &str) -> Result<String> {
    let full = format!("{TAGS}{name}");
    if name.starts_with('-') || bristlecone::check_ref_name(&full).is_err() {
        return Err(Failure::usage(format!(
            "\"{}\" cannot be the name of a tag; choose one without spaces, control characters, \"..\", a dash in front, \
             or any of ~ ^ : ? * [ \\, as in Git",
            show(name)
        )));
    }
    Ok(full)
}

fn delete(args: &TagArgs, context: &mut Context) -> Result<()> {
    let names = args.names()?;
    let opened = context.globals.open(Access::Write)?;
    let (mut missing, mut untold) = (Vec::new(), None);
    let all = names.iter().map(|name| checked(name)).collect::<Result<Vec<_>>>()?;
    context.out.begin(&fields! {}, "removed")?;
    for (name, full) in names.iter().zip(all) {
        let Some(at) = opened.repo.resolve(&full)? else {
            missing.push(format!("\"{}\"", show(name)));
            continue;
        };
        if !is_won(opened.repo.compare_and_set(&full, Some(RefTarget::Object(at)), None, Durability::Synced))? {
            return Err(Failure::failed(format!("the tag \"{}\" has moved meanwhile; look again", show(name))));
        }
        // The others go all the same.
        if untold.is_none() {
            let told = context.out.made(format!("removed the tag {}, which was {}", show(name), at.oid));
            let item = fields! { "name": name.as_str(), "oid": at.oid.to_string() };
            untold = told.and_then(|()| context.out.item(item)).err();
        }
    }
    opened.repo.close()?;
    match untold {
        None => context.out.end(&fields! {})?,
        // What is missing is the answer.
        Some(untold) if missing.is_empty() => return Err(untold),
        Some(_) => {}
    }
    match &missing[..] {
        [] => Ok(()),
        _ => {
            Err(Failure::negative(format!("there is no tag {}; `cone tag` lists those there are", missing.join(", "))))
        }
    }
}
