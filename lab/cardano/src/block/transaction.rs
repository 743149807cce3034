//! Transactions: what they spend and what they create.

use std::ops::Range;

use super::{BlockError, byron};
use crate::{
    Era, OutputRef, TxId,
    cbor::{Cbor, Count},
};

/// The transactions of a block, in order.
#[derive(Clone, Debug)]
pub struct Transactions<'b> {
    block: &'b [u8],
    era: Era,
    cbor: Cbor<'b>,
    left: Count,
    /// The places of those that failed, ascending.
    failed: Vec<u64>,
    next: u64,
}

impl<'b> Transactions<'b> {
    pub(super) fn new(
        block: &'b [u8],
        era: Era,
        bodies: &Range<usize>,
        failed: &Range<usize>,
    ) -> Result<Self, BlockError> {
        let mut cbor = Cbor::within(&block[..bodies.end], bodies.start);
        let left = if bodies.is_empty() { Count::Known(0) } else { cbor.array("the transactions are no array")? };
        // A transaction takes a byte at least.
        let count = if let Count::Known(count) = left { count } else { bodies.len() as u64 };
        let failed = if era >= Era::Alonzo { places(block, failed, count)? } else { Vec::new() };
        Ok(Self { block, era, cbor, left, failed, next: 0 })
    }

    fn read(&mut self) -> Result<Transaction<'b>, BlockError> {
        let index = self.next;
        self.next += 1;
        let failed = self.failed.binary_search(&index).is_ok();
        if self.era.is_byron() {
            let byron::Parts { body, inputs, outputs, .. } = byron::transaction(&mut self.cbor)?;
            let parts = Parts { inputs: Some(inputs), outputs: Some(outputs), ..Parts::default() };
            return Ok(Transaction { block: self.block, byron: true, failed, body, parts });
        }
        let from = self.cbor.at();
        let parts = Parts::read(&mut self.cbor)?;
        Ok(Transaction { block: self.block, byron: false, failed, body: from..self.cbor.at(), parts })
    }
}

impl<'b> Iterator for Transactions<'b> {
    type Item = Result<Transaction<'b>, BlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = match self.cbor.done(&mut self.left) {
            Ok(true) => return None,
            Ok(false) => self.read(),
            Err(error) => Err(error),
        };
        if read.is_err() {
            // What follows could not be told from what is wrong.
            self.left = Count::Known(0);
        }
        Some(read)
    }
}

/// Reads the places of the transactions that failed, ascending; no more than `count_max`.
fn places(block: &[u8], at: &Range<usize>, count_max: u64) -> Result<Vec<u64>, BlockError> {
    const SHAPE: &str = "the failed transactions are no list of places";
    let mut cbor = Cbor::within(&block[..at.end], at.start);
    let mut count = cbor.array(SHAPE)?;
    let mut places = Vec::new();
    while !cbor.done(&mut count)? {
        if places.len() as u64 >= count_max {
            return Err(BlockError { offset: cbor.at(), reason: "more transactions failed than there are" });
        }
        places.push(cbor.unsigned(SHAPE)?);
    }
    places.sort_unstable();
    Ok(places)
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Transaction<'b> {
    block: &'b [u8],
    byron: bool,
    failed: bool,
    body: Range<usize>,
    parts: Parts,
}

/// Where the parts of a body lie that matter to the set of unspent outputs.
#[derive(Clone, Debug, Default)]
struct Parts {
    inputs: Option<Range<usize>>,
    outputs: Option<Range<usize>>,
    fee: Option<u64>,
    collateral: Option<Range<usize>>,
    collateral_return: Option<Range<usize>>,
}

impl Parts {
    /// Reads a body of Shelley or later.
    fn read(cbor: &mut Cbor<'_>) -> Result<Self, BlockError> {
        const KEY: &str = "a key of a transaction's body is no number";
        const TWICE: &str = "a key of a transaction's body occurs twice";
        let mut parts = Self::default();
        let mut left = cbor.map("a transaction's body is no map")?;
        while !cbor.done(&mut left)? {
            let at = cbor.at();
            let place = match cbor.unsigned(KEY)? {
                0 => &mut parts.inputs,
                1 => &mut parts.outputs,
                2 => {
                    if parts.fee.is_some() {
                        return Err(BlockError { offset: at, reason: TWICE });
                    }
                    parts.fee = Some(cbor.unsigned("the fee is no number")?);
                    continue;
                }
                13 => &mut parts.collateral,
                16 => &mut parts.collateral_return,
                _ => {
                    cbor.skip()?;
                    continue;
                }
            };
            if place.is_some() {
                return Err(BlockError { offset: at, reason: TWICE });
            }
            *place = Some(cbor.item()?);
        }
        Ok(parts)
    }
}

