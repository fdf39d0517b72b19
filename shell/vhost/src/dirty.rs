//! The log of written pages, for live migration.
//!
//! While a guest is migrated, the front-end has to know which pages the switch writes, because it must copy these pages again. The log is
//! a file of the front-end, with one bit for each page of the guest's physical address space.
//!
//! Sources: vhost-user specification, "Migration".

use crate::file_descriptors::seal;
use crate::memory_table::{Mapping, bytes_max};
use crate::rules::{Fields, Refusal};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bytes of a page of the log, whatever page size the guest or the host uses.
const PAGE: u64 = 4096;

/// A mapped log.
#[derive(Debug)]
pub(crate) struct DirtyLog {
    mapping: Mapping,
    bytes: u64,
}

impl DirtyLog {
    /// Maps the log of a `SET_LOG_BASE`, whose payload is the size of the log and its offset in the file. The offset must be 0.
    pub fn map(payload: &[u8], file: &impl AsFd) -> Result<DirtyLog, Refusal> {
        let (bytes, offset) = (Fields(payload).long(0)?, Fields(payload).long(8)?);
        if offset != 0 {
            return Err(Refusal::LogOffset);
        }
        seal(file.as_fd())?;
        let mapping = Mapping::new(bytes, 0, file.as_fd(), bytes_max())?;
        Ok(DirtyLog { mapping, bytes })
    }

    /// Marks the pages of `len` bytes at a guest-physical address. Pages beyond the log are ignored: the front-end sized the log for the
    /// memory of the guest.
    pub fn mark(&self, address: u64, len: u64) {
        let Some(last) = len.checked_sub(1).map(|n| address.saturating_add(n) / PAGE) else { return };
        let end = self.bytes.saturating_mul(8);
        for page in (address / PAGE..=last).take_while(|page| *page < end) {
            let at = self.mapping.start().wrapping_add((page / 8) as usize);
            // SAFETY: the byte is within the first `bytes` bytes, which are mapped; it is accessed only atomically.
            let byte = unsafe { AtomicU8::from_ptr(at) };
            byte.fetch_or(1 << (page % 8), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::tests::file;
    use std::io::Read;

    #[test]
    fn pages_are_marked_and_others_are_not() {
        let fd = file(4096);
        let payload = [4096u64, 0].map(u64::to_ne_bytes).concat();
        let log = DirtyLog::map(&payload, &fd).unwrap();
        for (address, len) in
            [(0, 0), (4095, 2), (10 * PAGE, 1), (0x7ff * PAGE, 4096), (8 * 4096 * PAGE - 1, 2)]
        {
            log.mark(address, len);
        }
        log.mark(u64::MAX, u64::MAX);
        let mut bytes = Vec::new();
        std::fs::File::from(fd).read_to_end(&mut bytes).unwrap();
        let marked: Vec<_> = (0..bytes.len()).filter(|n| bytes[*n] != 0).map(|n| (n, bytes[n])).collect();
        assert_eq!(marked, [(0, 3), (1, 4), (0xff, 0x80), (4095, 0x80)]);
        let refused =
            |words: [u64; 2]| DirtyLog::map(&words.map(u64::to_ne_bytes).concat(), &file(4096)).is_err();
        assert!(refused([4096, 4096]) && refused([0, 0]) && refused([1 << 20, 0]) && !refused([8, 0]));
    }
}
