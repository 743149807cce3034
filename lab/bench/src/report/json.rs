//! Files of results: an array of rows, merged by name and scenario.

use std::{fs, io, io::Write, path::Path};

use serde_json::Value;

use super::row::Row;
use crate::{BenchError, error::Result};

/// Reads a file of results, with rows of other suites as they are. A missing or empty file has none.
///
/// # Errors
/// [`BenchError::Results`] if it holds anything else; [`BenchError::Io`], also where there is no folder for the file.
pub fn read(file: &Path) -> Result<Vec<Value>> {
    let bytes = match fs::read(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && has_folder(file) => return Ok(Vec::new()),
        other => other.map_err(BenchError::io(file))?,
    };
    if bytes.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let broken = |reason: String| BenchError::Results { file: file.display().to_string(), reason };
    let rows: Value = serde_json::from_slice(&bytes).map_err(|error| broken(error.to_string()))?;
    let Value::Array(rows) = rows else { return Err(broken("they should be an array of rows".into())) };
    match rows.iter().position(|row| key(row).is_none()) {
        Some(index) => Err(broken(format!("row {index} has no \"name\" and \"scenario\""))),
        None => Ok(rows),
    }
}

/// Whether there is a folder that a file can be made in.
fn has_folder(file: &Path) -> bool {
    file.parent().is_none_or(|folder| folder.as_os_str().is_empty() || folder.is_dir())
}

/// Merges rows into a file: those with the same name and scenario are replaced where they stand, others
/// stay, new ones follow. The file is replaced as a whole.
///
/// # Errors
/// As [`read`]; a broken file is left as it is.
pub fn merge(file: &Path, rows: &[Row]) -> Result<()> {
    let mut all = read(file)?;
    for row in rows {
        let row = serde_json::to_value(row)
            .map_err(|error| BenchError::Results { file: file.display().to_string(), reason: error.to_string() })?;
        match all.iter().position(|old| key(old) == key(&row)) {
            Some(index) => all[index] = row,
            None => all.push(row),
        }
    }
    write(file, &to_text(&all))
}

/// Returns the rows of a file that are ours; those of other suites lack most of the keys.
///
/// # Errors
/// As [`read`].
pub fn rows(file: &Path) -> Result<Vec<Row>> {
    let parse = |row: Value| {
        serde_json::from_value(row)
            .map_err(|error| BenchError::Results { file: file.display().to_string(), reason: error.to_string() })
    };
    read(file)?.into_iter().map(parse).collect()
}

/// Returns rows as an array with a row a line.
pub(crate) fn to_text(rows: &[Value]) -> String {
    let lines: Vec<String> = rows.iter().map(|row| format!("  {row}")).collect();
    if lines.is_empty() { "[]\n".into() } else { format!("[\n{}\n]\n", lines.join(",\n")) }
}

/// Replaces a file by way of another beside it, so that nobody sees half of it.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let beside = file.with_file_name(name);
    let written = fs::File::create(&beside)
        .and_then(|mut new| new.write_all(text.as_bytes()).and_then(|()| new.sync_all()))
        .and_then(|()| fs::rename(&beside, file));
    if written.is_err() {
        let _ = fs::remove_file(&beside);
    }
    written.map_err(BenchError::io(file))
}

/// Returns what makes a row unique.
fn key(row: &Value) -> Option<(&str, &str)> {
    Some((row.get("name")?.as_str()?, row.get("scenario")?.as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, scenario: &str, rate: f64) -> Row {
        Row { name: name.into(), scenario: scenario.into(), ops_per_sec: rate, ..Row::default() }
    }

    #[test]
    fn rows_of_the_same_name_and_scenario_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("results.json");
        merge(&file, &[row("a", "s", 1.0), row("a", "t", 2.0)]).unwrap();
        merge(&file, &[row("b", "s", 3.0), row("a", "s", 4.0)]).unwrap();
        let rates: Vec<f64> = rows(&file).unwrap().iter().map(|row| row.ops_per_sec).collect();
        assert_eq!(rates, [4.0, 2.0, 3.0]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn rows_of_other_suites_stay_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("results.json");
        let other = r#"{"name":"other","scenario":"commits-20B","total_ops":1,"ops_per_sec":2.5,"extra":[1]}"#;
        fs::write(&file, format!("[{other}]")).unwrap();
        merge(&file, &[row("a", "s", 1.0)]).unwrap();
        assert_eq!(read(&file).unwrap()[0].to_string(), other);
        assert_eq!(rows(&file).unwrap()[0].ops_per_sec, 2.5);
    }

    #[test]
    fn missing_and_empty_files_have_no_rows_and_broken_ones_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("results.json");
        assert!(read(&file).unwrap().is_empty());
        fs::write(&file, " \n").unwrap();
        assert!(read(&file).unwrap().is_empty());
        // Where the file cannot be made, that should not come out after everything was measured.
        let nowhere = read(&dir.path().join("nowhere/results.json")).unwrap_err();
        assert!(matches!(nowhere, BenchError::Io { .. }), "{nowhere}");
        for broken in ["[{", "{}", "[1]", r#"[{"name":"a"}]"#] {
            fs::write(&file, broken).unwrap();
            let error = merge(&file, &[row("a", "s", 1.0)]).unwrap_err();
            assert!(matches!(error, BenchError::Results { .. }), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), broken);
        }
    }
}
