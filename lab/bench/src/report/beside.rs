//! The rows that the README shows: ours beside what others do of the same, measured on one machine on one day.

use super::{
    row::Row,
    select::BESIDE_IRMIN,
    svg::{Bar, Bars, Colour, Form, Group, Mark},
    table::{Table, bytes, count, rate},
};

/// One kind of work, and which rows are compared.
struct Work {
    /// What it is, for readers who do not know the scenarios.
    title: &'static str,
    scenario: &'static str,
    /// The name of our row.
    ours: &'static str,
    /// Those of others.
    others: &'static [&'static str],
}

const GIT: [&str; 3] = ["gitoxide", "libgit2", "git fast-import"];

const WORK: [Work; 8] = [
    Work::new("commits of 1,000 entries, disk", "commits-20B", "disk none", &["irmin pack none"]),
    Work::new("commits of 1,000 entries, disk synced", "commits-20B", "disk synced", &["irmin pack synced"]),
    Work::new("commits of one entry, disk", "incremental-20B", "disk none", &["irmin pack none"]),
    Work::new("commits of one entry, disk synced", "incremental-20B", "disk synced", &["irmin pack synced"]),
    Work::new("random lookups, disk", "reads-random-long-20B-1t", "disk none", &["irmin pack none"]),
    Work::new("rows of a Tezos trace, disk", "tezos-101commits", "disk none", &["irmin pack none"]),
    Work::new("commits of 1,000 entries, Git repository", "commits-20B", "git packs none", &GIT),
    Work::new("commits of one entry, Git repository", "incremental-20B", "git packs none", &GIT),
];

impl Work {
    const fn new(
        title: &'static str,
        scenario: &'static str,
        ours: &'static str,
        others: &'static [&'static str],
    ) -> Self {
        Self { title, scenario, ours, others }
    }

    /// Returns our row and those of others that were measured on the same machine on the same day, if there are any.
    fn rows<'a>(&self, rows: &'a [Row]) -> Option<(&'a Row, Vec<&'a Row>)> {
        let is_shown = |row: &Row| row.scenario == self.scenario && row.ops_per_sec > 0.0 && row.is_right();
        let named = |name: &str| rows.iter().find(|row| row.name == name && is_shown(row));
        // What was measured in turns with Irmin is nearer to it than a row of another hour.
        let in_turns = self.others.iter().any(|name| name.starts_with("irmin "));
        let in_turns = in_turns.then(|| named(&format!("bristlecone {} {BESIDE_IRMIN}", self.ours))).flatten();
        let ours = in_turns.or_else(|| named(&format!("bristlecone {}", self.ours)))?;
        let place =
            |row: &Row| (row.cpu.clone(), row.cores, row.kernel.clone(), row.filesystem.clone(), row.date.clone());
        let others: Vec<&Row> = self.others.iter().filter_map(|name| named(name)).collect();
        let others: Vec<&Row> = others.into_iter().filter(|row| place(row) == place(ours)).collect();
        (!others.is_empty()).then_some((ours, others))
    }
}

/// The file of the chart.
pub(super) const FILE: &str = "beside.svg";
/// What all of this stands under.
pub(super) const TITLE: &str = "Beside others, operations per second";

/// Draws our rows beside those of others; `None` where none were measured together.
pub(super) fn chart(rows: &[Row]) -> Option<String> {
    let mut systems: Vec<(Colour, String)> = vec![(Colour::Memory, "Bristlecone".to_owned())];
    let mut bars = Vec::new();
    for work in &WORK {
        let Some((ours, others)) = work.rows(rows) else { continue };
        let mut marks = Vec::new();
        for row in std::iter::once(ours).chain(others) {
            let (colour, system) = system(row);
            if !systems.iter().any(|(_, known)| known == system) {
                systems.push((colour, system.to_owned()));
            }
            let spread = (row.ops_per_sec_min, row.ops_per_sec_max);
            marks.push(Mark { colour, value: row.ops_per_sec, spread });
        }
        bars.push(Bar { label: work.title.into(), columns: vec![marks] });
    }
    if bars.is_empty() {
        return None;
    }
    let chart = Bars {
        title: TITLE.into(),
        about: "Bars from zero, each kind of work on a scale of its own: the median of operations per second of Bristlecone and of \
                others. The table below has the figures."
            .into(),
        axis: "median, and from the slowest run to the fastest; each kind of work on a scale of its own".into(),
        legend: systems,
        columns: vec![String::new()],
        groups: vec![Group { title: String::new(), bars }],
        form: Form::EachOwn,
        tick: count,
        value: rate,
    };
    Some(chart.draw())
}

