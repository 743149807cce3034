//! The refs of a copy: which are wanted, and what becomes of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bristlecone::{CommitId, Durability, Error as StoreError, Expected, ObjRef, Oid, RefMove, RefTarget};
use bristlecone_git::{
    history::{self, RefState, TransferError},
    worktree::HeldRefs,
};

use super::{CHECKPOINTS, CopyError, CopyOptions, history::lead_to, shown};
use crate::{
    error::{Error, Result},
    repo::{AnyRepo, Head},
};

/// Refs that follow another repository, whatever it does.
const FOLLOWING: &str = "refs/remotes/";
const HEAD: &str = "HEAD";
/// How often moves are decided again after another writer moved a ref first.
const ATTEMPTS_MAX: u32 = 16;

/// What became of a ref of the copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedRef {
    /// Its full name.
    pub name: String,
    /// What happened.
    pub change: RefChange,
}

/// What happened to a ref of the copy; in a dry run, what would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RefChange {
    /// It is new.
    New,
    /// It moved.
    Moved,
    /// It held the value already.
    Same,
    /// It did not move: what it holds would be dropped.
    Kept,
    /// It did not move: Git has it checked out.
    CheckedOut,
    /// It was left out, since the other format cannot hold what it names; or it is a HEAD that names a commit to which no ref
    /// leads, and the copy is a Git repository, where Git decides what HEAD names.
    LeftOut,
    /// It is there, and only the copy itself finds out whether it moves.
    Open,
}

impl RefChange {
    /// Returns the name, as JSON writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Moved => "moved",
            Self::Same => "same",
            Self::Kept => "kept",
            Self::CheckedOut => "checked_out",
            Self::LeftOut => "left_out",
            Self::Open => "open",
        }
    }

    /// Whether the ref is not what it is in the original.
    #[must_use]
    pub const fn stays(self) -> bool {
        matches!(self, Self::Kept | Self::CheckedOut | Self::LeftOut)
    }
}

impl From<RefState> for RefChange {
    fn from(state: RefState) -> Self {
        match state {
            RefState::New => Self::New,
            RefState::Moved => Self::Moved,
            RefState::Same => Self::Same,
            RefState::Kept => Self::Kept,
            RefState::CheckedOut => Self::CheckedOut,
        }
    }
}

/// The refs that are copied, as they were at the beginning.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Refs that name objects.
    pub(super) tips: Vec<(String, ObjRef)>,
    /// Refs that name refs.
    pub(super) symbolic: Vec<(String, String)>,
    /// What is checked out, where that is a branch or a commit.
    pub(super) head: Option<Head>,
    /// Whether that is a commit, and the copy a Git repository: what HEAD is there Git decides.
    pub(super) head_stays: bool,
    /// Whether these are all refs that there are.
    pub(super) all: bool,
}

impl Wanted {
    pub(super) fn of(from: &AnyRepo, to: &AnyRepo, options: &CopyOptions) -> Result<Self> {
        let refs = from.backend().list_refs("refs/")?;
        let names: Vec<&str> = refs.keys().map(String::as_str).filter(|name| !name.starts_with(CHECKPOINTS)).collect();
        let chosen = history::choose_refs(&shown(from), &names, &options.refs)?;
        let chosen = with_targets(&refs, chosen);
        let (mut tips, mut symbolic) = (Vec::new(), Vec::new());
        for name in &chosen {
            match &refs[*name] {
                RefTarget::Object(at) => tips.push(((*name).to_owned(), *at)),
                RefTarget::Symbolic(to) => symbolic.push(((*name).to_owned(), to.clone())),
            }
        }
        let head = match from.checked_out() {
            Err(Error::Head { .. }) => None,
            head => Some(head?),
        };
        let mut head_stays = false;
        if let (Some(Head::Detached(at)), true) = (&head, options.refs.is_empty()) {
            head_stays = to.git().is_some();
            if !head_stays {
                // A HEAD that names a commit itself brings it along.
                tips.push((HEAD.to_owned(), (*at).into()));
            }
        }
        if tips.is_empty() {
            return Err(CopyError::Nothing { from: shown(from) }.into());
        }
        Ok(Self { tips, symbolic, head, head_stays, all: chosen.len() == refs.len() })
    }

