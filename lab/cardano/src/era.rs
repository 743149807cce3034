//! The eras of the chain.

use std::fmt;

/// An era: what a block looks like. The number is the tag of the block on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Era {
    /// An epoch boundary block of Byron, which holds no transactions.
    ByronBoundary = 0,
    /// Byron.
    Byron = 1,
    /// Shelley.
    Shelley = 2,
    /// Allegra.
    Allegra = 3,
    /// Mary.
    Mary = 4,
    /// Alonzo.
    Alonzo = 5,
    /// Babbage.
    Babbage = 6,
    /// Conway.
    Conway = 7,
}

impl Era {
    /// Returns the era with a tag; `None` for one that is not known.
    #[must_use]
    pub const fn from_tag(tag: u64) -> Option<Self> {
        Some(match tag {
            0 => Self::ByronBoundary,
            1 => Self::Byron,
            2 => Self::Shelley,
            3 => Self::Allegra,
            4 => Self::Mary,
            5 => Self::Alonzo,
            6 => Self::Babbage,
            7 => Self::Conway,
            _ => return None,
        })
    }

    /// Whether the era is Byron, epoch boundary blocks included.
    #[must_use]
    pub const fn is_byron(self) -> bool {
        matches!(self, Self::ByronBoundary | Self::Byron)
    }

    /// Returns the name as people write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ByronBoundary => "Byron boundary",
            Self::Byron => "Byron",
            Self::Shelley => "Shelley",
            Self::Allegra => "Allegra",
            Self::Mary => "Mary",
            Self::Alonzo => "Alonzo",
            Self::Babbage => "Babbage",
            Self::Conway => "Conway",
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
