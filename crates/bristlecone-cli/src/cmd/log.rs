//! `cone log`: the commits that led here.

use std::ffi::OsString;

use bristlecone::{
    AbsentCommits, Commit, CommitId, Error, Format, LogEntry, LogOptions, LogOrder, ObjRef, Signature, escape,
};
use bristlecone_any::revision::{self, Pattern, Selection};
use clap::Args;
use serde_json::Value;

use super::Context;
use crate::{
    failure::{Failure, Result},
    moment::moment,
    open::{Access, Opened, short},
    output::{Fields, Output, fields, put_name, put_text, say},
    text,
};

/// List the commits that led to revisions, newest first
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone log -3                       the last three
  cone log --oneline main..trial    what trial has and main lacks; main...trial: what one of the two lacks
  cone log fruit/apple              the commits that changed what is at this path
  cone log trial~2 ^main -- fruit   both: revisions, then paths
  cone log --grep apple --since \"2 weeks ago\"
  cone log --topo -o json           every child before its parents

Revisions and paths may stand in any order where no word is both; what follows -- is a path. ^REV leaves out what led to
REV. Patterns are regular expressions as in `git log -E`. Dates: 2026-03-01, \"2026-03-01 12:00\", \"2026-03-01 12:00:00
+0100\", \"3 days ago\", yesterday, or @ and seconds since 1970.")]
pub(super) struct LogArgs {
    /// At most this many; -N is the same [default: all]
    #[arg(short = 'n', long = "max-count", value_name = "N")]
    count: Option<usize>,
    /// From which revisions [default: the branch's head], and only what changed at these paths
    #[arg(value_name = "REV|PATH", allow_negative_numbers = true)]
    words: Vec<OsString>,
    /// Only those that changed what is here
    #[arg(value_name = "PATH", last = true)]
    paths: Vec<OsString>,
    /// From this revision, as one that is named
    #[arg(long, value_name = "REV")]
    at: Option<OsString>,
    /// From every ref, and what is checked out
    #[arg(long)]
    all: bool,
    /// Each on one line: the first digits of its id, and its subject
    #[arg(long)]
    oneline: bool,
    /// Every child before its parents, whatever their dates, and lines of history one after another
    #[arg(long, visible_alias = "topo-order")]
    topo: bool,
    /// Every child before its parents, and otherwise by date
    #[arg(long, conflicts_with = "topo")]
    date_order: bool,
    /// Follow the first parent of each commit alone
    #[arg(long)]
    first_parent: bool,
    /// Leave out commits with several parents
    #[arg(long)]
    no_merges: bool,
    /// Only those committed at this date or later
    #[arg(long, value_name = "DATE", visible_alias = "after")]
    since: Option<String>,
    /// Only those committed at this date or before
    #[arg(long, value_name = "DATE", visible_alias = "before")]
    until: Option<String>,
    /// Only those whose author, name and address, matches one of these
    #[arg(long, value_name = "PATTERN")]
    author: Vec<String>,
    /// Only those with a line in their message that matches one of these
    #[arg(long, value_name = "PATTERN")]
    grep: Vec<String>,
}

pub(super) fn run(mut args: LogArgs, context: &mut Context) -> Result<()> {
    args.take_count()?;
    let filter = Filter::new(&args)?;
    let options = args.options()?;
    let opened = context.globals.open(Access::Read)?;
    let selection = args.select(&opened)?;
    let mut head = fields! {};
    match &selection.paths[..] {
        [] => {}
        [path] => put_name(&mut head, "path", path.as_bytes()),
        paths => {
            let paths: Vec<String> = paths.iter().map(|path| escape(path.as_bytes())).collect();
            head.insert("paths".to_owned(), paths.into());
        }
    }
    context.out.begin(&head, "commits")?;
    let mut found = 0_usize;
    if selection.heads.is_empty() && !selection.named {
        say!("there are no commits yet; make one with `cone set` or `cone import`");
    }
    let left = args.count.unwrap_or(usize::MAX);
    let absent = opened.backend().absent()?;
    for entry in entries(&opened, &selection, options, &filter, left)? {
        let entry = entry?;
        if !filter.takes(&entry.commit) {
            continue;
        }
        let missing = missing(&opened, &absent, &entry)?;
        write(&mut context.out, &opened, &entry, args.oneline, found == 0, &missing)?;
        found += 1;
        if found == left {
            break;
        }
    }
    context.out.end(&fields! {})?;
    match &selection.paths[..] {
        [path] if found == 0 && left > 0 && selection.exclude.is_empty() && filter.is_open() && !args.dated() => {
            Err(Failure::negative(format!("no commit changed what is at {path}")))
        }
        _ => Ok(()),
    }
}

