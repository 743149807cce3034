//! Bodies and transactions of Byron.

use std::ops::Range;

use super::{BlockError, end};
use crate::{
    Era, OutputRef, TxId,
    cbor::{Cbor, Count},
};

/// Returns where the list of transactions lies in a body; an empty place for a block that has none by its kind.
pub(super) fn transactions(era: Era, block: &[u8], body: &Range<usize>) -> Result<Range<usize>, BlockError> {
    const SHAPE: &str = "a body of Byron has four parts";
    if era == Era::ByronBoundary {
        return Ok(0..0);
    }
    let mut cbor = Cbor::within(&block[..body.end], body.start);
    let mut parts = cbor.array_of(4..5, SHAPE)?;
    cbor.next(&mut parts, SHAPE)?;
    cbor.item()
}

/// Where the parts of a transaction lie.
pub(super) struct Parts {
    pub(super) body: Range<usize>,
    pub(super) inputs: Range<usize>,
    pub(super) outputs: Range<usize>,
    pub(super) witnesses: Range<usize>,
}

/// Reads a transaction with its witnesses.
pub(super) fn transaction(cbor: &mut Cbor<'_>) -> Result<Parts, BlockError> {
    const PAIR: &str = "a transaction of Byron stands beside its witnesses";
    const SHAPE: &str = "a transaction of Byron has inputs, outputs and attributes";
    let mut pair = cbor.array_of(2..3, PAIR)?;
    cbor.next(&mut pair, PAIR)?;
    let from = cbor.at();
    let mut parts = cbor.array_of(3..4, SHAPE)?;
    cbor.next(&mut parts, SHAPE)?;
    let inputs = cbor.item()?;
    cbor.next(&mut parts, SHAPE)?;
    let outputs = cbor.item()?;
    cbor.next(&mut parts, SHAPE)?;
    cbor.skip()?;
    end(cbor, parts, SHAPE)?;
    let body = from..cbor.at();
    cbor.next(&mut pair, PAIR)?;
    let witnesses = cbor.item()?;
    end(cbor, pair, PAIR)?;
    Ok(Parts { body, inputs, outputs, witnesses })
}

/// Reads an input.
pub(super) fn input(cbor: &mut Cbor<'_>) -> Result<OutputRef, BlockError> {
    const SHAPE: &str = "an input of Byron is 0 and an encoded pair";
    const PAIR: &str = "an input names a transaction and a place";
    let mut outer = cbor.array_of(2..3, SHAPE)?;
    cbor.next(&mut outer, SHAPE)?;
    let at = cbor.at();
    if cbor.unsigned(SHAPE)? != 0 {
        return Err(BlockError { offset: at, reason: "an input of a kind that is not known" });
    }
    cbor.next(&mut outer, SHAPE)?;
    let mut inner = cbor.encoded(SHAPE)?;
    let named = pair(&mut inner, PAIR)?;
    inner.end()?;
    end(cbor, outer, SHAPE)?;
    Ok(named)
}

/// Reads a transaction's id and a place.
pub(super) fn pair(cbor: &mut Cbor<'_>, reason: &'static str) -> Result<OutputRef, BlockError> {
    let mut count: Count = cbor.array_of(2..3, reason)?;
    cbor.next(&mut count, reason)?;
    let tx = TxId(cbor.hash("the id of a transaction has not 32 bytes")?);
    cbor.next(&mut count, reason)?;
    let at = cbor.at();
    let index = u32::try_from(cbor.unsigned(reason)?);
    let index =
        index.map_err(|_| BlockError { offset: at, reason: "the place of an output is beyond 4,294,967,295" })?;
    end(cbor, count, reason)?;
    Ok(OutputRef { tx, index })
}
