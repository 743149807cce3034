//! The formats, as one: a store's header says at run time which it is.
//!
//! [`AnyFormat`] is a format that leaves everything to the one it holds, so that what stands on it is written, and
//! compiled, once for all of them. A new format is one line in the list below. Methods of [`Format`] that have a default
//! must be passed on here, too.

#[cfg(feature = "tezos")]
use bristlecone::Tezos;
use bristlecone::{
    Bytes, Commit, EntryKind, Error, Format, Git, Kind, Native, ObjRef, Object, Oid, Result, Signature, Sink, Tag,
    core::{
        Change, ChangeList, Checked, Direction, Entry, FormatError, Next, NoSource, ObjectWalk, Source, Target, Window,
        git::Algorithm, native::ValueBuilder,
    },
    disk::FormatTag,
};

use bristlecone_git::history;

/// A repository of any format.
pub type Repo = bristlecone::Repo<AnyFormat>;
/// A branch of one.
pub type Branch = bristlecone::Branch<AnyFormat>;
/// A tree of one.
pub type Tree = bristlecone::Tree<AnyFormat>;
/// A commit to one that is hashed and waits to be made.
pub type Prepared = bristlecone::Prepared<AnyFormat>;
/// An entry of one.
pub type DirEntry<'t> = bristlecone::DirEntry<'t, AnyFormat>;

