//! What a header of Byron says of the body, and whether the body is that one.
//!
//! A boundary block has the hash of its body. Another block has a proof of four parts: of the transactions their count, the root of
//! a tree of them and the hash of their witnesses; of the data for shared randomness a kind and one or two hashes; the hash of the
//! delegations and that of the updates. Beside the proof stands the hash of what comes behind the body.
//!
//! A node of today drops the data for shared randomness, and their proof. But cardano-sl, which made all blocks that have such data,
//! compared both in each block that it took, and decoded nothing but what it encodes itself: lengths as it writes them, keys of
//! maps and members of sets ascending. So the bytes in the block are those that it hashed. What cardano-ledger makes is of kind 3,
//! with no certificates.
//!
//! Sources: `TxProof.hs`, `TxPayload.hs`, `Merkle.hs` and `Ssc.hs` in cardano-ledger; `Pos.Binary.Class.Core`, `Pos.Chain.Ssc.Proof`,
//! `Pos.Chain.Ssc.CommitmentsMap` and `Pos.Chain.Ssc.VssCertificatesMap` in cardano-sl.

use std::ops::Range;

use blake2b_simd::Params;
use sha3::{Digest, Sha3_256};

use super::{BlockError, byron, end};
use crate::{
    Era,
    cbor::{self, Cbor},
    hash::blake2b_256,
};

const HEADER: &str = "a header of Byron has five parts";
const PROOF: &str = "the proof of a body of Byron has four parts";
const BODY: &str = "a body of Byron has four parts";

/// More certificates than a block of Byron has room for, with its 2 MB at most.
const CERTIFICATES_MAX: usize = 1 << 14;

/// Whether body and extra data are those that a header of Byron names; an error where one of them is not of its shape.
pub(super) fn holds(
    era: Era,
    block: &[u8],
    header: &Range<usize>,
    body: &Range<usize>,
    extra: &Range<usize>,
) -> Result<bool, BlockError> {
    let mut header = reader(block, header);
    let mut left = header.array_of(5..6, HEADER)?;
    // The network's magic, and the previous hash.
    for _ in 0..2 {
        header.next(&mut left, HEADER)?;
        header.skip()?;
    }
    header.next(&mut left, HEADER)?;
    if era == Era::ByronBoundary {
        return Ok(header.hash(PROOF)? == blake2b_256(&[&block[body.clone()]]));
    }
    let body_holds = is_body(&mut header, &mut reader(block, body))?;
    header.next(&mut left, HEADER)?;
    header.skip()?;
    header.next(&mut left, HEADER)?;
    Ok(body_holds && extra_hash(&mut header)? == blake2b_256(&[&block[extra.clone()]]))
}

/// Begins to read an item of a block.
fn reader<'b>(block: &'b [u8], at: &Range<usize>) -> Cbor<'b> {
    Cbor::within(&block[..at.end], at.start)
}

/// Reads the hash of what comes behind the body: it is the last of a header's extra data.
fn extra_hash(header: &mut Cbor<'_>) -> Result<[u8; 32], BlockError> {
    const EXTRA: &str = "extra data of a header are two versions, attributes and a hash";
    let mut left = header.array_of(4..5, EXTRA)?;
    for _ in 0..3 {
        header.next(&mut left, EXTRA)?;
        header.skip()?;
    }
    header.next(&mut left, EXTRA)?;
    header.hash(EXTRA)
}

/// Reads a proof and the body beside it, part by part.
fn is_body(proof: &mut Cbor<'_>, body: &mut Cbor<'_>) -> Result<bool, BlockError> {
    let (mut proofs, mut parts) = (proof.array_of(4..5, PROOF)?, body.array_of(4..5, BODY)?);
    let mut next = |proof: &mut Cbor<'_>, body: &mut Cbor<'_>| {
        proof.next(&mut proofs, PROOF).and_then(|()| body.next(&mut parts, BODY))
    };
    next(proof, body)?;
    let mut holds = are_transactions(proof, body)?;
    next(proof, body)?;
    holds &= is_randomness(proof, body)?;
    // Delegations and updates.
    for _ in 0..2 {
        next(proof, body)?;
        holds &= proof.hash(PROOF)? == item_hash(body)?;
    }
    end(proof, proofs, PROOF)?;
    end(body, parts, BODY)?;
    Ok(holds)
}

/// Reads an item and returns the hash of its bytes.
fn item_hash(cbor: &mut Cbor<'_>) -> Result<[u8; 32], BlockError> {
    let at = cbor.item()?;
    Ok(blake2b_256(&[cbor.slice(at)]))
}

