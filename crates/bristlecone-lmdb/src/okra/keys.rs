//! Lists of keys and of pending changes, each in one piece of memory.

/// Keys in ascending order, each once.
#[derive(Default)]
pub(super) struct KeyList {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
    /// Whether a key was added that is not greater than the one before.
    unsorted: bool,
}

impl KeyList {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(self.ends.as_slice())
    }

    pub(super) fn get(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        Some(&self.bytes[self.start(index)..end])
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        if let Some(last) = self.len().checked_sub(1)
            && self.get(last) >= Some(key)
        {
            self.unsorted = true;
        }
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.unsorted = false;
    }

    /// Puts the keys in order, each once: needed where [`KeyList::push`] was called in another order.
    pub(super) fn sort(&mut self) {
        if !std::mem::take(&mut self.unsorted) {
            return;
        }
        let mut keys: Vec<&[u8]> = (0..self.len()).filter_map(|index| self.get(index)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut sorted = Self::default();
        keys.iter().for_each(|key| sorted.push(key));
        *self = sorted;
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }
}

/// Changes of entries that are not in LMDB yet.
#[derive(Default)]
pub(super) struct Pending {
    bytes: Vec<u8>,
    changes: Vec<Change>,
}

/// One change: where its bytes lie.
#[derive(Clone, Copy)]
struct Change {
    /// The first eight bytes of the key, which settle most comparisons.
    prefix: u64,
    at: usize,
    key_bytes: u16,
    /// The value's bytes, or that there is none.
    value_bytes: Option<u32>,
}

impl Pending {
    /// Adds a change; its key and its value were checked. Without a value the entry is removed.
    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let mut prefix = [0; 8];
        let len = key.len().min(8);
        prefix[..len].copy_from_slice(&key[..len]);
        self.changes.push(Change {
            prefix: u64::from_be_bytes(prefix),
            at: self.bytes.len(),
            key_bytes: key.len() as u16,
            value_bytes: value.map(|value| value.len() as u32),
        });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() + size_of_val(self.changes.as_slice())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.changes.clear();
    }

    /// Gives the last change of each key, in the order of the keys.
    pub(super) fn sorted(&mut self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let bytes = &self.bytes;
        self.changes.sort_unstable_by(|a, b| {
            // Changes of one key stay in the order in which they came, which is that of their bytes.
            a.prefix.cmp(&b.prefix).then_with(|| a.key(bytes).cmp(b.key(bytes))).then(a.at.cmp(&b.at))
        });
        let changes = &self.changes;
        changes.iter().enumerate().filter_map(move |(index, change)| {
            let is_last = changes.get(index + 1).is_none_or(|next| !next.has_key_of(change, bytes));
            is_last.then(|| (change.key(bytes), change.value(bytes)))
        })
    }
}

impl Change {
    fn key<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.at..][..usize::from(self.key_bytes)]
    }

    fn value<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let at = self.at + usize::from(self.key_bytes);
        self.value_bytes.map(|len| &bytes[at..][..len as usize])
    }

    fn has_key_of(&self, other: &Self, bytes: &[u8]) -> bool {
        self.prefix == other.prefix && self.key(bytes) == other.key(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_key_counts() {
        let mut pending = Pending::default();
        pending.push(b"b", Some(b"1"));
        pending.push(b"a\0", Some(b"2"));
        pending.push(b"b", None);
        pending.push(b"a", Some(b""));
        pending.push(b"longer than eight", Some(b"3"));
        pending.push(b"longer th", Some(b"4"));
        pending.push(b"a", Some(b"5"));
        let sorted: Vec<_> = pending.sorted().collect();
        let expected: [(&[u8], Option<&[u8]>); 5] = [
            (b"a", Some(b"5")),
            (b"a\0", Some(b"2")),
            (b"b", None),
            (b"longer th", Some(b"4")),
            (b"longer than eight", Some(b"3")),
        ];
        assert_eq!(sorted, expected);
    }

    #[test]
    fn keys_are_in_order_and_there_once() {
        let mut keys = KeyList::default();
        [&b"a"[..], b"c", b"b", b"c", b"", b"aa"].iter().for_each(|key| keys.push(key));
        keys.sort();
        let all: Vec<_> = (0..keys.len()).map(|index| keys.get(index).unwrap()).collect();
        assert_eq!(all, [&b""[..], b"a", b"aa", b"b", b"c"]);
        assert_eq!(keys.get(5), None);
    }
}
