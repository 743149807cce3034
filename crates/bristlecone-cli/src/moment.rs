//! Moments as `--since` and `--until` take them.

use jiff::{Span, Timestamp, Zoned, civil};

use crate::failure::{Failure, Result};

/// Dates with a zone, as Git writes them.
const ZONED: [&str; 3] = ["%Y-%m-%d %H:%M:%S %z", "%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%d %H:%M %z"];
/// The fewest digits of seconds since 1970 where no `@` says what they are.
const DIGITS_MIN: usize = 9;

/// Returns the seconds since 1970 that a text means: `@SECONDS`, a day, a time of a day, or a while ago.
pub(crate) fn moment(text: &str) -> Result<i64> {
    before(text, &Zoned::now()).ok_or_else(|| {
        Failure::usage(format!(
            "\"{text}\" is no date; write 2026-03-01, \"2026-03-01 12:00\", \"2026-03-01 12:00:00 +0100\", \"2 weeks ago\", \
             yesterday, or @ and seconds since 1970"
        ))
    })
}

fn before(text: &str, now: &Zoned) -> Option<i64> {
    let text = text.trim();
    let seconds = text.strip_prefix('@');
    if seconds.is_some() || text.len() >= DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return seconds.unwrap_or(text).parse().ok();
    }
    match text {
        "now" => return Some(now.timestamp().as_second()),
        "today" => return Some(now.start_of_day().ok()?.timestamp().as_second()),
        "yesterday" => return ago(1, "day", now),
        _ => {}
    }
    let words: Vec<&str> = text.split([' ', '.', '_']).filter(|word| !word.is_empty()).collect();
    if let [number, unit, "ago"] = words[..] {
        return ago(number.parse().ok()?, unit.strip_suffix('s').unwrap_or(unit), now);
    }
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment.as_second());
    }
    if let Some(moment) = ZONED.iter().find_map(|form| jiff::fmt::strtime::parse(form, text).ok()?.to_timestamp().ok())
    {
        return Some(moment.as_second());
    }
    // Without a zone it is that of the person who asks.
    let local: civil::DateTime = text.parse().ok()?;
    Some(local.to_zoned(now.time_zone().clone()).ok()?.timestamp().as_second())
}

fn ago(number: i64, unit: &str, now: &Zoned) -> Option<i64> {
    let span = Span::new();
    let span = match unit {
        "second" => span.try_seconds(number),
        "minute" => span.try_minutes(number),
        "hour" => span.try_hours(number),
        // Days of 24 hours, as Git has them.
        "day" => span.try_hours(number.checked_mul(24)?),
        "week" => span.try_hours(number.checked_mul(24 * 7)?),
        "month" => span.try_months(number),
        "year" => span.try_years(number),
        _ => return None,
    };
    Some(now.checked_sub(span.ok()?).ok()?.timestamp().as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_seconds_days_times_and_a_while_ago() {
        let now: Zoned = "2026-03-31T12:00:00+01:00[+01:00]".parse().unwrap();
        let at = |text: &str| before(text, &now).map(|seconds| Timestamp::from_second(seconds).unwrap().to_string());
        for (text, wanted) in [
            ("@1700000000", "2023-11-14T22:13:20Z"),
            ("1700000000", "2023-11-14T22:13:20Z"),
            ("@0", "1970-01-01T00:00:00Z"),
            ("2026-03-01", "2026-02-28T23:00:00Z"),
            ("2026-03-01 12:30", "2026-03-01T11:30:00Z"),
            ("2026-03-01T12:30:15", "2026-03-01T11:30:15Z"),
            ("2026-03-01T12:30:15Z", "2026-03-01T12:30:15Z"),
            ("2026-03-01 12:30:15 -0530", "2026-03-01T18:00:15Z"),
            ("now", "2026-03-31T11:00:00Z"),
            ("today", "2026-03-30T23:00:00Z"),
            ("yesterday", "2026-03-30T11:00:00Z"),
            ("2 weeks ago", "2026-03-17T11:00:00Z"),
            ("1.month.ago", "2026-02-28T11:00:00Z"),
            ("3 years ago", "2023-03-31T11:00:00Z"),
            ("90 seconds ago", "2026-03-31T10:58:30Z"),
        ] {
            assert_eq!(at(text).as_deref(), Some(wanted), "{text}");
        }
        for text in ["", "soon", "12", "2026-13-01", "2 moons ago", "99999999999999 years ago", "@x", "-1 ago"] {
            assert_eq!(at(text), None, "{text}");
        }
    }
}
