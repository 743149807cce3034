//! The trace is the same for the same seed, begins like every longer one, replays, and has the shape of real ones.
