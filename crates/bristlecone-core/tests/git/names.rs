//! Names that `git fsck --strict` takes or refuses, as Git 2.39 said of each.

use bristlecone_core::{EntryKind, Format, FormatError, Path, escape, git::Git};

use super::objects::{Held, Objects};

#[test]
fn names_are_refused_as_git_refuses_them() {
    let git = Git::sha1();
    let mut objects = Objects::default();
    let value = objects.with(&git, |_, put| git.put_contents(put, b"x")).unwrap();
    let mut set = |kind, name: &[u8]| objects.update(&git, None, &[Held::new(kind, value).change(name)]).map(|_| ());
    let unsupported = |set: Result<(), FormatError>| matches!(set, Err(FormatError::Unsupported { .. }));
    let names = |text: &str| -> Vec<Vec<u8>> {
        text.lines().map(|line| line.parse::<Path>().unwrap().as_bytes().to_vec()).collect()
    };
    let refused = names(include_str!("names-refused.txt"));
    assert_eq!(refused.len(), 37);
    for name in refused.iter().map(|name| &name[..]).chain([&b"."[..], b"..", b"", b"a/b", b"a\0b"]) {
        assert!(unsupported(set(EntryKind::Value, name)), "{}", escape(name));
        assert!(unsupported(set(EntryKind::Dir, name)), "{}", escape(name));
    }
    let taken = names(include_str!("names-taken.txt"));
    assert_eq!(taken.len(), 31);
    for name in taken {
        assert_eq!(set(EntryKind::Value, &name), Ok(()), "{}", escape(&name));
    }
    for name in [&b".gitmodules"[..], b".GITMODULES", b".gitmodules ", b".gitmod\xe2\x80\x8cules"] {
        assert!(unsupported(set(EntryKind::Link, name)));
        assert_eq!(set(EntryKind::Value, name), Ok(()));
    }
}
