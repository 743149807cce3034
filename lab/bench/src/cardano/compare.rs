//! Two profiles side by side, with their differences in percent.

use crate::report::{
    ChainFigures, Row,
    table::{Table, mebibytes, rate},
};

/// Returns the founding table: memory, processor, speed, blocks and entries of both profiles.
pub(super) fn table(one: &Row, other: &Row) -> Table {
    let name = |row: &Row| row.chain.as_ref().map_or("", |chain| &chain.profile).to_owned();
    let (first, second) = (name(one), name(other));
    let mut table = Table::new(&format!("{}, two profiles", one.scenario), &["", &first, &second, "difference"]);
    let none = ChainFigures::default();
    let figures = |row: &Row| {
        let chain = row.chain.as_deref().unwrap_or(&none);
        let kib = |kb: u64| (kb as f64, mebibytes(kb));
        let per_s = |value: f64| (value, rate(value));
        let count = |value: u64| (value as f64, value.to_string());
        [
            ("anonymous memory, MiB: min", kib(chain.rss_anon_min_kb)),
            ("anonymous memory, MiB: mean", kib(chain.rss_anon_mean_kb)),
            ("anonymous memory, MiB: max", kib(row.rss_anon_kb)),
            ("mapped files, MiB: max", kib(row.rss_file_kb)),
            ("CPU, percent of one core", (chain.cpu_percent, format!("{:.0}", chain.cpu_percent))),
            ("blocks/s at the start", per_s(chain.start_blocks_per_s)),
            ("blocks/s, steady", per_s(chain.steady_blocks_per_s)),
            ("blocks/s", per_s(row.ops_per_sec)),
            ("blocks", count(row.total_ops)),
            ("UTxO entries", count(chain.entries)),
        ]
    };
    for ((what, (from, shown)), (_, (to, other))) in figures(one).into_iter().zip(figures(other)) {
        table.lines.push(vec![what.into(), shown, other, difference(from, to)]);
    }
    table
}

/// Writes by how much a figure grew or shrank.
fn difference(from: f64, to: f64) -> String {
    if from == to {
        "none".into()
    } else if from == 0.0 {
        "–".into()
    } else {
        format!("{:+.0} %", (to - from) / from * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_shares_of_the_first() {
        assert_eq!(
            [difference(100.0, 87.0), difference(100.0, 146.0), difference(3.0, 3.0)],
            ["-13 %", "+46 %", "none"]
        );
        assert_eq!(difference(0.0, 1.0), "–");
    }

    #[test]
    fn both_profiles_stand_side_by_side() {
        let row = |profile: &str, entries, rss_anon_kb| Row {
            scenario: "cardano-10blocks".into(),
            rss_anon_kb,
            chain: Some(Box::new(ChainFigures { profile: profile.into(), entries, ..ChainFigures::default() })),
            ..Row::default()
        };
        let table = table(&row("high-memory", 7, 2048), &row("low-memory", 7, 1024));
        assert_eq!(table.heads, ["", "high-memory", "low-memory", "difference"]);
        assert!(table.lines.contains(&["UTxO entries", "7", "7", "none"].map(str::to_owned).to_vec()));
        let memory = table.lines.iter().find(|line| line[0] == "anonymous memory, MiB: max").unwrap();
        assert_eq!(memory[3], "-50 %");
    }
}
