//! Values as callers give them: short ones by copy, long ones shared.

use std::sync::{Arc, Mutex, PoisonError};

use bristlecone_core::{Bytes, ObjRef};

/// The longest value, in bytes. Formats that keep a value as one object have it whole in memory, and in one append.
pub const VALUE_BYTES_MAX: u64 = 2 << 30;

/// The number of a backend ([`crate::store::StoreBase::backend_number`]), and how many sweeps have begun in it.
pub(crate) type BackendOwner = (u64, u64);

/// A value to be set, cheap to clone. One that is set at many places is hashed and written once.
///
/// ```
/// # use bristlecone::{Repo, Value};
/// let value = Value::new(vec![7; 10_000]);
/// let mut tree = Repo::memory().tree();
/// tree.set("a", &value)?;
/// tree.set("b", &value)?;
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Value {
    shared: Arc<SharedValue>,
}

#[derive(Debug)]
pub(crate) struct SharedValue {
    pub(crate) bytes: Box<[u8]>,
    // Where the value is once some store of this process has it; valid for that backend alone, and until it is swept.
    stored: Mutex<Option<(BackendOwner, ObjRef)>>,
}

impl Value {
    /// Returns the value with these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self { shared: Arc::new(SharedValue { bytes: bytes.into(), stored: Mutex::default() }) }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.shared.bytes
    }

    pub(crate) fn stored(&self, by: BackendOwner) -> Option<ObjRef> {
        let stored = self.shared.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.filter(|(owner, _)| *owner == by).map(|(_, at)| at)
    }

    pub(crate) fn set_stored(&self, by: BackendOwner, at: ObjRef) {
        // The last store to have it is remembered; another hashes again.
        *self.shared.stored.lock().unwrap_or_else(PoisonError::into_inner) = Some((by, at));
    }
}

/// What can be set as a value: bytes, text or a [`Value`].
///
/// ```
/// # use bristlecone::Repo;
/// let mut tree = Repo::memory().tree();
/// tree.set("text", "1")?;
/// tree.set("bytes", Box::<[u8]>::from([1, 2]))?;
/// let before = tree.clone();
/// let value = before.get("text")?.expect("it was set");
/// tree.set("copy", &value)?;          // what was read, as it is
/// assert_eq!(tree.get("copy")?.as_deref(), Some(&b"1"[..]));
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum NewValue<'v> {
    /// Borrowed bytes.
    Bytes(&'v [u8]),
    /// A shared value.
    Value(Value),
}

impl NewValue<'_> {
    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Value(value) => value.as_bytes(),
        }
    }
}

impl<'v> From<&'v [u8]> for NewValue<'v> {
    fn from(bytes: &'v [u8]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'v, const N: usize> From<&'v [u8; N]> for NewValue<'v> {
    fn from(bytes: &'v [u8; N]) -> Self {
        Self::Bytes(bytes)
    }
}

impl<const N: usize> From<[u8; N]> for NewValue<'_> {
    fn from(bytes: [u8; N]) -> Self {
        Self::Value(Value::new(bytes))
    }
}

impl<'v> From<&'v str> for NewValue<'v> {
    fn from(text: &'v str) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

impl<'v> From<&'v Vec<u8>> for NewValue<'v> {
    fn from(bytes: &'v Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl<'v> From<&'v String> for NewValue<'v> {
    fn from(text: &'v String) -> Self {
        Self::Bytes(text.as_bytes())
    }
}

impl From<Vec<u8>> for NewValue<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Value(Value::new(bytes))
    }
}

impl From<String> for NewValue<'_> {
    fn from(text: String) -> Self {
        Self::Value(Value::new(text.into_bytes()))
    }
}

impl From<Box<[u8]>> for NewValue<'_> {
    fn from(bytes: Box<[u8]>) -> Self {
        Self::Value(Value::new(bytes))
    }
}

impl<'v> From<&'v Bytes<'_>> for NewValue<'v> {
    fn from(bytes: &'v Bytes<'_>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Value> for NewValue<'_> {
    fn from(value: Value) -> Self {
        Self::Value(value)
    }
}

impl From<&Value> for NewValue<'_> {
    fn from(value: &Value) -> Self {
        Self::Value(value.clone())
    }
}
