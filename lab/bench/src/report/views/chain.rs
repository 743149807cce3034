//! Tables of replays of a chain.

use super::details::{checked, rate_of};
use crate::report::{
    chain::ChainFigures,
    places::Places,
    row::Row,
    table::{Table, bytes, mebibytes, rate, time},
};

/// Returns the table of these rows, which may be empty.
pub(super) fn table(rows: &[&Row], places: &Places) -> Table {
    let heads = [
        "chain, store",
        "profile",
        "index",
        "blocks/s",
        "start",
        "steady",
        "transactions",
        "UTxO entries",
        "anon MiB min/mean/max",
        "mapped MiB",
        "CPU",
        "commits",
        "written",
        "syncs",
        "fdatasync",
        "digests compared",
        "checked",
        "runs",
        "measured in",
    ];
    let mut table = Table::new("Replay of the Cardano chain", &heads);
    for row in rows {
        let Some(chain) = &row.chain else { continue };
        table.lines.push(vec![
            format!("{}, {}", row.scenario, store(row, chain)),
            chain.profile.clone(),
            chain.index.clone(),
            rate_of(row),
            rate(chain.start_blocks_per_s),
            rate(chain.steady_blocks_per_s),
            chain.transactions.to_string(),
            chain.entries.to_string(),
            memory(row, chain),
            mebibytes(row.rss_file_kb),
            format!("{:.0} %", chain.cpu_percent),
            row.commits.to_string(),
            row.bytes_per_commit.map_or_else(|| "–".into(), |each| bytes(each * row.commits as f64)),
            row.syncs.to_string(),
            row.fdatasync_us.map_or_else(|| "–".into(), time),
            chain.checkpoints.to_string(),
            checked(row),
            row.runs.to_string(),
            places.number(row),
        ]);
    }
    table
}

/// Returns what the unspent outputs were kept in, and when a commit was acknowledged.
pub(crate) fn store(row: &Row, chain: &ChainFigures) -> String {
    let durability = if row.durability.is_empty() { String::new() } else { format!(" {}", row.durability) };
    let variant = if row.variant.is_empty() { String::new() } else { format!(", {}", row.variant) };
    match chain.utxo.as_str() {
        "lsm" => format!("plain LSM{durability}{variant}"),
        _ => format!("{}{durability}{variant}", row.backend),
    }
}

/// Returns the least, the mean and the most anonymous memory.
pub(crate) fn memory(row: &Row, chain: &ChainFigures) -> String {
    let all = [chain.rss_anon_min_kb, chain.rss_anon_mean_kb, row.rss_anon_kb];
    all.map(mebibytes).join(" / ")
}
