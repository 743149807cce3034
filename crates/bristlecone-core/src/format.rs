//! The contract of a format: how directories, values and commits become objects with ids.
//!
//! A format is a compile-time choice (`Repo<F: Format>`). It separates the bytes that are stored from
//! those that are hashed, lists the children of a stored object in a fixed order (that of the record's
//! locations) and may refuse what it cannot hold.

use alloc::{string::String, vec::Vec};
use core::{error, fmt};

use crate::{
    Bytes, Change, ChangeList, ChangeTarget, Commit, DecodeError, Entry, EntryKind, Kind, ObjRef, Object, Oid,
    Signature, Sink, Source, Tag, Target,
};

pub(crate) mod ahead;
mod borrowed;
mod checked;
mod descend;
#[cfg(feature = "git")]
pub mod git;
pub mod native;
mod prefetch;
mod search;
#[cfg(feature = "tezos")]
pub mod tezos;

pub use ahead::{AHEAD_BYTES_MAX, AHEAD_OBJECTS_MAX, Ahead, CallSize, Next, ObjectWalk, Window, lent};
pub use checked::Checked;
pub use prefetch::{Prefetch, Task};

/// Which way to walk a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Direction {
    /// In the order of steps.
    #[default]
    Forward,
    /// Against it.
    Reverse,
}

impl Direction {
    /// Returns the other one.
    #[must_use]
    pub const fn reversed(self) -> Self {
        match self {
            Self::Forward => Self::Reverse,
            Self::Reverse => Self::Forward,
        }
    }

    /// Whether one step comes before another.
    #[must_use]
    pub fn is_before(self, one: &[u8], other: &[u8]) -> bool {
        match self {
            Self::Forward => one < other,
            Self::Reverse => one > other,
        }
    }
}

/// What two directories bind a step to: before, after.
pub(crate) type EntryPair<'a> = (Option<Entry<'a>>, Option<Entry<'a>>);

