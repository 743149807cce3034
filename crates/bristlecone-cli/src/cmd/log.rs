//! `cone log`: the commits that led here.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, HashSet},
    ffi::OsString,
};

use bristlecone::{Commit, Format, LogEntry, LogOptions, LogOrder, ObjRef, Oid, Path, Signature, escape};
use clap::Args;
use serde_json::Value;

use super::Context;
use crate::{
    failure::{Failure, Result},
    open::{Access, Opened, Store},
    output::{Fields, Output, fields, put_name, put_text},
    text,
};

/// List the commits that led to a revision, newest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone log -n 10
  cone log fruit/apple             the commits that changed what is at this path
  cone log --at trial~2            from another revision
  cone log fruit main              both: a path, then a revision
  cone log --topo -o json          every child before its parents")]
pub(super) struct LogArgs {
    /// At most so many
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    count: Option<usize>,
    /// Only those that changed what is here
    #[arg(value_name = "PATH")]
    path: Option<OsString>,
    /// From which revision [default: the branch's head]
    #[arg(value_name = "REV")]
    rev: Option<OsString>,
    /// The same, without a path
    #[arg(long, value_name = "REV", conflicts_with = "rev")]
    at: Option<OsString>,
    /// Every child before its parents, whatever their dates
    #[arg(long)]
    topo: bool,
}

pub(super) fn run(args: LogArgs, context: &mut Context) -> Result<()> {
    let path = args.path.as_deref().map(text::path).transpose()?;
    let opened = context.globals.open(Access::Read)?;
    let from = opened.commit_to_read(args.rev.as_ref().or(args.at.as_ref()))?;
    let mut head = fields! {};
    if let Some(path) = &path {
        put_name(&mut head, "path", path.as_bytes());
    }
    context.out.begin(&head, "commits")?;
    let mut found = 0;
    match from {
        Some(from) => {
            for entry in entries(&opened, from, &args, path.clone())? {
                let entry = entry?;
                if found > 0 {
                    context.out.line("")?;
                }
                found += 1;
                write_human(&mut context.out, &opened, &entry.at, &entry.commit)?;
                if context.out.json() {
                    context.out.item(describe(&opened, &entry.at, &entry.commit, entry.generation))?;
                }
            }
        }
        None => eprintln!("there are no commits yet; make one with `cone set` or `cone import`"),
    }
    context.out.end(&fields! {})?;
    match &path {
        Some(path) if found == 0 && from.is_some() && args.count != Some(0) => {
            Err(Failure::negative(format!("no commit changed what is at {path}")))
        }
        _ => Ok(()),
    }
}

/// A commit to list; its generation number where the store keeps it.
struct Listed {
    at: ObjRef,
    commit: Commit,
    generation: Option<u64>,
}

/// Returns the commits to list. The last change alone is asked for as such, since an index knows it.
///
/// A Git repository keeps no generation numbers: to tell one takes all of history, so none is told there, and the plain
/// list is walked without.
fn entries<'o>(
    opened: &'o Opened,
    from: ObjRef,
    args: &LogArgs,
    path: Option<Path>,
) -> Result<Box<dyn Iterator<Item = bristlecone::Result<Listed>> + 'o>> {
    let git = matches!(opened.store, Store::Git { .. });
    if path.is_none() && !args.topo && (git || !opened.shallow()?.is_empty()) {
        return Ok(Box::new(ByDate::new(opened, from)?.take(args.count.unwrap_or(usize::MAX))));
    }
    let listed = |entry: LogEntry| Listed { at: entry.at, commit: entry.commit, generation: entry.generation };
    if let (Some(path), Some(1)) = (&path, args.count) {
        return Ok(Box::new(opened.repo.last_change(from, path)?.map(|entry| Ok(listed(entry))).into_iter()));
    }
    let order = if args.topo { LogOrder::Topological } else { LogOrder::Date };
    let options = LogOptions { order, limit: args.count, path, ..LogOptions::default() };
    Ok(Box::new(opened.repo.log(&[from], options).map(move |entry| entry.map(listed))))
}

/// All commits of a history by the committer's date, as [`LogOrder::Date`], in a Git repository: a shallow clone ends
/// where it was cut.
struct ByDate<'o> {
    opened: &'o Opened,
    shallow: HashSet<Oid>,
    seen: HashSet<Oid>,
    // By date; of one date those first that were met first.
    waiting: BinaryHeap<(i64, Reverse<u64>)>,
    commits: HashMap<u64, (ObjRef, Commit)>,
    met: u64,
    failed: Option<bristlecone::Error>,
}

