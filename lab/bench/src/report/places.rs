//! Where and when rows were measured: each machine, day and revision once, with a number that rows refer to.

use super::{row::Row, table::Table};

/// The different places and times of some rows, in the order in which they first occur.
pub(super) struct Places<'r> {
    rows: Vec<&'r Row>,
}

impl<'r> Places<'r> {
    pub(super) fn of(rows: &'r [Row]) -> Self {
        let mut places: Vec<&Row> = Vec::new();
        for row in rows.iter().filter(|row| !row.date.is_empty()) {
            if !places.iter().any(|place| same(place, row)) {
                places.push(row);
            }
        }
        Self { rows: places }
    }

    /// Returns the number of a row's place, `–` if the row does not say.
    pub(super) fn number(&self, row: &Row) -> String {
        let index = self.rows.iter().position(|place| same(place, row));
        index.map_or_else(|| "–".into(), |index| format!("[{}]", index + 1))
    }

    pub(super) fn table(&self) -> Table {
        let heads = ["measured in", "processor", "cores", "Linux", "file system", "date", "revision"];
        let mut table = Table::new("Where and when", &heads);
        table.lines = self
            .rows
            .iter()
            .map(|row| {
                vec![
                    self.number(row),
                    row.cpu.clone(),
                    row.cores.to_string(),
                    row.kernel.clone(),
                    row.filesystem.clone(),
                    row.date.clone(),
                    row.revision.clone(),
                ]
            })
            .collect();
        table
    }
}

fn same(one: &Row, other: &Row) -> bool {
    let place = |row: &Row| {
        let Row { cpu, kernel, filesystem, date, revision, .. } = row;
        [cpu, kernel, filesystem, date, revision].map(String::clone)
    };
    one.cores == other.cores && place(one) == place(other)
}
