//! Which rows belong together, in which order, and under which column.

use std::collections::BTreeSet;

use super::{
    row::Row,
    views::{blocks::is_blocks, utxo::is_utxo},
};
use crate::{job::Target, optims};

/// The rows of a file by what they are about.
#[derive(Default)]
pub(super) struct Kinds<'r> {
    /// The tree suite as it is usually run, and with switches.
    pub(super) suite: Vec<&'r Row>,
    /// The steps of the table of optimisations.
    pub(super) steps: Vec<&'r Row>,
    /// The tree suite on other backends than memory and the disk engine.
    pub(super) others: Vec<&'r Row>,
    /// Ordered maps.
    pub(super) maps: Vec<&'r Row>,
    /// Indexes of blocks.
    pub(super) blocks: Vec<&'r Row>,
    /// The tree suite in Git repositories, by us and by others.
    pub(super) git: Vec<&'r Row>,
    /// Imports of whole histories.
    pub(super) imports: Vec<&'r Row>,
    /// The sweep over task counts.
    pub(super) sweep: Vec<&'r Row>,
    /// Replays of traces.
    pub(super) replays: Vec<&'r Row>,
    /// The made-up set of unspent outputs.
    pub(super) utxo: Vec<&'r Row>,
    /// Collections, refs, histories, and objects by themselves.
    pub(super) apart: Vec<&'r Row>,
    /// Replays of a chain.
    pub(super) chains: Vec<&'r Row>,
    /// Irmin, and ours measured in turns with it.
    pub(super) irmin: Vec<&'r Row>,
    /// The long forms.
    pub(super) long: Vec<&'r Row>,
}

impl<'r> Kinds<'r> {
    pub(super) fn of(rows: impl IntoIterator<Item = &'r Row>) -> Self {
        let mut kinds = Self::default();
        // Rows of other suites have no backend.
        for row in rows.into_iter().filter(|row| !row.backend.is_empty()) {
            let kind = if row.variant == BESIDE_IRMIN || is_irmin(row) {
                &mut kinds.irmin
            } else if is_utxo(row) {
                &mut kinds.utxo
            } else if is_apart(&row.scenario) {
                &mut kinds.apart
            } else if row.chain.is_some() {
                &mut kinds.chains
            } else if row.map.is_some() {
                &mut kinds.maps
            } else if is_blocks(row) {
                &mut kinds.blocks
            } else if is_big(&row.scenario) {
                &mut kinds.long
            } else if row.import.is_some() {
                &mut kinds.imports
            } else if row.has_git_ids() {
                &mut kinds.git
            } else if optims::is_step(&row.variant) {
                &mut kinds.steps
            } else if row.tasks > 0 {
                &mut kinds.sweep
            } else if row.replay.is_some() {
                &mut kinds.replays
            } else if OTHERS.contains(&column_name(row)) {
                &mut kinds.others
            } else {
                &mut kinds.suite
            };
            kind.push(row);
        }
        kinds
    }
}

/// What rows of ours are called that were measured in turns with Irmin.
pub(crate) const BESIDE_IRMIN: &str = "beside-irmin";

/// Whether a row is one of Irmin.
pub(super) fn is_irmin(row: &Row) -> bool {
    row.backend.starts_with("irmin ")
}

/// Returns what a row's name has beside backend and durability: the suite's name and the switches.
pub(super) fn suite_of(row: &Row) -> (String, String) {
    let target = column_name(row);
    let name = row.name.split(&format!(" {target}")).next().unwrap_or(&row.name);
    (name.to_owned(), row.variant.clone())
}

pub(super) fn suites(rows: &[&Row]) -> Vec<(String, String)> {
    let mut suites = Vec::new();
    for row in rows {
        let suite = suite_of(row);
        if !suites.contains(&suite) {
            suites.push(suite);
        }
    }
    suites
}

/// Returns the sizes that rows have, each once, the usual ones first.
pub(super) fn sizes_of<'r>(rows: impl IntoIterator<Item = &'r Row>) -> BTreeSet<&'r str> {
    rows.into_iter().map(|row| &row.sizes[..]).collect()
}

/// Keeps rows of one size, which can be compared: of the usual one where there are any.
pub(super) fn keep_one_size(rows: &mut Vec<&Row>) {
    let one = sizes_of(rows.iter().copied()).first().map(|sizes| (*sizes).to_owned());
    rows.retain(|row| one.as_ref() == Some(&row.sizes));
}

/// Scenarios in the order of the tables; longer names come before those that they start with.
const ORDER: [&str; 18] = [
    "commits",
    "commits-distinct",
    "large-values",
    "incremental",
    "incremental-long",
    "reads",
    "reads-random",
    "reads-random-long",
    "reads-random-reader-long",
    "reads-random-subtree-long",
    "concurrent",
    "concurrent-long",
    "concurrent-each",
    "prepare",
    "prepare-one",
    "group-commit",
    "group-commit-threads",
    "open",
];

