//! The scribe: does to a real tree what a node did to its context, and writes down each operation with its answer.
//!
//! So every recorded answer and hash is what the store says. On top of the operations of a trace it has those of the
//! protocol's storage, which come as several rows: a key that must be new is asked for before it is added.

use std::io::Write;

use bristlecone::{
    Commit, CommitId, Durability, Info, Repo, Signature, Tree,
    core::tezos::{Tezos, commit_text},
};

use super::{GenerateError, Result, scratch::Scratch};
use crate::{ContextId, HashesBuf, Key, KeyBuf, Row, Scoped, Writer, replay::RowCounts};

/// Who makes every commit of a trace.
const AUTHOR: &[u8] = b"Tezos";
/// The number of values that are held in memory while a state moves to a new store.
const MOVED_AT_ONCE: usize = 50_000;

/// A commit, as rows and as the store know it.
#[derive(Clone, Debug)]
pub(super) struct Head {
    at: CommitId,
    hash: String,
}

/// A context in the making and the trace that tells how.
#[derive(Debug)]
pub(super) struct Scribe<W> {
    // Before `scratch`: the store closes before its folder goes.
    repo: Repo<Tezos>,
    tree: Tree<Tezos>,
    scratch: Scratch,
    // How many bytes the store had when the state was last alone in it.
    live_bytes: u64,
    writer: Writer<W>,
    counts: RowCounts,
    // The context that `tree` is.
    context: ContextId,
    contexts: ContextId,
    key: KeyBuf,
}

impl<W: Write> Scribe<W> {
    pub(super) fn new(mut scratch: Scratch, write: W) -> Result<Self> {
        let repo = scratch.fresh()?;
        let tree = repo.tree();
        let (writer, counts, key) = (Writer::new(write)?, RowCounts::default(), KeyBuf::new());
        Ok(Self { repo, tree, scratch, live_bytes: 0, writer, counts, context: 0, contexts: 1, key })
    }

    pub(super) const fn counts(&self) -> &RowCounts {
        &self.counts
    }

    pub(super) const fn bytes(&self) -> u64 {
        self.writer.offset()
    }

    #[cfg(test)]
    pub(super) const fn stores(&self) -> u64 {
        self.scratch.stores()
    }

    pub(super) fn finish(self) -> Result<W> {
        Ok(self.writer.finish()?)
    }

    /// Loads the tree of a commit, which is mentioned again: at least as a parent.
    pub(super) fn checkout(&mut self, head: &Head) -> Result {
        self.tree = self.repo.checkout(head.at)?;
        self.context = self.contexts;
        self.contexts += 1;
        let (hash, output) = (Scoped::keep(head.hash.as_bytes()), Scoped::keep(self.context));
        write(&mut self.writer, &mut self.counts, &Row::Checkout { hash, output })
    }

    /// Commits the tree. `parent` comes with whether it is mentioned again, `keep` says whether the new one is.
    pub(super) fn commit(
        &mut self,
        parent: Option<Scoped<&Head>>,
        seconds: i64,
        message: &str,
        keep: bool,
    ) -> Result<Head> {
        let who = Signature::new(AUTHOR, seconds);
        let info = Info::message(message).by(who).durability(Durability::None);
        let at = self.repo.commit_tree(&mut self.tree, parent.map(|parent| parent.value.at).as_slice(), &info)?;
        let head = Head { at, hash: commit_text(&at.oid()) };
        let mut parents = HashesBuf::new();
        if let Some(Scoped { value, keep }) = parent {
            parents.push(Scoped { value: value.hash.as_bytes(), keep });
        }
        let row = Row::Commit {
            hash: Scoped { value: head.hash.as_bytes(), keep },
            date: seconds,
            message: message.as_bytes(),
            parents: parents.as_hashes(),
            input: Scoped::forget(self.context),
        };
        write(&mut self.writer, &mut self.counts, &row)?;
        Ok(head)
    }

    pub(super) fn find(&mut self, key: &str) -> Result<Option<Vec<u8>>> {
        let value = self.tree.get(key)?.map(|value| value.to_vec());
        let (found, input) = (value.is_some(), Scoped::keep(self.context));
        let row = Row::Find { key: encoded(&mut self.key, key), found, input };
        write(&mut self.writer, &mut self.counts, &row)?;
        Ok(value)
    }

    pub(super) fn mem(&mut self, key: &str) -> Result<bool> {
        let found = self.tree.contains(key)?;
        let row = Row::Mem { key: encoded(&mut self.key, key), found, input: Scoped::keep(self.context) };
        write(&mut self.writer, &mut self.counts, &row)?;
        Ok(found)
    }

