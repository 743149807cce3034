//! Fuzz targets: what reads bytes that came from elsewhere, given any bytes.
//!
//! A target takes an input and panics where a promise is broken: hostile bytes cause no panic, no endless loop and no allocation
//! without a bound, and what is accepted keeps the laws of its format. `fuzz/corpus` has inputs for each, which `cargo test` goes
//! through; `.ci/fuzz` looks for others, guided by coverage. `docs/testing.md` says how.

mod allocation;
mod cardano;
mod collected;
mod directory;
mod disk;
mod edits;
mod formats;
mod git;
mod input;
mod objects;
mod parts;
mod seal;
#[cfg(test)]
mod seeds;
mod text;
mod trace;

pub use allocation::Bounded;
pub use cardano::{cardano_block, cardano_chunk};
pub use disk::disk_store;
pub use formats::{
    git_commit, git_directory, git_tag, git_tree, native_commit, native_directory, native_tag, native_value, record,
    tezos_commit, tezos_directory,
};
pub use git::{git_config, git_delta, git_ignore, git_index, git_loose, git_pack, git_repository, git_worktree_index};
pub use parts::{disk_cold, disk_filters, disk_indexes, disk_readers, disk_refs, disk_state, history_files};
pub use text::{revisions, texts};
pub use trace::trace;

/// A target: it returns where all promises are kept.
pub type Target = fn(&[u8]);

/// All targets by name, which is that of their folder in `fuzz/corpus`.
pub const TARGETS: &[(&str, Target)] = &[
    ("native_directory", native_directory),
    ("native_value", native_value),
    ("native_commit", native_commit),
    ("native_tag", native_tag),
    ("tezos_directory", tezos_directory),
    ("tezos_commit", tezos_commit),
    ("git_directory", git_directory),
    ("git_tree", git_tree),
    ("git_commit", git_commit),
    ("git_tag", git_tag),
    ("record", record),
    ("disk_store", disk_store),
    ("disk_state", disk_state),
    ("disk_cold", disk_cold),
    ("disk_refs", disk_refs),
    ("disk_filters", disk_filters),
    ("disk_indexes", disk_indexes),
    ("disk_readers", disk_readers),
    ("history_files", history_files),
    ("git_delta", git_delta),
    ("git_index", git_index),
    ("git_pack", git_pack),
    ("git_loose", git_loose),
    ("git_repository", git_repository),
    ("git_config", git_config),
    ("git_worktree_index", git_worktree_index),
    ("git_ignore", git_ignore),
    ("texts", texts),
    ("revisions", revisions),
    ("trace", trace),
    ("cardano_block", cardano_block),
    ("cardano_chunk", cardano_chunk),
];
