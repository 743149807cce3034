//! `cone retention`: which commits a store keeps.

use bristlecone::{CutSize, Error, Keep, Retention, SweepLimits};
use clap::{Args, Subcommand};

use super::{Context, upgrade};
use crate::{
    failure::{Failure, Result},
    open::{Access, Opened},
    output::{Output, fields},
    progress::meanwhile,
    text,
};

/// Say which commits the store keeps
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone retention set '*' last 100               each branch keeps its last 100 commits
  cone retention set main last 30d --dry-run    what would go if main kept those of the last 30 days
  cone retention set 'tags/*' last 1            of what led to tags nothing stays but the tagged commits
  cone retention list
  cone retention unset '*'

Without a rule a ref keeps all that led to it. The rules are in the store and hold for every process; what they keep no longer goes
with the next `cone gc`, without a grace. The ids of what is kept stay as they are, and `cone log` says where commits are missing.
Stores of the disk engine alone have rules.")]
pub(super) struct RetentionCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    List(ListArgs),
    Set(SetArgs),
    Unset(UnsetArgs),
    Snapshots(SnapshotsArgs),
}

/// List the rules
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone retention list
  cone retention list -o json

A line for each rule: the pattern, and what the refs that match it keep. One more says for how long snapshots keep what collections
empty, where that is limited.")]
struct ListArgs {}

/// Set the rule of a pattern
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone retention set '*' last 100
  cone retention set main last 30d
  cone retention set 'release/*' all

A pattern is the name of a branch, or of any ref from refs/ on or from tags/ on; * stands for any run of characters. Of several that
match, the one with the most other characters counts. Commits are counted from where the ref stands along first parents; of the other
parents of a merge nothing is kept but what the trees need. Dates are the committer's. A store of version 1 of the disk engine is made
one of version 2 first, which earlier programs cannot open.

A dry run sets no rule and removes nothing. In a store of version 2 it makes durable what was written and begins a new segment of the
log, as a collection does.")]
struct SetArgs {
    /// Which refs
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// What they keep: `all`, `last N`, or `last N` with s, m, h or d
    #[arg(value_name = "RULE", required = true, num_args = 1..=2, allow_negative_numbers = true)]
    rule: Vec<String>,
    /// Set no rule and remove nothing; say what would go
    #[arg(long)]
    dry_run: bool,
    /// Also where no commit would stay but those to which refs lead
    #[arg(long)]
    force: bool,
}

/// Remove the rule of a pattern
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone retention unset main

What was dropped does not come back.")]
struct UnsetArgs {
    /// The pattern, as `cone retention list` shows it
    #[arg(value_name = "PATTERN")]
    pattern: String,
}

/// Limit for how long a snapshot keeps what collections remove
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone retention snapshots 1h
  cone retention snapshots none

A process that reads the store by a snapshot keeps the files which collections have emptied since, as long as it reads. With a limit
it keeps them no longer than that: a reader that is slower, or hangs, gets an error for what is gone, and never other bytes. The limit
is in the store and holds for every process; without one, `cone info` names the processes that keep files.")]
struct SnapshotsArgs {
    /// For how long: a number with s, m, h or d, or `none`
    #[arg(value_name = "DURATION", allow_negative_numbers = true)]
    limit: String,
}

pub(super) fn run(args: RetentionCommand, context: &mut Context) -> Result<()> {
    context.globals.refuse_branch("retention")?;
    match args.verb {
        Verb::List(_) => list(context),
        Verb::Set(args) => set(&args, context),
        Verb::Unset(args) => unset(&args, context),
        Verb::Snapshots(args) => limit_snapshots(&args, context),
    }
}

fn list(context: &mut Context) -> Result<()> {
    let opened = context.globals.open(Access::Read)?;
    let retention = opened.repo.retention()?;
    context.out.begin(&fields! {}, "rules")?;
    for (pattern, keep) in retention.rules() {
        context.out.line(format_args!("{} {keep}", text::show(short(pattern))))?;
        context.out.item(fields! { "pattern": pattern, "rule": keep.to_string() })?;
    }
    if retention.rules().next().is_none() {
        context.out.line("there are no rules: every ref keeps all that led to it")?;
    }
    if let Some(limit) = retention.snapshot_limit() {
        let limit = text::exact_span(limit.into());
        context.out.line(format_args!("snapshots keep what collections empty for {limit} at most"))?;
    }
    context.out.end(&fields! { "snapshot_limit": retention.snapshot_limit() })
}

