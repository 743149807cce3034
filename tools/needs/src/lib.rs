//! Tests that need what a machine may lack.
//!
//! Rust's harness cannot ignore a test while it runs, and one that returns early counts as passed. So [`macro@needs`]
//! looks when the test is compiled.

use std::{
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use proc_macro::{Delimiter, TokenStream, TokenTree};

/// What a test can need: its name, what reports call it, and how it is looked for.
type Need = (&'static str, &'static str, fn() -> bool);

const NEEDS: [Need; 12] = [
    ("git", "the program `git`", || answers("git", &["--version"], &[0])),
    // Asked for its help, which it takes from no repository.
    ("git_subtree", "the program `git subtree`", || answers("git", &["subtree", "-h"], &[0, 129])),
    ("bash", "the program `bash`", || answers("bash", &["--version"], &[0])),
    ("fio", "the program `fio`", || answers("fio", &["--version"], &[0])),
    ("lmdb", "the programs `mdb_dump` and `mdb_load` of LMDB", || {
        ["mdb_dump", "mdb_load"].iter().all(|program| answers(program, &["-V"], &[0]))
    }),
    ("irmin", "the program `bristlecone-irmin`", || answers("bristlecone-irmin", &["--version"], &[0])),
    ("linux", "the files `/proc/locks` and `/dev/full` of Linux", || {
        ["/proc/locks", "/dev/full"].iter().all(|path| std::fs::exists(path).unwrap_or(false))
    }),
    ("somebody_else", "to run as a user who is not root", || somebody_else_runs()),
    ("namespaces", "leave to start programs that see no process but their own", || {
        answers("unshare", &["-pf", "--mount-proc", "true"], &[0])
    }),
    ("mounts", "leave to mount file systems", || answers("unshare", &["-m", "true"], &[0])),
    ("chain", "the chain data that lie beside the project", || lies_beside("shared/data/cardano/preview")),
    ("checkout", "a checkout of the project's repository", || answers("git", &["rev-parse", "-q", "HEAD"], &[0])),
];

/// Marks a test that needs what a machine may lack: `#[needs(git)]`, `#[needs(git, fio)]`, above `#[test]`.
///
/// Where something is missing when the test is compiled, the test is ignored, and its report says why. Where it is
/// missing only when the test runs, the test fails. After `PATH` has changed, tests that were ignored are compiled
/// anew; after a program has come into a folder of `PATH`, `cargo clean -p` with the name of the package has them
/// compiled anew.
///
/// | need | what |
/// | --- | --- |
/// | `git`, `git_subtree`, `bash`, `fio` | these programs |
/// | `lmdb` | the programs `mdb_dump` and `mdb_load` of LMDB |
/// | `irmin` | the program `bristlecone-irmin`, to which `lab/peers/irmin` is built |
/// | `linux` | `/proc/locks` and `/dev/full` |
/// | `somebody_else` | not to be root, or to be allowed to start programs as user 65534 |
/// | `namespaces` | to be allowed to start programs that see no process but their own (`unshare -pf --mount-proc`) |
/// | `chain` | a Cardano chain in `shared/data/cardano` beside the project, which no user has |
/// | `checkout` | that the package stands in a Git repository |
///
/// # Errors
/// Does not compile with another word, without one, and on what is not followed by `#[test]`.
#[proc_macro_attribute]
pub fn needs(names: TokenStream, item: TokenStream) -> TokenStream {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).filter(|name| name != ",").collect();
    let mut missing = Vec::new();
    for name in &names {
        match NEEDS.iter().find(|(known, ..)| known == name) {
            Some((_, what, there)) if !there() => missing.push(*what),
            Some(_) => {}
            None => return refused(&format!("nothing can be needed by the name of {name}")),
        }
    }
    if names.is_empty() || !is_test(item.clone()) {
        return refused("`#[needs(…)]` names what is needed, and stands above the `#[test]` of a function");
    }
    if missing.is_empty() {
        return item;
    }
    let why = format!("needs {}", missing.join(" and "));
    let mut marked: TokenStream = format!("#[ignore = {why:?}]").parse().expect("an attribute");
    marked.extend(item);
    // Has the compiler look again once the variable changes.
    marked.extend("const _: Option<&str> = option_env!(\"PATH\");".parse::<TokenStream>().expect("an item"));
    marked
}

/// Whether a program can be run and ends with one of the codes.
fn answers(program: &str, arguments: &[&str], codes: &[i32]) -> bool {
    let status = Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.code().is_some_and(|code| codes.contains(&code)))
}

/// Whether something lies beside the repository of the package that is compiled, which is two folders below its root.
fn lies_beside(path: &str) -> bool {
    let package = std::env::var_os("CARGO_MANIFEST_DIR").map(std::path::PathBuf::from);
    package.and_then(|package| package.ancestors().nth(3).map(|beside| beside.join(path).exists())).unwrap_or(false)
}

/// Whether this is not root, or may start programs as user 65534 that come to temporary files.
fn somebody_else_runs() -> bool {
    let root = Command::new("id").arg("-u").output().is_ok_and(|said| said.stdout.trim_ascii() == b"0");
    // Tests make their folders among temporary files.
    let mut come = Command::new("test");
    !root || come.arg("-x").arg(std::env::temp_dir()).uid(65534).status().is_ok_and(|status| status.success())
}

/// Whether `#[test]` stands among the attributes of an item.
fn is_test(item: TokenStream) -> bool {
    let mut tokens = item.into_iter();
    while let (Some(TokenTree::Punct(mark)), Some(TokenTree::Group(group))) = (tokens.next(), tokens.next()) {
        if mark.as_char() != '#' || group.delimiter() != Delimiter::Bracket {
            return false;
        }
        if group.stream().to_string() == "test" {
            return true;
        }
    }
    false
}

fn refused(why: &str) -> TokenStream {
    format!("compile_error!({why:?});").parse().expect("an item")
}
