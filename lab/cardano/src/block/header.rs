//! Headers, and the hash that names a block.

use std::ops::Range;

use super::{BlockError, end};
use crate::{BlockHash, Era, cbor::Cbor};

/// What a header says.
#[derive(Clone, Debug, Default)]
pub(super) struct Header {
    pub(super) slot: u64,
    pub(super) number: u64,
    pub(super) previous: Option<BlockHash>,
    pub(super) boundary_epoch: Option<u64>,
    /// The network's magic, of Byron.
    pub(super) magic: Option<u64>,
    /// How many bytes stand behind the header, of Shelley and later.
    pub(super) body_bytes: Option<u64>,
    /// The hash of the body, of Shelley and later; that of Byron is read where it is asked for.
    pub(super) body_hash: Option<[u8; 32]>,
}

impl Header {
    /// Reads a header that lies in a block; one of Byron counts `byron_epoch_slots` an epoch.
    pub(super) fn read(era: Era, block: &[u8], at: &Range<usize>, byron_epoch_slots: u64) -> Result<Self, BlockError> {
        let cbor = Cbor::within(block.get(..at.end).unwrap_or(&[]), at.start);
        match era {
            Era::ByronBoundary => boundary(cbor, byron_epoch_slots),
            Era::Byron => byron(cbor, byron_epoch_slots),
            _ => shelley(cbor, era),
        }
    }
}

fn shelley(mut cbor: Cbor<'_>, era: Era) -> Result<Header, BlockError> {
    const SHAPE: &str = "a header is an array of its body and a signature";
    const BODY: &str = "a header's body begins with the number, the slot and the previous hash";
    let mut outer = cbor.array_of(2..3, SHAPE)?;
    cbor.next(&mut outer, SHAPE)?;
    let mut body = cbor.array_of(3..32, BODY)?;
    cbor.next(&mut body, BODY)?;
    let number = cbor.unsigned("the number of the block is no number")?;
    cbor.next(&mut body, BODY)?;
    let slot = cbor.unsigned("the slot is no number")?;
    cbor.next(&mut body, BODY)?;
    let previous = if cbor.null() { None } else { Some(BlockHash(cbor.hash("the previous hash has not 32 bytes")?)) };
    // Then the issuer's keys, and one or two proofs.
    for _ in 0..if era >= Era::Babbage { 3 } else { 4 } {
        cbor.next(&mut body, BODY)?;
        cbor.skip()?;
    }
    cbor.next(&mut body, BODY)?;
    let body_bytes = Some(cbor.unsigned("the size of the body is no number")?);
    cbor.next(&mut body, BODY)?;
    let body_hash = Some(cbor.hash("the hash of the body has not 32 bytes")?);
    cbor.rest(body)?;
    cbor.next(&mut outer, SHAPE)?;
    cbor.skip()?;
    end(&mut cbor, outer, SHAPE)?;
    Ok(Header { slot, number, previous, body_bytes, body_hash, ..Header::default() })
}

const BYRON: &str = "a header of Byron has five parts";

/// Reads what both kinds of block of Byron begin with: magic and previous hash. What follows are consensus and extra data.
fn byron_start(cbor: &mut Cbor<'_>) -> Result<(crate::cbor::Count, Header), BlockError> {
    let mut outer = cbor.array_of(5..6, BYRON)?;
    cbor.next(&mut outer, BYRON)?;
    let magic = Some(cbor.unsigned("the network's magic is no number")?);
    cbor.next(&mut outer, BYRON)?;
    let previous = Some(BlockHash(cbor.hash("the previous hash has not 32 bytes")?));
    cbor.next(&mut outer, BYRON)?;
    cbor.skip()?;
    cbor.next(&mut outer, BYRON)?;
    Ok((outer, Header { magic, previous, ..Header::default() }))
}

fn byron(mut cbor: Cbor<'_>, epoch_slots: u64) -> Result<Header, BlockError> {
    const SHAPE: &str = "consensus data are a slot, a key, a number and a signature";
    let (mut outer, start) = byron_start(&mut cbor)?;
    let mut consensus = cbor.array_of(4..5, SHAPE)?;
    cbor.next(&mut consensus, SHAPE)?;
    let (epoch, slot) = pair(&mut cbor)?;
    cbor.next(&mut consensus, SHAPE)?;
    cbor.skip()?;
    cbor.next(&mut consensus, SHAPE)?;
    let number = difficulty(&mut cbor)?;
    cbor.rest(consensus)?;
    cbor.next(&mut outer, BYRON)?;
    cbor.skip()?;
    end(&mut cbor, outer, BYRON)?;
    let slot = first_slot(&cbor, epoch, epoch_slots)?
        .checked_add(slot)
        .ok_or_else(|| cbor.error("a slot beyond all numbers"))?;
    Ok(Header { slot, number, ..start })
}

fn boundary(mut cbor: Cbor<'_>, epoch_slots: u64) -> Result<Header, BlockError> {
    const SHAPE: &str = "consensus data of a boundary block are an epoch and a number";
    let (mut outer, start) = byron_start(&mut cbor)?;
    let mut consensus = cbor.array_of(2..3, SHAPE)?;
    cbor.next(&mut consensus, SHAPE)?;
    let epoch = cbor.unsigned("the epoch is no number")?;
    cbor.next(&mut consensus, SHAPE)?;
    let number = difficulty(&mut cbor)?;
    end(&mut cbor, consensus, SHAPE)?;
    cbor.next(&mut outer, BYRON)?;
    cbor.skip()?;
    end(&mut cbor, outer, BYRON)?;
    let slot = first_slot(&cbor, epoch, epoch_slots)?;
    Ok(Header { slot, number, boundary_epoch: Some(epoch), ..start })
}

fn first_slot(cbor: &Cbor<'_>, epoch: u64, epoch_slots: u64) -> Result<u64, BlockError> {
    epoch.checked_mul(epoch_slots).ok_or_else(|| cbor.error("an epoch beyond all numbers"))
}

fn pair(cbor: &mut Cbor<'_>) -> Result<(u64, u64), BlockError> {
    const SHAPE: &str = "a slot of Byron is an epoch and a slot within it";
    let mut count = cbor.array_of(2..3, SHAPE)?;
    cbor.next(&mut count, SHAPE)?;
    let epoch = cbor.unsigned(SHAPE)?;
    cbor.next(&mut count, SHAPE)?;
    let slot = cbor.unsigned(SHAPE)?;
    end(cbor, count, SHAPE)?;
    Ok((epoch, slot))
}

fn difficulty(cbor: &mut Cbor<'_>) -> Result<u64, BlockError> {
    const SHAPE: &str = "the number of a block of Byron is an array of one";
    let mut count = cbor.array_of(1..2, SHAPE)?;
    cbor.next(&mut count, SHAPE)?;
    let number = cbor.unsigned(SHAPE)?;
    end(cbor, count, SHAPE)?;
    Ok(number)
}

/// Returns the hash that names a block with this header.
pub(super) fn hash(era: Era, header: &[u8]) -> BlockHash {
    match era {
        Era::ByronBoundary => BlockHash::of(&[&[0x82, 0x00], header]),
        Era::Byron => BlockHash::of(&[&[0x82, 0x01], header]),
        _ => BlockHash::of(&[header]),
    }
}