fn set(args: &SetArgs, context: &mut Context) -> Result<()> {
    let keep: Keep = args.rule.join(" ").parse().map_err(rule_failure)?;
    let pattern = full(&args.pattern)?;
    let opened = context.globals.open(Access::Write)?;
    check_engine(&opened, "keeps all commits that refs lead to")?;
    if args.dry_run {
        return plan(&opened, &pattern, keep, &mut context.out);
    }
    // Refused before a store is upgraded, and looked at again where rules have changed meanwhile.
    let allowed = |retention: &Retention| match meanwhile(counting, || opened.repo.cut_size(retention))? {
        size if size.dropped > 0 && size.kept <= size.heads && !args.force => Err(cuts_all(&size)),
        size => Ok(size),
    };
    let rule = |retention: &mut Retention| _ = retention.set(&pattern, Some(keep));
    let mut planned = opened.repo.retention()?;
    rule(&mut planned);
    let mut size = allowed(&planned)?;
    let upgraded = upgrade::upgrade(&opened.repo)?;
    change(&opened, |retention| {
        rule(retention);
        if *retention != planned {
            size = allowed(retention)?;
        }
        Ok(())
    })?;
    opened.repo.close()?;
    let out = &mut context.out;
    if upgraded {
        out.made(upgrade::DONE)?;
    }
    let cut = text::count(size.dropped, "commit", "commits");
    match size.dropped {
        0 => out.made(format!("{}: {keep}", short(&pattern)))?,
        _ => out.made(format!("{}: {keep}; {cut} will go with the next `cone gc`", short(&pattern)))?,
    }
    out.document(fields! {
        "pattern": pattern,
        "rule": keep.to_string(),
        "commits": size.dropped,
        "upgraded": upgraded,
    })
}

/// Refuses a store of another backend than the disk engine, of which `holds` holds.
fn check_engine(opened: &Opened, holds: &str) -> Result<()> {
    if opened.repo.disk().is_some() {
        return Ok(());
    }
    let backend = opened.backend().name();
    let way = "copy it into one of the disk engine with `cone copy`";
    Err(Failure::usage(format!("a store of the backend {backend} {holds}; {way}")))
}

/// What the progress line says while it is found out what a rule cuts.
fn counting(seconds: f64) -> String {
    format!("looking for what would go, {}", text::span(seconds as u64))
}

/// Says what a rule would cut.
fn plan(opened: &Opened, pattern: &str, keep: Keep, out: &mut Output) -> Result<()> {
    let mut retention = opened.repo.retention()?;
    retention.set(pattern, Some(keep));
    let size = meanwhile(counting, || opened.repo.cut_size(&retention))?;
    // Not of a store of version 1, which the rule itself would upgrade.
    let can = opened.backend().capabilities().retention;
    let limits = SweepLimits::default().grace(GRACE_SECONDS).dry_run(true);
    let sweep = || meanwhile(counting, || opened.repo.sweep_by(&retention, &[], &limits));
    let swept = can.then(sweep).transpose()?;
    out.line(would_go(size.dropped, swept.map(|swept| swept.bytes)))?;
    out.document(fields! {
        "pattern": pattern,
        "rule": keep.to_string(),
        "commits": size.dropped,
        "objects": swept.map(|swept| swept.objects),
        "bytes": swept.map(|swept| swept.bytes),
    })
}

fn cuts_all(size: &CutSize) -> Failure {
    let kept = text::count(size.kept, "commit", "commits");
    Failure::usage(format!(
        "this rule would cut all of history: {} would go, and {kept} to which refs lead would stay; give --force, or keep more",
        text::count(size.dropped, "commit", "commits")
    ))
}

/// Changes the rules: anew where another process changed them meanwhile.
fn change<T>(opened: &Opened, mut change: impl FnMut(&mut Retention) -> Result<T>) -> Result<T> {
    loop {
        let expected = opened.repo.retention()?;
        let mut retention = expected.clone();
        let done = change(&mut retention)?;
        if opened.repo.replace_retention(&expected, &retention)? {
            return Ok(done);
        }
    }
}

