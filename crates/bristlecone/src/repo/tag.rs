//! Annotated tags: objects between a ref and the commit that it means.

use std::collections::HashMap;

use bristlecone_core::{CommitId, Format, FormatError, Kind, ObjRef, Oid, Source, Tag, TagId};

use super::{Repo, check_ref_name, history::circle::LineCheck};
use crate::{
    Durability, Error, Result,
    backend::{Expected, RefMove, RefTarget},
    store::resolve,
};

/// Refs of tags start with this.
const TAGS: &str = "refs/tags/";

/// What tags lead to in the end, noted as they are followed: of many refs that lie on one long line of tags each is then followed
/// no further than to the next that was.
#[derive(Clone, Debug, Default)]
pub struct PeeledTags(HashMap<Oid, ObjRef>);

impl PeeledTags {
    /// Follows tags from an object. `walk` calls its second argument with what each tag names, and goes on with what that returns.
    pub fn follow<T>(&mut self, at: ObjRef, walk: impl FnOnce(ObjRef, &mut dyn FnMut(ObjRef) -> ObjRef) -> T) -> T {
        let noted = |at: ObjRef| self.0.get(&at.oid).copied().unwrap_or(at);
        let (mut last, mut passed) = (noted(at), Vec::new());
        let found = walk(last, &mut |target| {
            passed.push(last.oid);
            last = noted(target);
            last
        });
        // Also where the walk failed: the next one fails sooner.
        self.0.extend(passed.into_iter().map(|oid| (oid, last)));
        found
    }
}

impl<F: Format> Repo<F> {
    /// Returns the annotated tag with this id.
    ///
    /// # Errors
    /// [`Error::Missing`]; [`Error::WrongKind`] if it is no tag; [`Error::BadObject`]; those of the backend.
    pub fn read_tag(&self, id: TagId) -> Result<Tag> {
        let at = ObjRef::from(id);
        let store = self.now();
        let object = store.read(Kind::Tag, &at)?;
        self.shared.format.decode_tag(&object).map_err(|source| Error::BadObject { oid: at.oid, source })
    }

    /// Returns the commit that `at` is, or that the tag it is leads to, through however many tags of tags.
    ///
    /// `repo.peel(c)? == c` for a commit `c`.
    ///
    /// # Errors
    /// [`Error::WrongKind`] if it leads to another object; [`Error::Missing`]; [`Error::BadObject`], also for forged tags that
    /// lead to each other in a circle; those of the backend.
    pub fn peel(&self, at: impl Into<ObjRef>) -> Result<CommitId> {
        self.follow_tags(at.into(), &mut |target| target)
    }

    /// As [`Repo::peel`], one of many times: `tags` takes what tags lead to, and is asked for it.
    ///
    /// # Errors
    /// As [`Repo::peel`].
    pub fn peel_noting(&self, at: impl Into<ObjRef>, tags: &mut PeeledTags) -> Result<CommitId> {
        tags.follow(at.into(), |at, next| self.follow_tags(at, next))
    }

    /// Returns the commit that tags lead to. `next`: with what to go on behind a tag that names an object.
    fn follow_tags(&self, mut at: ObjRef, next: &mut dyn FnMut(ObjRef) -> ObjRef) -> Result<CommitId> {
        let mut line = LineCheck::default();
        while !line.comes_back(at.oid) {
            let Some(object) = self.shared.backend.read(&at)? else {
                return Err(self.now().missing(Kind::Commit, at.oid));
            };
            if object.kind() != Kind::Tag {
                crate::store::check_kind(Kind::Commit, &object, at.oid)?;
                let found = if object.location().is_some() { ObjRef::new(at.oid, object.location()) } else { at };
                return Ok(self.shared.commit_id(found));
            }
            let tag = self.shared.format.decode_tag(&object);
            at = next(tag.map_err(|source| Error::BadObject { oid: at.oid, source })?.target);
        }
        let source = FormatError::Inconsistent { kind: Kind::Tag, reason: "it leads back to itself" };
        Err(Error::BadObject { oid: at.oid, source })
    }

    /// Returns the names of the tags, annotated or not, in order.
    ///
    /// # Errors
    /// Those of the backend.
    pub fn tags(&self) -> Result<Vec<String>> {
        let refs = self.shared.backend.list_refs(TAGS)?;
        Ok(refs.into_keys().map(|name| name[TAGS.len()..].to_owned()).collect())
    }

    /// Writes an annotated tag. No ref leads to it yet, and what it names need not be here.
    ///
    /// # Errors
    /// [`Error::Format`] if the format has no tags, or would lose something of this one; those of the backend.
    pub fn write_tag(&self, tag: &Tag, durability: Durability) -> Result<TagId> {
        self.append_tag(tag, |_| Vec::new(), durability)
    }

    /// Writes an annotated tag and moves a ref to it if that holds `expected`, in one step: no collection finds the tag without its
    /// ref.
    ///
    /// # Errors
    /// As [`Repo::write_tag`]; [`Error::RefName`]; [`Error::RefMoved`] if the ref holds something else.
    pub fn write_tag_at(
        &self,
        name: &str,
        expected: Option<RefTarget>,
        tag: &Tag,
        durability: Durability,
    ) -> Result<TagId> {
        check_ref_name(name)?;
        let expected = expected.map_or(Expected::Absent, Expected::Is);
        let wanted = |at| vec![RefMove { name: name.to_owned(), expected, to: Some(RefTarget::Object(at)) }];
        self.append_tag(tag, wanted, durability)
    }

    /// Appends an annotated tag with the moves of refs to it.
    fn append_tag(
        &self,
        tag: &Tag,
        moves: impl FnOnce(ObjRef) -> Vec<RefMove>,
        durability: Durability,
    ) -> Result<TagId> {
        let store = self.now();
        let mut sink = store.sink();
        if store.snapshot.read(&tag.target)?.is_some() {
            // If a sweep drops it meanwhile, the tag is refused.
            sink.leave_out(&tag.target.oid);
        }
        let at = self.shared.format.put_tag(&mut sink, tag)?;
        let base = self.shared.backend.append(sink.take(), &moves(at), durability)?;
        Ok(resolve(at, base).into())
    }
}
