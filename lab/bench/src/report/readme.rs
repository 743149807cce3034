//! The results section of a page, written between two markers from rows alone.

use std::{fs, path::Path};

use super::{json, row::Row, views::sections};
use crate::{
    BenchError,
    error::Result,
    machine::{is_committed, revision},
};

/// The section begins after this line.
pub const BEGIN: &str = "<!-- results:begin -->";
/// The section ends before this line.
pub const END: &str = "<!-- results:end -->";

/// Returns the section of these rows in Markdown. The same rows give the same text.
#[must_use]
pub fn render(rows: &[Row]) -> String {
    let mut text = String::new();
    if rows.iter().any(|row| !row.backend.is_empty()) {
        text += "Medians; the column `checked` of the details says which rows were checked.\n";
    }
    for table in sections(rows) {
        text.push('\n');
        text += &table.markdown();
    }
    text
}

/// Refuses rows of programs that were built from changed sources: they can be built again by no reader.
///
/// # Errors
/// [`BenchError::Usage`] naming a row, and what to do.
pub(crate) fn check_committed(rows: &[Row]) -> Result<()> {
    // Limits and other suites' rows are of no sources of ours.
    let Some(row) = rows.iter().find(|row| !row.backend.is_empty() && !is_committed(&row.revision)) else {
        return Ok(());
    };
    Err(BenchError::usage(format!(
        "{}, {}: measured by a program of changed sources (revision {}), which is not published; commit, build with \
         --release and measure again, or add --allow-dirty for pages of your own",
        row.scenario, row.name, row.revision
    )))
}

/// Refuses to measure what would not be published.
///
/// # Errors
/// [`BenchError::Usage`] if this program was built from changed sources.
pub(crate) fn check_this_build() -> Result<()> {
    let own =
        Row { name: "this program".into(), backend: "all".into(), scenario: "every row".into(), ..Row::default() };
    check_committed(&[Row { revision: revision().into(), ..own }])
}

/// Replaces what is between the markers of a file by the section of these rows.
///
/// # Errors
/// As [`replace`].
pub fn write(file: &Path, rows: &[Row]) -> Result<()> {
    replace(file, &render(rows))
}

/// Replaces what is between the markers of a file.
///
/// # Errors
/// [`BenchError::Usage`] if the markers are not there, once each and in order; [`BenchError::Io`].
pub fn replace(file: &Path, section: &str) -> Result<()> {
    json::write(file, &page_with(file, section)?)
}

/// Refuses a page that has no place for results: that should not come out after everything was measured.
///
/// # Errors
/// As [`replace`].
pub(crate) fn check_page(file: &Path) -> Result<()> {
    page_with(file, "").map(drop)
}

/// Returns the text of a file with this section between the markers.
fn page_with(file: &Path, section: &str) -> Result<String> {
    let page = fs::read_to_string(file).map_err(BenchError::io(file))?;
    replaced(&page, section).ok_or_else(|| {
        BenchError::usage(format!(
            "{}: there must be a line {BEGIN} and after it a line {END}, once each, for results to go between",
            file.display()
        ))
    })
}

fn replaced(page: &str, section: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let once = !rest.contains(BEGIN) && !after.contains(END) && !before.contains(END);
    once.then(|| format!("{before}{BEGIN}\n{section}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_changed_sources_are_refused() {
        let row = |backend: &str, revision: &str| Row {
            scenario: "commits-20B".into(),
            backend: backend.into(),
            revision: revision.into(),
            ..Row::default()
        };
        assert!(check_committed(&[row("disk", "f69055f767"), row("", "")]).is_ok());
        let error = check_committed(&[row("disk", "f69055f767"), row("disk", "f69055f767+")]).unwrap_err();
        assert!(error.is_usage() && error.to_string().contains("commits-20B"), "{error}");
    }

    #[test]
    fn only_what_is_between_the_markers_changes() {
        let page = format!("# Title\n{BEGIN}\nold\n{END}\nend\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("# Title\n{BEGIN}\nnew\n\n{END}\nend\n"));
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        assert!(replaced("no markers", "new").is_none());
        assert!(replaced(&format!("{END}{BEGIN}"), "new").is_none());
        assert!(replaced(&format!("{BEGIN}{END}{BEGIN}{END}"), "new").is_none());
    }
}
