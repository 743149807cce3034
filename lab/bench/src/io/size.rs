//! Sizes and rates as fio writes them: `5k`, `20M`, `3.7G`, `48.3MiB/s`.

/// Reads a size in bytes: a number, which may have decimals, and `k`, `M`, `G`, `T` or `P`, which stand for
/// powers of 1024 as they do in fio, with or without `iB` or `B`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no size: write 300, 5k, 20M or 3.7G (k, M, G, T, P are powers of 1024)");
    let lower = text.trim().to_ascii_lowercase();
    let number = lower.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let power = match &lower[number.len()..] {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        "p" | "pb" | "pib" => 5,
        _ => return Err(wrong()),
    };
    let unit = 1_u64 << (10 * power);
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 || number.ends_with('.') {
        return Err(wrong());
    }
    let bytes = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit)).ok_or_else(wrong)?;
    // At most nine decimals of at most a PiB: the product has room in 128 bits.
    let part_bytes = match part {
        "" => 0,
        part => part
            .parse::<u64>()
            .map_or(0, |digits| u128::from(digits) * u128::from(unit) / 10_u128.pow(part.len() as u32)),
    };
    bytes.checked_add(part_bytes as u64).ok_or_else(wrong)
}

/// The smallest and the largest read of a job, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

/// A read is no longer than this: 256 MiB, far beyond any object.
pub(crate) const READ_BYTES_MAX: u64 = 1 << 28;

/// Reads one size, or two with `-` between them.
pub(crate) fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let (min, max) = text.split_once('-').unwrap_or((text, text));
    let sizes = Sizes { min: parse_size(min)?, max: parse_size(max)? };
    if sizes.min == 0 || sizes.min > sizes.max || sizes.max > READ_BYTES_MAX {
        return Err(format!("{text:?}: sizes go from at least 1 to at most 256M, the smaller first"));
    }
    Ok(sizes)
}

/// Writes a number in at most `width` characters and a prefix, as fio does: 1023k, 48.3M, 3191.8k.
/// With `binary` prefixes are powers of 1024: 48.3Mi.
pub(crate) fn short(mut number: u64, width: usize, binary: bool) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let thousand = if binary { 1024 } else { 1000 };
    let length = |number: u64| number.checked_ilog10().map_or(1, |log| log as usize + 1);
    let (mut power, mut rest) = (0, 0);
    while length(number) > width && power + 1 < PREFIXES.len() {
        rest = number % thousand;
        number /= thousand;
        power += 1;
    }
    let prefix = match (binary, power) {
        (_, 0) => String::new(),
        (true, 1) => "Ki".into(),
        (true, _) => format!("{}i", PREFIXES[power]),
        (false, _) => PREFIXES[power].into(),
    };
    // One character is the point's.
    let decimals = width.saturating_sub(length(number) + 1);
    let value = number as f64 + rest as f64 / thousand as f64;
    if power == 0 || decimals == 0 {
        format!("{}{prefix}", number + u64::from(rest >= thousand / 2 && power > 0))
    } else {
        format!("{value:.decimals$}{prefix}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("300", 300),
            ("5k", 5120),
            ("20M", 20 << 20),
            ("20MiB", 20 << 20),
            ("1g", 1 << 30),
            ("3.7G", 3_972_844_748),
            ("0.5k", 512),
            ("2T", 2 << 40),
            ("1p", 1 << 50),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "k", ".5k", "5.", "-1", "1x", "1.2.3", "99999999999999999999", "99999999P", "1 k", "1e3", "0x10"]
        {
            assert!(parse_size(text).unwrap_err().contains("is no size"), "{text}");
        }
    }

    #[test]
    fn ranges_are_two_sizes() {
        assert_eq!(parse_sizes("50-300"), Ok(Sizes { min: 50, max: 300 }));
        assert_eq!(parse_sizes("4k"), Ok(Sizes { min: 4096, max: 4096 }));
        for text in ["0-5", "300-50", "1-1G", "-", "5-", "a-b"] {
            assert!(parse_sizes(text).is_err(), "{text}");
        }
    }

    /// Each pair is a number and what fio 3.33 printed of it.
    #[test]
    fn numbers_are_short_as_fio_writes_them() {
        assert_eq!(short(373_000, 4, false), "373k");
        assert_eq!(short(1_023_146, 4, false), "1023k");
        assert_eq!(short(88, 4, false), "88");
        assert_eq!(short(3_191_800, 6, false), "3191.8k");
        assert_eq!(short(53_159_000, 6, false), "53159k");
        assert_eq!(short(220_107, 6, false), "220107");
        assert_eq!(short(50_646_454, 4, true), "48.3Mi");
        assert_eq!(short(50_646_454, 4, false), "50.6M");
        assert_eq!(short(419_430_000, 4, true), "400Mi");
        assert_eq!(short(471_000, 4, true), "460Ki");
        assert_eq!(short(0, 4, true), "0");
    }
}
