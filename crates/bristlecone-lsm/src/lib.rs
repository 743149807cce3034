//! A backend on a log-structured merge tree.
