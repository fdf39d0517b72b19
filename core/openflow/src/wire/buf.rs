//! Reads and writes big-endian numbers.

use crate::error::OfError;

/// Reads from a byte slice. Reading past the end returns the error that was passed to `new`.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    data: &'a [u8],
    short: OfError,
}

impl<'a> Reader<'a> {
    pub fn new(data: &'a [u8], short: OfError) -> Reader<'a> {
        Reader { data, short }
    }

    pub fn len(&self) -> usize {
        self.data.len()
    }

    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    pub fn rest(&self) -> &'a [u8] {
        self.data
    }

    pub fn take(&mut self, n: usize) -> Result<&'a [u8], OfError> {
        let (head, tail) = self.data.split_at_checked(n).ok_or(self.short)?;
        self.data = tail;
        Ok(head)
    }

    /// The next `n` bytes as a separate reader.
    pub fn sub(&mut self, n: usize) -> Result<Reader<'a>, OfError> {
        Ok(Reader { data: self.take(n)?, short: self.short })
    }

    pub fn skip(&mut self, n: usize) -> Result<(), OfError> {
        self.take(n).map(|_| ())
    }

    /// Skips `n` bytes, which must be zero.
    pub fn zeros(&mut self, n: usize, otherwise: OfError) -> Result<(), OfError> {
        if self.take(n)?.iter().all(|&b| b == 0) { Ok(()) } else { Err(otherwise) }
    }

    pub fn all_zero(&self) -> bool {
        self.data.iter().all(|&b| b == 0)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], OfError> {
        let (head, tail) = self.data.split_first_chunk::<N>().ok_or(self.short)?;
        self.data = tail;
        Ok(*head)
    }

    pub fn u8(&mut self) -> Result<u8, OfError> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, OfError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    pub fn u32(&mut self) -> Result<u32, OfError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64, OfError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    pub fn u128(&mut self) -> Result<u128, OfError> {
        Ok(u128::from_be_bytes(self.array()?))
    }

    pub fn mac(&mut self) -> Result<flow::Mac, OfError> {
        Ok(flow::Mac(self.array()?))
    }

    /// A number of `n` bytes; `n` is at most 16.
    pub fn number(&mut self, n: usize) -> Result<u128, OfError> {
        Ok(self.take(n)?.iter().fold(0, |v, &b| v << 8 | u128::from(b)))
    }

    /// A text of `n` bytes, which ends at the first zero if there is one. Bytes that are not UTF-8 become
    /// `?`, so that the text keeps its length.
    pub fn label(&mut self, n: usize) -> Result<String, OfError> {
        let bytes = self.take(n)?.split(|&b| b == 0).next().unwrap_or_default();
        let ascii = |b: &u8| if b.is_ascii() { char::from(*b) } else { '?' };
        Ok(std::str::from_utf8(bytes).map_or_else(|_| bytes.iter().map(ascii).collect(), str::to_owned))
    }

    /// A text of `n` bytes. The last byte is ignored, because it should be zero.
    pub fn text(&mut self, n: usize) -> Result<String, OfError> {
        let text = self.label(n.saturating_sub(1));
        self.skip(1).and(text)
    }
}

/// Appends to a vector.
pub(crate) trait Put {
    fn u8(&mut self, v: u8) -> &mut Self;
    fn u16(&mut self, v: u16) -> &mut Self;
    fn u32(&mut self, v: u32) -> &mut Self;
    fn u64(&mut self, v: u64) -> &mut Self;
    fn bytes(&mut self, v: &[u8]) -> &mut Self;
    fn zeros(&mut self, n: usize) -> &mut Self;
    /// The low `n` bytes of a number.
    fn number(&mut self, v: u128, n: usize) -> &mut Self;
    /// A text in `n` bytes, truncated if necessary; the last byte is zero.
    fn text(&mut self, v: &str, n: usize) -> &mut Self;
    /// Appends zeros until the length since `start` is a multiple of eight bytes.
    fn pad8(&mut self, start: usize) -> &mut Self;
    /// Overwrites two bytes.
    fn set16(&mut self, at: usize, v: u16);
}

impl Put for Vec<u8> {
    fn u8(&mut self, v: u8) -> &mut Self {
        self.push(v);
        self
    }

    fn u16(&mut self, v: u16) -> &mut Self {
        self.bytes(&v.to_be_bytes())
    }

    fn u32(&mut self, v: u32) -> &mut Self {
        self.bytes(&v.to_be_bytes())
    }

    fn u64(&mut self, v: u64) -> &mut Self {
        self.bytes(&v.to_be_bytes())
    }

    fn bytes(&mut self, v: &[u8]) -> &mut Self {
        self.extend_from_slice(v);
        self
    }

    fn zeros(&mut self, n: usize) -> &mut Self {
        self.resize(self.len() + n, 0);
        self
    }

    fn number(&mut self, v: u128, n: usize) -> &mut Self {
        self.bytes(&v.to_be_bytes()[16 - n.min(16)..])
    }

    fn text(&mut self, v: &str, n: usize) -> &mut Self {
        let cut = v.len().min(n - 1);
        self.bytes(&v.as_bytes()[..cut]).zeros(n - cut)
    }

    fn pad8(&mut self, start: usize) -> &mut Self {
        let n = (self.len() - start).next_multiple_of(8) - (self.len() - start);
        self.zeros(n)
    }

    fn set16(&mut self, at: usize, v: u16) {
        self[at..at + 2].copy_from_slice(&v.to_be_bytes());
    }
}
