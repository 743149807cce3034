//! The walk over all objects, page by page, and over those whose ids begin alike, by the index.

use std::{collections::HashSet, ops::Range};

use bristlecone::{Bytes, Damage, Error, ObjRef, Object, Oid, OidPrefix, Result};

use super::{
    open_store::{OpenStore, read_lock},
    page::{Page, object_of, page_location, split},
    pages::{Pages, damaged},
};

impl OpenStore {
    /// Calls `each` for every object, in the order of pages. Damaged pages are reported and passed over.
    pub(super) fn each_object(
        &self,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
        damage: &mut dyn FnMut(Damage),
    ) -> Result<()> {
        // Nothing moves to pages behind the last one meanwhile.
        let _stays = read_lock(&self.walking);
        let end = read_lock(&self.refs).state.end;
        // What a sweep moved is where the newest pages say.
        self.index.read_all(&self.database, &self.pages)?;
        let mut walk = Walk { store: self, end, again: HashSet::new(), each, damage };
        self.each_verified_page(0..end, &mut |number, page| match page {
            Ok(page) => walk.each_of_page(number, &page),
            Err(error) => {
                (walk.damage)(damage_of(number, &error));
                Ok(())
            }
        })
    }

    /// Calls `each` for every object whose id begins with these digits, as the index has them. Damaged ones are passed over.
    pub(super) fn each_with_prefix(
        &self,
        prefix: &OidPrefix,
        each: &mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
    ) -> Result<()> {
        self.index.read_all(&self.database, &self.pages)?;
        let mut read = |oid: Oid| match self.read(&ObjRef::from(oid)) {
            Ok(Some(object)) => each(oid, &object),
            // A sweep dropped it meanwhile, or it is damaged.
            Ok(None) | Err(Error::Corrupt { .. }) => Ok(()),
            Err(error) => Err(error),
        };
        // Asked for first: an id goes from memory to the database, and is never between.
        for oid in self.index.ids_with_prefix(prefix) {
            read(oid)?;
        }
        let mut failed = None;
        let walked = self.database.each_id(prefix, &mut |oid| {
            failed = read(oid).err();
            failed.is_none()
        });
        if failed.is_none() && matches!(walked, Err(Error::Corrupt { .. })) {
            // A table of the index is damaged, and the ids end there.
            let mut each = |oid, object: &Object<'_>| if prefix.matches(&oid) { each(oid, object) } else { Ok(()) };
            return self.each_object(&mut each, &mut |_| ());
        }
        failed.map_or(walked, Err)
    }

    /// Calls `each` with the pages of a range, ascending, or with what is wrong with one.
    pub(super) fn each_verified_page(
        &self,
        pages: Range<u64>,
        each: &mut dyn FnMut(u64, Result<Page>) -> Result<()>,
    ) -> Result<()> {
        let (mut next, mut failed) = (pages.start, None);
        let walked = self.database.each_page(pages.clone(), &mut |number, value| {
            next = number + 1;
            let page = Page::verified(number, value).map_err(|reason| damaged(&self.database, number, reason));
            failed = each(number, page).err();
            Ok(failed.is_none())
        });
        match (failed, walked) {
            (Some(error), _) => return Err(error),
            (None, Err(Error::Corrupt { .. })) => {}
            (None, walked) => return walked,
        }
        // A table is damaged, and the walk ends there. Pages are asked for one by one from here.
        for number in next..pages.end {
            match Pages::read(&self.database, number).transpose() {
                None => {}
                Some(Err(error)) if !matches!(error, Error::Corrupt { .. }) => return Err(error),
                Some(page) => each(number, page)?,
            }
        }
        Ok(())
    }
}

/// A walk over the pages before `end`.
struct Walk<'w> {
    store: &'w OpenStore,
    end: u64,
    // What was met and appended again meanwhile: it may be on another of these pages, too.
    again: HashSet<Oid>,
    each: &'w mut dyn FnMut(Oid, &Object<'_>) -> Result<()>,
    damage: &'w mut dyn FnMut(Damage),
}

impl Walk<'_> {
    fn each_of_page(&mut self, number: u64, page: &Page) -> Result<()> {
        for (oid, at, record) in page.records(number) {
            match self.store.locate(&oid) {
                Ok(Some(found)) if found == at => {}
                // Appended again behind where the walk ends.
                Ok(Some(found)) if split(found).0 >= self.end && self.again.insert(oid) => {}
                // It is in another place as well, or was dropped and the page is still to be cleaned.
                Ok(_) => continue,
                Err(error @ Error::Corrupt { .. }) => {
                    (self.damage)(Damage { oid: Some(oid), offset: at.0, ..damage_of(number, &error) });
                    continue;
                }
                Err(error) => return Err(error),
            }
            if let Some(object) = object_of(Bytes::Borrowed(record), at) {
                (self.each)(oid, &object)?;
            }
        }
        Ok(())
    }
}

fn damage_of(number: u64, error: &Error) -> Damage {
    match error {
        Error::Corrupt { file, reason, .. } => {
            Damage { file: file.clone(), offset: page_location(number).0, oid: None, reason: reason.clone() }
        }
        other => {
            let reason = bristlecone::report(other);
            Damage { file: String::new(), offset: page_location(number).0, oid: None, reason }
        }
    }
}
