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
    let modules =
        [".gitmodules", ".GITMODULES", ".gitmodules ", ".gitmod\u{200c}ules", "GITMOD~1", "gitmod~4. .", "GI7EBA~1"];
    let modules = modules.into_iter().chain(["gi7eb~12", "g~123456", "~1000000", "gi7eba~9:x"]);
    for name in modules.map(str::as_bytes) {
        assert_eq!(set(EntryKind::Value, name), Ok(()), "{}", escape(name));
        assert!(unsupported(set(EntryKind::Link, name)), "{}", escape(name));
        assert!(unsupported(set(EntryKind::Dir, name)), "{}", escape(name));
    }
    for name in [".gitattributes", ".GITattributes. ", "gitatt~1", "GI7D29~1", "gi7d~345"].map(str::as_bytes) {
        assert_eq!(set(EntryKind::Value, name), Ok(()), "{}", escape(name));
        assert_eq!(set(EntryKind::Link, name), Ok(()), "{}", escape(name));
        assert!(unsupported(set(EntryKind::Dir, name)), "{}", escape(name));
    }
    for name in ["gitmod~5", "gitmod~10", "gi7eba~0", "gi7ebb~1", "gi7eba~1x", ".gitmodule", ".gitignore", "gitmo~1"] {
        assert_eq!(set(EntryKind::Dir, name.as_bytes()), Ok(()), "{name}");
        assert_eq!(set(EntryKind::Link, name.as_bytes()), Ok(()), "{name}");
    }
}