impl LogArgs {
    /// Takes `-N` out of the words.
    fn take_count(&mut self) -> Result<()> {
        for word in std::mem::take(&mut self.words) {
            let number = word.to_str().and_then(|word| word.strip_prefix('-')).map(str::to_owned);
            match number {
                Some(number) => {
                    self.count = Some(number.parse().map_err(|_| {
                        Failure::usage(format!(
                            "-{number} is no number of commits; write -3, or -n 3, for the last three"
                        ))
                    })?);
                }
                None => self.words.push(word),
            }
        }
        Ok(())
    }

    fn dated(&self) -> bool {
        self.since.is_some() || self.until.is_some()
    }

    fn options(&self) -> Result<LogOptions> {
        Ok(LogOptions::default()
            .order(match (self.topo, self.date_order) {
                (true, _) => LogOrder::Topological,
                (_, true) => LogOrder::TopologicalByDate,
                _ => LogOrder::Date,
            })
            .since(self.since.as_deref().map(moment).transpose()?)
            .until(self.until.as_deref().map(moment).transpose()?)
            .first_parent(self.first_parent))
    }

    /// Returns where the log begins, what it leaves out, and the paths.
    fn select(&self, opened: &Opened) -> Result<Selection> {
        // The line is asked itself: `main --` has no paths, and says that `main` is none.
        let dashes = !self.paths.is_empty() || std::env::args_os().any(|word| word == "--");
        let here = if dashes { None } else { opened.commit_to_read(None)? };
        let rest = dashes.then_some(&self.paths[..]);
        let mut selection = revision::select(&opened.repo, self.at.as_slice(), &self.words, rest, here)?;
        if self.all {
            opened.refuse_branch_beside("--all")?;
            selection.heads.extend(revision::every_head(&opened.repo)?);
        } else if !selection.named {
            selection.heads.extend(opened.commit_to_read(None)?);
        } else {
            opened.refuse_branch_beside("a revision")?;
        }
        Ok(selection)
    }
}

/// Which commits are listed, by what is in them.
struct Filter {
    no_merges: bool,
    author: Vec<Pattern>,
    grep: Vec<Pattern>,
}

impl Filter {
    fn new(args: &LogArgs) -> Result<Self> {
        let patterns = |texts: &[String]| texts.iter().map(|text| Pattern::new(text)).collect::<Result<Vec<_>, _>>();
        Ok(Self { no_merges: args.no_merges, author: patterns(&args.author)?, grep: patterns(&args.grep)? })
    }

    /// Whether all commits are listed.
    fn is_open(&self) -> bool {
        !self.no_merges && self.author.is_empty() && self.grep.is_empty()
    }

    fn takes(&self, commit: &Commit) -> bool {
        let any = |patterns: &[Pattern], text: &[u8]| {
            patterns.is_empty() || patterns.iter().any(|pattern| pattern.is_in(text))
        };
        !(self.no_merges && commit.parents.len() > 1)
            && any(&self.author, &commit.author.ident)
            && any(&self.grep, commit.message.strip_suffix(b"\n").unwrap_or(&commit.message))
    }
}