impl<'o> ByDate<'o> {
    fn new(opened: &'o Opened, from: ObjRef) -> Result<Self> {
        let shallow = opened.shallow()?;
        let mut walk = Self {
            opened,
            shallow,
            seen: HashSet::new(),
            waiting: BinaryHeap::new(),
            commits: HashMap::new(),
            met: 0,
            failed: None,
        };
        walk.meet(from)?;
        Ok(walk)
    }

    fn meet(&mut self, at: ObjRef) -> bristlecone::Result<()> {
        if self.seen.insert(at.oid) {
            let commit = self.opened.repo.commit(at)?;
            self.waiting.push((commit.committer.seconds, Reverse(self.met)));
            self.commits.insert(self.met, (at, commit));
            self.met += 1;
        }
        Ok(())
    }
}

impl Iterator for ByDate<'_> {
    type Item = bristlecone::Result<Listed>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.failed.take() {
            self.waiting.clear();
            return Some(Err(error));
        }
        let (_, Reverse(number)) = self.waiting.pop()?;
        let (at, commit) = self.commits.remove(&number)?;
        if !self.shallow.contains(&at.oid) {
            // What was found belongs to the reader, though its parents may be missing.
            let met = commit.parents.iter().try_for_each(|parent| self.meet(*parent));
            self.failed = met.err();
        }
        Some(Ok(Listed { at, commit, generation: None }))
    }
}

/// Writes a commit for people.
pub(super) fn write_human(out: &mut Output, opened: &Opened, at: &ObjRef, commit: &Commit) -> Result<()> {
    match opened.repo.format().commit_text(&at.oid) {
        Some(text) => out.line(format_args!("commit {} {text}", at.oid))?,
        None => out.line(format_args!("commit {}", at.oid))?,
    }
    if commit.parents.len() > 1 {
        let parents: Vec<String> = commit.parents.iter().map(crate::open::short).collect();
        out.line(format_args!("Merge:  {}", parents.join(" ")))?;
    }
    out.line(format_args!("Author: {}", escape(&commit.author.ident)))?;
    out.line(format_args!("Date:   {}", text::date(&commit.author)))?;
    if commit.committer != commit.author {
        let when = text::date(&commit.committer);
        out.line(format_args!("Commit: {}, {when}", escape(&commit.committer.ident)))?;
    }
    out.line("")?;
    write_message(out, &commit.message)
}

/// Writes a message for people.
pub(super) fn write_message(out: &mut Output, message: &[u8]) -> Result<()> {
    for line in message.trim_ascii_end().split(|&byte| byte == b'\n') {
        out.line(format_args!("    {}", escape_line(line)))?;
    }
    Ok(())
}

/// Shows a line of a message: without control characters, but with tabs and percent signs as they are.
fn escape_line(line: &[u8]) -> String {
    let parts: Vec<String> = line
        .split(|&byte| matches!(byte, b'\t' | b'%'))
        .map(|part| escape(part.strip_suffix(b"\r").unwrap_or(part)))
        .collect();
    let signs = line.iter().filter(|byte| matches!(byte, b'\t' | b'%')).map(|&byte| char::from(byte));
    let mut text = String::new();
    let mut signs = signs.fuse();
    for part in parts {
        text.push_str(&part);
        text.extend(signs.next());
    }
    text
}

/// Describes a commit in JSON.
pub(super) fn describe(opened: &Opened, at: &ObjRef, commit: &Commit, generation: Option<u64>) -> Fields {
    let parents: Vec<String> = commit.parents.iter().map(|parent| parent.oid.to_string()).collect();
    let mut all = fields! {};
    opened.put_commit(&mut all, Some(at));
    all.extend(fields! {
        "root": commit.tree.oid.to_string(),
        "parents": parents,
        "generation": generation,
    });
    for (role, who) in [("author", &commit.author), ("committer", &commit.committer)] {
        all.insert(role.to_owned(), describe_who(who));
    }
    all.insert("headers".to_owned(), describe_headers(&commit.headers));
    put_text(&mut all, "message", &commit.message);
    all
}

/// Describes who signed, and when, in JSON.
pub(super) fn describe_who(who: &Signature) -> Value {
    let mut one = fields! {};
    put_text(&mut one, "ident", &who.ident);
    one.insert("seconds".to_owned(), who.seconds.into());
    put_text(&mut one, "zone", who.zone.as_bytes());
    Value::Object(one)
}

/// Describes the further headers of a commit or tag in JSON.
pub(super) fn describe_headers(headers: &[(Vec<u8>, Vec<u8>)]) -> Value {
    let headers = headers.iter().map(|(name, value)| {
        let mut one = fields! {};
        put_text(&mut one, "name", name);
        put_text(&mut one, "value", value);
        Value::Object(one)
    });
    headers.collect()
}
