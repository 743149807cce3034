//! A repository with every shape that matters, made by `git fast-import` and by hand.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::Git;

/// How large a repository is made.
#[derive(Clone, Copy, Debug)]
pub struct Shapes {
    /// With SHA-256 in place of SHA-1.
    pub sha256: bool,
    /// Without a working tree.
    pub bare: bool,
    /// Commits that each change a file a little, so that long chains of deltas arise.
    pub linear: usize,
    /// Entries of the wide folder.
    pub wide: usize,
    /// Levels of the deep one.
    pub deep: usize,
    /// Refs under `refs/many`; half of them end up packed.
    pub refs: usize,
}

impl Default for Shapes {
    fn default() -> Self {
        Self { sha256: false, bare: true, linear: 60, wide: 1000, deep: 60, refs: 300 }
    }
}

/// Names that break programs which sort, quote or assume text.
const ODD_NAMES: [&[u8]; 24] = [
    b"with space",
    b" leading",
    b"trailing ",
    b"new\nline",
    b"tab\there",
    b"quote\"d",
    b"back\\slash",
    b"\xff\xfe not UTF-8",
    "\u{fc}ml\u{e4}ut".as_bytes(),
    b"-dash",
    b".hidden",
    b"...",
    b"a:b",
    b"*?[x]",
    b"\x01\x7f",
    b"%41",
    b"HEAD",
    b"con",
    // Files and folders among which a folder sorts as if a slash followed its name.
    b"sort",
    b"sort-dash",
    b"sort.dot",
    b"sort0zero",
    b"sortdir.x",
    b"sortdir0",
];

/// Makes a repository in `dir` with every shape that matters:
///
/// many small changes to one file and to one of many entries; a merge of twelve parents; two roots; a commit without
/// files, an empty folder within a tree; odd names; a deep and a wide folder; links, executables, a submodule; commits
/// with signatures, further headers, an encoding, odd zones, no message; tags of commits, trees, blobs and tags, signed
/// and without a tagger; a replaced parent; many refs, some packed. The branch is `main`, and `git fsck --strict` is
/// content. Objects are in one pack and loose.
///
/// # Panics
/// If `git` fails.
#[must_use]
pub fn shapes(dir: impl Into<PathBuf>, shapes: &Shapes) -> Git {
    let mut arguments = vec![];
    if shapes.sha256 {
        arguments.push("--object-format=sha256");
    }
    if shapes.bare {
        arguments.push("--bare");
    }
    let git = Git::init(dir, &arguments);
    git.feed(&["fast-import", "--quiet"], &stream(shapes));
    by_hand(&git);
    let head = git.text(&["rev-parse", "refs/heads/main"]);
    let mut refs = String::new();
    for i in 0..shapes.refs {
        writeln!(refs, "create refs/many/{:02}/{i:05} {head}", i % 37).expect("a string");
        if i == shapes.refs / 2 {
            git.feed(&["update-ref", "--stdin"], refs.as_bytes());
            git.run(&["pack-refs", "--all"]);
            refs.clear();
        }
    }
    git.feed(&["update-ref", "--stdin"], refs.as_bytes());
    if !shapes.bare {
        git.run(&["reset", "-q", "--hard"]);
    }
    git
}

/// Packs everything of a repository anew, with the longest chains of deltas that Git makes.
///
/// # Panics
/// If `git` fails.
pub fn long_chain(git: &Git) {
    git.run(&["repack", "-q", "-adf", "--depth=250", "--window=250"]);
}