fn order(row: &Row) -> (usize, u64, bool, String) {
    let scenario = &row.scenario;
    let stem: String = scenario
        .split('-')
        .filter(|word| !word.starts_with(|first: char| first.is_ascii_digit()) && !is_tasks(word))
        .collect::<Vec<_>>()
        .join("-");
    let rank = ORDER.iter().position(|name| *name == stem).unwrap_or(ORDER.len());
    (rank, row.value_bytes, scenario.split('-').any(is_tasks), scenario.clone())
}

/// Whether a word of a scenario's name is that of a parallel form: `p2x100`.
pub(super) fn is_tasks(word: &str) -> bool {
    let Some((domains, fibers)) = word.strip_prefix('p').and_then(|rest| rest.split_once('x')) else { return false };
    !domains.is_empty() && [domains, fibers].iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a scenario is one of a part of `cone bench` that makes a store of its own, and no scenario of the tree suite.
fn is_apart(scenario: &str) -> bool {
    let starts = ["gc-", "refs-", "history-", "ids-", "check-", "whole-commit-", "value-"];
    starts.iter().any(|start| scenario.starts_with(start))
}

fn is_big(scenario: &str) -> bool {
    ["open-", "over-budget-", "wide-", "one-commit-"].iter().any(|start| scenario.starts_with(start))
}

/// Returns the scenarios of these rows in order, each once.
pub(super) fn scenarios(rows: &[&Row]) -> Vec<String> {
    let keys: BTreeSet<_> = rows.iter().map(|row| order(row)).collect();
    let mut names: Vec<String> = Vec::new();
    for (.., scenario) in keys {
        if !names.contains(&scenario) {
            names.push(scenario);
        }
    }
    names
}

/// Returns the column of a row in tables that have a column for each backend and durability: of a row of Irmin that of ours
/// beside which it was measured.
pub(super) fn column_name(row: &Row) -> &'static str {
    if is_irmin(row) {
        return match row.backend.as_str() {
            "irmin memory" => "memory",
            _ if row.name.contains(" synced") => "disk synced",
            _ => "disk none",
        };
    }
    // The name says more of a Git repository than its backend and durability: loose or packs, and that of rows that
    // write nothing.
    let named = |target: &Target| {
        if target.is_peer() {
            row.name.strip_suffix(row.sizes.as_str()).is_some_and(|name| name.trim_end() == target.name())
        } else {
            row.name.contains(target.name())
        }
    };
    if let Some(target) = Target::all().filter(|target| target.has_git_ids() || target.is_other()).find(named) {
        return target.name();
    }
    match (row.backend.as_str(), row.durability.as_str()) {
        ("memory", _) => "memory",
        (_, "synced") => "disk synced",
        // Of other backends replays alone are grouped.
        ("lsm", "grouped") => "lsm grouped",
        ("lmdb", "grouped") => "lmdb grouped",
        ("fs", "grouped") => "fs grouped",
        (_, "grouped") => GROUPED,
        _ if row.name.contains("disk synced") => "disk synced",
        _ if row.name.contains(GROUPED) => GROUPED,
        _ => "disk none",
    }
}

pub(super) const COLUMNS: [&str; 3] = ["memory", "disk none", "disk synced"];

/// A column that only tables have in which it occurs.
pub(super) const GROUPED: &str = "disk grouped";

/// The columns of other backends.
pub(super) const OTHERS: [&str; 6] = ["lsm none", "lsm synced", "lmdb none", "lmdb synced", "fs none", "fs synced"];

/// Returns the columns of memory, the disk engine and other backends.
pub(super) fn all_columns() -> impl Iterator<Item = &'static str> {
    COLUMNS.into_iter().chain(OTHERS)
}

/// What scenarios count, by how their names begin; the first that fits is meant.
const COUNTED: [(&str, &str); 21] = [
    ("tezos", "row of the trace"),
    ("incremental", "commit"),
    ("group-commit", "commit"),
    ("prepare-one", "commit"),
    ("gc-list", "entry"),
    ("gc-paths", "path"),
    ("gc-whole", "live byte"),
    ("gc-", "commit"),
    ("history-make", "commit"),
    ("history-log", "log"),
    ("history-", "question"),
    ("refs-make", "ref"),
    ("refs-open", "opening"),
    ("refs-move", "move"),
    ("refs-list", "listing"),
    ("reads", "lookup"),
    ("refs-get", "lookup"),
    ("ids-abbreviated", "question"),
    ("ids-", "lookup"),
    ("check-", "object"),
    ("concurrent", "put or get"),
];

/// Returns what is counted.
pub(super) fn operation(scenario: &str) -> &'static str {
    let counted = COUNTED.iter().find(|(start, _)| scenario.starts_with(start));
    match counted.map(|pair| pair.1) {
        Some(counted) => counted,
        None if scenario.starts_with("value-") && scenario.ends_with("-copy") => "copy",
        None if scenario.starts_with("value-") => "read",
        None => "entry",
    }
}

/// Returns the scenario of a row of the sweep without the count: `commits-20B`.
pub(super) fn sweep_stem(row: &Row) -> &str {
    row.scenario.strip_suffix(&format!("-{}-tasks", row.tasks)).unwrap_or(&row.scenario)
}
