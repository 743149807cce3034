//! Where a repository is and what its configuration says.