/// Returns the input of `git fast-import`.
fn stream(shapes: &Shapes) -> Vec<u8> {
    let mut out = ShapeStream::default();
    out.first_commit(shapes);
    for i in 0..shapes.linear {
        let text = (0..200).map(|line| match line {
            line if line == i % 200 => format!("line {line} of version {i}\n"),
            line => format!("line {line} as ever, with some more words so that it is worth a delta\n"),
        });
        out.commit("main", "", &format!("version {i}"));
        out.file("100644", b"versions.txt", text.collect::<String>().as_bytes());
        out.file("100644", format!("wide/{:06}", i * 7 % shapes.wide.max(1)).as_bytes(), i.to_string().as_bytes());
    }
    // Twelve parents, the last of another root.
    let main = out.marks;
    for i in 0..10 {
        out.commit(&format!("side{i}"), &format!("from :{main}\n"), &format!("side {i}"));
        out.file("100644", format!("side/{i}").as_bytes(), b"side");
    }
    out.commit("other-root", "", "another root");
    out.file("100644", b"other", b"root");
    let merges: String = (main + 1..=out.marks).map(|mark| format!("merge :{mark}\n")).collect();
    out.commit("main", &format!("from :{main}\n{merges}"), "twelve parents");
    out.file("100644", b"merged", b"all");
    out.commit("main", "", "");
    out.file("100644", b"without-message", b"");
    out.tag("v1", out.marks, "a tag of a commit");
    out.commit("no-files", "", "a root without files");
    out.bytes
}

#[derive(Default)]
struct ShapeStream {
    bytes: Vec<u8>,
    seconds: u64,
    /// How many commits there are: each has its number as its mark.
    marks: usize,
}

impl ShapeStream {
    fn line(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(b'\n');
    }

    fn data(&mut self, bytes: &[u8]) {
        self.line(&format!("data {}", bytes.len()));
        self.bytes.extend_from_slice(bytes);
        self.bytes.push(b'\n');
    }

    fn who(&mut self, role: &str) {
        self.seconds += 61;
        // Zones of every sort.
        let zone = ["+0000", "+0100", "-0830", "+1245", "-0000"][(self.seconds % 5) as usize];
        let line = format!("{role} N\u{e4}me <someone@example.com> {} {zone}", 1_600_000_000 + self.seconds);
        self.line(&line);
    }

    fn commit(&mut self, branch: &str, parents: &str, message: &str) {
        self.marks += 1;
        self.line(&format!("commit refs/heads/{branch}"));
        self.line(&format!("mark :{}", self.marks));
        self.who("author");
        self.who("committer");
        self.data(message.as_bytes());
        self.bytes.extend_from_slice(parents.as_bytes());
    }

    fn tag(&mut self, name: &str, of: usize, message: &str) {
        self.line(&format!("tag {name}"));
        self.line(&format!("from :{of}"));
        self.who("tagger");
        self.data(message.as_bytes());
    }

    fn file(&mut self, mode: &str, path: &[u8], contents: &[u8]) {
        self.bytes.extend_from_slice(format!("M {mode} inline \"").as_bytes());
        for byte in path {
            self.bytes.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        }
        self.line("\"");
        self.data(contents);
    }

