//! The move of one ref, for all appends of a group that move it.

use bristlecone::{Batch, Error, Expected, RefTarget, Result};

use super::{
    append_group::{Moves, Request},
    journal::JournalLine,
    objects::{self, Written},
    open_repository::{OpenRepository, Writer},
};
use crate::repository::refs::{LockedRef, LogLine, STORE_HEAD, Staged};

impl OpenRepository {
    /// Moves one ref, for all requests that do, with its lock held.
    #[expect(clippy::too_many_arguments, reason = "the state of one group, which nothing else shares")]
    pub(super) fn move_ref<'s>(
        &'s self,
        writer: &mut Writer,
        requests: &mut [Request<'_>],
        (name, moves): (&str, &Moves),
        mut staged: Option<Staged<'s>>,
        written: &mut Written,
        synced: bool,
        noted: &mut bool,
    ) -> Result<()> {
        // Before the lock is taken: others wait for it a tenth of a second.
        self.settle_value(writer, &moves.before)?;
        if writer.journal.differs(name, &moves.before) {
            let now = self.get_ref(name).unwrap_or_default();
            self.settle_order(writer, name, &now)?;
        }
        let locked = if name == STORE_HEAD {
            self.refs.lock_store_head(&self.rules)?
        } else {
            self.refs.lock_ref(name, &self.rules)?
        };
        let (before, after, lines) = self.check_locked(&locked, requests, moves)?;
        if lines.is_empty() {
            return Ok(());
        }
        if after.is_some() {
            locked.check_free()?;
        }
        // A wait for the store's lock may have been long.
        if after != moves.now || !staged.as_ref().is_some_and(Staged::is_fresh) {
            let stage = |target| self.refs.stage_now(target, synced);
            let done = after.as_ref().map(stage).transpose();
            staged = if synced { self.poison.note(done) } else { done }?;
        }
        self.settle_value(writer, &before)?;
        self.settle_order(writer, name, &before)?;
        if !synced {
            self.ensure_dirty(writer, name, &before, written)?;
            if !std::mem::replace(noted, true) {
                self.note_objects(writer, written)?;
            }
        }
        let moved = match staged {
            Some(staged) => locked.set(staged, synced, &lines),
            None => locked.remove(synced),
        };
        if synced { self.poison.note(moved) } else { moved }?;
        if let Some(RefTarget::Object(at)) = &after {
            writer.settled.add_moved(at.oid, moves.requests.iter().map(|&index| requests[index].batch));
        }
        if !synced {
            writer.journal.add([JournalLine::Move { name: name.to_owned(), from: before, to: after }])?;
        }
        for &index in &moves.requests {
            requests[index].outcome.get_or_insert(Ok(()));
        }
        Ok(())
    }

    /// Makes everything durable if another program moved the ref since it was ours: the lines of the journal would lead
    /// past what that program left, and back to what the ref held before.
    fn settle_order(&self, writer: &mut Writer, name: &str, value: &Option<RefTarget>) -> Result<()> {
        if !writer.journal.differs(name, value) {
            return Ok(());
        }
        self.settle_value(writer, value)?;
        self.make_durable(writer)
    }

    /// Checks with the ref's lock held what every move expects; answers those that are too late. Returns what the ref
    /// holds, what it is to hold, and a line for each move.
    fn check_locked(
        &self,
        locked: &LockedRef<'_>,
        requests: &mut [Request<'_>],
        moves: &Moves,
    ) -> Result<(Option<RefTarget>, Option<RefTarget>, Vec<LogLine>)> {
        let any = moves
            .requests
            .first()
            .is_some_and(|&index| requests[index].wanted.is_some_and(|wanted| wanted.expected == Expected::Any));
        let before = match locked.value() {
            Err(_) if any => None,
            value => value?.cloned(),
        };
        let mut now = before.clone();
        let mut lines = Vec::with_capacity(moves.requests.len());
        for &index in &moves.requests {
            let request = &mut requests[index];
            let Some(wanted) = request.wanted else { continue };
            if wanted.allows(now.as_ref()) {
                let to = request.target();
                lines.push(LogLine { from: now, to: to.clone(), message: message(request.batch, to.as_ref()) });
                now = to;
            } else {
                request.outcome = Some(Err(Error::RefMoved { name: wanted.name.clone(), found: now.clone() }));
            }
        }
        Ok((before, now, lines))
    }
}

/// Returns what a reflog says of a move.
fn message(batch: &Batch, to: Option<&RefTarget>) -> String {
    let Some(RefTarget::Object(at)) = to else { return "bristlecone: moved".to_owned() };
    let Some(raw) = objects::commit_of(batch, at.oid) else { return "bristlecone: moved".to_owned() };
    let headers = raw.windows(2).position(|two| two == b"\n\n").unwrap_or(raw.len());
    let text = raw.get(headers + 2..).unwrap_or_default();
    let subject = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let parents = raw[..headers].split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"parent ")).count();
    let what = ["commit (initial)", "commit", "commit (merge)"][parents.min(2)];
    format!("{what}: {}", String::from_utf8_lossy(subject))
}
