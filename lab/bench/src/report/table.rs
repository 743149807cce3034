//! Tables, as text for the screen and as Markdown, and how figures are written in them.

/// A table with a title and notes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// What to know before reading it.
    pub notes: Vec<String>,
    /// The heads of the columns; the first column is text, the others are figures.
    pub heads: Vec<String>,
    /// The cells, line by line.
    pub lines: Vec<Vec<String>>,
    /// On a page the table is folded until a reader opens it.
    pub folded: bool,
}

impl Table {
    /// Returns an empty table.
    #[must_use]
    pub fn new(title: &str, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { title: title.into(), notes: Vec::new(), heads, lines: Vec::new(), folded: false }
    }

    /// Returns the table as aligned text.
    #[must_use]
    pub fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.lines.iter().filter_map(|line| line.get(column)).chain(self.heads.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heads.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        for note in &self.notes {
            text += &format!("  {note}\n");
        }
        text += &aligned(&self.heads, &widths);
        for line in &self.lines {
            text += &aligned(line, &widths);
        }
        text
    }

    /// Returns the table as Markdown.
    #[must_use]
    pub fn markdown(&self) -> String {
        let title = &self.title;
        let mut text =
            if self.folded { format!("<details><summary>{title}</summary>\n\n") } else { format!("### {title}\n\n") };
        for note in &self.notes {
            text += &format!("{note}\n");
        }
        if !self.notes.is_empty() {
            text.push('\n');
        }
        text += &self.markdown_lines();
        if self.folded {
            text += "\n</details>\n";
        }
        text
    }

    /// Returns the heads and lines as Markdown, without title and notes.
    #[must_use]
    pub fn markdown_lines(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rules: Vec<String> =
            (0..self.heads.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned()).collect();
        [&self.heads, &rules].into_iter().chain(&self.lines).map(|cells| line(cells)).collect()
    }
}

fn aligned(cells: &[String], widths: &[usize]) -> String {
    let mut text = String::from(" ");
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let pad = " ".repeat(width - cell.chars().count());
        text += &if column == 0 { format!(" {cell}{pad}") } else { format!("  {pad}{cell}") };
    }
    format!("{}\n", text.trim_end())
}

/// Writes a rate with three digits: `2.71 M`, `12.3 k`, `853`.
#[must_use]
pub fn rate(per_second: f64) -> String {
    scaled(per_second, 1000.0, &["", " k", " M", " G"])
}

/// Writes a round number as short as it goes: `100 k`, `2 M`, `0.5`.
#[must_use]
pub fn count(value: f64) -> String {
    short(&scaled(value, 1000.0, &["", " k", " M", " G"]))
}

/// Returns a figure without zeros after the point: `10 ms` for `10.0 ms`.
#[must_use]
pub fn short(text: &str) -> String {
    let (digits, unit) = text.split_once(' ').map_or((text, None), |(digits, unit)| (digits, Some(unit)));
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    unit.map_or_else(|| digits.to_owned(), |unit| format!("{digits} {unit}"))
}

/// Writes bytes with three digits: `3.93 KB`.
#[must_use]
pub fn bytes(count: f64) -> String {
    scaled(count, 1000.0, &[" B", " KB", " MB", " GB", " TB"])
}

/// Writes a time given in microseconds with three digits: `350 ns`, `9.21 µs`, `1.3 ms`.
#[must_use]
pub fn time(microseconds: f64) -> String {
    scaled(microseconds * 1000.0, 1000.0, &[" ns", " µs", " ms", " s"])
}

/// Writes KiB as MiB.
#[must_use]
pub fn mebibytes(kib: u64) -> String {
    let mib = kib as f64 / 1024.0;
    if mib < 10.0 { format!("{mib:.1}") } else { format!("{mib:.0}") }
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    // What would be rounded up to the next unit belongs to it.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    let digits = if value >= 99.95 || (unit == 0 && value.fract() == 0.0) {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$}{}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(rate(2_714_000.0), "2.71 M");
        assert_eq!(rate(12_345.0), "12.3 k");
        assert_eq!(rate(853.2), "853");
        assert_eq!(rate(999.7), "1.00 k");
        assert_eq!(rate(0.0), "0");
        assert_eq!(count(100_000.0), "100 k");
        assert_eq!(count(2_500_000.0), "2.5 M");
        assert_eq!(count(100.0), "100");
        assert_eq!(count(0.5), "0.5");
        assert_eq!(bytes(3930.0), "3.93 KB");
        assert_eq!(bytes(48.0), "48 B");
        assert_eq!(time(0.35), "350 ns");
        assert_eq!(time(92.14), "92.1 µs");
        assert_eq!(mebibytes(1536), "1.5");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new("title", &["what", "a", "bbb"]);
        table.lines.push(vec!["scenario".into(), "1.00 k".into(), "2".into()]);
        assert_eq!(table.text(), "title\n  what           a  bbb\n  scenario  1.00 k    2\n");
        assert_eq!(
            table.markdown(),
            "### title\n\n| what | a | bbb |\n| --- | ---: | ---: |\n| scenario | 1.00 k | 2 |\n"
        );
    }
}