/// Returns the commits to look at. The last change of a path alone is asked for as such where an index knows it.
fn entries<'o>(
    opened: &'o Opened,
    selection: &Selection,
    options: LogOptions,
    filter: &Filter,
    left: usize,
) -> Result<Box<dyn Iterator<Item = bristlecone::Result<LogEntry>> + 'o>> {
    if left == 0 {
        return Ok(Box::new(std::iter::empty()));
    }
    let plain = selection.exclude.is_empty()
        && filter.is_open()
        && !options.first_parent
        && options.since.is_none()
        && options.until.is_none();
    if let ([head], [path], 1, true) = (&selection.heads[..], &selection.paths[..], left, plain)
        && opened.backend().capabilities().metadata_words
    {
        return Ok(Box::new(opened.repo.last_change(*head, path)?.map(Ok::<_, Error>).into_iter()));
    }
    let options =
        options.exclude(selection.exclude.clone()).heads_before(selection.heads_before).paths(selection.paths.clone());
    Ok(Box::new(opened.repo.log(&selection.heads, options)))
}

/// Returns the parents of a commit that retention has cut, and how many commits are missing from each on.
fn missing(opened: &Opened, absent: &AbsentCommits, entry: &LogEntry) -> Result<Vec<(CommitId, u32)>> {
    let mut missing = Vec::new();
    for parent in entry.commit.parents.iter().filter(|parent| absent.contains_key(&parent.oid())) {
        if opened.backend().read(&ObjRef::from(*parent))?.is_none() {
            missing.extend(absent.get(&parent.oid()).map(|row| (*parent, row.missing)));
        }
    }
    Ok(missing)
}

fn write(
    out: &mut Output,
    opened: &Opened,
    entry: &LogEntry,
    oneline: bool,
    first: bool,
    missing: &[(CommitId, u32)],
) -> Result<()> {
    if out.json() {
        let mut item = describe(opened, &entry.id, &entry.commit, entry.generation);
        let cut = missing.iter().map(|(parent, commits)| {
            Value::Object(fields! { "parent": parent.oid().to_string(), "commits": *commits })
        });
        if !missing.is_empty() {
            item.insert("missing".to_owned(), cut.collect());
        }
        return out.item(item);
    }
    if oneline {
        out.line(format_args!("{} {}", short(&entry.id), subject(&entry.commit.message)))?;
    } else {
        if !first {
            out.line("")?;
        }
        write_human(out, opened, &entry.id, &entry.commit)?;
    }
    for (parent, commits) in missing {
        if !oneline {
            out.line("")?;
        }
        let commits = text::count(u64::from(*commits), "commit is", "commits are");
        out.line(format_args!("({commits} missing here, from {} on: retention has cut them)", short(parent)))?;
    }
    Ok(())
}

/// Returns the first paragraph of a message on one line.
fn subject(message: &[u8]) -> String {
    let lines = message.trim_ascii_start().split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).map(escape_line).collect();
    lines.join(" ")
}

/// Writes a commit for people.
pub(super) fn write_human(out: &mut Output, opened: &Opened, at: &CommitId, commit: &Commit) -> Result<()> {
    match opened.repo.format().commit_text(&at.oid()) {
        Some(text) => out.line(format_args!("commit {} {text}", at.oid()))?,
        None => out.line(format_args!("commit {}", at.oid()))?,
    }
    if commit.parents.len() > 1 {
        let parents: Vec<String> = commit.parents.iter().map(crate::open::short).collect();
        out.line(format_args!("Merge:  {}", parents.join(" ")))?;
    }
    out.line(format_args!("Author: {}", escape_line(&commit.author.ident)))?;
    out.line(format_args!("Date:   {}", text::date(&commit.author)))?;
    if commit.committer != commit.author {
        let when = text::date(&commit.committer);
        out.line(format_args!("Commit: {}, {when}", escape_line(&commit.committer.ident)))?;
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

/// Shows a line of a message, or a person: without control characters, but with tabs and percent signs as they are.
pub(super) fn escape_line(line: &[u8]) -> String {
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
pub(super) fn describe(opened: &Opened, at: &CommitId, commit: &Commit, generation: Option<u64>) -> Fields {
    let parents: Vec<String> = commit.parents.iter().map(|parent| parent.oid().to_string()).collect();
    let mut all = fields! {};
    opened.put_commit(&mut all, Some(at));
    all.extend(fields! {
        "root": commit.tree.oid().to_string(),
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
