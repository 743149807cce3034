//! Ids that say what they are of.
//!
//! A [`CommitId`] names a commit and a [`TreeId`] a directory, so that one cannot be given for the other. Each may carry a
//! hint of where its object was last seen, and the number of the store that gave the hint. Only the id counts: equality,
//! order, hash, text and `serde` know nothing of the hint, and a store that did not give it drops it.

use core::{cmp, fmt, hash, str::FromStr};

use crate::{Location, ObjRef, Oid, OidError};

/// The store number of a hint where it is not known which store gave it.
const UNKNOWN_STORE: u32 = 0;

/// Makes types of ids, which are all alike.
macro_rules! typed_ids {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        ///
        #[doc = concat!("`id.to_string().parse::<", stringify!($name), ">() == Ok(id)`.")]
        #[derive(Clone, Copy)]
        pub struct $name {
            at: Location,
            store: u32,
            oid: Oid,
        }

        impl $name {
            /// Returns the id without a hint.
            #[must_use]
            pub const fn new(oid: Oid) -> Self {
                Self { at: Location::NONE, store: UNKNOWN_STORE, oid }
            }

            /// Takes a whole id, of 20 or 32 bytes.
            pub(crate) fn whole(oid: Oid) -> Result<Self, OidError> {
                match oid.as_bytes().len() {
                    20 | 32 => Ok(Self::new(oid)),
                    bytes => Err(OidError::Short { bytes }),
                }
            }

            /// Returns the id with the hint of the store of this number. Stores number themselves from 1 on, separately in
            /// each process.
            #[must_use]
            #[inline]
            pub const fn with_hint(at: ObjRef, store: u32) -> Self {
                Self { at: at.at, store, oid: at.oid }
            }

            /// Returns the object's id.
            #[must_use]
            #[inline]
            pub const fn oid(&self) -> Oid {
                self.oid
            }

            /// Returns a reference for the store of this number: with the hint, if it is of that store.
            #[must_use]
            #[inline]
            pub const fn in_store(&self, store: u32) -> ObjRef {
                let at = if self.store == store { self.at } else { Location::NONE };
                ObjRef { oid: self.oid, at }
            }
        }

        impl From<Oid> for $name {
            fn from(oid: Oid) -> Self {
                Self::new(oid)
            }
        }

        impl From<ObjRef> for $name {
            /// As an encoded object names another: the hint is of the store that has the object, whichever that is.
            fn from(at: ObjRef) -> Self {
                Self::with_hint(at, UNKNOWN_STORE)
            }
        }

        impl From<$name> for Oid {
            fn from(id: $name) -> Self {
                id.oid
            }
        }

        impl From<$name> for ObjRef {
            /// With the hint, whichever store gave it.
            fn from(id: $name) -> Self {
                Self { oid: id.oid, at: id.at }
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.oid == other.oid
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> cmp::Ordering {
                self.oid.cmp(&other.oid)
            }
        }

        impl hash::Hash for $name {
            fn hash<H: hash::Hasher>(&self, state: &mut H) {
                self.oid.hash(state);
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.oid.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.oid)
            }
        }

        impl FromStr for $name {
            type Err = OidError;

            /// Parses a whole id, of 20 or 32 bytes.
            fn from_str(text: &str) -> Result<Self, OidError> {
                Self::whole(text.parse()?)
            }
        }
    )*};
}

typed_ids! {
    /// The id of a commit.
    CommitId
    /// The id of a directory: of a root, or of one below it. In Git's terms, a tree.
    TreeId
    /// The id of an annotated tag.
    TagId
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeSet, HashSet},
        string::ToString,
    };

    use super::*;

    #[test]
    fn the_id_alone_counts() {
        let oid = Oid::from_array([7; 32]);
        let (bare, placed) = (CommitId::new(oid), CommitId::with_hint(ObjRef::new(oid, Location(5)), 1));
        assert_eq!(bare, placed);
        assert_eq!(HashSet::from([bare, placed]).len(), 1);
        assert_eq!(BTreeSet::from([bare, placed]).len(), 1);
        assert_eq!(placed.to_string().parse(), Ok(bare));
        assert!(CommitId::new(Oid::from_array([6; 32])) < bare);
        assert_eq!("abcd".parse::<CommitId>(), Err(OidError::Short { bytes: 2 }));
    }

    #[test]
    fn a_hint_counts_in_the_store_that_gave_it() {
        let at = ObjRef::new(Oid::from_array([7; 32]), Location(5));
        let id = TreeId::with_hint(at, 1);
        assert_eq!(id.in_store(1).at, Location(5));
        assert_eq!(id.in_store(2).at, Location::NONE);
        assert_eq!(TreeId::from(at).in_store(1).at, Location::NONE, "it is not known of which store it is");
    }
}
