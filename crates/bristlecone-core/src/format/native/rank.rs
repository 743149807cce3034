//! How many entries come before a step: pieces above the leaves keep how many entries are below each child.

use super::{Native, bad, cursor::check_below, cursor::view};
use crate::{Kind, ObjRef, Source};

/// Where a step is, or would be, among the entries of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// How many entries come before it.
    pub before: u64,
    /// Whether it is the step of an entry.
    pub is_bound: bool,
}

impl Native {
    /// Returns where `step` is among the entries of a directory, reading one piece of each level.
    ///
    /// # Errors
    /// Those of the source.
    pub fn rank<S: Source>(&self, source: &S, dir: &ObjRef, step: &[u8]) -> Result<Rank, S::Error> {
        let wrong = bad(Kind::Node);
        let mut object = source.read(Kind::Node, dir)?;
        let mut before = 0u64;
        loop {
            let node = view(&object)?;
            if node.level == 0 {
                let at = node.first_at_least(step).map_err(&wrong)?;
                let is_bound = at < node.len() && node.step(at).map_err(&wrong)? == step;
                return Ok(Rank { before: before.saturating_add(at as u64), is_bound });
            }
            let Some(index) = node.last_at_most(step).map_err(&wrong)? else {
                return Ok(Rank { before, is_bound: false });
            };
            for earlier in 0..index {
                before = before.saturating_add(node.child(earlier).map_err(&wrong)?.count);
            }
            let child = ObjRef::new(node.child(index).map_err(&wrong)?.oid, object.child(index));
            let below = source.read(Kind::Node, &child)?;
            check_below(&node, &view(&below)?)?;
            object = below;
        }
    }
}
