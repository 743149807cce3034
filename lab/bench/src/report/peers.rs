//! What others measured, shown apart: it comes from another machine, so no ratio to a row of ours is made.

use super::table::Table;

/// Returns the table of peers' figures.
pub(crate) fn table() -> Table {
    let heads = ["Irmin backend", "commits 20B / 10K", "reads 20B / 10K", "incremental 20B / 10K", "resident memory"];
    let mut table = Table::new("Others, on another machine", &heads);
    table.notes = vec![
        "Official Irmin (OCaml 4.13, Lwt, main of November 2025), run by us on 2 cores of a 2.5 GHz Xeon in November 2026;".into(),
        "medians of 3, not synced unless said; ops/s, for incremental commits/s. To set the scale: no ratio to the rows".into(),
        "above, which ran elsewhere.".into(),
    ];
    let lines: [[&str; 5]; 5] = [
        ["memory", "88.6 k / 11.9 k", "892 k / 254 k", "932 / 735", "30–90 MiB"],
        ["pack", "32.1 k / 8.25 k", "868 k / 349 k", "535 / 523", "33–133 MiB"],
        ["pack, synced", "20.5 k / –", "–", "90 / –", "–"],
        ["fs", "23.2 k / 8.47 k", "88.0 k / 87.8 k", "51 / 48", "31–62 MiB"],
        ["git", "1.12 k / 555", "108 k / 28.7 k", "44 / 39", "48–77 MiB"],
    ];
    table.lines = lines.iter().map(|line| line.iter().map(|cell| (*cell).to_owned()).collect()).collect();
    table
}