/// Reads the proof of transactions, and the transactions.
fn are_transactions(proof: &mut Cbor<'_>, body: &mut Cbor<'_>) -> Result<bool, BlockError> {
    const SHAPE: &str = "a proof of transactions is a count and two hashes";
    let mut left = proof.array_of(3..4, SHAPE)?;
    proof.next(&mut left, SHAPE)?;
    let count = proof.unsigned(SHAPE)?;
    proof.next(&mut left, SHAPE)?;
    let root = proof.hash(SHAPE)?;
    proof.next(&mut left, SHAPE)?;
    let witnesses = proof.hash(SHAPE)?;
    end(proof, left, SHAPE)?;

    let mut tree = Tree::default();
    // Witnesses are hashed as a list of indefinite length, whatever the transactions stand in.
    let mut hashed = Params::new().hash_length(32).to_state();
    hashed.update(&[0x9f]);
    let mut transactions = body.array(BODY)?;
    while !body.done(&mut transactions)? {
        let parts = byron::transaction(body)?;
        tree.add(body.slice(parts.body));
        hashed.update(body.slice(parts.witnesses));
    }
    hashed.update(&[0xff]);
    Ok(count == tree.count && root == tree.root() && hashed.finalize().as_bytes() == witnesses)
}

/// Reads the proof of the data for shared randomness (kind 0: commitments, 1: openings, 2: shares, 3: none of them), and those
/// data. All kinds have certificates.
fn is_randomness(proof: &mut Cbor<'_>, body: &mut Cbor<'_>) -> Result<bool, BlockError> {
    const SHAPE: &str = "data for shared randomness are a kind and one or two parts";
    let (mut hashes, mut parts) = (proof.array_of(2..4, SHAPE)?, body.array_of(2..4, SHAPE)?);
    proof.next(&mut hashes, SHAPE)?;
    body.next(&mut parts, SHAPE)?;
    let kind = proof.unsigned(SHAPE)?;
    let mut holds = kind == body.unsigned(SHAPE)?;
    if kind < 3 {
        proof.next(&mut hashes, SHAPE)?;
        body.next(&mut parts, SHAPE)?;
        holds &= proof.hash(SHAPE)? == item_hash(body)?;
    }
    proof.next(&mut hashes, SHAPE)?;
    body.next(&mut parts, SHAPE)?;
    holds &= proof.hash(SHAPE)? == certificates(body)?;
    end(proof, hashes, SHAPE)?;
    end(body, parts, SHAPE)?;
    Ok(holds)
}

/// Returns the hash of certificates. They stand as a set, and are hashed as a map by whose they are.
fn certificates(body: &mut Cbor<'_>) -> Result<[u8; 32], BlockError> {
    const SHAPE: &str = "a certificate is two keys, an epoch and a signature";
    let mut all = Vec::new();
    let mut left = body.array_or_set(SHAPE)?;
    while !body.done(&mut left)? {
        let from = body.at();
        if all.len() == CERTIFICATES_MAX {
            return Err(body.error("more certificates than a block has room for"));
        }
        let mut fields = body.array_of(4..5, SHAPE)?;
        // The key for shares, the epoch and the signature.
        for _ in 0..3 {
            body.next(&mut fields, SHAPE)?;
            body.skip()?;
        }
        body.next(&mut fields, SHAPE)?;
        let key = body.item()?;
        end(body, fields, SHAPE)?;
        let mut owner = [0; 28];
        let key = Sha3_256::digest(body.slice(key));
        owner.copy_from_slice(Params::new().hash_length(28).hash(&key).as_bytes());
        all.push((owner, from..body.at()));
    }
    all.sort_unstable_by_key(|(owner, _)| *owner);
    let mut head = Vec::new();
    cbor::head(&mut head, cbor::major::MAP, all.len() as u64);
    let mut hashed = Params::new().hash_length(32).to_state();
    hashed.update(&head);
    for (owner, at) in all {
        hashed.update(&[0x58, 28]).update(&owner).update(body.slice(at));
    }
    let mut hash = [0; 32];
    hash.copy_from_slice(hashed.finalize().as_bytes());
    Ok(hash)
}

/// A tree of hashes over transactions, of which only its whole parts are kept. On the left of a branch lies the greatest power of
/// two of leaves that is less than all.
#[derive(Default)]
struct Tree {
    /// The roots of whole parts, each larger than those behind it: one for each bit of the count.
    parts: Vec<[u8; 32]>,
    count: u64,
}

impl Tree {
    fn add(&mut self, leaf: &[u8]) {
        let mut hash = blake2b_256(&[&[0], leaf]);
        for _ in 0..self.count.trailing_ones() {
            hash = self.parts.pop().map_or(hash, |left| branch(&left, &hash));
        }
        self.parts.push(hash);
        self.count += 1;
    }

    /// Returns the root; that of no leaves is the hash of nothing.
    fn root(&self) -> [u8; 32] {
        let root = self.parts.iter().rev().copied().reduce(|right, left| branch(&left, &right));
        root.unwrap_or_else(|| blake2b_256(&[]))
    }
}

fn branch(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    blake2b_256(&[&[1], left, right])
}
