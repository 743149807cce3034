//! Names and dates, as `git subtree split` copies them.
//!
//! It shows name, address and date of a commit, reads them with a shell, and makes a commit of what it has read. So names
//! lose what Git strips and the backslashes that a shell interprets, zones are written in Git's spelling, and a date with
//! an invalid zone becomes the time that it shows, in UTC. What Git cannot show or read again is copied as it is: without
//! a date it would take the present one, and two splits would never be the same.

use bristlecone_core::{Signature, Zone};

/// From the year 2100 on Git reads no date that it shows.
const SECONDS_MAX: i64 = 4_102_444_800;
/// The last second of the last year that the system has a number for. What is later is shown as 1970.
const SHOWN_MAX: i64 = 67_768_036_191_676_799;

/// Returns a signature as the line of a commit has it.
pub(super) fn line(who: &Signature) -> Vec<u8> {
    let mut line = who.ident.clone();
    if !who.zone.as_bytes().is_empty() || who.seconds != 0 {
        if !line.iter().any(|byte| b"<>".contains(byte)) {
            line.extend_from_slice(b" <>");
        }
        line.extend_from_slice(format!(" {} ", who.seconds).as_bytes());
        line.extend_from_slice(who.zone.as_bytes());
    }
    line
}

/// Returns what Git makes of a line; `None` if it fails, or takes the present date.
pub(super) fn rewritten(line: &[u8]) -> Option<Signature> {
    let ident = ident(line)?;
    let dated = &line[line.iter().rposition(|&byte| byte == b'>')? + 1..];
    let (seconds, zone) = date(dated)?;
    Some(Signature { ident, seconds, zone })
}

/// Reads name and address: up to the first angle bracket, and between it and the next one.
fn ident(line: &[u8]) -> Option<Vec<u8>> {
    if line.contains(&0) {
        return None;
    }
    let open = line.iter().position(|&byte| byte == b'<')?;
    let (name, mail) = (&line[..open], &line[open + 1..]);
    let mail = &mail[..mail.iter().position(|&byte| byte == b'>')?];
    let (name, mail) = (unescaped(name.trim_ascii())?, unescaped(mail)?);
    let (name, mail) = (strip(&name), strip(&mail));
    match (name, mail) {
        (b"", _) => None,
        // As a commit has it that was read.
        (name, b"") if !name.iter().any(|byte| b"<>".contains(byte)) => Some(name.to_vec()),
        (name, mail) => Some([name, b" <", mail, b">"].concat()),
    }
}

/// Returns text as a shell reads it. One that ends with a backslash goes on in the next line, and Git fails.
fn unescaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        out.push(if byte == b'\\' { *bytes.next()? } else { byte });
    }
    Some(out)
}

/// Returns text without what Git strips from both ends, and without angle brackets, which it drops.
fn strip(text: &[u8]) -> &[u8] {
    let crud = |byte: &u8| *byte <= b' ' || b".,:;<>\"\\'".contains(byte);
    let Some(start) = text.iter().position(|byte| !crud(byte)) else { return b"" };
    let end = text.iter().rposition(|byte| !crud(byte)).map_or(text.len(), |last| last + 1);
    &text[start..end]
}

/// Reads seconds and a zone, and returns what Git reads when it is shown them.
fn date(text: &[u8]) -> Option<(i64, Zone)> {
    let (seconds, rest) = digits(text.trim_ascii_start())?;
    let (minus, rest) = match rest.trim_ascii_start() {
        [b'+', rest @ ..] => (false, rest),
        [b'-', rest @ ..] => (true, rest),
        _ => return None,
    };
    let (zone, _) = digits(rest)?;
    // The largest numbers of 32 bits, and larger ones, are no zone.
    let zone = i64::try_from(zone).unwrap_or(i64::MAX) * if minus { -1 } else { 1 };
    let zone = i32::try_from(zone).ok().filter(|&zone| zone != i32::MAX && zone != i32::MIN).unwrap_or(0);
    let Ok(seconds) = i64::try_from(seconds) else { return Some((0, Zone::default())) };
    // Git calculates so, in 32 bits.
    let minutes = zone / 100 * 60 + zone % 100;
    let shown = seconds.checked_add(i64::from(minutes.wrapping_mul(60)))?;
    if shown > SHOWN_MAX {
        return Some((0, Zone::default()));
    }
    if !(0..SECONDS_MAX).contains(&shown) {
        return None;
    }
    // An offset of a minute to the west stands for none that is known.
    let known = zone.abs() / 100 < 24 && zone.abs() % 100 < 60 && minutes != -1;
    Some(if known { (seconds, Zone::from_bytes(format!("{zone:+05}").as_bytes())) } else { (shown, Zone::default()) })
}

/// Reads a number, or the largest one where it is larger, and returns what follows it.
fn digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(count);
    let add = |sum: u64, digit: &u8| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    (count > 0).then(|| (number.iter().fold(0, add), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn becomes(from: &str, to: &str) {
        let found = rewritten(from.as_bytes()).map(|who| String::from_utf8(line(&who)).unwrap());
        assert_eq!(found.as_deref(), Some(to), "{from}");
    }

    #[test]
    fn names_lose_what_git_and_the_shell_take() {
        for (from, to) in [
            (" .A  B; < c@d.> 1 +0000", "A  B <c@d> 1 +0000"),
            ("A <> 1 +0000", "A <> 1 +0000"),
            ("A\\nB \\\\ C <a\\@b> 1 +0000", "AnB \\ C <a@b> 1 +0000"),
            ("A <a@b> <c@d> 1 +0000", "A <a@b> 1 +0000"),
        ] {
            becomes(from, to);
        }
        for from in
            ["A 1 +0000", "<a@b> 1 +0000", "., <a@b> 1 +0000", "A\\ <a@b> 1 +0000", "A <a@b 1 +0000", "A\0 <a> 1 +0000"]
        {
            assert_eq!(rewritten(from.as_bytes()), None, "{from}");
        }
    }

    #[test]
    fn dates_are_those_that_git_reads_when_it_shows_them() {
        for (from, to) in [
            ("1700000000 -0000", "1700000000 +0000"),
            ("1700000000 +1", "1700000000 +0001"),
            ("  01700000000\t-530 x", "1700000000 -0530"),
            ("1700000000 +051800", "1701864800 +0000"),
            ("1700000000 +2400", "1700086400 +0000"),
            ("1700000000 -0060", "1699996400 +0000"),
            ("4102444800 -0001", "4102444740 +0000"),
            ("1700000000 -2147483647", "1699998908 +0000"),
            ("1700000000 +99999999999", "1700000000 +0000"),
            ("99999999999999999999 +0100", "0 +0000"),
            ("67768036191676799 +0100", "0 +0000"),
        ] {
            becomes(&format!("A <a@b> {from}"), &format!("A <a@b> {to}"));
        }
        for from in [
            "",
            "1",
            "-1 +0000",
            "1 UTC",
            "1 +-100",
            "1.5 +0000",
            "1800 -0100",
            "4102444800 +0000",
            "9223372036854775807 +0100",
        ] {
            assert_eq!(rewritten(format!("A <a@b> {from}").as_bytes()), None, "{from}");
        }
    }
}
