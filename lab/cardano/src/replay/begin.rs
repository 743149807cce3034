//! What a set begins with: the outputs of genesis files, or none. Which blocks are of those files.

use std::collections::HashMap;

use super::{Replay, ReplayError};
use crate::{
    Block, BlockPlace, Genesis, OutputRef,
    utxo::{UtxoError, UtxoTip},
};

impl Replay<'_> {
    /// Puts the outputs of genesis files into a set that is empty. Blocks of Byron must then be of the network of those files, and the
    /// first block of a chain, if it is one of Byron, must name Byron's file, also where the set is not empty.
    ///
    /// # Errors
    /// [`UtxoError::OtherStore`] for a set that began without these outputs; those of the set.
    pub fn begin(&mut self, genesis: &[Genesis]) -> Result<(), ReplayError> {
        self.magic = genesis.iter().find_map(|file| file.magic);
        self.genesis = genesis.iter().find_map(|file| file.hash);
        if genesis.is_empty() {
            return Ok(());
        }
        match self.set.tip() {
            UtxoTip::Empty => {}
            UtxoTip::Genesis => return self.same_genesis(genesis),
            UtxoTip::Block(_) => return self.began_with(genesis),
        }
        for (output, cbor) in genesis.iter().flat_map(|file| &file.outputs) {
            self.changes.create(*output, cbor);
        }
        self.commit_as(UtxoTip::Genesis, false)
    }

    /// Looks whether a block of Byron is of the network of the genesis files, and the first one of a chain names Byron's file.
    pub(super) fn check_genesis(&self, block: &Block<'_>, place: BlockPlace) -> Result<(), ReplayError> {
        let (BlockPlace { chunk, offset, .. }, point) = (place, block.point());
        if let Some((magic, genesis)) = block.magic().zip(self.magic).filter(|(magic, genesis)| magic != genesis) {
            return Err(ReplayError::OtherNetwork { chunk, offset, point, magic, genesis });
        }
        // The boundary block behind an epoch without blocks has the number 0, too. The first block of a later era names no file.
        let is_first =
            block.era().is_byron() && point.number == 0 && block.boundary_epoch().is_none_or(|epoch| epoch == 0);
        let named = block.previous().filter(|_| is_first);
        match named.zip(self.genesis).filter(|(named, genesis)| named != genesis) {
            None => Ok(()),
            Some((named, genesis)) => {
                Err(ReplayError::OtherGenesis { chunk, offset, point: Box::new(point), named, genesis })
            }
        }
    }

    /// Looks whether a set that has no block yet holds just these outputs.
    fn same_genesis(&self, genesis: &[Genesis]) -> Result<(), ReplayError> {
        let outputs: HashMap<OutputRef, &[u8]> =
            genesis.iter().flat_map(|file| &file.outputs).map(|(output, cbor)| (*output, &cbor[..])).collect();
        let mut same = self.set.entries()? == outputs.len() as u64;
        for (output, cbor) in outputs {
            same &= self.set.get(&output)?.as_deref() == Some(cbor);
        }
        if same {
            return Ok(());
        }
        let reason = "the set began with the outputs of other genesis files".to_owned();
        Err(UtxoError::OtherStore { reason }.into())
    }

    /// Refuses a set that has blocks and began without outputs of genesis files, as far as anything tells: they cannot be added
    /// behind those blocks.
    fn began_with(&self, genesis: &[Genesis]) -> Result<(), ReplayError> {
        let mut outputs = genesis.iter().flat_map(|file| &file.outputs).peekable();
        if outputs.peek().is_none() {
            return Ok(());
        }
        // No block makes such an output, so one that is still there says it without a look at the history.
        for (output, _) in outputs {
            if self.set.contains(output)? {
                return Ok(());
            }
        }
        if let Some(UtxoTip::Block(_)) = self.set.began()? {
            let reason = "the set began without genesis outputs".to_owned();
            return Err(UtxoError::OtherStore { reason }.into());
        }
        Ok(())
    }
}
