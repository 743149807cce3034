//! Irmin and ours, measured in turns: a line for each scenario and store of Irmin.

use super::{details::checked, is_comparable};
use crate::report::{
    places::Places,
    row::Row,
    select::{column_name, is_irmin, operation, scenarios},
    table::{Table, mebibytes, rate},
};

/// Returns the table of these rows, which may be empty.
pub(super) fn table(rows: &[&Row], places: &Places) -> Table {
    let heads = [
        "scenario",
        "operation",
        "store of Irmin",
        "Irmin, ops/s",
        "store of ours",
        "ours, ops/s",
        "times",
        "turns",
        "Irmin, MiB",
        "ours, MiB",
        "Irmin checked",
        "ours checked",
        "version",
        "measured in",
    ];
    let mut table = Table::new("Irmin, measured in turns with ours (medians)", &heads);
    for scenario in scenarios(rows) {
        let here: Vec<&&Row> = rows.iter().filter(|row| row.scenario == scenario).collect();
        for row in here.iter().filter(|row| is_irmin(row)) {
            let column = column_name(row);
            let ours = here.iter().find(|other| !is_irmin(other) && column_name(other) == column);
            let none = || "–".to_owned();
            let of_ours = |write: fn(&Row) -> String| ours.map_or_else(none, |ours| write(ours));
            table.lines.push(vec![
                scenario.clone(),
                operation(&scenario).to_owned(),
                row.name.clone(),
                rate(row.ops_per_sec),
                column.to_owned(),
                of_ours(|ours| rate(ours.ops_per_sec)),
                ours.filter(|ours| row.ops_per_sec > 0.0 && is_comparable(row, ours))
                    .map_or_else(none, |ours| format!("{:.1}", ours.ops_per_sec / row.ops_per_sec)),
                row.runs.to_string(),
                mebibytes(row.maxrss_kb),
                of_ours(|ours| mebibytes(ours.maxrss_kb)),
                checked(row),
                of_ours(checked),
                row.version.clone().unwrap_or_else(none),
                places.number(row),
            ]);
        }
    }
    table
}
