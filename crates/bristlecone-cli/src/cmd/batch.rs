//! `cone batch`: many changes from standard input, in one commit or in several.

use std::{
    cell::Cell,
    ffi::OsStr,
    io::{self, BufRead, Read},
    mem,
};

use bristlecone::{CommitId, EntryKind, Error, Expected, RefMove, RefTarget, VALUE_BYTES_MAX};
use clap::Args;

use super::{
    Context,
    branches::{self, Moving},
    set,
};
use crate::{
    begin::BeginArgs,
    commit::{Change, Committed, not_as_expected},
    ending,
    failure::{Failure, Result},
    open::{Access, Opened},
    output::fields,
    streams,
    text::{count, show},
    who::{CommitArgs, DurabilityArg},
};
use bristlecone_any::{Tree, check_new_branch, path, revision, short_branch};

mod parse;

use parse::{Edit, Line, Move};

/// Make many changes, read from standard input, as one commit or as several
#[derive(Args, Debug)]
#[command(after_help = "\
Each line is a change, in words or as a JSON object:
  set PATH VALUE           {\"set\": PATH, \"value\": TEXT} or {\"set\": PATH, \"value_hex\": DIGITS}
  del PATH                 {\"del\": PATH}
  test PATH VALUE          {\"test\": PATH, \"value\": TEXT}          the value must be this
  absent PATH              {\"test\": PATH, \"value\": null}          there must be nothing
  branch NAME REV [OLD]    {\"branch\": NAME, \"to\": REV, \"expected\": OLD}
  drop NAME [OLD]          {\"branch\": NAME, \"to\": null, \"expected\": OLD}
  commit [MESSAGE]         {\"commit\": MESSAGE}                    what stands before is one commit

A value is the rest of its line. OLD is what the branch must name now; - or null: it must not exist. Empty lines and
those that begin with # say nothing.

Examples:
  printf 'set a 1\\nset b 2\\ndel c\\n' | cone batch -m \"Three changes\"
  printf 'test count 41\\nset count 42\\n' | cone batch    only if the count is still 41
  cone batch --each < changes.jsonl                      a commit for each change

All of one commit is made, or nothing. Exit code 1: something was not as a test or a move wanted it.")]
pub(super) struct BatchArgs {
    /// Make a commit of each change
    #[arg(long)]
    each: bool,
    /// Replace directories, or values on the way, too; drop branches whose commits no other branch has
    #[arg(long)]
    force: bool,
    /// When a commit is done
    #[arg(long, value_enum, default_value_t)]
    durability: DurabilityArg,
    #[command(flatten)]
    commit: CommitArgs,
}

/// What is to be one commit.
#[derive(Debug, Default)]
struct Group {
    // Each with the number of its line.
    edits: Vec<(u64, Edit)>,
    moves: Vec<(u64, Move)>,
    // Whether there is to be a commit although nothing changes.
    commits: bool,
}

impl Group {
    /// Returns the number of the last line with a change or a move.
    fn last_line(&self) -> Option<u64> {
        let (edit, wanted) = (self.edits.last(), self.moves.last());
        edit.map(|(line, _)| *line).max(wanted.map(|(line, _)| *line))
    }
}

/// What was done so far.
#[derive(Default)]
struct Done {
    commits: u64,
    changes: u64,
    moves: u64,
    // Commits and moves of branches together, with those that changed nothing.
    steps: u64,
    // Why something that was done could not be told: the rest is done all the same.
    untold: Option<Failure>,
}

pub(super) fn run(mut args: BatchArgs, context: &mut Context) -> Result<()> {
    streams::check_input("redirect a file or a pipe")?;
    let opened = context.globals.open(Access::Write)?;
    context.out.begin(&fields! {}, "commits")?;
    let (mut group, mut done, mut number) = (Group::default(), Done::default(), 0);
    let mut input = io::stdin().lock();
    while let Some(line) = next_line(&mut input).map_err(|failure| after(failure, Some(number + 1), &done))? {
        number += 1;
        let parsed = parse::line(&line).map_err(|failure| at_line(failure, number, &done))?;
        match parsed {
            None => {}
            Some(Line::Commit(message)) => {
                // With --allow-empty also where nothing stands before it.
                group.commits = args.commit.allow_empty;
                finish(&opened, &mut args, message, mem::take(&mut group), &mut done, context)?;
            }
            Some(Line::Edit(edit)) => {
                let changes = !matches!(edit, Edit::Test(..));
                group.edits.push((number, edit));
                if args.each && changes {
                    finish(&opened, &mut args, None, mem::take(&mut group), &mut done, context)?;
                }
            }
            Some(Line::Branch(wanted)) => group.moves.push((number, wanted)),
        }
    }
    finish(&opened, &mut args, None, group, &mut done, context)?;
    opened.repo.close()?;
    if let Some(untold) = done.untold {
        return Err(untold);
    }
    if done.steps == 0 {
        context.out.made("nothing changed, so nothing was committed")?;
    }
    context.out.end(&fields! { "changes": done.changes, "moves": done.moves })
}

/// Reads a line without its end; `None` at the end.
fn next_line(input: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    // A value in hexadecimal is twice as long, and something stands around it.
    let longest = 2 * VALUE_BYTES_MAX + (1 << 16);
    let read = input.take(longest).read_until(b'\n', &mut line);
    if read.map_err(|error| Failure::file("read", "standard input", &error))? == 0 {
        return Ok(None);
    }
    if line.len() as u64 == longest {
        return Err(Failure::too_large("a line of standard input", None));
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(Some(line))
}

/// Says in which line something is wrong, and what was done before.
fn at_line(failure: Failure, line: u64, done: &Done) -> Failure {
    let before = stays(done).unwrap_or_else(|| "nothing was committed".to_owned());
    failure.about(format!("line {line} of the batch cannot be done; {before}; mend it and run the rest again"))
}

/// Says with which line a batch ends for a reason that is of no line, and what was done before, if something was.
fn after(failure: Failure, line: Option<u64>, done: &Done) -> Failure {
    match (line, stays(done)) {
        (Some(line), Some(before)) => failure.about(format!("the batch ends with line {line}; {before}")),
        _ => failure,
    }
}

/// Says what was done and stays; `None` if nothing was done.
fn stays(done: &Done) -> Option<String> {
    let all = [(done.commits, "commit", "commits"), (done.moves, "move of a branch", "moves of branches")];
    let made = all.into_iter().filter(|(number, ..)| *number > 0).map(|(number, one, many)| count(number, one, many));
    let made = made.collect::<Vec<_>>().join(" and ");
    match done.commits + done.moves {
        0 => None,
        1 => Some(format!("{made} before it stays")),
        _ => Some(format!("{made} before it stay")),
    }
}

/// Commits a group, and moves its branches in the same step where the store can.
fn finish(
    opened: &Opened,
    args: &mut BatchArgs,
    message: Option<String>,
    group: Group,
    done: &mut Done,
    context: &mut Context,
) -> Result<()> {
    if group.edits.is_empty() && group.moves.is_empty() && !group.commits {
        return Ok(());
    }
    let moves = moves(opened, &group.moves, args.force, done)?;
    let changes = group.edits.iter().filter(|(_, edit)| !matches!(edit, Edit::Test(..))).count() as u64;
    let commits = changes > 0 || group.commits || args.commit.allow_empty && !group.edits.is_empty();
    check_own_moves(opened, &group, commits, &moves, done)?;
    let standard = format!("Make {}", count(changes, "change", "changes"));
    let change = Change::new(opened, &args.commit, message.as_deref().unwrap_or(&standard), args.durability)?;
    let change = change.saying(message).moving(moves.clone());
    let named = Cell::new(false);
    let edit = &mut |tree: &mut Tree| apply(tree, &group.edits, args.force, done).inspect_err(|_| named.set(true));
    let only_moves = group.edits.is_empty() && !group.commits;
    let made = if only_moves { change.move_refs_alone().map(|()| None) } else { change.commit(edit).map(Some) };
    let committed = match made {
        Err(failure) if !named.get() => return Err(after(failure, group.last_line(), done)),
        made => made?,
    };
    done.steps += 1;
    done.changes += changes;
    done.moves += group.moves.len() as u64;
    done.commits += u64::from(committed.as_ref().is_some_and(Committed::is_made));
    if done.untold.is_none() {
        done.untold = tell(opened, committed.as_ref(), changes, &moves, context).err();
    }
    if committed.is_some() && args.commit.begin.is_given() && opened.branch_to_change()?.head()?.is_some() {
        // The branch is begun: what follows goes on from it.
        args.commit.begin = BeginArgs::default();
    }
    // Files that followed the commit are whole by now.
    ending::asked().map_or(Ok(()), |signal| Err(Failure::ended_by(signal)))
}

fn tell(
    opened: &Opened,
    committed: Option<&Committed>,
    changes: u64,
    moves: &[RefMove],
    context: &mut Context,
) -> Result<()> {
    if let Some(committed) = committed {
        committed.tell(&mut context.out, &format!("made {}", count(changes, "change", "changes")))?;
        context.out.item(committed.fields(opened))?;
    }
    for moved in moves {
        let name = show(short_branch(&moved.name));
        let was = match &moved.expected {
            Expected::Is(RefTarget::Object(at)) => format!(", which was at commit {}", at.oid),
            _ => String::new(),
        };
        context.out.made(match (&moved.to, &moved.expected) {
            (None, _) => format!("removed the branch {name}{was}"),
            (Some(_), Expected::Absent) => format!("made the branch {name}"),
            (Some(_), _) => format!("moved the branch {name}{was}"),
        })?;
    }
    // Who waits for the answer to a commit before the next change gets it now, and a signal takes none of it away.
    context.out.hand_over()
}

/// Makes the edits of a group, or says which one cannot be made.
fn apply(tree: &mut Tree, edits: &[(u64, Edit)], force: bool, done: &Done) -> Result<()> {
    for (line, edit) in edits {
        let made = match edit {
            Edit::Set(path, value) => set::set(tree, path, &set::New::Bytes(value), force),
            Edit::Remove(path) => match tree.entry(path)? {
                None => Err(path::nothing_at(tree, path)?.into()),
                Some(_) => Ok(tree.remove(path)?),
            },
            Edit::Test(path, expected) => test(tree, path, expected.as_deref()),
        };
        made.map_err(|failure| at_line(failure, *line, done))?;
    }
    Ok(())
}

fn test(tree: &Tree, path: &bristlecone::Path, expected: Option<&[u8]>) -> Result<()> {
    let found = tree.entry(path)?;
    match (&found, expected) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Failure::negative(format!("there is nothing at {path}, where a value was expected"))),
        (Some(_), None) => Err(Failure::negative(format!("there is something at {path}, where nothing was expected"))),
        (Some(entry), Some(_)) if matches!(entry.kind(), EntryKind::Dir | EntryKind::Foreign) => {
            Err(Failure::negative(format!("{path} is no value, and one was expected")))
        }
        (Some(entry), Some(expected)) => match entry.contents()? {
            Some(value) if *value == *expected => Ok(()),
            _ => Err(Failure::negative(format!("{path} has another value than was expected"))),
        },
    }
}

/// Returns the moves of a group's branches, each of which must be free to move.
fn moves(opened: &Opened, wanted: &[(u64, Move)], force: bool, done: &Done) -> Result<Vec<RefMove>> {
    let mut moving = Moving::default();
    for (line, one) in wanted {
        note_move(opened, one, &mut moving).map_err(|failure| at_line(failure, *line, done))?;
    }
    let one = |(line, one): &(u64, Move)| {
        ref_move(opened, one, &moving, force).map_err(|failure| at_line(failure, *line, done))
    };
    wanted.iter().map(one).collect()
}

/// Notes the ref that a line moves or removes, and where it moves.
fn note_move(opened: &Opened, wanted: &Move, moving: &mut Moving) -> Result<()> {
    match &wanted.to {
        None => moving.refs.push(opened.repo.branch(short_branch(&wanted.name))?.ref_name().to_owned()),
        Some(to) => {
            moving.to.push(revision::commit(&opened.repo, OsStr::new(to))?);
            moving.refs.push(opened.repo.branch(check_new_branch(&wanted.name)?)?.moving_ref()?);
        }
    }
    Ok(())
}

/// Fails where a group moves a branch twice, or the one that its commit moves, if it makes one.
fn check_own_moves(opened: &Opened, group: &Group, commits: bool, moves: &[RefMove], done: &Done) -> Result<()> {
    let own = if commits { Some(opened.branch_to_change()?.moving_ref()?) } else { None };
    for (index, (wanted, (line, _))) in moves.iter().zip(&group.moves).enumerate() {
        let reason = if own.as_ref() == Some(&wanted.name) {
            "the commit of the changes beside it moves that branch"
        } else if moves[..index].iter().any(|before| before.name == wanted.name) {
            "a line before it moves that branch"
        } else {
            continue;
        };
        let way = "put a line `commit` in between";
        return Err(at_line(Failure::usage(format!("{reason}; {way}")), *line, done));
    }
    Ok(())
}

/// Returns a move of a branch. `moving`: what moves in the same step; `force`: a branch goes although no other one
/// has its commits.
fn ref_move(opened: &Opened, wanted: &Move, moving: &Moving, force: bool) -> Result<RefMove> {
    let at = |text: &str| -> Result<CommitId> { Ok(revision::commit(&opened.repo, OsStr::new(text))?) };
    let expected = match &wanted.expected {
        parse::Expected::Anything => Expected::Any,
        parse::Expected::Nothing => Expected::Absent,
        parse::Expected::Revision(text) => Expected::Is(RefTarget::Object(at(text)?.into())),
    };
    let Some(to) = &wanted.to else {
        let (branch, now) = branches::removable(opened, short_branch(&wanted.name), force, moving)?;
        let name = branch.ref_name().to_owned();
        // What was looked at is what goes.
        let expected = if expected == Expected::Any { Expected::Is(now) } else { expected };
        return as_expected(opened, RefMove { name, expected, to: None });
    };
    let branch = opened.repo.branch(check_new_branch(&wanted.name)?)?;
    let (name, to) = (branch.moving_ref()?, at(to)?);
    opened.check_not_checked_out(&name)?;
    let expected = match (expected, opened.backend().get_ref(&name)?) {
        // Who says where it is knows what it lets go of.
        (Expected::Any, Some(RefTarget::Object(now))) => {
            if !force {
                let way = "move it with --force, or say where it is with `branch NAME REV OLD`";
                branches::check_merged(opened, &branch, now.into(), moving, way)?;
            }
            // What was looked at is what moves.
            Expected::Is(RefTarget::Object(now))
        }
        (expected, _) => expected,
    };
    as_expected(opened, RefMove { name, expected, to: Some(to.into()) })
}

/// Says so at once where a ref holds something else than is expected; another process may still move it meanwhile.
fn as_expected(opened: &Opened, wanted: RefMove) -> Result<RefMove> {
    let now = opened.backend().get_ref(&wanted.name)?;
    let holds = match &wanted.expected {
        Expected::Any => true,
        Expected::Absent => now.is_none(),
        Expected::Is(target) => now.as_ref() == Some(target),
    };
    if holds { Ok(wanted) } else { Err(not_as_expected(Error::RefMoved { name: wanted.name, found: now })) }
}
