//! Which commits of a `native` store are in the repository already, as far as derived files tell.

use bristlecone::{Backend, Kind, Location, Native, Oid, core::git::Algorithm};

use crate::history::{
    error::TransferError,
    ids::Ids,
    known::{Bound, Known},
    pipeline::contract::Existing,
    table::{Scratch, Table},
};

/// An algorithm whose ids are as long as native ones.
pub(super) const NATIVE: Algorithm = Algorithm::Sha256;

/// Commits that the destination has, by native ids.
pub(crate) struct Exported {
    natives: Ids,
    gits: Table,
    width: usize,
}

impl Exported {
    /// Finds which commits of the store are in the repository, as far as derived files tell.
    pub(crate) fn find(
        native: &Native,
        backend: &dyn Backend,
        existing: &dyn Existing,
        algorithm: Algorithm,
        scratch: &Scratch,
    ) -> Result<Self, TransferError> {
        let width = algorithm.oid_bytes();
        let mut found =
            Self { natives: Ids::new(NATIVE.oid_bytes(), scratch), gits: Table::new(width, scratch), width };
        let known = Known::read(backend, native, algorithm, scratch)?;
        let mut record = vec![0; Bound::width(native)];
        for number in 0..known.commits.len() {
            let oid = known.commits.oid(number)?;
            known.bounds.commits.read(number, &mut record)?;
            if let Bound::Object { oid: native, .. } = Bound::decode(&record)
                && existing.commit(number, &oid)?
                && found.natives.get(&native)?.is_none()
            {
                found.natives.insert(&native)?;
                found.gits.push(oid.as_bytes())?;
            }
        }
        Ok(found)
    }

    pub(super) fn git_oid(&self, native: &Oid) -> Result<Oid, TransferError> {
        let mut bytes = [0; Oid::BYTES_MAX];
        let number = self.natives.get(native)?.unwrap_or(u32::MAX);
        self.gits.read(number, &mut bytes[..self.width])?;
        Ok(Oid::new(&bytes[..self.width]).expect("ids have a valid length"))
    }
}

impl Existing for Exported {
    fn find(&self, _: Kind, _: &Oid) -> Result<Option<Location>, TransferError> {
        Ok(None)
    }

    fn commit(&self, _: u32, oid: &Oid) -> Result<bool, TransferError> {
        Ok(self.natives.get(oid)?.is_some())
    }

    fn closed(&self) -> bool {
        true
    }

    fn confirm(&self, _: u32, _: Kind) -> Result<(), TransferError> {
        Ok(())
    }
}
