//! What is there before the first block: the outputs of genesis files.

use std::{fs, path::Path};

use serde::Deserialize;
use serde_json::Map as JsonMap;
use thiserror::Error;

use crate::{BlockHash, OutputRef, TxId, cbor::head};

mod canonical;
mod redemption;

/// Why a file is no genesis file, or not one whose outputs are known here.
#[derive(Debug, Error)]
#[error("{file}: {reason}")]
pub struct GenesisError {
    /// The file.
    pub file: String,
    /// What is wrong with it.
    pub reason: String,
}

/// The outputs of a genesis file.
#[derive(Clone, Debug, Default)]
pub struct Genesis {
    /// The network's magic, where the file has it.
    pub magic: Option<u64>,
    /// How many slots an epoch of Byron has, where the file says it: ten times its `k`.
    pub byron_epoch_slots: Option<u64>,
    /// The hash of a Byron genesis file, which the first block of a chain that begins with Byron names as its predecessor.
    pub hash: Option<BlockHash>,
    /// Each output, and its CBOR: an array of an address and lovelace.
    pub outputs: Vec<(OutputRef, Vec<u8>)>,
}

/// A Byron or a Shelley genesis file. Amounts are text in one and numbers in the other.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    non_avvm_balances: Option<JsonMap<String, serde_json::Value>>,
    avvm_distr: Option<JsonMap<String, serde_json::Value>>,
    initial_funds: Option<JsonMap<String, serde_json::Value>>,
    network_magic: Option<u64>,
    protocol_consts: Option<ProtocolConsts>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ProtocolConsts {
    protocol_magic: Option<u64>,
    k: Option<u64>,
}

impl Genesis {
    /// Reads Byron's or Shelley's genesis file.
    ///
    /// # Errors
    /// [`GenesisError`] for another file, and for an address, a key of redemption or an amount that is none.
    pub fn read(path: &Path) -> Result<Self, GenesisError> {
        let wrong = |reason: String| GenesisError { file: path.display().to_string(), reason };
        let text = fs::read(path).map_err(|error| wrong(format!("it cannot be read: {error}")))?;
        let file: File =
            serde_json::from_slice(&text).map_err(|error| wrong(format!("it is no genesis file: {error}")))?;
        if file.non_avvm_balances.is_none() && file.avvm_distr.is_none() && file.initial_funds.is_none() {
            return Err(wrong("it has neither nonAvvmBalances or avvmDistr (Byron) nor initialFunds (Shelley)".into()));
        }
        let (magic, k) = file.protocol_consts.map_or((None, None), |consts| (consts.protocol_magic, consts.k));
        let epoch_slots = |k: u64| k.checked_mul(10).filter(|slots| *slots > 0).ok_or(k);
        let byron_epoch_slots = k
            .map(epoch_slots)
            .transpose()
            .map_err(|k| wrong(format!("its k is {k}, and an epoch of Byron has 10 k slots")))?;
        let is_byron = file.non_avvm_balances.is_some() || file.avvm_distr.is_some();
        let hash = is_byron.then(|| canonical::hash(&text)).transpose();
        let hash = hash.map_err(|error| wrong(format!("it is no genesis file: {error}")))?;
        let mut genesis = Self { magic: file.network_magic.or(magic), byron_epoch_slots, hash, outputs: Vec::new() };
        let mut add = |address: &str, decoded: Option<Vec<u8>>, amount: &serde_json::Value| {
            let bytes = decoded.ok_or_else(|| wrong(format!("{address} is neither an address nor a key of one")))?;
            let amount = amount.as_u64().or_else(|| amount.as_str()?.parse().ok());
            let amount = amount.ok_or_else(|| wrong(format!("the amount of {address} is not a number of lovelace")))?;
            let output = OutputRef { tx: TxId::of(&[&bytes]), index: 0 };
            genesis.outputs.push((output, output_of(&bytes, amount)));
            Ok(())
        };
        for (address, amount) in file.non_avvm_balances.iter().flatten() {
            add(address, bs58::decode(address).into_vec().ok(), amount)?;
        }
        for (key, amount) in file.avvm_distr.iter().flatten() {
            add(key, redemption::address(key, magic), amount)?;
        }
        for (address, amount) in file.initial_funds.iter().flatten() {
            add(address, crate::hash::from_hex_bytes(address.as_bytes()), amount)?;
        }
        Ok(genesis)
    }
}

/// Returns an output in minimal CBOR: an array of a string of bytes and a number.
fn output_of(address: &[u8], lovelace: u64) -> Vec<u8> {
    let mut cbor = vec![0x82];
    head(&mut cbor, 2, address.len() as u64);
    cbor.extend_from_slice(address);
    head(&mut cbor, 0, lovelace);
    cbor
}
