//! An input as a row of choices and runs of bytes.

/// What is left of an input, taken from the front. Where it has ended, there are zeroes.
#[derive(Debug)]
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// The first bytes of an input, which is all of it where it is no longer.
    pub(crate) fn new(data: &'a [u8], bytes_max: usize) -> Self {
        Self(&data[..data.len().min(bytes_max)])
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    /// A number below 65,536, little-endian.
    pub(crate) fn word(&mut self) -> usize {
        usize::from(self.byte()) | usize::from(self.byte()) << 8
    }

    /// A number below `bound`; 0 if that is 0. It takes two bytes whatever the bound is.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let word = self.word();
        if bound == 0 { 0 } else { word % bound }
    }

    /// That many bytes, or what is left.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// A run: its length in two bytes, then that many bytes.
    pub(crate) fn run(&mut self) -> &'a [u8] {
        let count = self.word();
        self.take(count)
    }

    /// A short run: its length in one byte.
    pub(crate) fn short_run(&mut self) -> &'a [u8] {
        let count = self.byte();
        self.take(count.into())
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take(self.0.len())
    }
}
