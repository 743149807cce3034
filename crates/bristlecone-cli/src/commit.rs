//! Committing an edit to a branch: where the branch begins, the edit, the commit, and what follows it.

use bristlecone::{CommitId, Durability, Error, Info, Oid, RefMove, RefTarget, TreeId, core::FormatError};

use crate::{
    begin::Start,
    failure::{Failure, Result, is_won},
    open::{Opened, short},
    output::{Fields, Output, fields, say},
    text::show,
    who::CommitArgs,
};
use bristlecone_any::{Branch, FIRST_BRANCH, Prepared, Tree, short_branch};

/// How often a commit is tried again when others are faster.
const TRIES: usize = 100;

/// A commit that is to be made.
pub(crate) struct Change<'a> {
    opened: &'a Opened,
    args: &'a CommitArgs,
    info: Info,
    // Further refs that move in the same step.
    moves: Vec<RefMove>,
}

/// What was committed.
pub(crate) struct Committed {
    branch: String,
    // `None` if nothing has changed.
    at: Option<CommitId>,
    root: Option<TreeId>,
}

impl<'a> Change<'a> {
    /// Returns a commit of whatever an edit changes; `message` stands where none was given.
    pub(crate) fn new(
        opened: &'a Opened,
        args: &'a CommitArgs,
        message: &str,
        durability: impl Into<Durability>,
    ) -> Result<Self> {
        let info = args.info(opened, message, durability.into())?;
        Ok(Self { opened, args, info, moves: Vec::new() })
    }

    /// Gives the commit a message in place of what was to stand for all.
    pub(crate) fn saying(mut self, message: Option<String>) -> Self {
        if let Some(message) = message {
            self.info.message = self.opened.repo.format().message(message.into_bytes());
        }
        self
    }

    /// Moves further refs in the same step, or one after the other in a store that moves one at a time.
    pub(crate) fn moving(self, moves: Vec<RefMove>) -> Self {
        Self { moves, ..self }
    }

    /// Moves the further refs alone. They are durable then, as a commit is once it is told.
    pub(crate) fn move_refs_alone(&self) -> Result<()> {
        self.move_refs_behind(None)
    }

    /// The same, behind a branch that was made for them, which is told once it is durable.
    fn move_refs_behind(&self, begun: Option<&Branch>) -> Result<()> {
        // Those that moved before one failed are told, so they are durable, too.
        let (moved, closed) = (self.move_refs(), self.opened.repo.close());
        if let Some(branch) = begun.filter(|_| closed.is_ok()) {
            say!("began the branch {}", show(branch.name()));
        }
        moved?;
        Ok(closed?)
    }

    fn move_refs(&self) -> Result<()> {
        let at_once = self.opened.backend().capabilities().several_refs;
        let steps: Vec<&[RefMove]> = if at_once { vec![&self.moves] } else { self.moves.chunks(1).collect() };
        for (index, step) in steps.into_iter().enumerate().filter(|(_, step)| !step.is_empty()) {
            let moved = self.opened.repo.move_refs(step, self.info.durability).map_err(not_as_expected);
            moved.map_err(|failure| half_moved(failure, &self.moves, index))?;
        }
        Ok(())
    }

