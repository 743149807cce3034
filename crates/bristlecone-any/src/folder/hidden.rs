//! Hidden names, for files that are not whole yet.

use std::process;

/// Returns the name under which a file is written before it gets its own. What has it already, left by a process that was killed, stays as
/// it is: another `number` makes another name.
pub fn hidden_name(number: u64) -> String {
    format!(".cone-{}-{number}.part", process::id())
}

/// Whether a name is a hidden one, of this process or another.
pub(super) fn is_hidden_name(name: &[u8]) -> bool {
    let numbers = name.strip_prefix(b".cone-").and_then(|rest| rest.strip_suffix(b".part")).unwrap_or_default();
    let is_number = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let dash = numbers.iter().position(|&byte| byte == b'-');
    dash.is_some_and(|at| is_number(&numbers[..at]) && is_number(&numbers[at + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_are_hidden_ones() {
        assert!(is_hidden_name(hidden_name(0).as_bytes()) && is_hidden_name(hidden_name(u64::MAX).as_bytes()));
        for name in [
            "",
            ".cone-",
            ".cone-.part",
            ".cone--.part",
            ".cone-1-.part",
            ".cone--1.part",
            ".cone-1.part",
            ".cone-1-2-3.part",
            ".cone-1-b.part",
            ".cone-1-2.parts",
            "x.cone-1-2.part",
            "cone-1-2.part",
        ] {
            assert!(!is_hidden_name(name.as_bytes()), "{name}");
        }
    }
}
