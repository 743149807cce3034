//! Annotated tags: names for objects that are objects themselves.

use alloc::vec::Vec;

use crate::{Kind, ObjRef, Signature};

/// An annotated tag.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag {
    /// What it names: a commit as a rule, else any object, another tag too.
    pub target: ObjRef,
    /// The kind of that.
    pub kind: Kind,
    /// The tag's name.
    pub name: Vec<u8>,
    /// Who made it; old tags do not say.
    pub tagger: Option<Signature>,
    /// Further headers in order.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Why, with the signature that may follow.
    pub message: Vec<u8>,
}
