//! Checks a guest's memory table before DPDK's library receives it, and maps guest files for both back-ends.
//!
//! The library unmaps the old memory before it maps the new. If mapping fails, its rings keep addresses of unmapped memory. So each table
//! is checked in advance. If it does not pass, it is refused, and the guest keeps its old memory. It passes only if
//!
//! - each file is memory that can neither shrink nor become read-only ([`super::file_descriptors::seal`]). This is checked
//!   before any other call on the file: calls on other kinds of files may never return;
//! - each region is within its file, and all regions together have at most [`bytes_max`] bytes: a sparse file costs the guest nothing, but
//!   uses address space of the switch, which all guests share;
//! - all regions can be mapped at the same time as the library maps them: they are mapped for the test and unmapped again.
//!
//! The library can still fail to map the table (the kernel is out of memory, or huge pages of the file were freed and are used elsewhere).
//! At that time no worker accesses the rings: see [`crate::server`].

use super::file_descriptors::seal;
use super::rules::{Fields, Refusal};
use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Maximum number of regions that the library accepts in one table.
pub const REGIONS_MAX: usize = 8;
const HEADER: usize = 8;
const REGION: usize = 32;

/// Maximum number of bytes that may be mapped for a guest; each region is mapped from the beginning of its file. A guest's memory is at
/// most the machine's memory and swap. Twice this size is allowed, because a file with two regions is mapped twice.
pub fn bytes_max() -> u64 {
    let machine = rustix::system::sysinfo();
    let bytes =
        (machine.totalram as u64 + machine.totalswap as u64).saturating_mul(u64::from(machine.mem_unit));
    bytes.saturating_mul(2).saturating_add(SPARE)
}

/// Allowance for memory regions of devices in the guest: 16 GiB.
const SPARE: u64 = 16 << 30;

/// Checks that all regions of this `SET_MEM_TABLE` can be mapped from these file descriptors, within `bytes_max` bytes.
pub fn check_table(payload: &[u8], fds: &[OwnedFd], bytes_max: u64) -> Result<(), Refusal> {
    let count = Fields(payload).word(0)? as usize;
    if count > REGIONS_MAX {
        return Err(Refusal::Memory("it has too many regions"));
    }
    if count != fds.len() {
        return Err(Refusal::Memory("the number of descriptors is not the number of regions"));
    }
    fds.iter().try_for_each(|fd| seal(fd.as_fd()))?;
    let (mut mapped, mut left) = (Vec::with_capacity(count), bytes_max);
    for (i, fd) in fds.iter().enumerate() {
        let fields = Fields(payload.get(HEADER + i * REGION..).ok_or(Refusal::Short)?);
        // Fields of a region: guest physical address, size, address in the front-end, offset in the file.
        let region = Mapping::new(fields.long(8)?, fields.long(24)?, fd.as_fd(), left)?;
        left -= region.length as u64;
        mapped.push(region);
    }
    Ok(())
}

/// Checks that the log of written pages of this `SET_LOG_BASE` is within its file and has at most `bytes_max` bytes.
pub fn check_log(payload: &[u8], fds: &[OwnedFd], bytes_max: u64) -> Result<(), Refusal> {
    let fields = Fields(payload);
    fds.iter().try_for_each(|fd| {
        seal(fd.as_fd())?;
        length(fields.long(0)?, fields.long(8)?, fd.as_fd(), bytes_max).map(drop)
    })
}

/// Number of bytes of a file that are mapped: from its beginning to the region's end, rounded up to blocks.
fn length(size: u64, offset: u64, fd: BorrowedFd<'_>, bytes_max: u64) -> Result<u64, Refusal> {
    let end = offset.checked_add(size).filter(|_| size > 0);
    let end = end.ok_or(Refusal::Memory("a region has size 0 or wraps around"))?;
    let stat = fstat(fd).map_err(|_| Refusal::Memory("a descriptor is not a file"))?;
    let (block, file_size) = (u64::try_from(stat.st_blksize), u64::try_from(stat.st_size));
    let block = block.ok().filter(|b| *b > 0).ok_or(Refusal::Memory("a descriptor is not a file"))?;
    let round_up = |n: u64| n.checked_next_multiple_of(block).ok_or(Refusal::Memory("a region is too large"));
    let length = round_up(end)?;
    if length > round_up(file_size.unwrap_or(0))? {
        return Err(Refusal::Memory("a region is longer than its file"));
    }
    if length > bytes_max {
        return Err(Refusal::Memory("longer than twice the machine's memory and swap"));
    }
    Ok(length)
}

/// A mapping that is unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    at: *mut std::ffi::c_void,
    length: usize,
}

