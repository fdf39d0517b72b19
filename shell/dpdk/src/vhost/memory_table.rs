//! The table of a guest's memory, tried before the library is given it.
//!
//! The library unmaps the old memory before it maps the new. Where that fails it leaves its rings with addresses of what
//! is gone, and a worker that polls one in that moment ends the process. So each region is mapped here first, all of them
//! at once and in the library's way, and given back; a table with a region that cannot be mapped never reaches it.

use super::rules::{Fields, Objection};
use std::ffi::c_int;

/// Regions that the library takes.
pub(super) const REGIONS_MAX: usize = 8;
const HEADER: usize = 8;
const REGION: usize = 32;

/// Whether all regions of this `SET_MEM_TABLE` can be mapped from these descriptors.
pub(super) fn try_out(payload: &[u8], fds: &[c_int]) -> Result<(), Objection> {
    let count = Fields(payload).word(0)? as usize;
    if count > REGIONS_MAX {
        return Err(Objection::Table("it has too many regions"));
    }
    if count != fds.len() {
        return Err(Objection::Table("it has not one descriptor for each region"));
    }
    let mut mapped = Vec::with_capacity(count);
    for (i, fd) in fds.iter().enumerate() {
        let fields = Fields(payload.get(HEADER + i * REGION..).ok_or(Objection::Short)?);
        // Guest physical address, size, address in the front-end, offset in the file.
        mapped.push(Mapping::new(fields.long(8)?, fields.long(24)?, *fd)?);
    }
    Ok(())
}

/// Unmaps on drop.
struct Mapping {
    at: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    /// From the file's beginning, in whole blocks of its own, as the library does.
    fn new(size: u64, offset: u64, fd: c_int) -> Result<Mapping, Objection> {
        let end = offset.checked_add(size).filter(|_| size > 0);
        let end = end.ok_or(Objection::Table("a region has no size, or wraps"))?;
        let block = block_size(fd).ok_or(Objection::Table("a descriptor is no file"))?;
        let length = end
            .checked_next_multiple_of(block)
            .and_then(|n| usize::try_from(n).ok())
            .ok_or(Objection::Table("a region is too large"))?;
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place; nothing reads or writes there.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, rights, libc::MAP_SHARED, fd, 0) };
        if at == libc::MAP_FAILED {
            return Err(Objection::Table("a region cannot be mapped"));
        }
        Ok(Mapping { at, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours, to which nothing leads.
        unsafe { libc::munmap(self.at, self.length) };
    }
}

fn block_size(fd: c_int) -> Option<u64> {
    // SAFETY: all zeros are valid for this structure of numbers.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: facts about a descriptor, or an error where it is none, are written to `about`.
    let known = unsafe { libc::fstat(fd, &mut about) } == 0;
    u64::try_from(about.st_blksize).ok().filter(|block| known && *block > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    fn memory(length: i64) -> OwnedFd {
        // SAFETY: a new file in memory, nobody else's.
        unsafe {
            let fd = libc::memfd_create(c"guest".as_ptr(), 0);
            assert_eq!(libc::ftruncate(fd, length), 0);
            OwnedFd::from_raw_fd(fd)
        }
    }

    fn table(regions: &[(u64, u64)]) -> Vec<u8> {
        let mut out = [regions.len() as u32, 0].map(u32::to_ne_bytes).concat();
        for (size, offset) in regions {
            out.extend([0x4000_0000, *size, 0x7f00_0000_0000, *offset].map(u64::to_ne_bytes).concat());
        }
        out
    }

    #[test]
    fn what_can_be_mapped_passes() {
        let file = memory(1 << 20);
        let fd = file.as_raw_fd();
        assert_eq!(try_out(&table(&[]), &[]), Ok(()));
        assert_eq!(try_out(&table(&[(1 << 20, 0)]), &[fd]), Ok(()));
        assert_eq!(try_out(&table(&[(4096, 0), (4096, 4096)]), &[fd, fd]), Ok(()));
        // Longer than its file: what is not there reads as zeros (`lost_memory`).
        assert_eq!(try_out(&table(&[(1 << 30, 0)]), &[fd]), Ok(()));
    }

    #[test]
    fn what_cannot_is_refused() {
        let file = memory(1 << 20);
        let (fd, ends) = (file.as_raw_fd(), std::os::unix::net::UnixStream::pair().unwrap());
        let unmapped = Err(Objection::Table("a region cannot be mapped"));
        for (size, offset) in [(0, 0), (u64::MAX, 1), (u64::MAX - 8191, 8192), (u64::MAX, 0), (1 << 62, 0)] {
            assert!(try_out(&table(&[(size, offset)]), &[fd]).is_err(), "{size:#x} at {offset:#x}");
        }
        assert_eq!(try_out(&table(&[(4096, 0)]), &[ends.0.as_raw_fd()]), unmapped);
        let read_only = std::fs::File::open("/proc/self/exe").unwrap();
        assert_eq!(try_out(&table(&[(4096, 0)]), &[read_only.as_raw_fd()]), unmapped);
        assert!(try_out(&table(&[(4096, 0)]), &[-1]).is_err());
        assert!(try_out(&table(&[(4096, 0)]), &[]).is_err());
        assert!(try_out(&table(&[(4096, 0); 9]), &[fd; 9]).is_err());
        assert!(try_out(&table(&[(4096, 0); 2])[..60], &[fd; 2]).is_err());
        // Each fits; all together do not.
        assert!(try_out(&table(&[(1 << 46, 0); 4]), &[fd; 4]).is_err());
    }
}