    pub(super) fn mem_tree(&mut self, key: &str) -> Result<bool> {
        let found = self.tree.entry(key)?.is_some();
        let row = Row::MemTree { key: encoded(&mut self.key, key), found, input: Scoped::keep(self.context) };
        write(&mut self.writer, &mut self.counts, &row)?;
        Ok(found)
    }

    pub(super) fn add(&mut self, key: &str, value: &[u8]) -> Result {
        self.tree.set(key, value)?;
        let (input, output) = self.step();
        let row = Row::Add { key: encoded(&mut self.key, key), value, input, output };
        write(&mut self.writer, &mut self.counts, &row)
    }

    pub(super) fn remove(&mut self, key: &str) -> Result {
        self.tree.remove(key)?;
        let (input, output) = self.step();
        let row = Row::Remove { key: encoded(&mut self.key, key), input, output };
        write(&mut self.writer, &mut self.counts, &row)
    }

    /// Binds `destination` to the directory at `source`, which exists.
    pub(super) fn copy(&mut self, source: &str, destination: &str) -> Result {
        let Some(copied) = self.tree.get_tree(source)? else {
            return Err(GenerateError::Model { key: source.to_owned(), expected: "a directory" });
        };
        self.tree.set_tree(destination, &copied)?;
        let (input, output) = self.step();
        let mut to = KeyBuf::new();
        let (source, destination) = (encoded(&mut self.key, source), encoded(&mut to, destination));
        write(&mut self.writer, &mut self.counts, &Row::Copy { source, destination, input, output })
    }

    /// Finds what must be there.
    pub(super) fn get(&mut self, key: &str) -> Result<Vec<u8>> {
        self.find(key)?.ok_or_else(|| GenerateError::Model { key: key.to_owned(), expected: "a value" })
    }

    /// Adds what must be new.
    pub(super) fn init(&mut self, key: &str, value: &[u8]) -> Result {
        let found = self.mem(key)?;
        debug_assert!(!found, "{key} is there already");
        self.add(key, value)
    }

    /// Replaces what must be there.
    pub(super) fn set(&mut self, key: &str, value: &[u8]) -> Result {
        let found = self.mem(key)?;
        debug_assert!(found, "{key} is not there");
        self.add(key, value)
    }

    /// Removes what must be there.
    pub(super) fn delete(&mut self, key: &str) -> Result {
        let found = self.mem(key)?;
        debug_assert!(found, "{key} is not there");
        self.remove(key)
    }

    /// Moves on to the next context, and returns both.
    fn step(&mut self) -> (Scoped<ContextId>, Scoped<ContextId>) {
        let input = Scoped::forget(self.context);
        self.context = self.contexts;
        self.contexts += 1;
        (input, Scoped::keep(self.context))
    }

    /// Moves the newest state to a new store once older ones take most of the room. `head` must be the only commit
    /// that is mentioned again.
    pub(super) fn tidy(&mut self, head: &mut Head) -> Result {
        if self.repo.backend().stats().store_bytes < self.scratch.room_bytes(self.live_bytes) {
            return Ok(());
        }
        let fresh = self.scratch.fresh()?;
        let mut tree = fresh.tree();
        let state = self.repo.checkout(head.at)?;
        let mut waiting = 0;
        for entry in state.walk_all("")? {
            let (path, entry) = entry?;
            if let Some(value) = entry.contents()? {
                tree.set(&path, &value[..])?;
                waiting += 1;
            }
            if waiting == MOVED_AT_ONCE {
                tree.write()?;
                waiting = 0;
            }
        }
        let commit = Commit { tree: tree.write()?, ..self.repo.read_commit(head.at)? };
        // Its parents stay behind: nothing asks for them.
        let at = fresh.write_commit(&commit, self.repo.generation(head.at)?, Durability::None)?;
        assert_eq!(at.oid(), head.at.oid(), "the same state has the same commit");
        head.at = at;
        self.live_bytes = fresh.backend().stats().store_bytes;
        (self.repo, self.tree) = (fresh, tree);
        self.scratch.forget_old()
    }
}

fn write<W: Write>(writer: &mut Writer<W>, counts: &mut RowCounts, row: &Row<'_>) -> Result {
    counts.add(row.kind());
    Ok(writer.row(row)?)
}

fn encoded<'k>(buf: &'k mut KeyBuf, key: &str) -> Key<'k> {
    buf.clear();
    key.split('/').for_each(|step| buf.push(step.as_bytes()));
    buf.as_key()
}
