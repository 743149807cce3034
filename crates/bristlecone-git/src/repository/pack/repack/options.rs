//! What a repack may cost, and what came of it.

/// How packs are repacked.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RepackOptions {
    /// How many neighbours an object is tried against, 0 for none.
    pub window: usize,
    /// Bytes of neighbours in memory, at most. Larger objects are copied as they are.
    pub window_bytes: usize,
    /// How long a chain of deltas may become. Longer ones that a source brings stay.
    pub depth: u32,
    /// The level at which entries are deflated, 1 to 9.
    pub level: u32,
}

bristlecone::setters! {
    RepackOptions {
        window: usize,
        window_bytes: usize,
        depth: u32,
        level: u32,
    }
}

impl Default for RepackOptions {
    fn default() -> Self {
        Self { window: 6, window_bytes: 32 << 20, depth: 50, level: 6 }
    }
}

/// What a repack wrote.
#[derive(Clone, Debug)]
pub struct Repacked {
    /// The name of both files without their ending: `pack-…`. One of the sources may have it, if it was like this
    /// already.
    pub name: String,
    /// How many objects the pack has.
    pub objects: u64,
    /// How many of them are deltas.
    pub deltas: u64,
    /// How many entries were copied as they were.
    pub reused: u64,
    /// The size of the pack in bytes.
    pub pack_bytes: u64,
    /// The bytes of the index, as they are in its file.
    pub index: Vec<u8>,
}
