//! Out of a store of the format `native`: Git's bytes of every object, made again.
//!
//! As trees of Git are walked, newest first, each compared with the version of the same path that was made before:
//! the format tells what differs between two directories, and that is spliced into the bytes.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use bristlecone::{
    Backend, Error, Format, Kind, Native, ObjRef, Oid, Result, Snapshot, Tag,
    core::git::{self, Algorithm, Git},
};

use crate::history::{
    canonical::kind_in_git,
    error::TransferError,
    export::{
        exported::{Exported, NATIVE},
        into_packs::IntoPacks,
        native_walk::NativeWalk,
    },
    ids::Ids,
    objects::Objects,
    pipeline::{
        self,
        contract::{Existing, Meters},
        graph::Ends,
        writer::Outcome,
    },
    report::{Respelled, Status},
    staging::Staging,
    table::{Scratch, Table},
};

/// What is to be exported.
pub(crate) struct TransferJob<'a> {
    pub(crate) native: Native,
    pub(crate) backend: Arc<dyn Backend>,
    /// The hash of Git's ids.
    pub(crate) algorithm: Algorithm,
    pub(crate) tips: &'a [(String, Oid)],
    pub(crate) ends: &'a Ends,
    /// What is in the repository, by Git's ids.
    pub(crate) existing: &'a dyn Existing,
    pub(crate) scratch: &'a Scratch,
}

/// Writes a history into packs.
pub(crate) fn run(
    job: TransferJob<'_>,
    target: &mut IntoPacks<'_>,
    progress: &mut dyn FnMut(Status),
) -> Result<Outcome, TransferError> {
    let meters = Meters::default();
    let exported = Exported::find(&job.native, &*job.backend, job.existing, job.algorithm, job.scratch)?;
    let objects = NativeObjects { native: job.native, snapshot: job.backend.snapshot(&[]) };
    let respelled = Mutex::new(Respelled::default());
    let (width, backend) = (NATIVE.oid_bytes(), job.backend.clone());
    let walker = |sender, meters| NativeWalk {
        native: job.native,
        git: Git::new(job.algorithm),
        source: Staging::reading(backend),
        existing: job.existing,
        exported: &exported,
        natives: Ids::new(width, job.scratch),
        numbers: Vec::new(),
        gits: Ids::new(job.algorithm.oid_bytes(), job.scratch),
        commits: Table::new(job.algorithm.oid_bytes(), job.scratch),
        shallow: &job.ends.shallow,
        respelled: &respelled,
        sender,
        meters,
        commit: None,
        path: Vec::new(),
        kept: None,
        kept_bytes: 0,
    };
    // A commit whose parents were never fetched has none in the store.
    let ends = Ends { shallow: HashSet::new(), absent: job.ends.absent.clone() };
    let inner = pipeline::TransferJob {
        objects: &objects,
        algorithm: NATIVE,
        tips: job.tips,
        ends: &ends,
        existing: &exported,
        commits: Ids::new(width, job.scratch),
        walker,
        scratch: job.scratch,
        skip: false,
        verify: false,
    };
    let outcome = pipeline::run(inner, &meters, target, progress)?;
    Ok(Outcome { respelled: respelled.into_inner().unwrap_or_else(PoisonError::into_inner), ..outcome })
}

/// Commits and tags of the store, spelled as Git would, with native ids.
struct NativeObjects {
    native: Native,
    snapshot: Arc<dyn Snapshot>,
}

impl Objects for NativeObjects {
    fn read(&self, oid: &Oid, out: &mut Vec<u8>) -> Result<Option<Kind>> {
        let Some(object) = self.snapshot.read(&ObjRef::from(*oid))? else { return Ok(None) };
        let bad = |source| Error::BadObject { oid: *oid, source };
        out.clear();
        Ok(Some(match object.kind() {
            Kind::Commit => {
                git::encode_commit(&self.native.decode_commit(&object).map_err(bad)?, out);
                Kind::Commit
            }
            Kind::Tag => {
                let tag = self.native.decode_tag(&object).map_err(bad)?;
                git::encode_tag(&Tag { kind: kind_in_git(tag.kind), ..tag }, out);
                Kind::Tag
            }
            kind => kind_in_git(kind),
        }))
    }
}
