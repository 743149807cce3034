//! How numbers, sizes, dates and names are written.

use std::ffi::OsStr;

use bristlecone::{Signature, escape};

/// Shows a name of the system: as it is, where it can be printed, so that the shell takes it back.
pub(crate) fn show(name: impl AsRef<OsStr>) -> String {
    bristlecone_any::shown(name.as_ref())
}

/// Shows a number of bytes: `4.2 MB`.
pub(crate) fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value < 9.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// Shows a number with its noun: `1 file`, `2 files`.
pub(crate) fn count(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns the bytes that hexadecimal digits stand for, two for each.
pub(crate) fn from_hex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| hex_byte(*high, *low)).collect()
}

/// Returns the byte that two hexadecimal digits stand for.
pub(crate) fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(high)? << 4 | digit(low)?) as u8)
}

/// Returns a number of seconds as people say it, rounded down.
pub(crate) fn span(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..172_800 if (seconds / 60).is_multiple_of(60) => format!("{} h", seconds / 3600),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// Returns a number of seconds to the second, as a limit is told that somebody set: `1 min 30 s`.
pub(crate) fn exact_span(seconds: u64) -> String {
    let units = [(seconds / 86_400, "d"), (seconds / 3600 % 24, "h"), (seconds / 60 % 60, "min"), (seconds % 60, "s")];
    let parts: Vec<String> =
        units.into_iter().filter(|(many, _)| *many > 0).map(|(many, unit)| format!("{many} {unit}")).collect();
    if parts.is_empty() { "0 s".to_owned() } else { parts.join(" ") }
}

/// Shows when something was signed, in its zone: `2026-03-01 12:00:00 +0100`.
pub(crate) fn date(who: &Signature) -> String {
    let local = i128::from(who.seconds) + i128::from(who.zone.minutes()) * 60;
    let (days, seconds) = (local.div_euclid(86_400), local.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let zone = escape(who.zone.as_bytes());
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02} {zone}")
}

/// Returns year, month and day of a day counted from 1970-01-01.
///
/// Source: H. Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.
fn civil(days: i128) -> (i128, i128, i128) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i128::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bristlecone::Zone;

    #[test]
    fn dates_are_shown_in_their_zone() {
        let mut who = Signature::new("a", 951_782_400);
        assert_eq!(date(&who), "2000-02-29 00:00:00 +0000");
        who.zone = Zone::from_bytes(b"-0130");
        assert_eq!(date(&who), "2000-02-28 22:30:00 -0130");
        assert_eq!(date(&Signature::new("", -1)), "1969-12-31 23:59:59 +0000");
        assert!(date(&Signature::new("", i64::MIN)).starts_with('-'));
    }

    #[test]
    fn a_limit_is_told_to_the_second() {
        let spans = [0, 59, 90, 3600, 5400, 86_400, 176_401].map(exact_span);
        assert_eq!(spans, ["0 s", "59 s", "1 min 30 s", "1 h", "1 h 30 min", "1 d", "2 d 1 h 1 s"]);
    }

    #[test]
    fn sizes_have_two_digits_or_three() {
        assert_eq!([bytes(0), bytes(999), bytes(1_000), bytes(12_345_678)], ["0 B", "999 B", "1.0 kB", "12 MB"]);
    }
}
