//! `cone info`: what a store is and how large.

use std::{path::Path, time::SystemTime};

use bristlecone::{IndexedCommits, RefTarget, Retention};
use bristlecone_git::layout::Layout;
use clap::Args;

use super::{Context, retention::short as short_pattern};
use crate::{
    failure::{Failure, Result},
    open::{Access, short},
    output::{fields, put_text},
    text::{bytes, count, exact_span, show, span},
};
use bristlecone_any::{AnyBackend, Head};

mod sample;

/// Tell what a store is: format, sizes, branches, and what it promises
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone info
  cone info --stats
  cone info -o json")]
pub(super) struct InfoArgs {
    /// Also read up to 1,000 objects, those nearest to the commit that is checked out first, and tell what was read here,
    /// how much, and how long it took
    #[arg(long)]
    stats: bool,
}

pub(super) fn run(args: InfoArgs, context: &mut Context) -> Result<()> {
    if context.globals.branch()?.is_some() {
        let way = "leave -b out, and see branches with `cone branches`";
        return Err(Failure::usage(format!(
            "`cone info` is about the whole store and what is checked out in it; {way}"
        )));
    }
    let mut opened = context.globals.open(Access::Read)?;
    let counts = args.stats.then(|| sample::count(&mut opened));
    let (can, stats) = (opened.backend().capabilities(), opened.backend().stats());
    let (backend_version, segment_bytes) = match opened.repo.any_backend() {
        AnyBackend::Disk(disk) => (disk.version(), Some(disk.header().segment_bytes)),
        AnyBackend::Fs(fs) => (fs.header().version, None),
        AnyBackend::Git(_, layout) => (git_version(layout), None),
        AnyBackend::Lmdb(lmdb) => (lmdb.header().version, None),
        AnyBackend::Lsm(lsm) => (lsm.header().version, None),
        _ => (0, None),
    };
    let (head, commit) = match opened.repo.checked_out()? {
        Head::Branch(name) => (Some(name), opened.repo.checked_out_commit()?),
        Head::Detached(at) => (None, Some(at)),
    };
    let branches = opened.repo.branches()?.len();
    let git = match opened.repo.git() {
        None => None,
        Some((backend, layout)) => Some((layout.worktree.as_deref(), git_branch(backend.git_head()?))),
    };
    // Those that read now, this process apart.
    let readers = match opened.repo.any_backend() {
        AnyBackend::Lmdb(lmdb) => lmdb.readers()?,
        _ => Vec::new(),
    };
    let readers: Vec<_> =
        readers.into_iter().filter(|reader| reader.txn.is_some() && reader.process != std::process::id()).collect();
    let (retention, collected) = match opened.repo.any_backend() {
        AnyBackend::Disk(disk) => (Some(opened.repo.retention()?), Some(disk.collected()?)),
        _ => (None, None),
    };
    let indexed = opened.repo.indexed_commits()?;
    let dir = opened.repo.dir().unwrap_or_else(|| Path::new(""));
    let out = &mut context.out;
    let yes = |promised: bool| if promised { "yes" } else { "no" };
    let format = opened.repo.format().tag();
    out.line(format_args!("store         {}", show(dir)))?;
    out.line(format_args!("format        {} version {} ({})", format.name, format.version, format.options))?;
    out.line(format_args!("backend       {} version {}", opened.backend().name(), backend_version))?;
    let shown = match (&head, &commit) {
        (Some(name), Some(at)) => format!("branch {} at commit {}", show(name), short(at)),
        (Some(name), None) => format!("branch {}, without commits", show(name)),
        (None, Some(at)) => format!("commit {}, on no branch", short(at)),
        (None, None) => "nothing".to_owned(),
    };
    out.line(format_args!("checked out   {shown}"))?;
    if let Some((worktree, branch)) = &git {
        let shown = worktree.map_or_else(|| "none: the repository is bare".to_owned(), show);
        out.line(format_args!("working tree  {shown}"))?;
        out.line(format_args!("Git is on     {}", branch.as_deref().map_or_else(|| "no branch".to_owned(), show)))?;
    }
    out.line(format_args!("branches      {branches}"))?;
    out.line(format_args!("size          {} of objects and refs", bytes(stats.store_bytes)))?;
    if segment_bytes.is_some() {
        out.line(format_args!("on disk       {} with space kept ready", bytes(stats.file_bytes)))?;
    }
    if indexed != IndexedCommits::default() {
        let IndexedCommits { graph, changes } = indexed;
        out.line(format_args!("indexed       {graph} commits for questions of ancestors, {changes} for last changes"))?;
    }
    if segment_bytes.is_some() {
        let left = bytes(stats.reclaimable_bytes);
        out.line(format_args!("reclaimable   {left}, about, that nothing leads to: left by what did not end well"))?;
    }
    if let Some(retention) = retention.iter().find(|retention| !retention.is_all()) {
        let rules: Vec<String> =
            retention.rules().map(|(pattern, keep)| format!("{} {keep}", show(short_pattern(pattern)))).collect();
        out.line(format_args!("retention     {}", rules.join(", ")))?;
    }
    if let Some(limit) = retention.as_ref().and_then(Retention::snapshot_limit) {
        let limit = exact_span(u64::from(limit));
        out.line(format_args!("snapshots     keep what a collection empties for {limit} at most"))?;
    }
    if let Some(collected) = collected.as_ref().filter(|collected| collected.cold_bytes > 0) {
        let since = bytes(stats.store_bytes.saturating_sub(collected.cold_bytes + collected.log_bytes));
        let cold = bytes(collected.cold_bytes);
        let live = match collected.live_bytes {
            Some(live) if collected.partial > 0 => format!("; {} of it were live when all was looked at", bytes(live)),
            Some(_) => ", all of it live then".to_owned(),
            None => String::new(),
        };
        let when = collected.time.map_or_else(String::new, |time| format!("{} ago, ", time_since(time)));
        let log = match collected.log_bytes {
            0 => String::new(),
            log => format!("; {} stayed in the log", bytes(log)),
        };
        out.line(format_args!("collected     {when}{cold} were kept{live}{log}; {since} came since"))?;
    }
    let others = collected.as_ref().map(|collected| collected.processes.saturating_sub(1));
    if let Some(others) = others.filter(|others| *others > 0) {
        let others = count(others as u64, "other process has", "other processes have");
        out.line(format_args!("open          {others} the store open, for which a collection keeps what they read"))?;
    }
    if let Some(collected) = collected.as_ref().filter(|collected| collected.emptied_bytes > 0) {
        let held = bytes(collected.emptied_bytes);
        out.line(format_args!("emptied       {held} of files that collections emptied go once no process reads them"))?;
        for reader in &collected.behind {
            let process = reader.process.map_or_else(|| "a process".to_owned(), |process| format!("process {process}"));
            let since = reader.since.map_or_else(String::new, |since| format!(" for {}", time_since(since)));
            let (state, newest) = (reader.state, collected.states);
            out.line(format_args!(
                "reader        {process} has read by state {state} of {newest}{since}, and keeps them"
            ))?;
        }
    }
    for reader in &readers {
        let (process, thread) = (reader.process, reader.thread);
        let since = reader.txn.map_or_else(String::new, |txn| format!(", since transaction {txn}"));
        out.line(format_args!(
            "reader        process {process}, thread {thread}{since}: keeps space from being used again"
        ))?;
    }
    out.line(format_args!("durability    none, grouped, synced"))?;
    out.line(format_args!("a commit is whole or not there after a crash   {}", yes(can.atomic_commits)))?;
    out.line(format_args!("several refs move in one step                  {}", yes(can.several_refs)))?;
    out.line(format_args!("several processes at a time                    {}", yes(can.processes)))?;
    if let Some(counts) = &counts {
        sample::read(&opened, commit)?;
        out.line(format_args!("\n{counts}"))?;
    }
    let mut all = fields! {};
    put_text(&mut all, "store", dir.as_os_str().as_encoded_bytes());
    all.extend(fields! {
        "format": format.name.as_str(),
        "format_version": format.version,
        "options": format.options.as_str(),
        "backend": opened.backend().name(),
        "backend_version": backend_version,
        "segment_bytes": segment_bytes,
        "head": head,
    });
    opened.put_commit(&mut all, commit.as_ref());
    if let Some((worktree, branch)) = git {
        match worktree {
            Some(worktree) => put_text(&mut all, "worktree", worktree.as_os_str().as_encoded_bytes()),
            None => _ = all.insert("worktree".to_owned(), ().into()),
        }
        all.insert("git_head".to_owned(), branch.into());
    }
    all.extend(fields! {
        "branches": branches,
        "store_bytes": stats.store_bytes,
        "file_bytes": stats.file_bytes,
        "indexed_graph": indexed.graph,
        "indexed_changes": indexed.changes,
        "reclaimable_bytes": segment_bytes.map(|_| stats.reclaimable_bytes),
        "retention": retention.map(|retention| retention.to_string().lines().map(str::to_owned).collect::<Vec<_>>()),
        "collected": collected.as_ref().and_then(|collected| collected.time),
        "cold_bytes": collected.as_ref().map(|collected| collected.cold_bytes),
        "live_bytes": collected.as_ref().and_then(|collected| collected.live_bytes),
        "log_bytes": collected.as_ref().map(|collected| collected.log_bytes),
        "partial_collections": collected.as_ref().map(|collected| u64::from(collected.partial)),
        "open_processes": collected.as_ref().map(|collected| collected.processes as u64),
        "emptied_bytes": collected.as_ref().map(|collected| collected.emptied_bytes),
        "durability": vec!["none", "grouped", "synced"],
        "persistent": can.persistent,
        "atomic_commits": can.atomic_commits,
        "several_refs": can.several_refs,
        "processes": can.processes,
    });
    if let Some(collected) = &collected {
        let behind = collected
            .behind
            .iter()
            .map(|reader| serde_json::json!({"process": reader.process, "state": reader.state, "since": reader.since}));
        all.insert("readers".to_owned(), behind.collect::<Vec<_>>().into());
    }
    if let AnyBackend::Lmdb(_) = opened.repo.any_backend() {
        let all_readers: Vec<serde_json::Value> = readers
            .iter()
            .map(|reader| {
                serde_json::json!({"process": reader.process, "thread": reader.thread, "transaction": reader.txn})
            })
            .collect();
        all.insert("readers".to_owned(), all_readers.into());
    }
    if let Some(counts) = &counts {
        all.insert("stats".to_owned(), sample::fields_of(counts).into());
    }
    out.document(all)
}

/// Returns how long ago a time was that is given in seconds since 1970.
fn time_since(since: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    span(now.saturating_sub(since))
}

/// Returns the version of a Git repository, as its configuration says it.
fn git_version(layout: &Layout) -> u32 {
    let version = layout.config.get("core.repositoryformatversion");
    version.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()).unwrap_or(0)
}

/// Returns the branch that Git has checked out.
fn git_branch(head: Option<RefTarget>) -> Option<String> {
    match head {
        Some(RefTarget::Symbolic(name)) => name.strip_prefix("refs/heads/").map(str::to_owned),
        _ => None,
    }
}
