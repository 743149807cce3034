//! What a commit goes on from: the head of its branch, that of another for a new branch, or nothing.

use bristlecone::CommitId;
use bristlecone_any::{Branch, Tree, check_new_branch};
use clap::Args;

use crate::{
    failure::{Failure, Result},
    open::Opened,
    text::show,
};

/// How a branch begins that is not there yet.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct BeginArgs {
    /// Make the branch that -b names first, at HEAD
    #[arg(short, long, conflicts_with = "orphan")]
    create: bool,
    /// Make the branch that -b names first, without history
    #[arg(long)]
    orphan: bool,
}

/// What a commit goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// The head of the branch.
    Head(CommitId),
    /// The head of another branch: this one is new.
    New(CommitId),
    /// Nothing: the branch is new, and so is its history.
    Nothing,
}

impl BeginArgs {
    /// Returns the one of the options that was given.
    pub(crate) const fn given(self) -> Option<&'static str> {
        match (self.create, self.orphan) {
            (true, _) => Some("-c"),
            (_, true) => Some("--orphan"),
            _ => None,
        }
    }

    /// Whether any of it was given.
    pub(crate) const fn is_given(self) -> bool {
        self.given().is_some()
    }

    /// Returns what a commit to the branch goes on from.
    ///
    /// A branch that does not exist begins only if that was asked for, or if it is what is checked out, or if there are
    /// no branches at all: else a name with a slip in it would begin a branch that has nothing to do with the others.
    pub(crate) fn start(self, opened: &Opened, branch: &Branch) -> Result<Start> {
        let name = branch.name();
        if (self.create || self.orphan) && !opened.branch_is_named() {
            return Err(Failure::usage("-c and --orphan make the branch that -b names; name it with -b NAME"));
        }
        let head = branch.head()?;
        if head.is_none() {
            check_new_branch(name)?;
        }
        match head {
            Some(_) if self.create || self.orphan => {
                let (name, way) = (show(name), "leave -c or --orphan out to go on from it, or choose another name");
                Err(Failure::usage(format!("there is a branch \"{name}\" already; {way}")))
            }
            Some(at) => Ok(Start::Head(at)),
            None if self.create => Ok(opened.repo.checked_out_commit()?.map_or(Start::Nothing, Start::New)),
            None if self.orphan || !opened.names_another_branch()? || opened.repo.branches()?.is_empty() => {
                Ok(Start::Nothing)
            }
            None => Err(Failure::negative(format!(
                "there is no branch \"{}\"; `cone branches` lists those there are, -c makes this one at HEAD, and \
                 --orphan makes it without history",
                show(name)
            ))),
        }
    }
}

impl Start {
    /// Returns the tree to edit.
    pub(crate) fn tree(self, opened: &Opened) -> Result<Tree> {
        Ok(match self {
            Self::Head(at) | Self::New(at) => opened.repo.checkout(at)?,
            Self::Nothing => opened.repo.tree(),
        })
    }

    /// Returns what the branch must name still.
    pub(crate) const fn expected(self) -> Option<CommitId> {
        match self {
            Self::Head(at) => Some(at),
            Self::New(_) | Self::Nothing => None,
        }
    }
}
