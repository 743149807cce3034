//! Moments at which something is signed.

use bristlecone::Zone;

/// When something was signed: seconds since 1970, and the zone of the clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970-01-01 00:00:00 UTC; before that they are negative.
    pub seconds: i64,
    /// The zone.
    pub zone: Zone,
}

impl Moment {
    /// Parses `SECONDS[ +hhmm]`, with `@` before it if you like, as Git writes dates; `None` for another text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.strip_prefix('@').unwrap_or(text).split_whitespace();
        let seconds = words.next()?.parse().ok()?;
        let zone = match words.next() {
            Some(zone) => {
                let digits = zone.strip_prefix(['+', '-'])?;
                let (hours, minutes) = digits.split_at_checked(2).filter(|_| digits.len() == 4)?;
                let below = |digits: &str, end: u8| {
                    digits.bytes().all(|digit| digit.is_ascii_digit())
                        && digits.parse().is_ok_and(|number: u8| number < end)
                };
                // No clock is so far from others.
                if !below(hours, 24) || !below(minutes, 60) {
                    return None;
                }
                Zone::from_bytes(zone.as_bytes())
            }
            None => Zone::default(),
        };
        words.next().is_none().then_some(Self { seconds, zone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_and_a_zone() {
        let date = |seconds, zone| Some(Moment { seconds, zone });
        assert_eq!(Moment::parse("12"), date(12, Zone::default()));
        assert_eq!(Moment::parse("@-12 -0530"), date(-12, Zone::from_bytes(b"-0530")));
        for text in
            ["", "x", "1 0100", "1 +1", "1 +010a", "1 +0100 2", "1 +9999", "1 +2400", "1 -0060", "1 +++12", "1 +é00"]
        {
            assert_eq!(Moment::parse(text), None, "{text}");
        }
    }
}