impl Mapping {
    /// Maps the file from its beginning in complete blocks, as the library does; at most `bytes_max` bytes.
    pub fn new(size: u64, offset: u64, fd: BorrowedFd<'_>, bytes_max: u64) -> Result<Mapping, Refusal> {
        let length = length(size, offset, fd, bytes_max)?;
        let length = usize::try_from(length).map_err(|_| Refusal::Memory("a region is too large"))?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let at = unsafe { mmap(std::ptr::null_mut(), length, prot, MapFlags::SHARED, fd, 0) };
        let at = at.map_err(|_| Refusal::Memory("a region cannot be mapped"))?;
        Ok(Mapping { at, length })
    }

    /// The address of its first byte.
    pub fn start(&self) -> *mut u8 {
        self.at.cast()
    }

    /// Its length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

// SAFETY: a mapping is not bound to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`; `&Mapping` only returns the address and the length.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping belongs to `self`, and all references to it hold the `Mapping`.
        let _ = unsafe { munmap(self.at, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    const ENOUGH: u64 = 1 << 46;

    /// Returns `N` descriptors of one memory file of `length` bytes.
    fn memory<const N: usize>(length: u64) -> [OwnedFd; N] {
        let fd = memfd_create("guest", MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, length).unwrap();
        std::array::from_fn(|_| fd.try_clone().unwrap())
    }

    fn table(regions: &[(u64, u64)]) -> Vec<u8> {
        let mut out = [regions.len() as u32, 0].map(u32::to_ne_bytes).concat();
        for (size, offset) in regions {
            out.extend([0x4000_0000, *size, 0x7f00_0000_0000, *offset].map(u64::to_ne_bytes).concat());
        }
        out
    }

    #[test]
    fn tables_that_can_be_mapped_pass() {
        let [fd] = memory(1 << 20);
        assert_eq!(check_table(&table(&[]), &[], ENOUGH), Ok(()));
        assert_eq!(check_table(&table(&[(1 << 20, 0)]), &[fd], ENOUGH), Ok(()));
        assert_eq!(check_table(&table(&[(4096, 0), (4096, 4096)]), &memory::<2>(1 << 20), ENOUGH), Ok(()));
        // The file need not end at a block boundary: the rest of its last block reads as zeros.
        assert_eq!(check_table(&table(&[(8192, 0)]), &memory::<1>(8000), ENOUGH), Ok(()));
    }

    #[test]
    fn address_space_of_one_guest_is_bounded() {
        let longer = Err(Refusal::Memory("a region is longer than its file"));
        assert_eq!(check_table(&table(&[(2 << 20, 0)]), &memory::<1>(1 << 20), ENOUGH), longer);
        assert_eq!(check_table(&table(&[(1 << 20, 4096)]), &memory::<1>(1 << 20), ENOUGH), longer);
        // The file is sparse and has no pages. Both regions are mapped from its beginning.
        let regions = table(&[(1 << 30, 0), (1 << 30, 1 << 30)]);
        let much = Err(Refusal::Memory("longer than twice the machine's memory and swap"));
        assert_eq!(check_table(&regions, &memory::<2>(2 << 30), (3 << 30) - 1), much);
        assert_eq!(check_table(&regions, &memory::<2>(2 << 30), 3 << 30), Ok(()));
        assert!(bytes_max() > SPARE);
    }

    #[test]
    fn a_log_lies_within_its_file() {
        let log = |size: u64| [size, 0].map(u64::to_ne_bytes).concat();
        assert_eq!(check_log(&log(1 << 20), &memory::<1>(1 << 20), ENOUGH), Ok(()));
        assert!(check_log(&log(2 << 20), &memory::<1>(1 << 20), ENOUGH).is_err());
        assert!(check_log(&log(1 << 20), &memory::<1>(1 << 20), 4096).is_err());
    }

    #[test]
    fn tables_that_cannot_be_mapped_are_refused() {
        let fd = memory::<1>(1 << 20);
        for (size, offset) in [(0, 0), (u64::MAX, 1), (u64::MAX - 8191, 8192), (u64::MAX, 0), (1 << 62, 0)] {
            assert!(check_table(&table(&[(size, offset)]), &fd, ENOUGH).is_err(), "{size:#x} at {offset:#x}");
        }
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let read_only = std::fs::File::open("/proc/self/exe").unwrap();
        for fd in [OwnedFd::from(ours), read_only.into()] {
            let refused = Err(Refusal::Memory("a file is neither shmem nor hugetlbfs"));
            assert_eq!(check_table(&table(&[(4096, 0)]), &[fd], ENOUGH), refused);
        }
        assert!(check_table(&table(&[(4096, 0)]), &[], ENOUGH).is_err());
        assert!(check_table(&table(&[(4096, 0); 9]), &memory::<9>(1 << 20), ENOUGH).is_err());
        assert!(check_table(&table(&[(4096, 0); 2])[..60], &memory::<2>(1 << 20), ENOUGH).is_err());
        // Each region can be mapped alone, but not all together.
        assert!(check_table(&table(&[(1 << 46, 0); 4]), &memory::<4>(1 << 46), u64::MAX).is_err());
    }
}
