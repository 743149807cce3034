//! Files and index of a working tree.
