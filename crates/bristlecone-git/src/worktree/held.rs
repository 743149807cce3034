//! Which refs may move: not those that Git has checked out somewhere, or will come back to.
//!
//! All that moves a ref of a repository asks here. A branch whose files are checked out moves together with them
//! ([`super::Update`]) or not at all, since `git status` would show the move as its reversal.

use bristlecone::{RefTarget, Result};

use super::heads::{CheckedOut, WorktreeHead, checked_out};
use crate::repository::layout::Layout;

/// How many symbolic refs are followed in a row.
const SYMBOLIC_MAX: usize = 8;

/// What is checked out in the working trees of a repository.
#[derive(Clone, Debug, Default)]
pub struct HeldRefs {
    places: Vec<CheckedOut>,
}

/// Why a ref must stay where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold<'a> {
    /// Its files are checked out here.
    CheckedOut(&'a CheckedOut),
    /// A rebase or bisection here will move it, or come back to it.
    UnderWay(&'a CheckedOut),
}

impl<'a> Hold<'a> {
    /// Returns the working tree.
    #[must_use]
    pub const fn place(self) -> &'a CheckedOut {
        match self {
            Self::CheckedOut(place) | Self::UnderWay(place) => place,
        }
    }
}

impl HeldRefs {
    /// Looks at all working trees of a repository: the main one and those that are linked to it.
    ///
    /// # Errors
    /// [`bristlecone::Error::Io`].
    pub fn of(layout: &Layout) -> Result<Self> {
        Ok(Self { places: checked_out(layout)? })
    }

    /// Returns the working trees.
    #[must_use]
    pub fn places(&self) -> &[CheckedOut] {
        &self.places
    }

    /// Returns all that holds a ref. `get` returns what a ref of the repository holds: the `HEAD` of a working tree may
    /// lead there through symbolic refs.
    ///
    /// # Errors
    /// Those of `get`.
    pub fn holds(&self, name: &str, get: &mut dyn FnMut(&str) -> Result<Option<RefTarget>>) -> Result<Vec<Hold<'_>>> {
        let mut holds = Vec::new();
        for place in &self.places {
            if place.under_way.iter().any(|held| held == name) {
                holds.push(Hold::UnderWay(place));
            }
            if let WorktreeHead::Ref(head) = &place.head
                && leads_to(head, name, get)?
            {
                holds.push(Hold::CheckedOut(place));
            }
        }
        Ok(holds)
    }
}

/// Whether the ref `from` is `to`, or names it through symbolic refs.
fn leads_to(from: &str, to: &str, get: &mut dyn FnMut(&str) -> Result<Option<RefTarget>>) -> Result<bool> {
    let mut name = from.to_owned();
    for _ in 0..SYMBOLIC_MAX {
        if name == to {
            return Ok(true);
        }
        match get(&name)? {
            Some(RefTarget::Symbolic(next)) => name = next,
            _ => return Ok(false),
        }
    }
    Ok(false)
}