    /// Returns what is told of a HEAD that stays behind with a commit to which no other ref leads.
    pub(super) fn lone_head(&self, from: &AnyRepo) -> Result<Option<CopiedRef>> {
        match &self.head {
            Some(Head::Detached(at)) if self.head_stays && !lead_to(from, self, at.oid())? => {
                Ok(Some(CopiedRef { name: HEAD.to_owned(), change: RefChange::LeftOut }))
            }
            _ => Ok(None),
        }
    }

    /// Returns what refs of the copy `to` are to hold. `copied` returns the object of the copy for one of the original.
    pub(super) fn targets(
        &self,
        to: &AnyRepo,
        mut copied: impl FnMut(&str, ObjRef) -> Result<Option<ObjRef>>,
    ) -> Result<Targets> {
        let mut targets = Targets::default();
        for (name, at) in &self.tips {
            match copied(name, *at)? {
                Some(at) if name == HEAD => targets.head = Some(RefTarget::Object(at)),
                Some(at) => _ = targets.refs.insert(name.clone(), RefTarget::Object(at)),
                None => targets.left_out.push(name.clone()),
            }
        }
        for (name, target) in &self.symbolic {
            // One that is left out may be there by another copy.
            let last = self.leads_to(target);
            if targets.left_out.iter().any(|left| left == last) && to.backend().get_ref(last)?.is_none() {
                targets.left_out.push(name.clone());
            } else {
                targets.refs.insert(name.clone(), RefTarget::Symbolic(target.clone()));
            }
        }
        if let Some(Head::Branch(name)) = &self.head {
            targets.head = Some(RefTarget::Symbolic(format!("refs/heads/{name}")));
        }
        Ok(targets)
    }

    /// Returns the ref that one leads to through those that name others.
    fn leads_to<'r>(&'r self, mut name: &'r str) -> &'r str {
        // Symbolic refs may lead in a circle.
        for _ in 0..self.symbolic.len() {
            match self.symbolic.iter().find(|(one, _)| one == name) {
                Some((_, next)) => name = next,
                None => break,
            }
        }
        name
    }
}

/// Returns refs with those that they name, so that none leads nowhere in the copy and somewhere in the original.
fn with_targets<'r>(refs: &'r BTreeMap<String, RefTarget>, chosen: Vec<&'r str>) -> BTreeSet<&'r str> {
    let (mut all, mut next) = (BTreeSet::new(), chosen);
    while let Some(name) = next.pop() {
        if let (true, RefTarget::Symbolic(to)) = (all.insert(name), &refs[name])
            && let Some((to, _)) = refs.get_key_value(to)
            && !to.starts_with(CHECKPOINTS)
        {
            next.push(to);
        }
    }
    all
}

/// What refs of the copy are to hold.
#[derive(Debug, Default)]
pub(super) struct Targets {
    refs: BTreeMap<String, RefTarget>,
    head: Option<RefTarget>,
    left_out: Vec<String>,
}

impl Targets {
    /// Moves the refs, and HEAD if it is free; durable when it returns.
    pub(super) fn reach(&self, to: &AnyRepo, force: bool) -> Result<(Vec<CopiedRef>, Option<String>)> {
        let layout = to.git().map(|(_, layout)| &**layout);
        let mut attempt = 0;
        let moved = loop {
            match history::move_refs(to, &self.refs, force, layout) {
                Err(TransferError::Store(StoreError::RefMoved { .. })) if attempt < ATTEMPTS_MAX => attempt += 1,
                moved => break moved?,
            }
        };
        let head = self.reach_head(to)?;
        Ok((self.with_left_out(moved.into_iter().map(CopiedRef::from).collect()), head))
    }

    /// Lets HEAD follow, if it names nothing, or a branch without commits. In a repository Git decides.
    fn reach_head(&self, to: &AnyRepo) -> Result<Option<String>> {
        let now = to.head()?;
        let free = match &now {
            None => true,
            Some(RefTarget::Object(_)) => false,
            Some(RefTarget::Symbolic(name)) => to.resolve(name)?.is_none(),
        };
        let Some(head) = self.head.as_ref().filter(|head| free && to.git().is_none() && now.as_ref() != Some(*head))
        else {
            return Ok(None);
        };
        let shown = match head {
            RefTarget::Symbolic(name) if to.resolve(name)?.is_none() => return Ok(None),
            RefTarget::Symbolic(name) => name.clone(),
            RefTarget::Object(at) => at.oid.to_string(),
        };
        let expected = now.map_or(Expected::Absent, Expected::Is);
        let wanted = RefMove { name: HEAD.to_owned(), expected, to: Some(head.clone()) };
        match to.move_refs(&[wanted], Durability::Synced) {
            // Another process has decided meanwhile.
            Err(StoreError::RefMoved { .. }) => Ok(None),
            done => done.map(|()| Some(shown)).map_err(Into::into),
        }
    }

