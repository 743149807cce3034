//! Figures that others published, shown apart: they come from other machines, so no ratio to a row of ours is
//! made.

use std::{fs, io, path::Path};

use super::table::{Table, rate};
use crate::{BenchError, error::Result};

/// A published figure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Figure {
    /// Where and when it was measured.
    place: String,
    /// Of what.
    system: String,
    /// Doing what.
    scenario: String,
    /// Operations per second.
    rate: f64,
}

/// The columns that a file must have; others may follow.
const COLUMNS: [&str; 4] = ["where", "system", "scenario", "ops_per_s"];

/// Reads a file of figures; one that is absent has none.
///
/// # Errors
/// [`BenchError::Results`] with the line, if it holds anything else; [`BenchError::Io`].
pub(crate) fn read(file: &Path) -> Result<Vec<Figure>> {
    match fs::read_to_string(file) {
        Ok(text) => parse(&text).map_err(|reason| BenchError::Results { file: file.display().to_string(), reason }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(BenchError::io(file)(error)),
    }
}

/// Returns a table for each place, in the order of the file: what there is less of gives the columns.
pub(crate) fn tables(figures: &[Figure]) -> Vec<Table> {
    unique(figures, |figure| &figure.place).into_iter().map(|place| table(place, figures)).collect()
}

fn table(place: &str, figures: &[Figure]) -> Table {
    let here: Vec<Figure> = figures.iter().filter(|figure| figure.place == place).cloned().collect();
    let systems = unique(&here, |figure| &figure.system);
    let scenarios = unique(&here, |figure| &figure.scenario);
    let cell = |system: &str, scenario: &str| {
        let found = here.iter().filter(|figure| figure.system == system && figure.scenario == scenario);
        let rates: Vec<String> = found.map(|figure| rate(figure.rate)).collect();
        if rates.is_empty() { "–".to_owned() } else { rates.join(" / ") }
    };
    let by_system = systems.len() >= scenarios.len();
    let (lines, heads) = if by_system { (&systems, &scenarios) } else { (&scenarios, &systems) };
    let first = if by_system { "system (ops/s)" } else { "scenario (ops/s)" };
    let all: Vec<&str> = std::iter::once(first).chain(heads.iter().copied()).collect();
    let mut table = Table::new(&format!("Published: {place}"), &all);
    table.folded = true;
    table.lines = lines
        .iter()
        .map(|line| {
            let cells = heads.iter().map(|head| if by_system { cell(line, head) } else { cell(head, line) });
            std::iter::once((*line).to_owned()).chain(cells).collect()
        })
        .collect();
    table
}

fn unique(figures: &[Figure], key: impl Fn(&Figure) -> &str) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for figure in figures {
        if !all.contains(&key(figure)) {
            all.push(key(figure));
        }
    }
    all
}

/// Reads lines of values separated by commas, quoted where they contain some, below a line of names. Lines that
/// begin with `#` say something to people.
fn parse(text: &str) -> std::result::Result<Vec<Figure>, String> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.trim().is_empty());
    let Some((_, names)) = lines.next() else { return Ok(Vec::new()) };
    if !names.starts_with(&COLUMNS.join(",")) {
        return Err(format!("the columns should begin with {}", COLUMNS.join(",")));
    }
    let figure = |(index, line): (usize, &str)| {
        let broken = |what: &str| format!("line {}: {what}", index + 1);
        let values = values(line).ok_or_else(|| broken("a quote has no end"))?;
        let [place, system, scenario, rate, ..] = &values[..] else {
            return Err(broken("there should be at least 4 values"));
        };
        let rate: f64 = rate.parse().map_err(|_| broken(&format!("{rate:?} is no number")))?;
        if !rate.is_finite() || rate < 0.0 {
            return Err(broken(&format!("{rate} is no rate")));
        }
        Ok(Figure { place: place.clone(), system: system.clone(), scenario: scenario.clone(), rate })
    };
    lines.map(figure).collect()
}

/// Splits a line at its commas; `None` if a quote has no end.
fn values(line: &str) -> Option<Vec<String>> {
    let mut values = vec![String::new()];
    let mut chars = line.chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                values.last_mut()?.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => values.push(String::new()),
            c => values.last_mut()?.push(c),
        }
    }
    (!quoted).then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# from somewhere\nwhere,system,scenario,ops_per_s,seconds\n\
        \"2026, 12 cores\",one,\"set 1,000\",2500000,1\n\"2026, 12 cores\",two,\"set 1,000\",12,\n\
        there,one,\"say \"\"a\"\"\",7,\nthere,one,b,8,\n";

    #[test]
    fn every_place_has_a_table() {
        let tables = tables(&parse(FILE).unwrap());
        assert_eq!(tables[0].title, "Published: 2026, 12 cores");
        assert_eq!(tables[0].heads, ["system (ops/s)", "set 1,000"]);
        assert_eq!(tables[0].lines, [["one", "2.50 M"], ["two", "12"]]);
        assert_eq!(tables[1].heads, ["scenario (ops/s)", "one"]);
        assert_eq!(tables[1].lines, [["say \"a\"", "7"], ["b", "8"]]);
    }

    #[test]
    fn what_is_no_figure_is_refused_with_its_line() {
        let reason = |line: &str| parse(&format!("where,system,scenario,ops_per_s\n{line}")).unwrap_err();
        assert!(reason("a,b,c,many").contains("line 2: \"many\" is no number"));
        assert!(reason("a,b,c,NaN").contains("is no rate"));
        assert!(reason("a,b,c").contains("at least 4"));
        assert!(reason("a,\"b,c,1").contains("no end"));
        assert!(parse("name,rate\n").unwrap_err().contains("columns"));
        assert!(parse("").unwrap().is_empty());
    }
}
