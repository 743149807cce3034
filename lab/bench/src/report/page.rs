//! The results page and the section of the README: what `bench all` writes from the rows.

use std::fmt::Write;

use super::{
    beside,
    charts::Chart,
    places::main_machine,
    published::{self, Figure},
    row::Row,
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
            "Made by `cone bench all` from the rows of `{0}`: medians, each run a process of its own unless said. The column\n\
             `checked` says whether contents, answers and roots were compared and right.\n",
            self.rows_at
        );
        if let Some((main, true)) = main_machine(self.rows) {
            let Row { cpu, cores, filesystem, kernel, .. } = main;
            let _ = writeln!(
                text,
                "Charts show rows of one machine, on which most were measured: {cpu}, {cores} cores, {filesystem}, Linux {kernel}. The one beside\n\
                 others has for each kind of work those of one machine."
            );
        }
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

    /// Returns the section of the README: ours beside others as a chart and a table, where it was measured, and where the
    /// rest is.
    pub(crate) fn summary(&self, page_at: &str) -> String {
        let ours = || self.rows.iter().filter(|row| !row.backend.is_empty());
        let (count, checked) = (ours().count(), ours().filter(|row| row.checked).count());
        let mut text = String::new();
        for chart in self.charts.iter().filter(|chart| chart.file == beside::FILE) {
            text += &self.chart(chart);
        }
        let table = beside::table(self.rows);
        if !table.lines.is_empty() {
            let _ = write!(text, "\n{}\n{}\n", table.markdown_lines(), beside::measured_on(self.rows));
        }
        let _ = writeln!(
            text,
            "\nMedians; contents and roots were checked and right in {checked} of {count} rows. [The results page]({page_at}) has every row with its\n\
             machine, the limits of that machine, and what others published."
        );
        text
    }

    fn chart(&self, chart: &Chart) -> String {
        format!("\n![{}]({}{})\n", chart.title, self.charts_at, chart.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_says_of_which_machine_charts_are() {
        let row = |cpu: &str| {
            let (backend, kernel, filesystem) = ("disk".into(), "6.1".into(), "ext4".into());
            Row { cpu: cpu.into(), cores: 2, backend, kernel, filesystem, ..Row::default() }
        };
        let page = |rows: &[Row]| {
            let (charts_at, rows_at) = ("./".into(), "results.json".into());
            Contents { rows, charts: &[], published: &[], charts_at, rows_at }.page()
        };
        assert!(!page(&[row("one"), row("one")]).contains("Charts show"));
        let mixed = page(&[row("one"), row("two"), row("two")]);
        assert!(mixed.contains("on which most were measured: two, 2 cores, ext4, Linux 6.1."), "{mixed}");
    }
}