    fn with_left_out(&self, mut refs: Vec<CopiedRef>) -> Vec<CopiedRef> {
        let left_out = self.left_out.iter().map(|name| CopiedRef { name: name.clone(), change: RefChange::LeftOut });
        refs.extend(left_out);
        refs.sort_by(|one, other| one.name.cmp(&other.name));
        refs
    }
}

/// What would become of the refs, by what is known of the two histories.
pub(super) struct Foreseen<'c> {
    pub(super) from: &'c AnyRepo,
    pub(super) to: &'c AnyRepo,
    pub(super) wanted: &'c Wanted,
    pub(super) force: bool,
    /// The original by the id of the copy; `None` where ids are the same.
    pub(super) originals: Option<HashMap<Oid, Oid>>,
    /// Those of the refs, HEAD among them, that the other format cannot hold.
    pub(super) left_out: BTreeSet<String>,
}

impl Foreseen<'_> {
    pub(super) fn refs(&self) -> Result<Vec<CopiedRef>> {
        let now = self.to.backend().list_refs("refs/")?;
        let held = match self.to.git() {
            Some((_, layout)) => HeldRefs::of(layout)?,
            None => HeldRefs::default(),
        };
        let mut all = Vec::new();
        let mut add = |name: &str, there: Option<&RefTarget>, change: RefChange| -> Result<()> {
            let moves = matches!(change, RefChange::New | RefChange::Moved);
            let is_held = moves && !held.holds(name, &mut |name| self.to.backend().get_ref(name))?.is_empty();
            debug_assert!(change != RefChange::New || there.is_none());
            all.push(CopiedRef { name: name.to_owned(), change: if is_held { RefChange::CheckedOut } else { change } });
            Ok(())
        };
        for (name, at) in &self.wanted.tips {
            let there = now.get(name);
            if self.left_out.contains(name) {
                add(name, there, RefChange::LeftOut)?;
            } else if name != HEAD {
                add(name, there, self.change(name, there, at)?)?;
            }
        }
        for (name, to) in &self.wanted.symbolic {
            let there = now.get(name);
            let last = self.wanted.leads_to(to);
            let change = match there {
                _ if self.left_out.contains(last) && !now.contains_key(last) => RefChange::LeftOut,
                None => RefChange::New,
                Some(RefTarget::Symbolic(now)) if now == to => RefChange::Same,
                Some(_) => self.unless_kept(name, false),
            };
            add(name, there, change)?;
        }
        all.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(all)
    }

    fn change(&self, name: &str, there: Option<&RefTarget>, at: &ObjRef) -> Result<RefChange> {
        let Some(there) = there else { return Ok(RefChange::New) };
        let RefTarget::Object(there) = there else { return Ok(self.unless_kept(name, false)) };
        let original = match &self.originals {
            None => Some(there.oid),
            Some(originals) => originals.get(&there.oid).copied(),
        };
        // What it was converted from is not known any more, or it came in another way.
        let Some(original) = original else { return Ok(RefChange::Open) };
        if original == at.oid {
            return Ok(RefChange::Same);
        }
        Ok(self.unless_kept(name, self.leads_to(original, *at)?))
    }

    fn unless_kept(&self, name: &str, forward: bool) -> RefChange {
        if forward || self.force || name.starts_with(FOLLOWING) { RefChange::Moved } else { RefChange::Kept }
    }

    /// Whether a commit of the original leads to another one.
    fn leads_to(&self, ancestor: Oid, at: ObjRef) -> Result<bool> {
        let is_commit = |oid: Oid| -> Result<bool> {
            let object = self.from.backend().read(&oid.into())?;
            Ok(object.is_some_and(|object| object.kind() == bristlecone::Kind::Commit))
        };
        if !is_commit(ancestor)? || !is_commit(at.oid)? {
            return Ok(false);
        }
        match self.from.is_ancestor(CommitId::new(ancestor), self.from.commit_id(at)) {
            // Where history is shallow it leads no further.
            Err(StoreError::Missing { .. } | StoreError::Promised { .. }) => Ok(false),
            found => Ok(found?),
        }
    }
}
