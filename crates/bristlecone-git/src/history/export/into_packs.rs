//! Into the packs of a repository.
//!
//! Histories come newest first, as Git packs them: an older version of a file or directory is written as a delta
//! against the newer one, if that is in the same pack and not itself at the end of a long chain.

use std::collections::{HashMap, VecDeque};

use bristlecone::{
    Kind, Location, ObjRef, Oid,
    core::git::{self, Algorithm},
};

use crate::{
    history::{
        error::TransferError,
        export::destination::Destination,
        pipeline::{
            channel::{NO_NUMBER, Named},
            contract::{HistoryWriter, IncomingCommit, IncomingTree, Validity},
        },
    },
    repository::pack::{Builder, Compression, delta},
};

/// Bytes from which on a pack is ended. It is made in memory.
const PACK_BYTES: u64 = 48 << 20;
/// How many deltas are in a row at most.
const CHAIN_MAX: u8 = 40;
/// Bytes of objects that deltas may be made against.
const BASES_BYTES: usize = 32 << 20;
/// Objects of fewer bytes are not worth a delta; of more, too much work.
const DELTA_BYTES: std::ops::Range<usize> = 64..(4 << 20);
const COMPRESSION: Compression = Compression::Level(1);

/// A repository that takes objects.
pub(crate) struct IntoPacks<'r> {
    algorithm: Algorithm,
    to: &'r mut Destination,
    builder: Builder,
    bases: HashMap<u32, DeltaBase>,
    // In the order in which they came.
    order: VecDeque<u32>,
    bases_bytes: usize,
}

/// An object that others may be deltas against.
struct DeltaBase {
    kind: Kind,
    raw: Vec<u8>,
    offset: u64,
    depth: u8,
}

impl<'r> IntoPacks<'r> {
    pub(crate) fn new(algorithm: Algorithm, to: &'r mut Destination) -> Self {
        Self {
            algorithm,
            to,
            builder: Builder::new(algorithm),
            bases: HashMap::new(),
            order: VecDeque::new(),
            bases_bytes: 0,
        }
    }

    /// Adds an object, as a delta if there is a base that it is like. Readers take a delta for what its base is, so that is of the same
    /// kind; what a path has in a newer commit need not be.
    fn add(&mut self, kind: Kind, number: u32, oid: &Oid, raw: Vec<u8>, base: u32) -> Result<(), TransferError> {
        let wanted = DELTA_BYTES.contains(&raw.len());
        let base = self.bases.get(&base).filter(|base| wanted && base.kind == kind && base.depth < CHAIN_MAX);
        let delta = base.and_then(|base| Some((base.offset, base.depth, delta::create(&base.raw, &raw)?)));
        let (offset, depth) = match delta {
            Some((base, depth, delta)) => (self.builder.add_delta(*oid, base, &delta, COMPRESSION), depth + 1),
            None => (self.builder.add(kind, *oid, &raw, COMPRESSION), 0),
        };
        if wanted {
            self.keep(number, DeltaBase { kind, raw, offset, depth });
        }
        self.end_pack_if_full()
    }

    fn keep(&mut self, number: u32, base: DeltaBase) {
        self.bases_bytes += base.raw.capacity();
        self.bases.insert(number, base);
        self.order.push_back(number);
        while self.bases_bytes > BASES_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            if let Some(gone) = self.bases.remove(&oldest) {
                self.bases_bytes -= gone.raw.capacity();
            }
        }
    }

    fn end_pack_if_full(&mut self) -> Result<(), TransferError> {
        if self.builder.bytes() >= PACK_BYTES { self.end_pack() } else { Ok(()) }
    }

    fn end_pack(&mut self) -> Result<(), TransferError> {
        // What a delta is against must be in its pack.
        self.bases.clear();
        self.order.clear();
        self.bases_bytes = 0;
        let builder = std::mem::replace(&mut self.builder, Builder::new(self.algorithm));
        if builder.is_empty() {
            return Ok(());
        }
        self.to.write_pack(builder.finish())
    }
}

impl HistoryWriter for IntoPacks<'_> {
    fn blob(&mut self, number: u32, oid: &Oid, raw: Vec<u8>, base: u32, _: bool) -> Result<(), TransferError> {
        self.add(Kind::Contents, number, oid, raw, base)
    }

    fn tree(&mut self, tree: IncomingTree<'_>) -> Result<Validity, TransferError> {
        let base = tree.base.map_or(NO_NUMBER, |base| base.number);
        self.add(Kind::Node, tree.number, tree.oid, tree.raw.to_vec(), base)?;
        Ok(Ok(()))
    }

    fn existing(&mut self, _: u32, _: Location) -> Result<(), TransferError> {
        Ok(())
    }

    fn commit(&mut self, commit: IncomingCommit<'_>) -> Result<Validity, TransferError> {
        if let Err(wrong) = git::decode_commit(self.algorithm, commit.raw) {
            return Ok(Err(wrong.to_string()));
        }
        self.builder.add(Kind::Commit, *commit.oid, commit.raw, COMPRESSION);
        self.end_pack_if_full()?;
        Ok(Ok(()))
    }

    fn commit_existing(&mut self, _: u32, _: &Oid) -> Result<(), TransferError> {
        Ok(())
    }

    fn tag(&mut self, _: u32, oid: &Oid, raw: &[u8], _: Named) -> Result<Validity, TransferError> {
        self.builder.add(Kind::Tag, *oid, raw, COMPRESSION);
        self.end_pack_if_full()?;
        Ok(Ok(()))
    }

    fn whole(&mut self, _: u32) -> Result<(), TransferError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), TransferError> {
        self.end_pack()
    }

    fn named(&mut self, _: Named, oid: &Oid) -> Result<ObjRef, TransferError> {
        Ok(ObjRef::from(*oid))
    }
}