/// Returns the colour and the name of who did the work of a row.
fn system(row: &Row) -> (Colour, &str) {
    match row.name.as_str() {
        name if name.starts_with("bristlecone ") => (Colour::Memory, "Bristlecone"),
        name if name.starts_with("irmin ") => (Colour::DiskSynced, "Irmin (irmin-pack)"),
        "gitoxide" => (Colour::Second, "gitoxide"),
        "git fast-import" => (Colour::Third, "git fast-import"),
        name => (Colour::Other, name),
    }
}

/// The same as a table, with resident memory: there others are ahead now and then.
pub(super) fn table(rows: &[Row]) -> Table {
    let heads = ["", "Bristlecone", "others", "times as fast", "our memory", "their memory"];
    let mut table = Table::new(TITLE, &heads);
    let memory = |row: &Row| bytes(row.maxrss_kb as f64 * 1024.0);
    for work in &WORK {
        let Some((ours, others)) = work.rows(rows) else { continue };
        let each = |text: &dyn Fn(&Row) -> String| others.iter().map(|row| text(row)).collect::<Vec<_>>().join(", ");
        table.lines.push(vec![
            work.title.into(),
            rate(ours.ops_per_sec),
            each(&|row| format!("{} {}", system(row).1, rate(row.ops_per_sec))),
            each(&|row| format!("{:.1}", ours.ops_per_sec / row.ops_per_sec)),
            memory(ours),
            each(&memory),
        ]);
    }
    table
}

/// Says in a sentence on which machines the rows of the table were measured, and with which versions of others.
pub(super) fn measured_on(rows: &[Row]) -> String {
    let (mut machines, mut versions) = (Vec::new(), Vec::new());
    for (ours, others) in WORK.iter().filter_map(|work| work.rows(rows)) {
        let Row { cpu, cores, filesystem, kernel, date, .. } = ours;
        let machine = format!("{cpu}, {cores} cores, {filesystem}, Linux {kernel}, {date}");
        if !machines.contains(&machine) {
            machines.push(machine);
        }
        for version in others.iter().filter_map(|row| row.version.clone()) {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
    }
    let versions = if versions.is_empty() { String::new() } else { format!(" Others: {}.", versions.join("; ")) };
    format!("Measured on: {}.{versions}", machines.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::svg::tests::check;

    fn row(name: &str, scenario: &str, ops_per_sec: f64) -> Row {
        let (ops_per_sec_min, ops_per_sec_max) = (ops_per_sec * 0.9, ops_per_sec * 1.1);
        Row {
            name: name.into(),
            scenario: scenario.into(),
            ops_per_sec,
            ops_per_sec_min,
            ops_per_sec_max,
            maxrss_kb: 10_000,
            cpu: "one".into(),
            ..Row::default()
        }
    }

    #[test]
    fn what_was_measured_together_stands_together() {
        let mut rows = vec![
            row("bristlecone disk synced", "incremental-20B", 8000.0),
            row("irmin pack synced", "incremental-20B", 800.0),
            row("bristlecone git packs none", "incremental-20B", 4000.0),
            row("gitoxide", "incremental-20B", 500.0),
            row("libgit2", "incremental-20B", 8000.0),
        ];
        let lines = table(&rows).lines;
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0][1..4], ["8.00 k", "Irmin (irmin-pack) 800", "10.0"]);
        assert_eq!(lines[1][1..4], ["4.00 k", "gitoxide 500, libgit2 8.00 k", "8.0, 0.5"]);
        rows[1].version = Some("irmin 3.11".into());
        assert_eq!(measured_on(&rows), "Measured on: one, 0 cores, , Linux , . Others: irmin 3.11.");
        let svg = chart(&rows).unwrap();
        check(&svg);
        for text in ["Bristlecone", "Irmin (irmin-pack)", "libgit2", "commits of one entry, disk synced"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        // What was measured in turns with Irmin stands beside it.
        rows.push(row("bristlecone disk synced beside-irmin", "incremental-20B", 4000.0));
        assert_eq!(table(&rows).lines[0][1..4], ["4.00 k", "Irmin (irmin-pack) 800", "5.0"]);
        rows.pop();
        // What is wrong stands beside nothing.
        rows[4].wrong = Some("the root is another".into());
        assert_eq!(table(&rows).lines[1][2], "gitoxide 500");
        rows[4].wrong = None;
        // Another machine is no comparison, nor is another day.
        rows[1].cpu = "two".into();
        rows[3].date = "2026-01-01".into();
        let lines = table(&rows).lines;
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0][2], "libgit2 8.00 k");
        rows.truncate(1);
        assert!(table(&rows).lines.is_empty() && chart(&rows).is_none());
    }
}
