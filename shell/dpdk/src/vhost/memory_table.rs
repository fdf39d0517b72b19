//! The table of a guest's memory, tried before the library is given it.
//!
//! The library unmaps the old memory before it maps the new. Where that fails it leaves its rings with addresses of what
//! is gone. So a table is refused beforehand, and the guest keeps what it has, unless
//!
//! * each file is memory that stays as long and writable as it is ([`super::descriptors::pin`]), decided before any other
//!   call on it: a file of another kind may never answer;
//! * each region lies within its file, and all together are no longer than [`longest`]: a sparse file costs the guest
//!   nothing, but address space of the switch, which all guests share;
//! * all regions can be mapped at once and in the library's way: they are, and given back.
//!
//! What can still fail then (memory of the kernel's runs out; huge pages that a hole was punched for go elsewhere)
//! finds no worker inside: see [`super::front`].

use super::descriptors::pin;
use super::rules::{Fields, Objection};
use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Regions that the library takes.
pub(super) const REGIONS_MAX: usize = 8;
const HEADER: usize = 8;
const REGION: usize = 32;

/// Bytes that all regions of a guest may have as they are mapped: each from the beginning of its file. A guest has at
/// most the machine's memory and swap, in one file of which two regions are mapped.
pub(super) fn longest() -> u64 {
    let machine = rustix::system::sysinfo();
    let bytes =
        (machine.totalram as u64 + machine.totalswap as u64).saturating_mul(u64::from(machine.mem_unit));
    bytes.saturating_mul(2).saturating_add(SPARE)
}

/// For memory of devices.
const SPARE: u64 = 16 << 30;

/// Whether all regions of this `SET_MEM_TABLE` can be mapped from these descriptors, in `longest` bytes.
pub(super) fn try_out(payload: &[u8], fds: &[OwnedFd], longest: u64) -> Result<(), Objection> {
    let count = Fields(payload).word(0)? as usize;
    if count > REGIONS_MAX {
        return Err(Objection::Table("it has too many regions"));
    }
    if count != fds.len() {
        return Err(Objection::Table("it has not one descriptor for each region"));
    }
    fds.iter().try_for_each(|fd| pin(fd.as_fd()))?;
    let (mut mapped, mut left) = (Vec::with_capacity(count), longest);
    for (i, fd) in fds.iter().enumerate() {
        let fields = Fields(payload.get(HEADER + i * REGION..).ok_or(Objection::Short)?);
        // Guest physical address, size, address in the front-end, offset in the file.
        let region = Mapping::new(fields.long(8)?, fields.long(24)?, fd.as_fd(), left)?;
        left -= region.length as u64;
        mapped.push(region);
    }
    Ok(())
}

/// Whether the log of written pages that this `SET_LOG_BASE` offers lies within its file, and within `longest` bytes.
pub(super) fn try_log(payload: &[u8], fds: &[OwnedFd], longest: u64) -> Result<(), Objection> {
    let fields = Fields(payload);
    fds.iter().try_for_each(|fd| {
        pin(fd.as_fd())?;
        length(fields.long(0)?, fields.long(8)?, fd.as_fd(), longest).map(drop)
    })
}

/// The bytes that are mapped of a file: from its beginning to the region's end, in whole blocks.
fn length(size: u64, offset: u64, fd: BorrowedFd<'_>, longest: u64) -> Result<u64, Objection> {
    let end = offset.checked_add(size).filter(|_| size > 0);
    let end = end.ok_or(Objection::Table("a region has no size, or wraps"))?;
    let about = fstat(fd).map_err(|_| Objection::Table("a descriptor is no file"))?;
    let (block, held) = (u64::try_from(about.st_blksize), u64::try_from(about.st_size));
    let block = block.ok().filter(|b| *b > 0).ok_or(Objection::Table("a descriptor is no file"))?;
    let whole = |n: u64| n.checked_next_multiple_of(block).ok_or(Objection::Table("a region is too large"));
    let length = whole(end)?;
    if length > whole(held.unwrap_or(0))? {
        return Err(Objection::Table("a region is longer than its file"));
    }
    if length > longest {
        return Err(Objection::Table("its regions are longer than twice the machine's memory"));
    }
    Ok(length)
}

/// Unmaps on drop.
struct Mapping {
    at: *mut std::ffi::c_void,
    length: usize,
}

