//! Writes numbers in network byte order.

/// Appends to a datagram.
pub(crate) trait WriteBigEndian {
    /// One byte.
    fn u8(&mut self, value: u8);
    /// Two bytes.
    fn u16(&mut self, value: u16);
    /// Four bytes.
    fn u32(&mut self, value: u32);
    /// Eight bytes.
    fn u64(&mut self, value: u64);
    /// Bytes as they are.
    fn bytes(&mut self, value: &[u8]);
    /// Overwrites two bytes.
    fn set_u16(&mut self, at: usize, value: u16);
}

impl WriteBigEndian for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }

    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn bytes(&mut self, value: &[u8]) {
        self.extend_from_slice(value);
    }

    fn set_u16(&mut self, at: usize, value: u16) {
        if let Some(place) = self.get_mut(at..at + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
}
