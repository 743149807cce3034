//! Real Git as the judge: objects go there as a pack and come back by `cat-file`.

use std::{
    io::Write,
    process::{Command, Stdio},
    sync::Arc,
};

use bristlecone::{
    Batch, Durability, Kind, MemoryBackend, Oid, Repo,
    core::git::{self, Algorithm, Git},
};

/// A repository of Git.
pub(crate) struct RealGit {
    pub(crate) dir: tempfile::TempDir,
}

impl RealGit {
    /// Makes an empty repository.
    pub(crate) fn new() -> Self {
        let git = Self { dir: tempfile::tempdir().unwrap() };
        git.run(&["init", "-q", "-b", "main"], b"");
        git
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(self.dir.path()).env("HOME", self.dir.path());
        for (who, mail) in [("AUTHOR", "a@x"), ("COMMITTER", "c@x")] {
            command.env(format!("GIT_{who}_NAME"), who).env(format!("GIT_{who}_EMAIL"), mail);
            command.env(format!("GIT_{who}_DATE"), "1700000000 +0100");
        }
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C");
        command
    }

    /// Runs Git and returns what it says; it must succeed.
    pub(crate) fn run(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        output.stdout
    }

    pub(crate) fn line(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.run(arguments, b"")).unwrap().trim_end().to_owned()
    }

    /// Brings every object of a store here, and a branch with this head.
    pub(crate) fn take(&self, repo: &Repo<Git>, branch: &str, head: Oid) {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        let (mut objects, mut count) = (Vec::new(), 0_u32);
        repo.backend()
            .each_object(
                &mut |_, object| {
                    let number = match object.kind() {
                        Kind::Commit => 1,
                        Kind::Node => 2,
                        Kind::Contents => 3,
                        _ => 4,
                    };
                    let raw = git::raw(object.kind(), object.body()).unwrap();
                    put_packed(number, raw, &mut objects);
                    count += 1;
                    Ok(())
                },
                &mut |damage| panic!("{damage:?}"),
            )
            .unwrap();
        pack.extend_from_slice(&count.to_be_bytes());
        pack.extend_from_slice(&objects);
        let digest = Algorithm::Sha1.digest(&[&pack]);
        pack.extend_from_slice(digest.as_bytes());
        self.run(&["unpack-objects", "-q", "--strict"], &pack);
        self.run(&["update-ref", &format!("refs/heads/{branch}"), &head.to_string()], b"");
    }

    /// Returns a store in memory with every object that is here.
    pub(crate) fn load(&self) -> Repo<Git> {
        let repo = Repo::with_backend(Git::sha1(), Arc::new(MemoryBackend::new()));
        let all = self.run(&["cat-file", "--batch-all-objects", "--batch"], b"");
        let mut batch = Batch::new();
        let mut rest = &all[..];
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let words: Vec<&str> = std::str::from_utf8(&rest[..end]).unwrap().split(' ').collect();
            let bytes: usize = words[2].parse().unwrap();
            let raw = &rest[end + 1..end + 1 + bytes];
            let at = Git::sha1().put_raw(&mut batch, git::kind_of(words[1].as_bytes()).unwrap(), raw).unwrap();
            assert_eq!(at.oid.to_string(), words[0]);
            rest = &rest[end + 2 + bytes..];
        }
        repo.backend().append(batch, &[], Durability::None).unwrap();
        repo
    }

    /// Returns what `git subtree split` makes of a commit.
    pub(crate) fn split(&self, prefix: &str, rev: &str) -> Oid {
        // It runs in a working tree and wants the directory to be there.
        self.run(&["checkout", "-q", "--detach", rev], b"");
        self.line(&["subtree", "split", "-q", "--prefix", prefix]).parse().unwrap()
    }
}

/// Appends an object of a pack, stored.
fn put_packed(number: u8, raw: &[u8], out: &mut Vec<u8>) {
    let mut rest = raw.len();
    let mut byte = number << 4 | (rest & 15) as u8;
    rest >>= 4;
    while rest > 0 {
        out.push(byte | 0x80);
        byte = (rest & 0x7f) as u8;
        rest >>= 7;
    }
    out.push(byte);
    out.extend_from_slice(&[0x78, 1]);
    let blocks: Vec<&[u8]> = if raw.is_empty() { vec![&[]] } else { raw.chunks(0xffff).collect() };
    for (index, block) in blocks.iter().enumerate() {
        out.push(u8::from(index + 1 == blocks.len()));
        out.extend_from_slice(&(block.len() as u16).to_le_bytes());
        out.extend_from_slice(&(!(block.len() as u16)).to_le_bytes());
        out.extend_from_slice(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in raw {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    out.extend_from_slice(&(b << 16 | a).to_be_bytes());
}
