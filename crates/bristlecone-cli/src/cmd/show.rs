//! `cone show`: a commit with what it changed, or any other object.

use std::ffi::OsString;

use bristlecone::{CommitId, EntryKind, Kind, ObjRef, Oid, Path};
use clap::Args;

use super::{Context, get, log};
use crate::{
    differences, entry,
    failure::{Failure, Result},
    open::{Access, Opened},
    output::{fields, put_name, put_text, put_value},
    text,
};
use bristlecone_any::{DirEntry, path, revision};

/// Show a commit with what it changed, or any object
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone show                the last commit
  cone show trial~2        another one
  cone show v1.0           an annotated tag; what it names is v1.0^0
  cone show trial:fruit    what is at a path there: a directory as a listing, a value as its bytes
  cone show 1f3a97c0       the object whose id starts so: a directory as a listing, a value as its bytes

A means added, M changed, T changed in kind, D removed. A merge is compared with its first parent.")]
pub(super) struct ShowArgs {
    /// A revision, REV:PATH, or the first digits of an object's id [default: the branch's head]
    #[arg(value_name = "REV|ID")]
    rev: Option<OsString>,
}

pub(super) fn run(args: ShowArgs, context: &mut Context) -> Result<()> {
    let opened = context.globals.open(Access::Read)?;
    if let Some(rev) = &args.rev {
        opened.refuse_branch_beside(text::show(rev))?;
    }
    if let Some(text) = &args.rev
        && let Some((tree, path)) = revision::place(&opened.repo, text)?
        && let Some(entry) = tree.entry(&path)?
        && !matches!(entry.kind(), EntryKind::Dir | EntryKind::Foreign)
    {
        return value(&entry, context);
    }
    let (kind, at) = match &args.rev {
        Some(text) => match revision::itself(&opened.repo, text)? {
            Some(found) if found.0 != Kind::Commit => found,
            _ => revision::object(&opened.repo, text)?,
        },
        None => match opened.commit_to_read(None)? {
            Some(at) => (Kind::Commit, at.into()),
            None => return Err(Failure::negative("there are no commits yet; make one with `cone set`")),
        },
    };
    match kind {
        Kind::Commit => commit(&opened, opened.repo.commit_id(at), context),
        Kind::Tag => tag(&opened, at, context),
        Kind::Node => node(&opened, at, context),
        Kind::Contents | Kind::Pieces => write(&opened.repo.contents(at)?, Some(at.oid), context),
        _ => Err(Failure::failed(format!("{} is a {} object, which cannot be shown", at.oid, path::kind_name(kind)))),
    }
}

fn commit(opened: &Opened, at: CommitId, context: &mut Context) -> Result<()> {
    let commit = opened.repo.read_commit(at)?;
    let before = opened.tree_before(&at, &commit)?;
    let after = opened.repo.checkout(at)?;
    let out = &mut context.out;
    log::write_human(out, opened, &at, &commit)?;
    out.line("")?;
    let mut head = fields! { "kind": Kind::Commit.name() };
    if out.json() {
        // A Git repository keeps no numbers, nor believes a deepened store its own: it would take all of history to tell.
        let generation = if opened.repo.is_numbered()? { Some(opened.repo.generation(at)?) } else { None };
        head.extend(log::describe(opened, &at, &commit, generation));
    }
    out.begin(&head, "differences")?;
    differences::write(out, &opened.repo, &before, &after, &Path::root())?;
    out.end(&fields! {})
}

fn tag(opened: &Opened, at: ObjRef, context: &mut Context) -> Result<()> {
    let tag = opened.repo.read_tag(at.into())?;
    let out = &mut context.out;
    out.line(format_args!("tag {} {}", log::escape_line(&tag.name), at.oid))?;
    if let Some(tagger) = &tag.tagger {
        out.line(format_args!("Tagger: {}", log::escape_line(&tagger.ident)))?;
        out.line(format_args!("Date:   {}", text::date(tagger)))?;
    }
    out.line(format_args!("Names:  {} {}", path::kind_name(tag.kind), tag.target.oid))?;
    out.line("")?;
    log::write_message(out, &tag.message)?;
    let mut all = fields! { "kind": Kind::Tag.name(), "oid": at.oid.to_string() };
    put_text(&mut all, "name", &tag.name);
    all.extend(fields! { "target": tag.target.oid.to_string(), "target_kind": path::kind_name(tag.kind) });
    all.insert("tagger".to_owned(), tag.tagger.as_ref().map_or(serde_json::Value::Null, log::describe_who));
    all.insert("headers".to_owned(), log::describe_headers(&tag.headers));
    put_text(&mut all, "message", &tag.message);
    out.document(all)
}

fn node(opened: &Opened, at: ObjRef, context: &mut Context) -> Result<()> {
    let tree = opened.repo.tree_at(opened.repo.tree_id(at));
    let out = &mut context.out;
    out.begin(&fields! { "kind": "dir", "oid": at.oid.to_string() }, "entries")?;
    for found in tree.list("")? {
        let found = found?;
        if out.json() {
            let mut item = fields! {};
            put_name(&mut item, "step", found.step());
            entry::put_entry(&mut item, &opened.repo, &found);
            out.item(item)?;
        } else {
            out.line(entry::long(&opened.repo, &found))?;
        }
    }
    out.end(&fields! {})
}

/// Shows a value at a path, which may be kept in its directory.
fn value(entry: &DirEntry<'_>, context: &mut Context) -> Result<()> {
    if !context.out.json() {
        return get::parts(entry, &mut |part| context.out.bytes(part));
    }
    let value = entry.contents()?.unwrap_or_else(|| (&[][..]).into());
    write(&value, entry.object().map(|at| at.oid), context)
}

/// Writes a value; `oid` is that of its object, if it has one.
fn write(value: &[u8], oid: Option<Oid>, context: &mut Context) -> Result<()> {
    if !context.out.json() {
        return context.out.bytes(value);
    }
    let mut all = fields! { "kind": "value", "oid": oid.map(|oid| oid.to_string()), "bytes": value.len() };
    put_value(&mut all, "value", value);
    context.out.document(all)
}
