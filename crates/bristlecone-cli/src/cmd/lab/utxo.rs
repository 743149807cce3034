//! `cone utxo`: a set of unspent outputs that `cone replay cardano` made, at any block that it keeps.

use bristlecone::{CommitId, Durability, Native, Repo};
use bristlecone_any::AnyFormat;
use bristlecone_cardano::{
    OutputRef,
    utxo::{TreeUtxo, UtxoError, UtxoStore, UtxoTip, lovelace},
};
use clap::{Args, Subcommand};

use crate::{
    cmd::Context,
    failure::{Failure, Result, without_number},
    open::Access,
    output::fields,
    progress::meanwhile,
    text::{show, span},
};

/// Look at a set of unspent outputs at any of its blocks, and roll it back
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  cone -r chain utxo tip                                the block at which the set stands
  cone -r chain utxo at 1000000                         the commit of the last block up to a slot
  cone -r chain diff $(cone -r chain utxo at 900000) $(cone -r chain utxo at 1000000)
                                                        what was spent and created between two slots
  cone -r chain utxo get TRANSACTION#PLACE --slot 9000  an output as it was at a slot: in hexadecimal, with its lovelace
  cone -r chain utxo digest                             entries, lovelace and digest, which reads the whole set
  cone -r chain utxo excerpt TRANSACTION#PLACE          what shows that an output is in the set, or is not
  cone -r chain utxo rollback --blocks 10               moves the branch; nothing is lost

The set is the one of a branch of a store that `cone replay cardano` wrote to. It has commits where a block changed it, or one
for each N blocks after `--commit-every N`: `rollback` says at which block the set is then. Exit code 1 for an output that is not in the set.")]
pub(crate) struct UtxoCommand {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Say at which block the set stands
    #[command(after_help = "\
Examples:
  cone -r chain utxo tip
  cone -r chain utxo tip -o json")]
    Tip,
    /// Print the id of the last commit up to a slot
    #[command(after_help = "\
Examples:
  cone -r chain utxo at 1000000
  cone -r chain log -1 $(cone -r chain utxo at 1000000)    that commit, whose message is its block")]
    At {
        /// The slot
        slot: u64,
    },
    /// Print an output
    #[command(after_help = "\
Examples:
  cone -r chain utxo get TRANSACTION#PLACE                its CBOR in hexadecimal, and its lovelace
  cone -r chain utxo get TRANSACTION#PLACE --slot 9000    as it was at a slot

Exit code 1 if it is not in the set.")]
    Get {
        /// The output: a transaction's id, #, and a place
        #[arg(value_name = "TRANSACTION#PLACE", value_parser = output)]
        named: OutputRef,
        #[command(flatten)]
        when: When,
    },
    /// Print the number of outputs, their lovelace and the digest of the set
    #[command(after_help = "\
Examples:
  cone -r chain utxo digest
  cone -r chain utxo digest --slot 1000000

The whole set is read.")]
    Digest(When),
    /// Make an excerpt of the set that shows whether an output is in it, and check that against the set's root
    #[command(after_help = "\
Examples:
  cone -r chain utxo excerpt TRANSACTION#PLACE
  cone -r chain utxo excerpt TRANSACTION#PLACE --slot 9000

Exit code 1 if it is not in the set.")]
    Excerpt {
        /// The output: a transaction's id, #, and a place
        #[arg(value_name = "TRANSACTION#PLACE", value_parser = output)]
        named: OutputRef,
        #[command(flatten)]
        when: When,
    },
    /// Move the branch back to an earlier block; later commits stay in the store
    #[command(after_help = "\
Examples:
  cone -r chain utxo rollback --blocks 10
  cone -r chain utxo rollback --slot 1000000

The move is synced. Exit code 1 if the set is not kept that far back.")]
    Rollback {
        /// To the last commit up to this slot
        #[arg(long, value_name = "SLOT", required_unless_present = "blocks", conflicts_with = "blocks")]
        slot: Option<u64>,
        /// By so many blocks; where the block there has no commit, to the last one before it that has
        #[arg(long, value_name = "N")]
        blocks: Option<u64>,
    },
}

/// Which state is looked at.
#[derive(Args, Clone, Copy, Debug)]
struct When {
    /// At the last commit up to this slot [default: the newest]
    #[arg(long, value_name = "SLOT")]
    slot: Option<u64>,
}

impl From<UtxoError> for Failure {
    fn from(error: UtxoError) -> Self {
        match error {
            UtxoError::Store(error) => error.into(),
            error @ (UtxoError::NotKept { .. } | UtxoError::NotSoFar { .. }) => Self::negative(error.to_string()),
            error => Self::failed(without_number(&bristlecone::report(&error))),
        }
    }
}