/// How directories, values and commits become objects.
///
/// **Law.** The id of a directory is a function of its entries and the format's options alone:
/// whatever the order of [`Format::update`]s that led there.
pub trait Format: Clone + Send + Sync + fmt::Debug + 'static {
    /// The name, as headers and the command line write it.
    const NAME: &'static str;
    /// The version of the byte format.
    const VERSION: u32;

    /// A walk over a directory's entries.
    type Listing<'a, S: Source + 'a>: ObjectWalk<'a, S, Item = Entry<'a>> + Send;
    /// A walk over the bindings that differ between two directories: before, after.
    type Comparison<'a, S: Source + 'a>: ObjectWalk<'a, S, Item = (Option<Entry<'a>>, Option<Entry<'a>>)> + Send;

    /// Returns the options that change roots, as `key=value` words in a fixed order.
    fn options(&self) -> String;

    /// Returns the format with the options that [`Format::options`] wrote.
    ///
    /// # Errors
    /// [`FormatError::Options`] for words that it does not know.
    fn from_options(options: &str) -> Result<Self, FormatError>;

    /// Returns the longest value that lives in its directory, in bytes.
    fn inline_bytes_max(&self) -> usize;

    /// Returns what `step` is bound to in a directory.
    ///
    /// # Errors
    /// Those of the source.
    fn find<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        step: &[u8],
    ) -> Result<Option<(EntryKind, Target<'a>)>, S::Error>;

    /// Returns the value that `step` is bound to in a directory; `None` where it is bound to none. A format that lends short
    /// values can build the answer where it goes: moving what [`Format::find`] returns takes a tenth of a lookup.
    ///
    /// # Errors
    /// Those of the source.
    #[inline]
    fn find_value<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        step: &[u8],
    ) -> Result<Option<Bytes<'a>>, S::Error> {
        found_value(self, source, self.find(source, dir, step)?)
    }

    /// Walks the steps of `path`, joined by `/`, down from a directory and returns the directory there; `None`
    /// where a step is not bound to a directory.
    ///
    /// # Errors
    /// Those of the source.
    fn descend<S: Source>(&self, source: &S, dir: &ObjRef, path: &[u8]) -> Result<Option<ObjRef>, S::Error> {
        let mut dir = *dir;
        for step in path.split(|&byte| byte == b'/').filter(|step| !step.is_empty()) {
            match self.find(source, &dir, step)? {
                Some((EntryKind::Dir, Target::Object { at, .. })) => dir = at,
                _ => return Ok(None),
            }
        }
        Ok(Some(dir))
    }

    /// Returns a walk over the entries whose steps lie in `from..to` (`None`: no bound), in order or against it. Nothing
    /// is read yet.
    fn listing<'a, S: Source + 'a>(
        &self,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Self::Listing<'a, S>;

    /// Returns those entries, read as they are asked for and, where the source does not lend them, ahead.
    ///
    /// # Errors
    /// Those of the source.
    fn entries<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Ahead<'a, S, Self::Listing<'a, S>>, S::Error> {
        Ahead::new(source, self.listing(dir, from, to, direction))
    }

    /// Returns the number of entries of a directory, loading one object where the format counts.
    ///
    /// # Errors
    /// Those of the source.
    fn count<S: Source>(&self, source: &S, dir: &ObjRef) -> Result<u64, S::Error>;

    /// Returns a walk over what differs between two directories, within `from..to`; it touches only the pieces that
    /// differ. Nothing is read yet.
    fn comparison<'a, S: Source + 'a>(
        &self,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Self::Comparison<'a, S>;

    /// Returns what differs, read as [`Format::entries`] does.
    ///
    /// # Errors
    /// Those of the source.
    fn diff<'a, S: Source>(
        &self,
        source: &'a S,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> Result<Ahead<'a, S, Self::Comparison<'a, S>>, S::Error> {
        Ahead::new(source, self.comparison(before, after, from, to))
    }

    /// Applies `changes`, sorted by step without duplicates, to the directory `base` (`None`: empty), and
    /// returns the directory that results; `None` if nothing is left in it. An empty base to which nothing is added
    /// stays.
    ///
    /// Writes exactly the objects that are new.
    ///
    /// # Errors
    /// Those of the source.
    fn update<S: Source + Sync, K: Sink>(
        &self,
        source: &S,
        sink: &mut K,
        base: Option<&ObjRef>,
        changes: &[Change<'_>],
    ) -> Result<Option<ObjRef>, S::Error>;

    /// As [`Format::update`], with changes that are made when they are needed: a format that divides its work need not have
    /// all of them at once.
    ///
    /// # Errors
    /// Those of the source.
    fn update_list<S: Source + Sync, K: Sink, C: ChangeList>(
        &self,
        source: &S,
        sink: &mut K,
        base: Option<&ObjRef>,
        changes: &C,
    ) -> Result<Option<ObjRef>, S::Error> {
        let changes = all_changes(self, sink, changes)?;
        self.update(source, sink, base, &changes)
    }

    /// Whether a wide directory is many objects, of which an update writes those that it changes: then many changes of one
    /// directory may be made in several updates.
    fn divides_dirs(&self) -> bool {
        false
    }

    /// Reads what an update reads for a change of this step alone, so that it can be read ahead ([`Task`]): what other
    /// changes make necessary besides is left out, and nothing depends on it. `removes`: the change leaves nothing there.
    ///
    /// # Errors
    /// Those of the source.
    fn read_for_update<S: Source>(
        &self,
        source: &S,
        base: &ObjRef,
        step: &[u8],
        removes: bool,
    ) -> Result<(), S::Error> {
        let _ = removes;
        self.find(source, base, step).map(drop)
    }

    /// Gives the empty directory to the sink.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] where the format has none.
    fn empty_dir<K: Sink>(&self, sink: &mut K) -> Result<ObjRef, FormatError>;

    /// Gives a value to the sink, in pieces if it is large.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] for a value that the format cannot hold.
    fn put_contents<K: Sink>(&self, sink: &mut K, value: &[u8]) -> Result<ObjRef, FormatError>;

    /// Of values with so many bytes several are hashed in less time together than one by one ([`Format::contents_ids`]); empty where
    /// that is not so.
    fn hashed_together(&self) -> core::ops::Range<usize> {
        0..0
    }

    /// Adds the ids of values whose lengths are within [`Format::hashed_together`], in their order: those that
    /// [`Format::put_contents`] returns.
    fn contents_ids(&self, values: &[&[u8]], ids: &mut Vec<Oid>) {
        let _ = (values, ids);
    }

    /// As [`Format::put_contents`], for a value whose id [`Format::contents_ids`] has given.
    ///
    /// # Errors
    /// As there.
    fn put_contents_as<K: Sink>(&self, sink: &mut K, id: Oid, value: &[u8]) -> Result<ObjRef, FormatError> {
        let _ = id;
        self.put_contents(sink, value)
    }

    /// Returns what takes a value that comes in parts; `None` where a value is one object, which needs all of it.
    fn value_builder(&self) -> Option<native::ValueBuilder> {
        None
    }

    /// Returns `range` of the value at `at`; whatever lies beyond the value's end is left out.
    ///
    /// # Errors
    /// Those of the source.
    fn read_contents<'a, S: Source>(
        &self,
        source: &'a S,
        at: &ObjRef,
        range: core::ops::Range<u64>,
    ) -> Result<Bytes<'a>, S::Error>;

    /// Gives a commit to the sink, with its generation number as a metadata word.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] for a field that the format would lose.
    fn put_commit<K: Sink>(&self, sink: &mut K, commit: &Commit, generation: u64) -> Result<ObjRef, FormatError>;

    /// As [`Format::put_commit`], for a commit that another program made, perhaps long ago. It also takes names and dates
    /// that the format can keep, but refuses in new commits.
    ///
    /// # Errors
    /// As [`Format::put_commit`].
    fn put_copied_commit<K: Sink>(
        &self,
        sink: &mut K,
        commit: &Commit,
        generation: u64,
    ) -> Result<ObjRef, FormatError> {
        self.put_commit(sink, commit, generation)
    }

    /// Returns the commit that an object is.
    ///
    /// # Errors
    /// [`FormatError`] if it does not decode as a commit.
    fn decode_commit(&self, object: &Object<'_>) -> Result<Commit, FormatError>;

    /// Returns the root of the commit that an object is, decoding no more than that where the format can.
    ///
    /// # Errors
    /// As [`Format::decode_commit`].
    fn commit_tree(&self, object: &Object<'_>) -> Result<ObjRef, FormatError> {
        self.decode_commit(object).map(|commit| commit.tree.into())
    }

    /// Gives an annotated tag to the sink.
    ///
    /// # Errors
    /// [`FormatError::Unsupported`] where the format has none, or would lose something of this one.
    fn put_tag<K: Sink>(&self, sink: &mut K, tag: &Tag) -> Result<ObjRef, FormatError> {
        let _ = (sink, tag);
        Err(FormatError::Unsupported { format: Self::NAME, what: "an annotated tag" })
    }

    /// Returns the annotated tag that an object is.
    ///
    /// # Errors
    /// [`FormatError`] if it does not decode as a tag.
    fn decode_tag(&self, object: &Object<'_>) -> Result<Tag, FormatError> {
        let _ = object;
        Err(FormatError::Unsupported { format: Self::NAME, what: "an annotated tag" })
    }

    /// Calls `each` with kind and id of every child of an object, in the order of its locations.
    ///
    /// # Errors
    /// [`FormatError`] if the body does not decode. Every byte of the body is checked.
    fn children(&self, kind: Kind, body: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), FormatError>;

    /// Calls `each` with the id of every child of an object that this format wrote, in the order of its locations.
    ///
    /// **Law.** Where [`Format::children`] succeeds, this does, with the same ids.
    ///
    /// # Errors
    /// [`FormatError`] if the children cannot be read. What says nothing of them may go unchecked: for callers that go through
    /// very many objects which are known to be as they were written.
    fn child_ids(&self, kind: Kind, body: &[u8], each: &mut dyn FnMut(Oid)) -> Result<(), FormatError> {
        self.children(kind, body, &mut |_, child| each(child))
    }

    /// Returns the id of an object, computed from what is stored. Where the hashed bytes are spread over several
    /// objects, the others are read from the source; where they are not, [`NoSource`](crate::NoSource) will do.
    ///
    /// # Errors
    /// [`FormatError`] if the body does not decode; those of the source.
    fn object_id<S: Source>(&self, source: &S, object: &Object<'_>) -> Result<Oid, S::Error>;

    /// Checks what must hold between an object, whose id and bytes were checked already, and those below it, which are
    /// there: that together they are what the format makes of their contents, so that nothing has two ids. If every object
    /// below one passes, so does all that is stored there.
    ///
    /// `whole`: the object is a whole directory or value. Otherwise it may be a piece of one, and what depends on the pieces
    /// beside it is checked with the objects above. `checked` saves repeated work, see there.
    ///
    /// Reads what the object names, and the edges of it; memory is bounded by a piece of each level. The default checks
    /// nothing: it serves formats whose ids others define, or in which each directory is one object.
    ///
    /// # Errors
    /// [`FormatError::Structure`] or [`FormatError::Misfit`] for what breaks a rule, [`FormatError::Inconsistent`] where
    /// levels do not fit; those of the source.
    fn check_structure<S: Source>(
        &self,
        source: &S,
        object: &Object<'_>,
        whole: bool,
        checked: &mut Checked,
    ) -> Result<(), S::Error> {
        let _ = (source, object, whole, checked);
        Ok(())
    }

    /// Whether a directory can hold entries of this kind.
    fn holds(&self, kind: EntryKind) -> bool {
        let _ = kind;
        true
    }

    /// Returns author and committer as a commit keeps them: where the format keeps less, what is left of them.
    fn signatures(&self, author: Signature, committer: Signature) -> (Signature, Signature) {
        (author, committer)
    }

    /// Returns the id of a commit as users of the format write it; `None` if that is hexadecimal.
    fn commit_text(&self, oid: &Oid) -> Option<String> {
        let _ = oid;
        None
    }

    /// Returns the id that [`Format::commit_text`] writes so; `None` if it writes none so.
    fn parse_commit_text(&self, text: &str) -> Option<Oid> {
        let _ = text;
        None
    }
}

/// Returns all changes of a list, with the values among them that become objects of their own given to the sink.
pub(crate) fn all_changes<'c, F: Format, K: Sink, C: ChangeList>(
    format: &F,
    sink: &mut K,
    changes: &'c C,
) -> Result<Vec<Change<'c>>, FormatError> {
    let inline = format.inline_bytes_max();
    let one = |index| {
        let mut change = changes.get(index);
        if let Some((_, target)) = &mut change.to
            && let ChangeTarget::Inline(value) = *target
            && value.len() > inline
        {
            *target = ChangeTarget::Object { at: format.put_contents(sink, value)?, bytes: value.len() as u64 };
        }
        Ok(change)
    };
    (0..changes.len()).map(one).collect()
}

