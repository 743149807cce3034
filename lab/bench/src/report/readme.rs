//! The results section of a page, written between two markers from rows alone.

use std::{fs, path::Path};

use super::{json, row::Row, views::sections};
use crate::{BenchError, error::Result};

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
    let page = fs::read_to_string(file).map_err(BenchError::io(file))?;
    let Some(page) = replaced(&page, section) else {
        return Err(BenchError::usage(format!(
            "{}: there must be a line {BEGIN} and after it a line {END}, once each, for results to go between",
            file.display()
        )));
    };
    json::write(file, &page)
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
