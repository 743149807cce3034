//! Ids in `serde`: hexadecimal text where people read it, else the bytes of the digest. A hint is never written.

use core::fmt;

use serde_core::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

use crate::{CommitId, Oid, TagId, TreeId};

impl Serialize for Oid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            serializer.serialize_bytes(self.as_bytes())
        }
    }
}

impl<'de> Deserialize<'de> for Oid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            deserializer.deserialize_str(TextVisitor)
        } else {
            deserializer.deserialize_bytes(OidVisitor)
        }
    }
}

/// Takes hexadecimal text, and no bytes: they would be another id.
struct TextVisitor;

impl Visitor<'_> for TextVisitor {
    type Value = Oid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object id of 1 to 32 bytes in hexadecimal digits")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Oid, E> {
        text.parse().map_err(E::custom)
    }
}

struct OidVisitor;

impl Visitor<'_> for OidVisitor {
    type Value = Oid;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object id of 1 to 32 bytes")
    }

    fn visit_bytes<E: Error>(self, digest: &[u8]) -> Result<Oid, E> {
        Oid::new(digest).map_err(E::custom)
    }
}

macro_rules! typed_ids {
    ($($name:ident)*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.oid().serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::whole(Oid::deserialize(deserializer)?).map_err(D::Error::custom)
            }
        }
    )*};
}

typed_ids! { CommitId TreeId TagId }

#[cfg(test)]
mod tests {
    use serde_core::de::value::{BytesDeserializer, Error as ValueError, StrDeserializer};
    use std::string::ToString;

    use super::*;
    use crate::{Location, ObjRef, OidError};

    #[test]
    fn ids_are_written_as_text_without_their_hint() {
        let oid = Oid::from_array([7; 32]);
        let id = CommitId::with_hint(ObjRef::new(oid, Location(5)), 1);
        let json = serde_json::to_string(&id).unwrap();
        assert_eq!(json, std::format!("\"{oid}\""));
        let read: CommitId = serde_json::from_str(&json).unwrap();
        assert_eq!((read, read.in_store(1).at), (id, Location::NONE));
        assert!(serde_json::from_str::<CommitId>("\"0g\"").unwrap_err().to_string().contains("hexadecimal"));
        assert!(
            serde_json::from_str::<TreeId>("7")
                .unwrap_err()
                .to_string()
                .contains("an object id of 1 to 32 bytes in hexadecimal")
        );
    }

    #[test]
    fn ids_with_a_type_are_whole_as_where_they_are_parsed() {
        for digits in [40, 64] {
            let json = std::format!("\"{}\"", "07".repeat(digits / 2));
            assert_eq!(serde_json::from_str::<CommitId>(&json).unwrap().oid().as_bytes(), &[7; 32][..digits / 2]);
        }
        for digits in [2, 38, 42, 62] {
            let json = std::format!("\"{}\"", "07".repeat(digits / 2));
            let reason = OidError::Short { bytes: digits / 2 }.to_string();
            assert!(serde_json::from_str::<CommitId>(&json).unwrap_err().to_string().contains(&reason));
            assert!(serde_json::from_str::<TreeId>(&json).is_err() && serde_json::from_str::<TagId>(&json).is_err());
            assert_eq!(serde_json::from_str::<Oid>(&json).unwrap().as_bytes(), &[7; 32][..digits / 2]);
        }
    }

    #[test]
    fn bytes_are_ids_of_their_length() {
        let bytes = |digest: &'static [u8]| OidVisitor.visit_bytes::<ValueError>(digest);
        assert_eq!(bytes(&[7; 20]).unwrap().as_bytes(), [7; 20]);
        assert!(bytes(&[]).is_err() && bytes(&[7; 33]).is_err());
        let text = StrDeserializer::<ValueError>::new("0707");
        assert_eq!(Oid::deserialize(text).unwrap().as_bytes(), [7; 2]);
        assert!(TagId::deserialize(BytesDeserializer::<ValueError>::new(b"\xff")).is_err());
    }
}
