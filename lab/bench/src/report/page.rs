//! The results page and the section of the README: what `bench all` writes from the rows.

use std::fmt::Write;

use super::{
    charts::Chart,
    published::{self, Figure},
    row::Row,
    table::Table,
    views::sections,
};

/// What a page is made from.
pub(crate) struct Contents<'a> {
    pub(crate) rows: &'a [Row],
    pub(crate) charts: &'a [Chart],
    pub(crate) published: &'a [Figure],
    /// What leads from the page to the folder of the charts, with a slash at its end.
    pub(crate) charts_at: String,
    /// What leads from the page to the file of rows.
    pub(crate) rows_at: String,
}

impl Contents<'_> {
    /// Returns the section of the results page: charts, every table, and what others published.
    pub(crate) fn page(&self) -> String {
        let mut text = format!(
            "Made by `cone bench all` from the rows of [{0}]({0}): medians, each run a process of its own unless said. The column\n\
             `checked` says whether contents, answers and roots were compared and right.\n",
            self.rows_at
        );
        for chart in self.charts {
            text += &self.chart(chart);
        }
        for mut table in sections(self.rows) {
            // Charts show most of it; whoever wants figures opens the table.
            table.folded |= table.lines.len() > 12;
            let _ = write!(text, "\n{}", table.markdown());
        }
        if !self.published.is_empty() {
            text += "\n### Published elsewhere, on other machines\n\nTo set the scale. These ran on other machines, with other settings and \
                     durability: no ratio to the rows above is meant\nor made.\n";
            for table in published::tables(self.published) {
                let _ = write!(text, "\n{}", table.markdown());
            }
        }
        text
    }

    /// Returns the section of the README: where, the charts, and the main tables, folded.
    pub(crate) fn summary(&self, page_at: &str) -> String {
        let tables = sections(self.rows);
        let first = |start: &str| tables.iter().find(|table| table.title.starts_with(start));
        let mut text = String::new();
        let ours: Vec<&Row> = self.rows.iter().filter(|row| !row.backend.is_empty()).collect();
        if !ours.is_empty() {
            let checked = ours.iter().filter(|row| row.checked).count();
            let _ = writeln!(
                text,
                "{}. Medians; contents and roots were checked and right in {checked} of {} rows.\n\
                 [The results page]({page_at}) has every row, limits, details, and what others published.",
                measured_in(&ours),
                ours.len()
            );
        }
        for chart in self.charts {
            text += &self.chart(chart);
        }
        for table in
            ["Operations per second", "Each optimisation by itself", "Replay of a trace"].into_iter().filter_map(first)
        {
            // The charts stand for it until somebody wants the figures.
            let folded = Table { folded: true, ..table.clone() };
            let _ = write!(text, "\n{}", folded.markdown());
        }
        text
    }

    fn chart(&self, chart: &Chart) -> String {
        format!("\n![{}]({}{})\n", chart.title, self.charts_at, chart.file)
    }
}

/// Returns the machines that rows were measured on, with the days; where there are several, with the number of their rows.
fn measured_in(rows: &[&Row]) -> String {
    let mut machines: Vec<(String, usize)> = Vec::new();
    for row in rows {
        let Row { cpu, cores, filesystem, kernel, date, .. } = row;
        let machine = format!("{cpu}, {cores} cores, {filesystem}, Linux {kernel}; {date}");
        match machines.iter_mut().find(|(known, _)| *known == machine) {
            Some((_, count)) => *count += 1,
            None => machines.push((machine, 1)),
        }
    }
    let [(only, _)] = &machines[..] else {
        let rows = |count: usize| if count == 1 { "1 row".to_owned() } else { format!("{count} rows") };
        let machines = machines.iter().map(|(machine, count)| format!("{}: {machine}", rows(*count)));
        return machines.collect::<Vec<_>>().join("\n");
    };
    only.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_is_named_with_its_rows() {
        let row = |cpu: &str| Row { cpu: cpu.into(), cores: 2, backend: "disk".into(), ..Row::default() };
        let (one, other) = (row("one"), row("other"));
        assert_eq!(measured_in(&[&one, &one]), "one, 2 cores, , Linux ; ");
        let both = measured_in(&[&one, &other, &one]);
        assert_eq!(both, "2 rows: one, 2 cores, , Linux ; \n1 row: other, 2 cores, , Linux ; ");
    }
}
