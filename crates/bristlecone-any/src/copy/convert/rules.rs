//! What a format keeps of what another one has.

use bristlecone::{Commit, Durability, EntryKind, Format, Info, Oid, Signature, Tag, Zone, core::git::refused_name};
use bristlecone_git::history::RAW_HEADER;

use super::{
    super::{
        history::NewCommit,
        loss::{LossKind, Losses},
    },
    empty_dir,
};
use crate::format::AnyFormat;

/// Headers in which a signature stands, or a tag with one.
const SIGNATURES: [&[u8]; 3] = [b"gpgsig", b"gpgsig-sha256", b"mergetag"];
/// How a signature begins that stands in a message.
const SIGNED: [&[u8]; 4] = [
    b"-----BEGIN PGP SIGNATURE-----",
    b"-----BEGIN PGP MESSAGE-----",
    b"-----BEGIN SSH SIGNATURE-----",
    b"-----BEGIN SIGNED MESSAGE-----",
];
/// Headers that Git writes for itself.
const GITS_OWN: [&[u8]; 8] = [b"tree", b"parent", b"author", b"committer", b"object", b"type", b"tag", b"tagger"];

/// What the format of the copy keeps.
pub(super) struct Rules {
    to: AnyFormat,
    /// Whether there are commits without entries.
    pub(super) holds_empty: bool,
    /// Whether all headers are kept, with what is signed: it is signed as Git has it, and not as either format.
    native: bool,
    // How many bytes ids of other stores have, where that is fixed.
    foreign_bytes: Option<usize>,
    // Whether parents are kept in the order of their ids.
    sorts_parents: bool,
}

impl Rules {
    pub(super) fn between(from: &AnyFormat, to: &AnyFormat) -> Self {
        let is_native = |format: &AnyFormat| matches!(format, AnyFormat::Native(_));
        let foreign_bytes = match to {
            AnyFormat::Git(git) => Some(git.algorithm().oid_bytes()),
            _ => None,
        };
        let keeps_order = is_native(to) || matches!(to, AnyFormat::Git(_));
        Self {
            to: to.clone(),
            holds_empty: empty_dir(to).is_some(),
            native: is_native(from) && is_native(to),
            foreign_bytes,
            sorts_parents: !keeps_order,
        }
    }

    /// Returns what an entry of a kind becomes.
    pub(super) fn kind(&self, kind: EntryKind) -> EntryKind {
        if kind.has_contents() && !self.to.holds(kind) { EntryKind::Value } else { kind }
    }

    pub(super) fn holds_name(&self, step: &[u8], kind: EntryKind) -> bool {
        !matches!(self.to, AnyFormat::Git(_)) || refused_name(step, kind).is_none()
    }

    pub(super) fn holds_foreign(&self, oid: &Oid) -> bool {
        let fits = self.foreign_bytes.is_none_or(|bytes| oid.as_bytes().len() == bytes);
        fits && self.to.holds(EntryKind::Foreign)
    }

    /// Returns what is recorded with a commit, and counts what is lost of it.
    pub(super) fn info(&self, commit: &Commit, one: &NewCommit, losses: &mut Losses) -> Info {
        let id = Some(one.id);
        let mut lost = |kind, place: &str| losses.add(kind, id, || place.to_owned());
        if one.cut {
            lost(LossKind::Cut, "");
        } else if one.parents.len() < commit.parents.len() {
            lost(LossKind::Parent, "");
        }
        if self.sorts_parents && one.parents.len() > 1 {
            lost(LossKind::ParentOrder, "");
        }
        let author = self.signature(&commit.author, &mut lost);
        let committer = self.signature(&commit.committer, &mut lost);
        let (author, kept) = self.to.signatures(author, committer.clone());
        let loses_committer = kept.ident != committer.ident || kept.seconds != committer.seconds;
        if loses_committer {
            lost(LossKind::Committer, "");
        }
        // Once in a commit, and not of a committer who is lost.
        if author.zone != commit.author.zone || !loses_committer && kept.zone != commit.committer.zone {
            lost(LossKind::Zone, "");
        }
        let headers = self.headers(&commit.headers, &mut lost);
        let message = self.message(&commit.message, &mut lost);
        let info = Info::message(message).author(author).committer(kept).durability(Durability::None);
        headers.into_iter().fold(info, |info, (name, value)| info.header(name, value))
    }