/// Returns the value that a lookup found; `None` where it found none.
#[inline]
fn found_value<'a, F: Format, S: Source>(
    format: &F,
    source: &'a S,
    found: Option<(EntryKind, Target<'a>)>,
) -> Result<Option<Bytes<'a>>, S::Error> {
    match found {
        Some((_, Target::Inline(bytes))) => Ok(Some(bytes)),
        Some((kind, Target::Object { at, .. })) if kind.has_contents() => {
            format.read_contents(source, &at, 0..u64::MAX).map(Some)
        }
        _ => Ok(None),
    }
}

/// Why a format cannot do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// An object does not decode.
    Decode {
        /// What it should be.
        kind: Kind,
        /// Where and why.
        source: DecodeError,
    },
    /// Stored objects contradict each other.
    Inconsistent {
        /// What it should be.
        kind: Kind,
        /// How.
        reason: &'static str,
    },
    /// An object is not one that the format makes.
    Structure {
        /// What it is.
        kind: Kind,
        /// How.
        reason: &'static str,
    },
    /// An object does not fit the one that names it, or the one beside it.
    Misfit {
        /// What it should be.
        kind: Kind,
        /// Its id.
        oid: Oid,
        /// How.
        reason: &'static str,
    },
    /// The format cannot hold this.
    Unsupported {
        /// The format's name.
        format: &'static str,
        /// What it was asked to hold.
        what: &'static str,
    },
    /// Entries that do not come in order.
    Unsorted {
        /// Which entry, counted from zero.
        index: u64,
        /// Its step, as text.
        step: String,
    },
    /// Unknown options.
    Options {
        /// The format's name.
        format: &'static str,
        /// What was given.
        options: String,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode { kind, .. } => write!(f, "the {kind} object does not decode"),
            Self::Inconsistent { kind, reason } => {
                write!(f, "the {kind} object contradicts the one that names it: {reason}")
            }
            Self::Structure { kind, reason } => {
                write!(f, "the {kind} object breaks the rules of its format: {reason}")
            }
            Self::Misfit { kind, oid, reason } => write!(f, "the {kind} object {oid} below it does not fit: {reason}"),
            Self::Unsupported { format, what } => write!(f, "the format {format} cannot hold {what}"),
            Self::Unsorted { index, step } => write!(
                f,
                "entry {index} (\"{step}\", counted from 0) does not come after the one before it; sort the entries by their \
                 bytes, each step once"
            ),
            Self::Options { format, options } => {
                write!(f, "\"{options}\" are no options of the format {format}; is the store newer than this program?")
            }
        }
    }
}

impl error::Error for FormatError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Decode { source, .. } => Some(source),
            _ => None,
        }
    }
}
