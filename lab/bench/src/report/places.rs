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

    /// Whether there are several.
    pub(super) const fn are_several(&self) -> bool {
        self.rows.len() > 1
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

/// Whether two rows were measured on the same machine, so that their rates can be compared.
pub(crate) fn same_machine(one: &Row, other: &Row) -> bool {
    let parts = |row: &Row| [row.cpu.clone(), row.kernel.clone(), row.filesystem.clone()];
    one.cores == other.cores && parts(one) == parts(other)
}

/// Returns a row of the machine on which most rows of stores were measured, and whether some were measured on others.
pub(super) fn main_machine(rows: &[Row]) -> Option<(&Row, bool)> {
    let mut machines: Vec<(&Row, usize)> = Vec::new();
    for row in rows.iter().filter(|row| !row.backend.is_empty()) {
        match machines.iter_mut().find(|(known, _)| same_machine(known, row)) {
            Some((_, count)) => *count += 1,
            None => machines.push((row, 1)),
        }
    }
    let most = machines.iter().map(|machine| machine.1).max()?;
    let main = machines.iter().find(|machine| machine.1 == most)?;
    Some((main.0, machines.len() > 1))
}
