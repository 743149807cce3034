//! Where and when a run takes place: processor, kernel, date, revision, the file system of its folder.

use std::{
    fs,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::measure::cores;

/// What every row of a run says of where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: u64,
    pub(crate) kernel: String,
    pub(crate) date: String,
    pub(crate) revision: String,
    /// The file system that stores are made on.
    pub(crate) filesystem: String,
}

impl Machine {
    pub(crate) fn here(dir: &Path) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            cpu: cpu().unwrap_or_else(unknown),
            cores: cores() as u64,
            kernel: kernel().unwrap_or_else(unknown),
            date: today(),
            revision: revision().to_owned(),
            filesystem: filesystem(dir).unwrap_or_else(unknown),
        }
    }
}

fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn kernel() -> Option<String> {
    Some(fs::read_to_string("/proc/sys/kernel/osrelease").ok()?.trim().to_owned())
}

/// Returns the revision of the sources that this program was built from, with a mark if they were changed, or if the build
/// does not say. The builder can name it in the variable `BRISTLECONE_REVISION`.
pub(crate) const fn revision() -> &'static str {
    match (option_env!("BRISTLECONE_REVISION"), option_env!("BRISTLECONE_BUILT_FROM")) {
        (Some(revision), _) | (None, Some(revision)) => revision,
        (None, None) => "unknown+",
    }
}

/// Whether a revision is a commit, so that what was measured can be built again.
pub(crate) fn is_committed(revision: &str) -> bool {
    !revision.is_empty() && !revision.ends_with('+')
}

fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil((seconds / 86_400) as i64);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns year, month and day of a number of days since 1970-01-01.
///
/// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", `civil_from_days`.
const fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

/// Returns the type of the file system that a folder is on.
pub(crate) fn filesystem(dir: &Path) -> Option<String> {
    let dir = dir.canonicalize().ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(point), Some(kind)) = (words.next(), words.next()) else { continue };
        // Later mounts hide earlier ones at the same place.
        if dir.starts_with(point) && best.is_none_or(|(length, _)| point.len() >= length) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

/// Whether a file system is memory, so that its syncs mean nothing.
pub(crate) fn is_memory(filesystem: &str) -> bool {
    matches!(filesystem, "tmpfs" | "ramfs" | "rootfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_sources_are_no_commit() {
        assert!(is_committed("f69055f767"));
        assert!(!is_committed("f69055f767+") && !is_committed("unknown+") && !is_committed(""));
        assert!(!revision().is_empty());
    }

    #[test]
    fn days_are_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_778), (2026, 11, 21));
    }
}