// Makes a walk that is one of whichever format it is.
macro_rules! any_walk {
    ($any:ident, $walk:ident, $item:ty, $($(#[$gate:meta])? $format:ident,)*) => {
        /// A walk of whichever format it is.
        #[allow(clippy::large_enum_variant, reason = "a walk is made once and stays where it is")]
        pub enum $any<'a> {
            $($(#[$gate])? #[doc = "Of this format."] $format(<$format as Format>::$walk<'a, NoSource>),)*
        }

        impl<'a, S: Source> ObjectWalk<'a, S> for $any<'a> {
            type Item = $item;

            fn next(&mut self, window: &mut Window<'a, S>) -> Result<Next<Self::Item>, S::Error> {
                match self {
                    $($(#[$gate])? Self::$format(walk) => walk.next(window),)*
                }
            }

            fn scout(&self, items: bool) -> Self {
                match self {
                    $($(#[$gate])? Self::$format(walk) => Self::$format(ObjectWalk::<S>::scout(walk, items)),)*
                }
            }

            fn skip(&mut self) {
                match self {
                    $($(#[$gate])? Self::$format(walk) => ObjectWalk::<S>::skip(walk),)*
                }
            }

            fn skip_items(&mut self, count: u64) -> bool {
                match self {
                    $($(#[$gate])? Self::$format(walk) => ObjectWalk::<S>::skip_items(walk, count),)*
                }
            }
        }
    };
}

// Makes of a list of formats what must name each. `$sign` is a dollar for the macro that it makes.
macro_rules! formats {
    ($sign:tt $($(#[$gate:meta])? $format:ident: $about:literal,)*) => {
        /// A format that is chosen at run time.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum AnyFormat {
            $($(#[$gate])? #[doc = $about] $format($format),)*
        }

        impl AnyFormat {
            /// All formats: name, and what it is. The first is the one that is made where none is named.
            pub const ALL: &[(&str, &str)] = &[$($(#[$gate])? ($format::NAME, $about),)*];

            /// Returns the format of this name with its standard options.
            #[must_use]
            pub fn standard(name: &str) -> Option<Self> {
                match name {
                    $($(#[$gate])? $format::NAME => Some(Self::$format($format::default())),)*
                    _ => None,
                }
            }

            /// Returns the same format with these options.
            fn with_options(&self, options: &str) -> Result<Self, FormatError> {
                match self {
                    $($(#[$gate])? Self::$format(_) => $format::from_options(options).map(Self::$format),)*
                }
            }

            /// Returns what the format is called, as headers of stores have it.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $($(#[$gate])? Self::$format(_) => $format::NAME,)*
                }
            }

            const fn version(&self) -> u32 {
                match self {
                    $($(#[$gate])? Self::$format(_) => $format::VERSION,)*
                }
            }
        }

        $($(#[$gate])?
        impl From<$format> for AnyFormat {
            fn from(format: $format) -> Self {
                Self::$format(format)
            }
        })*

        any_walk!(AnyListing, Listing, Entry<'a>, $($(#[$gate])? $format,)*);
        any_walk!(AnyComparison, Comparison, (Option<Entry<'a>>, Option<Entry<'a>>), $($(#[$gate])? $format,)*);

        /// Makes a walk of whichever format it is.
        macro_rules! with_walk {
            ($sign any:expr, $sign format:ident => $sign walk:ident($sign made:expr)) => {
                match $sign any {
                    $($(#[$gate])? AnyFormat::$format($sign format) => $sign walk::$format($sign made),)*
                }
            };
        }

        /// Does the same with whichever format it is.
        macro_rules! with_format {
            ($sign any:expr, $sign format:ident => $sign does:expr) => {
                match $sign any {
                    $($(#[$gate])? AnyFormat::$format($sign format) => $sign does,)*
                }
            };
        }
    };
}

formats! { $
    Native: "Ordered directories, BLAKE3",
    Git: "The objects of Git, SHA-1 or SHA-256",
    #[cfg(feature = "tezos")]
    Tezos: "The hashes of Tezos contexts, BLAKE2b",
}

impl AnyFormat {
    /// Returns the format of a Git repository.
    #[must_use]
    pub const fn git(algorithm: Algorithm) -> Self {
        Self::Git(Git::new(algorithm))
    }

    /// Returns what the header of a store says of the format.
    #[must_use]
    pub fn tag(&self) -> FormatTag {
        FormatTag { name: self.name().to_owned(), version: self.version(), options: self.options() }
    }

    /// Returns the format that the header of the store `file` tells of.
    ///
    /// # Errors
    /// [`Error::Incompatible`] for a format or version that is not known here; [`Error::Format`] for unknown options.
    pub fn from_tag(tag: &FormatTag, file: String) -> Result<Self> {
        let expected = match Self::standard(&tag.name) {
            Some(known) if known.version() == tag.version => {
                return Ok(known.with_options(&tag.options)?);
            }
            Some(known) => format!("{} version {}", tag.name, known.version()),
            None => format!("the format {}", Self::ALL.iter().map(|one| one.0).collect::<Vec<_>>().join(" or ")),
        };
        let found = format!("objects of the format {} version {}", tag.name, tag.version);
        Err(Error::Incompatible { file, found, expected })
    }

    /// Returns what a history of Git is imported to and exported from; `None` if the format cannot hold one.
    #[must_use]
    pub const fn transfer_store(&self) -> Option<history::StoreFormat> {
        match self {
            Self::Native(native) => Some(history::StoreFormat::Native(*native)),
            Self::Git(git) => Some(history::StoreFormat::Git(*git)),
            #[cfg(feature = "tezos")]
            Self::Tezos(_) => None,
        }
    }

    /// Returns a commit's message as the format has it: Git ends them with a line's end.
    #[must_use]
    pub fn message(&self, mut message: Vec<u8>) -> Vec<u8> {
        if matches!(self, Self::Git(_)) && !message.is_empty() && !message.ends_with(b"\n") {
            message.push(b'\n');
        }
        message
    }

    /// Returns the format with the option `key` set to `value`; `None` if it has no such option.
    ///
    /// # Errors
    /// [`FormatError::Options`] for a value that the option cannot have.
    pub fn set_option(&self, key: &str, value: &str) -> Result<Option<Self>, FormatError> {
        let options = self.options();
        let mut known = false;
        let words = options.split_whitespace().map(|word| match word.split_once('=') {
            Some((found, _)) if found == key => {
                known = true;
                format!("{key}={value}")
            }
            _ => word.to_owned(),
        });
        let words: Vec<String> = words.collect();
        known.then(|| self.with_options(&words.join(" "))).transpose()
    }
}

/// The native format with its standard options.
impl Default for AnyFormat {
    fn default() -> Self {
        Self::Native(Native::default())
    }
}

impl Format for AnyFormat {
    // Of no use to a store, whose header has the name and version of the format within.
    const NAME: &'static str = "any";
    const VERSION: u32 = 0;

    type Listing<'a, S: Source + 'a> = AnyListing<'a>;
    type Comparison<'a, S: Source + 'a> = AnyComparison<'a>;

    fn options(&self) -> String {
        with_format!(self, format => format.options())
    }

    fn from_options(options: &str) -> Result<Self, FormatError> {
        Err(FormatError::Options { format: Self::NAME, options: options.to_owned() })
    }

    fn inline_bytes_max(&self) -> usize {
        with_format!(self, format => format.inline_bytes_max())
    }

    fn find<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        step: &[u8],
    ) -> Result<Option<(EntryKind, Target<'a>)>, S::Error> {
        with_format!(self, format => format.find(source, dir, step))
    }

    fn find_value<'a, S: Source>(
        &self,
        source: &'a S,
        dir: &ObjRef,
        step: &[u8],
    ) -> Result<Option<Bytes<'a>>, S::Error> {
        with_format!(self, format => format.find_value(source, dir, step))
    }

    fn descend<S: Source>(&self, source: &S, dir: &ObjRef, path: &[u8]) -> Result<Option<ObjRef>, S::Error> {
        with_format!(self, format => format.descend(source, dir, path))
    }

    fn listing<'a, S: Source + 'a>(
        &self,
        dir: &ObjRef,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> AnyListing<'a> {
        with_walk!(self, format => AnyListing(format.listing::<S>(dir, from, to, direction)))
    }

    fn count<S: Source>(&self, source: &S, dir: &ObjRef) -> Result<u64, S::Error> {
        with_format!(self, format => format.count(source, dir))
    }

    fn comparison<'a, S: Source + 'a>(
        &self,
        before: Option<&ObjRef>,
        after: Option<&ObjRef>,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
    ) -> AnyComparison<'a> {
        with_walk!(self, format => AnyComparison(format.comparison::<S>(before, after, from, to)))
    }

    fn update<S: Source + Sync, K: Sink>(
        &self,
        source: &S,
        sink: &mut K,
        base: Option<&ObjRef>,
        changes: &[Change<'_>],
    ) -> Result<Option<ObjRef>, S::Error> {
        with_format!(self, format => format.update(source, sink, base, changes))
    }

    fn update_list<S: Source + Sync, K: Sink, C: ChangeList>(
        &self,
        source: &S,
        sink: &mut K,
        base: Option<&ObjRef>,
        changes: &C,
    ) -> Result<Option<ObjRef>, S::Error> {
        with_format!(self, format => format.update_list(source, sink, base, changes))
    }

    fn divides_dirs(&self) -> bool {
        with_format!(self, format => format.divides_dirs())
    }

    fn read_for_update<S: Source>(
        &self,
        source: &S,
        base: &ObjRef,
        step: &[u8],
        removes: bool,
    ) -> Result<(), S::Error> {
        with_format!(self, format => format.read_for_update(source, base, step, removes))
    }

    fn empty_dir<K: Sink>(&self, sink: &mut K) -> Result<ObjRef, FormatError> {
        with_format!(self, format => format.empty_dir(sink))
    }

    fn put_contents<K: Sink>(&self, sink: &mut K, value: &[u8]) -> Result<ObjRef, FormatError> {
        with_format!(self, format => format.put_contents(sink, value))
    }

    fn hashed_together(&self) -> std::ops::Range<usize> {
        with_format!(self, format => format.hashed_together())
    }

    fn contents_ids(&self, values: &[&[u8]], ids: &mut Vec<Oid>) {
        with_format!(self, format => format.contents_ids(values, ids));
    }

    fn put_contents_as<K: Sink>(&self, sink: &mut K, id: Oid, value: &[u8]) -> Result<ObjRef, FormatError> {
        with_format!(self, format => format.put_contents_as(sink, id, value))
    }

    fn value_builder(&self) -> Option<ValueBuilder> {
        with_format!(self, format => format.value_builder())
    }

    fn read_contents<'a, S: Source>(
        &self,
        source: &'a S,
        at: &ObjRef,
        range: std::ops::Range<u64>,
    ) -> Result<Bytes<'a>, S::Error> {
        with_format!(self, format => format.read_contents(source, at, range))
    }

    fn put_commit<K: Sink>(&self, sink: &mut K, commit: &Commit, generation: u64) -> Result<ObjRef, FormatError> {
        with_format!(self, format => format.put_commit(sink, commit, generation))
    }

    fn put_copied_commit<K: Sink>(
        &self,
        sink: &mut K,
        commit: &Commit,
        generation: u64,
    ) -> Result<ObjRef, FormatError> {
        with_format!(self, format => format.put_copied_commit(sink, commit, generation))
    }

    fn decode_commit(&self, object: &Object<'_>) -> Result<Commit, FormatError> {
        with_format!(self, format => format.decode_commit(object))
    }

    fn commit_tree(&self, object: &Object<'_>) -> Result<ObjRef, FormatError> {
        with_format!(self, format => format.commit_tree(object))
    }

    fn put_tag<K: Sink>(&self, sink: &mut K, tag: &Tag) -> Result<ObjRef, FormatError> {
        with_format!(self, format => format.put_tag(sink, tag))
    }

    fn decode_tag(&self, object: &Object<'_>) -> Result<Tag, FormatError> {
        with_format!(self, format => format.decode_tag(object))
    }

    fn children(&self, kind: Kind, body: &[u8], each: &mut dyn FnMut(Kind, Oid)) -> Result<(), FormatError> {
        with_format!(self, format => format.children(kind, body, each))
    }

    fn child_ids(&self, kind: Kind, body: &[u8], each: &mut dyn FnMut(Oid)) -> Result<(), FormatError> {
        with_format!(self, format => format.child_ids(kind, body, each))
    }

    fn object_id<S: Source>(&self, source: &S, object: &Object<'_>) -> Result<Oid, S::Error> {
        with_format!(self, format => format.object_id(source, object))
    }

    fn check_structure<S: Source>(
        &self,
        source: &S,
        object: &Object<'_>,
        whole: bool,
        checked: &mut Checked,
    ) -> Result<(), S::Error> {
        with_format!(self, format => format.check_structure(source, object, whole, checked))
    }

    fn holds(&self, kind: EntryKind) -> bool {
        with_format!(self, format => format.holds(kind))
    }

    fn signatures(&self, author: Signature, committer: Signature) -> (Signature, Signature) {
        with_format!(self, format => format.signatures(author, committer))
    }

    fn commit_text(&self, oid: &Oid) -> Option<String> {
        with_format!(self, format => format.commit_text(oid))
    }

    fn parse_commit_text(&self, text: &str) -> Option<Oid> {
        with_format!(self, format => format.parse_commit_text(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_tell_the_format() {
        for &(name, _) in AnyFormat::ALL {
            let format = AnyFormat::standard(name).unwrap();
            assert_eq!((format.name(), format.tag().name.as_str()), (name, name));
            assert_eq!(AnyFormat::from_tag(&format.tag(), String::new()).unwrap(), format);
            let newer = FormatTag { version: 99, ..format.tag() };
            assert!(matches!(AnyFormat::from_tag(&newer, String::new()), Err(Error::Incompatible { .. })));
        }
    }

    /// What is not passed on would be the default's answer, whatever the format's is.
    #[cfg(feature = "tezos")]
    #[test]
    fn methods_with_a_default_are_passed_on() {
        let (any, tezos) = (AnyFormat::standard("tezos").unwrap(), Tezos::new());
        assert_eq!((any.holds(EntryKind::Link), any.holds(EntryKind::Value)), (false, true));
        let oid = Oid::from_array([7; 32]);
        let text = any.commit_text(&oid).unwrap();
        assert_eq!((tezos.commit_text(&oid), any.parse_commit_text(&text)), (Some(text), Some(oid)));
        let native = AnyFormat::standard("native").unwrap();
        let mut listing = native.listing::<NoSource>(&ObjRef::from(oid), None, None, Direction::Forward);
        assert!(ObjectWalk::<NoSource>::skip_items(&mut listing, 1));
        let bytes = vec![0; 1 << 20];
        let long = Object::from_body(Kind::Contents, bytes[..].into());
        assert!(native.check_structure(&NoSource, &long, true, &mut Checked::new()).is_err());
        let (author, mut committer) = (Signature::new("a", 1), Signature::new("c", 2));
        committer.zone = bristlecone::Zone::from_minutes(60);
        assert_eq!(any.signatures(author.clone(), committer), (author.clone(), author));
    }

    #[test]
    fn options_are_set_by_name() {
        let format = AnyFormat::standard("native").unwrap();
        let inlined = format.set_option("inline", "7").unwrap().unwrap();
        assert_eq!((inlined.inline_bytes_max(), inlined.options()), (7, format.options().replace("=48", "=7")));
        assert_eq!(format.set_option("colour", "red").unwrap(), None);
        assert!(format.set_option("inline", "513").is_err());
    }
}
