//! Packs: indexes, entries, deltas, and how they are written.
