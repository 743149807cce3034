//! Refs: loose and packed, moved under Git's locks, with reflogs.
