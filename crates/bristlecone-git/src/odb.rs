//! The object database: loose objects, packs and alternates.
