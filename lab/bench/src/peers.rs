//! Other programs and libraries that do what the suite does: those that keep Git repositories, measured beside ours in the
//! same run, and Irmin, measured in turns with ours.

pub(crate) mod git;
pub(crate) mod irmin;
pub(crate) mod program;
