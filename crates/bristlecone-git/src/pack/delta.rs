//! Deltas: an object as copies from another one and bytes of its own.

/// Appends to `out` what `delta` makes of `base`.
///
/// # Errors
/// What is wrong with the delta, in a word or two. `out` may then hold a part.
pub fn apply(_base: &[u8], _delta: &[u8], _out: &mut Vec<u8>) -> Result<(), &'static str> {
    todo!()
}

/// Returns a delta that makes `target` of `base`, if there is one that is worth it: shorter than half of `target`.
#[must_use]
pub fn create(_base: &[u8], _target: &[u8]) -> Option<Vec<u8>> {
    todo!()
}