    /// Edits the tree of the branch to change and commits it, again from the start if another process was faster, or has collected
    /// what the commit goes on from.
    ///
    /// What changes is encoded and hashed once: for the question whether anything does, for the commit, and in a Git
    /// repository for the question whether it may be made ([`crate::follow`]).
    pub(crate) fn commit(&self, edit: &mut dyn FnMut(&mut Tree) -> Result<()>) -> Result<Committed> {
        let opened = self.opened;
        let branch = opened.branch_to_change()?;
        let mut guard = opened.guard_worktree(&branch.moving_ref()?)?;
        for _ in 0..TRIES {
            let start = self.args.begin.start(opened, &branch)?;
            let mut tree = start.tree(opened)?;
            let parent = tree.origin();
            let before = root_of(&tree)?;
            edit(&mut tree)?;
            let prepared = self.prepare(&branch, start, &tree)?;
            let root = prepared.as_ref().map(Prepared::root);
            self.check_not_empty(root, before)?;
            let Some(mut prepared) = prepared.filter(|_| root != before || self.args.allow_empty) else {
                if self.unchanged(&branch, start)? {
                    self.move_refs_behind(Some(&branch).filter(|_| matches!(start, Start::New(_))))?;
                    return Ok(Committed { branch: branch.name().to_owned(), at: None, root });
                }
                continue;
            };
            guard.check_prepared(opened, parent, &prepared)?;
            let at_once = opened.backend().capabilities().several_refs;
            let with = if at_once { &self.moves[..] } else { &[] };
            with.iter().for_each(|wanted| prepared.and_move(wanted.clone()));
            let Some(done) = opened.repo.submit(vec![prepared]).pop() else { continue };
            match done {
                Err(Error::RefMoved { name, .. }) if with.iter().all(|one| one.name != name) => {}
                // By now it is written anew; what a move of the caller's own leads to is not.
                Err(Error::Gone { oids }) if !with.iter().any(|one| leads_to(one, &oids)) => {}
                done => {
                    let at = done.map_err(not_as_expected)?;
                    let moved = if at_once { Ok(()) } else { self.move_refs() };
                    let (followed, closed) = (guard.follow(&at, self.info.durability), opened.repo.close());
                    if closed.is_ok() && start.expected().is_none() && branch.name() != FIRST_BRANCH {
                        say!("began the branch {}", show(branch.name()));
                    }
                    moved.map_err(|failure| {
                        let made = format!("commit {} is made on the branch {}", short(&at), show(branch.name()));
                        let files = if followed.is_ok() { "" } else { ", and files did not follow" };
                        failure.half_done(format!("{made}; another branch did not move{files}"))
                    })?;
                    followed?;
                    closed?;
                    return Ok(Committed { branch: branch.name().to_owned(), at: Some(at), root });
                }
            }
        }
        let name = show(branch.name());
        Err(Failure::failed(format!("the branch {name} moves too fast; try again when it is quieter")))
    }

    /// Encodes and hashes the commit; `None` for an empty tree that the format cannot hold.
    fn prepare(&self, branch: &Branch, start: Start, tree: &Tree) -> Result<Option<Prepared>> {
        match branch.prepare_over(start.expected(), tree, tree.origin().as_slice(), &self.info) {
            Err(Error::Format(FormatError::Unsupported { .. })) if tree.is_empty()? && root_of(tree)?.is_none() => {
                Ok(None)
            }
            prepared => Ok(Some(prepared?)),
        }
    }

    /// Makes the branch where it is new and nothing is to be committed; returns whether that is settled.
    fn unchanged(&self, branch: &Branch, start: Start) -> Result<bool> {
        match start {
            Start::New(at) => is_won(branch.compare_and_set(None, Some(at), self.info.durability)),
            _ => Ok(true),
        }
    }

    fn check_not_empty(&self, root: Option<TreeId>, before: Option<TreeId>) -> Result<()> {
        if root.is_some() || (before.is_none() && !self.args.allow_empty) {
            return Ok(());
        }
        let name = self.opened.repo.format().name();
        let way = "set something else first, or remove the whole branch with `cone branches -d`";
        Err(Failure::usage(format!("nothing would be left, and the format {name} cannot hold an empty tree; {way}")))
    }
}

/// Whether a move of a ref leads to one of these objects.
fn leads_to(wanted: &RefMove, oids: &[Oid]) -> bool {
    matches!(&wanted.to, Some(RefTarget::Object(at)) if oids.contains(&at.oid))
}

/// Says which branches have moved before one failed to, in a store that moves one after the other.
fn half_moved(failure: Failure, moves: &[RefMove], moved: usize) -> Failure {
    let mut names = moves.iter().map(|wanted| show(short_branch(&wanted.name)));
    let before: Vec<String> = names.by_ref().take(moved).collect();
    match names.next() {
        Some(name) if !before.is_empty() => failure.half_done(format!(
            "the branch {name} did not move, nor did any after it; before it {} moved, and that stays; run the rest \
             again",
            before.join(", ")
        )),
        _ => failure,
    }
}

/// A move of a ref that holds something else than was expected is a negative answer.
pub(crate) fn not_as_expected(error: Error) -> Failure {
    match error {
        Error::RefMoved { name, .. } => {
            let name = show(short_branch(&name));
            Failure::negative(format!("the branch {name} is not where it was expected; look with `cone branches`"))
        }
        error => error.into(),
    }
}