fn unset(args: &UnsetArgs, context: &mut Context) -> Result<()> {
    let pattern = full(&args.pattern)?;
    let opened = context.globals.open(Access::Write)?;
    let keep = change(&opened, |retention| {
        retention.set(&pattern, None).ok_or_else(|| {
            Failure::negative(format!("there is no rule for {}; `cone retention list` lists them", args.pattern))
        })
    })?;
    opened.repo.close()?;
    context.out.made(format!("{}: {keep} no longer", short(&pattern)))?;
    context.out.document(fields! { "pattern": pattern, "rule": keep.to_string() })
}

fn limit_snapshots(args: &SnapshotsArgs, context: &mut Context) -> Result<()> {
    let limit = match &*args.limit {
        "none" => None,
        text => match format!("last {text}").parse() {
            Ok(Keep::Within(seconds)) => Some(seconds),
            _ => return Err(Failure::usage("the limit is a number with s, m, h or d, such as `1h`, or `none`")),
        },
    };
    let opened = context.globals.open(Access::Write)?;
    check_engine(&opened, "has no limit of snapshots")?;
    let upgraded = upgrade::upgrade(&opened.repo)?;
    change(&opened, |retention| {
        retention.set_snapshot_limit(limit);
        Ok(())
    })?;
    opened.repo.close()?;
    let out = &mut context.out;
    if upgraded {
        out.made(upgrade::DONE)?;
    }
    match limit {
        Some(seconds) => {
            let limit = text::exact_span(seconds.into());
            out.made(format!("snapshots keep what collections empty for {limit} at most"))?;
        }
        None => out.made("snapshots keep what collections empty as long as they are read by")?,
    }
    out.document(fields! { "snapshot_limit": limit, "upgraded": upgraded })
}

/// For how long `cone gc` keeps what no ref leads to, unless it is told otherwise.
const GRACE_SECONDS: u32 = 86_400;

/// Says what a collection would remove.
pub(super) fn would_go(commits: u64, bytes: Option<u64>) -> String {
    let commits = (commits > 0).then(|| text::count(commits, "commit", "commits"));
    let bytes = bytes.filter(|bytes| *bytes > 0).map(text::bytes);
    let all: Vec<String> = commits.into_iter().chain(bytes).collect();
    if all.is_empty() { "nothing would go".to_owned() } else { format!("{} would go", all.join(" and ")) }
}

/// Returns a pattern of full names.
fn full(pattern: &str) -> Result<String> {
    if pattern.is_empty() || pattern.contains(char::is_whitespace) || pattern.contains(char::is_control) {
        return Err(Failure::usage(
            "a pattern is the name of a branch or a ref, in which * stands for any run of characters",
        ));
    }
    Ok(match pattern {
        _ if pattern.starts_with("refs/") || pattern == "HEAD" => pattern.to_owned(),
        _ if ["heads/", "tags/", "remotes/"].iter().any(|kind| pattern.starts_with(kind)) => format!("refs/{pattern}"),
        _ => format!("refs/heads/{pattern}"),
    })
}

/// Returns a pattern as it is shown: branches by their names.
pub(super) fn short(pattern: &str) -> &str {
    let branch = pattern.strip_prefix("refs/heads/");
    branch.or_else(|| pattern.strip_prefix("refs/").filter(|rest| rest.starts_with("tags/"))).unwrap_or(pattern)
}

fn rule_failure(error: Error) -> Failure {
    match error {
        Error::Usage { reason } => Failure::usage(reason),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_go_is_told_as_far_as_there_is_any() {
        assert_eq!([None, Some(0)].map(|bytes| would_go(0, bytes)), ["nothing would go"; 2]);
        assert_eq!([None, Some(0)].map(|bytes| would_go(2, bytes)), ["2 commits would go"; 2]);
        assert_eq!(would_go(1, Some(9)), "1 commit and 9 B would go");
    }

    #[test]
    fn patterns_are_of_full_names() {
        for (given, wanted, shown) in [
            ("*", "refs/heads/*", "*"),
            ("main", "refs/heads/main", "main"),
            ("heads/main", "refs/heads/main", "main"),
            ("tags/v*", "refs/tags/v*", "tags/v*"),
            ("refs/x/*", "refs/x/*", "refs/x/*"),
        ] {
            let full = full(given).unwrap();
            assert_eq!((&*full, short(&full)), (wanted, shown));
        }
        assert!(full("").is_err() && full("a b").is_err());
    }
}
