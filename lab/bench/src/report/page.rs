//! The results page and the section of the README: what `bench all` writes from the rows.

use std::fmt::Write;

use super::{
    beside,
    charts::Chart,
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