/// Returns the root of a tree; `None` if it is empty and the format has no empty directory.
fn root_of(tree: &Tree) -> Result<Option<TreeId>> {
    match tree.root() {
        Err(Error::Format(FormatError::Unsupported { .. })) if tree.is_empty()? => Ok(None),
        root => Ok(Some(root?)),
    }
}

impl Committed {
    /// Whether there is a commit.
    pub(crate) const fn is_made(&self) -> bool {
        self.at.is_some()
    }

    /// Returns the JSON fields that say so.
    pub(crate) fn fields(&self, opened: &Opened) -> Fields {
        let mut all = fields! { "branch": self.branch.as_str() };
        opened.put_commit(&mut all, self.at.as_ref());
        all.extend(fields! { "root": self.root.map(|root| root.to_string()), "changed": self.at.is_some() });
        all
    }

    /// Says so for people; `what` was done.
    pub(crate) fn tell(&self, out: &mut Output, what: &str) -> Result<()> {
        let branch = show(&self.branch);
        match &self.at {
            Some(at) => out.made(format!("{what} on {branch} as commit {}", short(at))),
            None => out.made(format!("nothing changed on {branch}, so nothing was committed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    };

    use bristlecone::{Backend, Batch, Counted, Expected, Location, core::git::Algorithm, pass_backend};
    use bristlecone_any::{AnyFormat, AnyRepo};
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: CommitArgs,
    }

    /// Values and directories of Git are asked for once each time that they are hashed.
    #[test]
    fn what_is_committed_is_hashed_once() {
        let dir = tempfile::tempdir().unwrap();
        let repo = AnyRepo::create(dir.path(), AnyFormat::git(Algorithm::Sha1)).unwrap();
        let counted = Counted::new(repo.backend().clone());
        let counts = counted.counts();
        let opened = Opened::from(repo.wrapped(|_| Arc::new(counted)));
        let line = Line::parse_from(["cone", "-m", "message"]);
        // Objects hashed (those that are there are looked up once more), objects written with the commit, and whether there
        // is one.
        let set = |values: [&str; 3]| {
            let before = (counts.located.load(Relaxed), counts.objects.load(Relaxed));
            let change = Change::new(&opened, &line.args, "", Durability::None).ok().unwrap();
            let edit = &mut |tree: &mut Tree| {
                let mut numbered = values.iter().zip(1..);
                Ok(numbered.try_for_each(|(value, n)| tree.set(format!("a/b/{n}"), *value))?)
            };
            let done = change.commit(edit).ok().unwrap();
            let hashed = counts.located.load(Relaxed) - before.0;
            (hashed, counts.objects.load(Relaxed) - before.1, done.is_made())
        };
        set(["0", "0", "0"]);
        assert_eq!(set(["1", "2", "3"]), (6, 7, true), "three values in three directories, and the commit");
        assert_eq!(set(["1", "2", "4"]), (6 + 2, 5, true), "two of the values are there");
        assert_eq!(set(["1", "2", "4"]), (3 + 3, 0, false), "directories that stay as they are need no place");
    }

    /// A backend from which another process's collection drops some objects before each of the first commits.
    #[derive(Debug)]
    struct Swept {
        inner: Arc<dyn Backend>,
        gone: Vec<Oid>,
        times: AtomicU32,
    }

    impl Backend for Swept {
        fn append_many(
            &self,
            batches: Vec<(Batch, Vec<RefMove>)>,
            durability: Durability,
        ) -> Vec<Result<Location, Error>> {
            if self.times.fetch_update(Relaxed, Relaxed, |times| times.checked_sub(1)).is_err() {
                return self.inner.append_many(batches, durability);
            }
            batches.iter().map(|_| Err(Error::Gone { oids: self.gone.clone() })).collect()
        }

        pass_backend! {
            inner: name, capabilities, snapshot, read, locate, position, sweeps, sweep, append, append_keeping, get_ref,
            list_refs, shallow, promised_to, flush, each_object, each_with_prefix, clear_caches, stats, read_derived,
            write_derived
        }
    }

    #[test]
    fn what_a_collection_drops_meanwhile_is_committed_again_but_no_ref_moves_to_it() {
        let gone = Oid::from_array([7; 32]);
        let (name, to) = ("refs/heads/aside".to_owned(), Some(RefTarget::Object(gone.into())));
        let aside = RefMove { name, expected: Expected::Any, to };
        for (moves, tries) in [(Vec::new(), 3), (vec![aside], 1)] {
            let repo = AnyRepo::open("memory:").unwrap();
            let opened =
                Opened::from(repo.wrapped(|inner| Arc::new(Swept { inner, gone: vec![gone], times: 2.into() })));
            let line = Line::parse_from(["cone", "-m", "message"]);
            let change = Change::new(&opened, &line.args, "", Durability::None).ok().unwrap().moving(moves);
            let mut edits = 0;
            let done = change.commit(&mut |tree| {
                edits += 1;
                Ok(tree.set("a", "1")?)
            });
            assert_eq!((done.is_ok(), edits), (tries > 1, tries));
        }
    }

    /// A backend that counts how often it is asked to make all durable, which may fail.
    #[derive(Debug)]
    struct Flushed {
        inner: Arc<dyn Backend>,
        flushes: Arc<AtomicU32>,
        fails: bool,
    }

    impl Backend for Flushed {
        fn flush(&self) -> Result<(), Error> {
            self.flushes.fetch_add(1, Relaxed);
            if self.fails { Err(Error::Stopped) } else { self.inner.flush() }
        }

        pass_backend! {
            inner: name, capabilities, snapshot, read, locate, position, sweeps, sweep, append, append_many,
            append_keeping, get_ref, list_refs, shallow, promised_to, each_object, each_with_prefix, clear_caches,
            stats, read_derived, write_derived
        }
    }

    #[test]
    fn what_moves_without_a_commit_is_durable_when_it_is_told() {
        let flushes = Arc::new(AtomicU32::new(0));
        let counts = flushes.clone();
        let repo = AnyRepo::open("memory:").unwrap();
        let opened = Opened::from(repo.wrapped(|inner| Arc::new(Flushed { inner, flushes: counts, fails: false })));
        let line = Line::parse_from(["cone", "-m", "message"]);
        let change =
            |moves: Vec<RefMove>| Change::new(&opened, &line.args, "", Durability::Grouped).ok().unwrap().moving(moves);
        let set = |change: Change<'_>| change.commit(&mut |tree| Ok(tree.set("a", "1")?)).ok().unwrap().at;
        let at = set(change(Vec::new())).unwrap();
        let moved = |name: &str| {
            vec![RefMove { name: name.to_owned(), expected: Expected::Any, to: Some(RefTarget::Object(at.into())) }]
        };
        let before = flushes.load(Relaxed);
        change(moved("refs/heads/one")).move_refs_alone().ok().unwrap();
        assert_eq!(flushes.load(Relaxed), before + 1);
        assert!(set(change(moved("refs/heads/two"))).is_none(), "nothing has changed");
        assert_eq!(flushes.load(Relaxed), before + 2);
    }

    /// Says for a child of the test below whether its backend fails.
    const FAILS: &str = "BRISTLECONE_TEST_FLUSH_FAILS";

    #[test]
    fn a_branch_is_told_once_it_is_durable() {
        if let Ok(fails) = std::env::var(FAILS) {
            let (fails, flushes) = (fails == "true", Arc::default());
            let repo = AnyRepo::open("memory:").unwrap();
            repo.set_head("trunk").unwrap();
            let opened = Opened::from(repo.wrapped(|inner| Arc::new(Flushed { inner, flushes, fails })));
            let line = Line::parse_from(["cone", "-m", "message"]);
            let change = Change::new(&opened, &line.args, "", Durability::Grouped).ok().unwrap();
            assert_eq!(change.commit(&mut |tree| Ok(tree.set("a", "1")?)).is_err(), fails);
            return;
        }
        for fails in [false, true] {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "commit::tests::a_branch_is_told_once_it_is_durable", "--nocapture"]);
            let run = child.env(FAILS, fails.to_string()).output().unwrap();
            assert!(run.status.success(), "{run:?}");
            let told = String::from_utf8_lossy(&run.stderr).contains("began the branch trunk");
            assert_eq!(told, !fails, "{run:?}");
        }
    }
}