fn output(text: &str) -> std::result::Result<OutputRef, String> {
    let parsed = text.split_once('#').and_then(|(tx, index)| Some((tx.parse().ok()?, index.parse().ok()?)));
    let (tx, index) = parsed.ok_or("64 hexadecimal digits of a transaction's id, #, and a place")?;
    Ok(OutputRef { tx, index })
}

pub(crate) fn run(command: UtxoCommand, context: &mut Context) -> Result<()> {
    let access = if matches!(command.verb, Verb::Rollback { .. }) { Access::Write } else { Access::Read };
    let opened = context.globals.open(access)?;
    let AnyFormat::Native(native) = opened.repo.format() else {
        return Err(Failure::failed(
            "this store is not of the format native: name one that `cone replay cardano` wrote to, with --repo",
        ));
    };
    let repo: Repo<Native> = Repo::with_backend(*native, opened.repo.backend().clone());
    let branch = match context.globals.branch()? {
        Some(branch) => branch,
        None => opened.branch_to_change()?.name().to_owned(),
    };
    let mut set = TreeUtxo::open(&repo, &branch, Durability::Synced)?;
    if set.tip() == UtxoTip::Empty {
        return Err(Failure::negative(format!(
            "the branch {} has no set of unspent outputs: `cone replay cardano` makes one",
            show(&branch)
        )));
    }
    let out = &mut context.out;
    let at = |set: &TreeUtxo, when: When| -> Result<(CommitId, UtxoTip)> { Ok(set.at(when.slot.unwrap_or(u64::MAX))?) };
    match command.verb {
        Verb::Tip => {
            let (id, tip) = at(&set, When { slot: None })?;
            out.line(format_args!("{tip}"))?;
            out.document(point(id, tip))
        }
        Verb::At { slot } => {
            let (id, tip) = set.at(slot)?;
            out.line(format_args!("{id}"))?;
            out.document(point(id, tip))
        }
        Verb::Get { named: output, when } => {
            let (id, _) = at(&set, when)?;
            let map = set.checkout(id)?;
            let Some(cbor) = map.get(output.to_string().as_bytes())? else {
                return Err(Failure::negative(format!("{output} is not in the set")));
            };
            let hex: String = cbor.iter().map(|byte| format!("{byte:02x}")).collect();
            let amount = lovelace(&cbor).ok();
            out.line(format_args!("{hex}"))?;
            if let Some(amount) = amount {
                out.line(format_args!("{amount} lovelace"))?;
            }
            out.document(fields! { "output": output.to_string(), "cbor": hex, "lovelace": amount })
        }
        Verb::Digest(when) => {
            let (id, tip) = at(&set, when)?;
            let line = |seconds: f64| format!("adding up the outputs, {}", span(seconds as u64));
            let digest = meanwhile(line, || TreeUtxo::digest_of(&set.checkout(id)?))?;
            out.line(format_args!("{tip}"))?;
            out.line(format_args!("{} entries, {} lovelace", digest.entries, digest.lovelace))?;
            out.line(format_args!("{}", digest.hex()))?;
            let mut all = point(id, tip);
            let lovelace = digest.lovelace.to_string();
            all.extend(fields! { "entries": digest.entries, "lovelace": lovelace, "digest": digest.hex() });
            out.document(all)
        }
        Verb::Excerpt { named: output, when } => {
            let (id, _) = at(&set, when)?;
            let whole = set.checkout(id)?.root()?;
            let excerpt = set.excerpt(id, &output)?;
            let root = excerpt.root()?;
            if root != whole {
                return Err(Failure::failed(format!("the excerpt has the root {root}, and the set {whole}")));
            }
            let found = excerpt.get(output.to_string().as_str())?.map(|value| value.len());
            let says = if found.is_some() { "is in the set" } else { "is not in the set" };
            out.line(format_args!("{output} {says} with the root {root}"))?;
            out.document(fields! { "output": output.to_string(), "found": found.is_some(), "root": root.to_string() })?;
            if found.is_some() { Ok(()) } else { Err(Failure::answered()) }
        }
        Verb::Rollback { slot, blocks } => {
            let (id, tip) = match (slot, blocks) {
                (Some(slot), _) => set.at(slot)?,
                (None, blocks) => set.before(blocks.unwrap_or(0))?,
            };
            let back = set.tip().height().saturating_sub(tip.height());
            set.roll_back(id)?;
            let further =
                if blocks.is_some_and(|blocks| back > blocks) { ", to the last commit before that" } else { "" };
            out.made(format!("the branch {} is at {tip}, {back} blocks back{further}", show(&branch)))?;
            let mut all = point(id, tip);
            all.extend(fields! { "blocks": back });
            out.document(all)
        }
    }
}

fn point(id: CommitId, tip: UtxoTip) -> crate::output::Fields {
    let point = tip.point();
    fields! {
        "commit": id.to_string(),
        "slot": point.map(|point| point.slot),
        "number": point.map(|point| point.number),
        "hash": point.map(|point| point.hash.to_string()),
    }
}
