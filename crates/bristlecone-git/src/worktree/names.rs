//! Names that Git does not write into a working tree, since some system would take them for its own folder.

/// Characters that file systems of Apple pass over: as these bytes of UTF-8.
const IGNORED: [(&[u8], std::ops::RangeInclusive<u8>); 4] = [
    (&[0xe2, 0x80], 0x8c..=0x8f),
    (&[0xe2, 0x80], 0xaa..=0xae),
    (&[0xe2, 0x81], 0xaa..=0xaf),
    (&[0xef, 0xbb], 0xbf..=0xbf),
];

/// Returns why Git would not have a file at `path`, whose steps are separated by slashes; `None` if it would.
///
/// What is refused is what Git refuses on any system that it runs on, also where this one would not mind.
#[must_use]
pub fn refused_name(path: &[u8]) -> Option<&'static str> {
    path.split(|&byte| byte == b'/').find_map(|step| match step {
        b"" => Some("a step of its path is empty"),
        b"." | b".." => Some("a step of its path means another folder"),
        _ if step.contains(&0) => Some("its path holds a NUL byte"),
        _ if is_dot_git(step) => Some("a step of its path can be taken for the folder .git"),
        _ => None,
    })
}

/// Whether some system takes a name for `.git`.
fn is_dot_git(step: &[u8]) -> bool {
    // Windows parts paths at backslashes, too, ends names at a colon, and passes over dots and spaces at their end.
    let windows = step.split(|&byte| byte == b'\\').any(|part| {
        let name = part.split(|&byte| byte == b':').next().unwrap_or_default();
        let length = name.iter().rposition(|byte| !matches!(byte, b'.' | b' ')).map_or(0, |last| last + 1);
        is(&name[..length], b".git") || is(&name[..length], b"git~1")
    });
    windows || is(&without_ignored(step), b".git")
}

fn is(name: &[u8], wanted: &[u8]) -> bool {
    name.eq_ignore_ascii_case(wanted)
}

fn without_ignored(step: &[u8]) -> Vec<u8> {
    let mut kept = Vec::with_capacity(step.len());
    let mut rest = step;
    while let Some((&first, behind)) = rest.split_first() {
        let ignored = IGNORED.iter().any(|(head, last)| {
            rest.strip_prefix(*head).and_then(<[u8]>::first).is_some_and(|byte| last.contains(byte))
        });
        rest = if ignored {
            &rest[3..]
        } else {
            kept.push(first);
            behind
        };
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_gits_own_folder_are_refused_in_all_their_spellings() {
        let refused: [&[u8]; 14] = [
            b".git",
            b"a/.GIT/b",
            b".git.",
            b".git ",
            b".git. .",
            b"git~1",
            b"GIT~1",
            b".git::$INDEX_ALLOCATION",
            b"a\\.git\\b",
            b".g\xe2\x80\x8cit",
            b"\xef\xbb\xbf.git",
            b"..",
            b"a//b",
            b"a\0b",
        ];
        for path in refused {
            assert!(refused_name(path).is_some(), "{}", bristlecone::escape(path));
        }
        let fine: [&[u8]; 7] =
            [b".gitignore", b"git", b"a.git", b".git2/x", b"...", b"a b/\xff\n", b".g\xe2\x80\x90it"];
        for path in fine {
            assert_eq!(refused_name(path), None, "{}", bristlecone::escape(path));
        }
    }
}