    /// Returns a tag as the format keeps it; `None` if it keeps none.
    pub(super) fn tag(&self, name: &str, mut tag: Tag, losses: &mut Losses) -> Option<Tag> {
        let mut lost = |kind, place: &str| {
            let shown = if place.is_empty() { name.to_owned() } else { format!("{place} of {name}") };
            losses.add(kind, None, || shown);
        };
        if self.sorts_parents {
            lost(LossKind::Tag, "");
            return None;
        }
        if let (Some(at), false) = (signed_at(&tag.message), self.native) {
            tag.message.truncate(at);
            lost(LossKind::Signature, "");
        }
        tag.tagger = tag.tagger.map(|tagger| {
            let kept = self.signature(&tagger, &mut lost);
            let kept = self.to.signatures(kept.clone(), kept).0;
            if kept.zone != tagger.zone {
                lost(LossKind::Zone, "");
            }
            kept
        });
        tag.headers = self.headers(&tag.headers, &mut lost);
        tag.message = self.message(&tag.message, &mut lost);
        Some(tag)
    }

    fn signature(&self, who: &Signature, lost: &mut dyn FnMut(LossKind, &str)) -> Signature {
        // The zone is lost, and counted, with the commit's signatures together.
        let mut kept = Signature { zone: who.zone.clone(), ..self.to.signatures(who.clone(), who.clone()).0 };
        if kept.ident != who.ident {
            lost(LossKind::Ident, &bristlecone::escape(&who.ident));
        }
        if matches!(self.to, AnyFormat::Git(_)) {
            if kept.seconds < 0 {
                kept.seconds = 0;
                lost(LossKind::Date, "");
            }
            if !is_plain(&kept.zone) {
                kept.zone = Zone::default();
            }
        }
        kept
    }

    fn headers(&self, headers: &[(Vec<u8>, Vec<u8>)], lost: &mut dyn FnMut(LossKind, &str)) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut kept = Vec::new();
        for (name, value) in headers {
            if self.native {
                kept.push((name.clone(), value.clone()));
            } else if SIGNATURES.contains(&&name[..]) {
                lost(LossKind::Signature, "");
            } else if self.holds_header(name, value) {
                kept.push((name.clone(), value.clone()));
            } else {
                lost(LossKind::Header, &bristlecone::escape(name));
            }
        }
        kept
    }

    fn holds_header(&self, name: &[u8], value: &[u8]) -> bool {
        match &self.to {
            AnyFormat::Native(_) => true,
            AnyFormat::Git(_) => {
                let odd = name.is_empty() || name.iter().any(|byte| matches!(byte, b' ' | b'\n' | 0));
                !odd && !GITS_OWN.contains(&name) && !value.contains(&0) && name != RAW_HEADER
            }
            #[cfg(feature = "tezos")]
            AnyFormat::Tezos(_) => false,
        }
    }

    fn message(&self, message: &[u8], lost: &mut dyn FnMut(LossKind, &str)) -> Vec<u8> {
        if !matches!(self.to, AnyFormat::Git(_)) || !message.contains(&0) {
            return message.to_vec();
        }
        lost(LossKind::Message, "");
        message.iter().copied().filter(|&byte| byte != 0).collect()
    }
}

/// Whether Git takes a zone: `+hhmm` or `-hhmm`.
fn is_plain(zone: &Zone) -> bool {
    let [b'+' | b'-', digits @ ..] = zone.as_bytes() else { return false };
    digits.len() == 4 && digits.iter().all(u8::is_ascii_digit)
}

/// Returns where the signature of a tag begins: at the last line that begins like one, as Git finds it. One that the message quotes
/// before is part of the message.
fn signed_at(message: &[u8]) -> Option<usize> {
    let (mut at, mut found) = (0, None);
    for line in message.split_inclusive(|&byte| byte == b'\n') {
        if SIGNED.iter().any(|begin| line.starts_with(begin)) {
            found = Some(at);
        }
        at += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_begins_like_a_signature_begins_it() {
        for begin in ["PGP SIGNATURE", "PGP MESSAGE", "SSH SIGNATURE", "SIGNED MESSAGE"] {
            let signature = format!("-----BEGIN {begin}-----\nabc\n-----END {begin}-----\n");
            assert_eq!(signed_at(signature.as_bytes()), Some(0), "{begin}");
            let message = format!("one\n{signature}quoted, and then\n");
            assert_eq!(signed_at(format!("{message}{signature}").as_bytes()), Some(message.len()), "{begin}");
            assert_eq!(signed_at(format!(" {}", signature.replace('\n', "\n ")).as_bytes()), None, "{begin}");
        }
        assert_eq!(signed_at(b""), None);
    }
}