impl Mapping {
    /// From the file's beginning, in whole blocks of its own, as the library does; no longer than `longest` bytes.
    fn new(size: u64, offset: u64, fd: BorrowedFd<'_>, longest: u64) -> Result<Mapping, Objection> {
        let length = length(size, offset, fd, longest)?;
        let length = usize::try_from(length).map_err(|_| Objection::Table("a region is too large"))?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place; nothing reads or writes there.
        let at = unsafe { mmap(std::ptr::null_mut(), length, rights, MapFlags::SHARED, fd, 0) };
        let at = at.map_err(|_| Objection::Table("a region cannot be mapped"))?;
        Ok(Mapping { at, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: a mapping of ours, to which nothing leads.
        let _ = unsafe { munmap(self.at, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    const ENOUGH: u64 = 1 << 46;

    /// So many descriptors of one file.
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
    fn what_can_be_mapped_passes() {
        let [fd] = memory(1 << 20);
        assert_eq!(try_out(&table(&[]), &[], ENOUGH), Ok(()));
        assert_eq!(try_out(&table(&[(1 << 20, 0)]), &[fd], ENOUGH), Ok(()));
        assert_eq!(try_out(&table(&[(4096, 0), (4096, 4096)]), &memory::<2>(1 << 20), ENOUGH), Ok(()));
        // A last block that is not whole reads as zeros behind the file's end.
        assert_eq!(try_out(&table(&[(8192, 0)]), &memory::<1>(8000), ENOUGH), Ok(()));
    }

    #[test]
    fn address_space_is_not_for_one_guest() {
        let longer = Err(Objection::Table("a region is longer than its file"));
        assert_eq!(try_out(&table(&[(2 << 20, 0)]), &memory::<1>(1 << 20), ENOUGH), longer);
        assert_eq!(try_out(&table(&[(1 << 20, 4096)]), &memory::<1>(1 << 20), ENOUGH), longer);
        // Sparse: no page is there. Both regions are mapped from the file's beginning.
        let regions = table(&[(1 << 30, 0), (1 << 30, 1 << 30)]);
        let much = Err(Objection::Table("its regions are longer than twice the machine's memory"));
        assert_eq!(try_out(&regions, &memory::<2>(2 << 30), (3 << 30) - 1), much);
        assert_eq!(try_out(&regions, &memory::<2>(2 << 30), 3 << 30), Ok(()));
        assert!(longest() > SPARE);
    }

    #[test]
    fn a_log_lies_within_its_file() {
        let log = |size: u64| [size, 0].map(u64::to_ne_bytes).concat();
        assert_eq!(try_log(&log(1 << 20), &memory::<1>(1 << 20), ENOUGH), Ok(()));
        assert!(try_log(&log(2 << 20), &memory::<1>(1 << 20), ENOUGH).is_err());
        assert!(try_log(&log(1 << 20), &memory::<1>(1 << 20), 4096).is_err());
    }

    #[test]
    fn what_cannot_is_refused() {
        let fd = memory::<1>(1 << 20);
        for (size, offset) in [(0, 0), (u64::MAX, 1), (u64::MAX - 8191, 8192), (u64::MAX, 0), (1 << 62, 0)] {
            assert!(try_out(&table(&[(size, offset)]), &fd, ENOUGH).is_err(), "{size:#x} at {offset:#x}");
        }
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let read_only = std::fs::File::open("/proc/self/exe").unwrap();
        for fd in [OwnedFd::from(ours), read_only.into()] {
            let refused = Err(Objection::Table("a file is neither shmem nor hugetlbfs"));
            assert_eq!(try_out(&table(&[(4096, 0)]), &[fd], ENOUGH), refused);
        }
        assert!(try_out(&table(&[(4096, 0)]), &[], ENOUGH).is_err());
        assert!(try_out(&table(&[(4096, 0); 9]), &memory::<9>(1 << 20), ENOUGH).is_err());
        assert!(try_out(&table(&[(4096, 0); 2])[..60], &memory::<2>(1 << 20), ENOUGH).is_err());
        // Each can be mapped; all together cannot.
        assert!(try_out(&table(&[(1 << 46, 0); 4]), &memory::<4>(1 << 46), u64::MAX).is_err());
    }
}
