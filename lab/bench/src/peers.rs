//! Other programs and libraries that do what the suite does: those that keep Git repositories, measured beside ours in the
//! same run.

pub(crate) mod git;
pub(crate) mod program;