    /// Everything that a tree can hold.
    fn first_commit(&mut self, shapes: &Shapes) {
        self.commit("main", "", "everything that a tree can hold\n\nwith a body: \u{1f332}\n");
        for (i, name) in ODD_NAMES.iter().enumerate() {
            self.file("100644", name, format!("odd {i}").as_bytes());
            self.file("100644", &[b"odd/", *name, b"/", *name].concat(), b"below");
        }
        self.file("100644", b"sortdir/file", b"a folder between two files");
        self.file("100644", &[&b"long/"[..], &[b'x'; 255]].concat(), b"a long name");
        self.file("100755", b"run.sh", b"#!/bin/sh\n");
        self.file("120000", b"link", b"run.sh");
        self.file("120000", b"dangling link", b"../nowhere/\xff");
        let submodule = if shapes.sha256 { "5a".repeat(32) } else { "5a".repeat(20) };
        self.line(&format!("M 160000 {submodule} \"module\""));
        let modules = b"[submodule \"module\"]\n\tpath = module\n\turl = ../module\n";
        self.file("100644", b".gitmodules", modules);
        self.file("100644", b"empty", b"");
        self.file("100644", b"zeroes", &[0; 5000]);
        let noise: Vec<u8> = (0_u32..300_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        self.file("100644", b"large.bin", &noise);
        for i in 0..shapes.wide {
            self.file("100644", format!("wide/{i:06}").as_bytes(), format!("{i}").as_bytes());
        }
        let deep: String = (0..shapes.deep).map(|i| format!("d{i}/")).collect();
        self.file("100644", format!("deep/{deep}end").as_bytes(), b"deep down");
    }
}

/// Adds what `git fast-import` does not make: an empty folder, signatures, odd headers, tags of everything.
fn by_hand(git: &Git) {
    let empty_tree = git.hash_object("tree", b"");
    let blob = git.hash_object("blob", b"tagged");
    let listing = format!("040000 tree {empty_tree}\tempty folder\n100644 blob {blob}\tfile\n");
    let tree = String::from_utf8(git.feed(&["mktree"], listing.as_bytes())).expect("an id");
    let tree = tree.trim_end();
    let parent = git.text(&["rev-parse", "refs/heads/main"]);
    let people = "author A <a@example.com> 1600000000 +0200\ncommitter C <c@example.com> 1600000001 -0330\n";
    let signature = "-----BEGIN PGP SIGNATURE-----\n \n wsBcBAABCAAQBQJ\n =abcd\n -----END PGP SIGNATURE-----\n";

    let signed = git.hash_object(
        "commit",
        format!("tree {tree}\nparent {parent}\n{people}gpgsig {signature} \n\nsigned\n").as_bytes(),
    );
    let tag = format!(
        "object {signed}\ntype commit\ntag signed\ntagger T <t@example.com> 1600000002 +0000\n\nsigned tag\n{}",
        signature.replace("\n ", "\n")
    );
    let tag = git.hash_object("tag", tag.as_bytes());
    let folded = String::from_utf8(git.run(&["cat-file", "tag", &tag])).expect("text").trim_end().replace('\n', "\n ");
    let headers = format!(
        "tree {empty_tree}\nparent {signed}\nparent {parent}\n{people}mergetag {folded}\nHG:extra source:abc\n\
         x-unknown several\n lines\n \n of it\n\nmerge of a signed tag"
    );
    let merged = git.hash_object("commit", headers.as_bytes());
    let mut latin = format!("tree {tree}\nparent {merged}\n{people}encoding ISO-8859-1\n\nl").into_bytes();
    latin.extend_from_slice(b"\xe4tin, no newline at the end");
    let latin = git.hash_object("commit", &latin);
    let early = "author  <> 0 +0000\ncommitter C <> 1 -1200\n";
    let early = git.hash_object("commit", format!("tree {tree}\nparent {latin}\n{early}\n\n\n").as_bytes());

    let mut refs = format!("create refs/heads/by-hand {early}\ncreate refs/tags/signed {tag}\n");
    let mut target = (signed.clone(), "commit");
    for i in 0..4 {
        let text = format!(
            "object {}\ntype {}\ntag nested{i}\ntagger T <t@example.com> 1600000003 +0000\n\ntag of a {}\n",
            target.0, target.1, target.1
        );
        target = (git.hash_object("tag", text.as_bytes()), "tag");
        writeln!(refs, "create refs/tags/nested{i} {}", target.0).expect("a string");
    }
    for (name, id, kind) in [("of-tree", tree, "tree"), ("of-blob", &*blob, "blob")] {
        let text = format!("object {id}\ntype {kind}\ntag {name}\ntagger T <t@example.com> 1600000004 +0000\n\n");
        let tag = git.hash_object("tag", text.as_bytes());
        writeln!(refs, "create refs/tags/{name} {tag}").expect("a string");
    }
    // Tags of old have no tagger.
    let text = format!("object {signed}\ntype commit\ntag old\n\nno tagger\n");
    writeln!(refs, "create refs/tags/old {}", git.hash_object("tag", text.as_bytes())).expect("a string");
    writeln!(refs, "create refs/tags/light {parent}\ncreate refs/tags/light-tree {tree}").expect("a string");
    writeln!(refs, "create refs/notes/commits {signed}").expect("a string");
    git.feed(&["update-ref", "--stdin"], refs.as_bytes());
    // A grafted root: the commit before `signed` counts as a child of nothing.
    git.run(&["replace", "--graft", &parent]);
}