impl<'b> Transaction<'b> {
    /// Returns the id: the hash of [`body`](Self::body).
    #[must_use]
    pub fn id(&self) -> TxId {
        TxId::of(&[self.body()])
    }

    /// Returns the bytes that the id is made of.
    #[must_use]
    pub fn body(&self) -> &'b [u8] {
        &self.block[self.body.clone()]
    }

    /// Whether its scripts failed, so that it takes its collateral and does nothing else.
    #[must_use]
    pub const fn failed(&self) -> bool {
        self.failed
    }

    /// Returns the fee, in lovelace; `None` in Byron, where it is what the outputs leave of the inputs.
    #[must_use]
    pub const fn fee(&self) -> Option<u64> {
        self.parts.fee
    }

    /// Returns the outputs that applying the transaction removes: its inputs, or its collateral if it failed. They are
    /// a set, but before protocol version 9 a list could name an output more than once, which is as if it were named once.
    #[must_use]
    pub fn spent(&self) -> Spent<'b> {
        let place = if self.failed { &self.parts.collateral } else { &self.parts.inputs };
        Spent { list: List::new(self.block, place.as_ref()), byron: self.byron }
    }

    /// Returns the outputs that applying the transaction adds, with their places: its outputs, or what is returned of its
    /// collateral if it failed.
    #[must_use]
    pub fn created(&self) -> Created<'b> {
        let outputs = List::new(self.block, self.parts.outputs.as_ref());
        let returned = self.parts.collateral_return.clone().filter(|_| self.failed);
        Created { block: self.block, outputs, index: 0, failed: self.failed, returned }
    }
}

/// The items of an array, or of no array.
#[derive(Clone, Debug)]
struct List<'b> {
    cbor: Cbor<'b>,
    /// `None` until the head is read.
    left: Option<Count>,
}

impl<'b> List<'b> {
    fn new(block: &'b [u8], at: Option<&Range<usize>>) -> Self {
        match at {
            Some(at) => Self { cbor: Cbor::within(&block[..at.end], at.start), left: None },
            None => Self { cbor: Cbor::new(&[]), left: Some(Count::Known(0)) },
        }
    }

    /// Returns the reader if there is another item, which it stands before.
    fn next(&mut self) -> Result<Option<&mut Cbor<'b>>, BlockError> {
        let mut left = match self.left {
            Some(left) => left,
            None => self.cbor.array_or_set("inputs or outputs are no array")?,
        };
        // After an error nothing follows.
        self.left = Some(Count::Known(0));
        let done = self.cbor.done(&mut left)?;
        self.left = Some(left);
        Ok((!done).then_some(&mut self.cbor))
    }

    fn stop(&mut self) {
        self.left = Some(Count::Known(0));
    }
}

/// The outputs that a transaction removes.
#[derive(Clone, Debug)]
pub struct Spent<'b> {
    list: List<'b>,
    byron: bool,
}

impl Iterator for Spent<'_> {
    type Item = Result<OutputRef, BlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        let byron = self.byron;
        let read = match self.list.next() {
            Ok(None) => return None,
            Ok(Some(cbor)) if byron => byron::input(cbor),
            Ok(Some(cbor)) => byron::pair(cbor, "an input names a transaction and a place"),
            Err(error) => Err(error),
        };
        if read.is_err() {
            self.list.stop();
        }
        Some(read)
    }
}

/// The outputs that a transaction adds, with their places.
#[derive(Clone, Debug)]
pub struct Created<'b> {
    block: &'b [u8],
    outputs: List<'b>,
    index: u32,
    failed: bool,
    returned: Option<Range<usize>>,
}

impl<'b> Created<'b> {
    fn read(&mut self) -> Result<Option<(u32, &'b [u8])>, BlockError> {
        loop {
            let index = self.index;
            let Some(cbor) = self.outputs.next()? else {
                // What is returned has the place behind the outputs that do not appear.
                return Ok(self.returned.take().map(|at| (index, &self.block[at])));
            };
            let item = cbor.item()?;
            self.index = index.checked_add(1).ok_or_else(|| cbor.error("more outputs than can be numbered"))?;
            if !self.failed {
                return Ok(Some((index, &self.block[item])));
            }
        }
    }
}

impl<'b> Iterator for Created<'b> {
    type Item = Result<(u32, &'b [u8]), BlockError>;

    fn next(&mut self) -> Option<Self::Item> {
        let read = self.read().transpose()?;
        if read.is_err() {
            self.outputs.stop();
            self.returned = None;
        }
        Some(read)
    }
}
