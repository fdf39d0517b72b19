//! Memory headroom: how much memory DPDK's environment can still allocate. It is checked before a pool is created.
//!
//! DPDK allocates a pool in several pieces, and frees them again if they do not suffice. Until then the heap has no free memory, and a guest that
//! connects at this time is rejected. So a large pool is only tried if the headroom suffices.
//!
//! The environment has the memory that it allocated at its start. With `--no-huge` or `--legacy-mem` this does not change. Otherwise the
//! environment allocates more free huge pages of the kernel, up to `--socket-limit`.

use crate::args;
use dpdk_sys as sys;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use units::NumaId;

/// Bytes that a pool leaves to other users. The rings of the largest guest (128 queue pairs of 1,024 descriptors) need 16 MiB.
pub(crate) const RESERVE: u64 = 32 << 20;

/// Whether the environment may allocate more memory than at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    None,
    /// Up to these totals in bytes, by node. A node without an entry has no limit.
    UpTo(Vec<u64>),
}

static GROWTH: OnceLock<Growth> = OnceLock::new();

/// Records the arguments with which the environment is started.
pub(crate) fn record_arguments(words: &[String]) {
    let _ = GROWTH.set(Growth::from_arguments(words));
}

impl Growth {
    fn from_arguments(words: &[String]) -> Growth {
        if words.iter().any(|w| w == "--no-huge" || w == "--legacy-mem") {
            return Growth::None;
        }
        let limits = args::values(words, "--socket-limit").last().unwrap_or_default();
        // 0, or text that is not a number, means no limit.
        let megabytes = limits.split(',').map(|n| n.trim().parse::<u64>().unwrap_or(0));
        Growth::UpTo(megabytes.map(|n| if n == 0 { u64::MAX } else { n.saturating_mul(1 << 20) }).collect())
    }

    /// The headroom of a heap of `total` bytes, of which `free` are free. `huge_page_bytes`: bytes of free huge pages in the kernel.
    fn headroom(&self, node: usize, total: u64, free: u64, huge_page_bytes: u64) -> u64 {
        let more = match self {
            Growth::None => 0,
            Growth::UpTo(limits) => {
                limits.get(node).copied().unwrap_or(u64::MAX).saturating_sub(total).min(huge_page_bytes)
            }
        };
        free.saturating_add(more)
    }
}

/// The headroom of a node's heap in bytes, not necessarily contiguous. It is an estimate, because other processes allocate huge pages, too.
pub(crate) fn headroom(numa: NumaId) -> u64 {
    // SAFETY: all zeros are valid for this structure of numbers.
    let mut stats: sys::rte_malloc_socket_stats = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to `stats`. For a node without a heap it fails and does not change `stats`.
    unsafe { sys::rte_malloc_get_socket_stats(numa.0 as i32, &mut stats) };
    let growth = GROWTH.get().unwrap_or(&Growth::None);
    let huge_page_bytes = if *growth == Growth::None { 0 } else { free_huge_page_bytes(numa) };
    growth.headroom(
        numa.0 as usize,
        stats.heap_totalsz_bytes as u64,
        stats.heap_freesz_bytes as u64,
        huge_page_bytes,
    )
}

/// Bytes of free huge pages of this node, including those that the kernel may allocate by overcommit.
fn free_huge_page_bytes(numa: NumaId) -> u64 {
    let of_node = format!("/sys/devices/system/node/node{}/hugepages", numa.0);
    let of_all = "/sys/kernel/mm/hugepages";
    let folder = if Path::new(&of_node).exists() { of_node.as_str() } else { of_all };
    let Ok(sizes) = fs::read_dir(folder) else { return 0 };
    let bytes = |size: fs::DirEntry| {
        let name = size.file_name();
        let kilobytes: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let overcommit = number(of_all, &name, "nr_overcommit_hugepages").unwrap_or(0);
        let overcommit = overcommit.saturating_sub(number(of_all, &name, "surplus_hugepages").unwrap_or(0));
        let pages = number(folder, &name, "free_hugepages")?.saturating_add(overcommit);
        Some(pages.saturating_mul(kilobytes << 10))
    };
    sizes.filter_map(Result::ok).filter_map(bytes).fold(0, u64::saturating_add)
}

fn number(folder: &str, size: &std::ffi::OsStr, file: &str) -> Option<u64> {
    fs::read_to_string(Path::new(folder).join(size).join(file)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn growth(line: &str) -> Growth {
        Growth::from_arguments(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_limit_how_far_it_grows() {
        for fixed in ["x --no-huge -m 1024", "x -m 512 --legacy-mem"] {
            assert_eq!(growth(fixed).headroom(0, 100, 60, 1000), 60, "{fixed}");
        }
        assert_eq!(growth("x --in-memory").headroom(0, 100, 60, 1000), 1060);
        let limited = growth("x --socket-limit 1,0 --in-memory");
        assert_eq!(limited.headroom(0, (1 << 20) - 400, 60, 1000), 460);
        assert_eq!(limited.headroom(0, 2 << 20, 60, 1000), 60);
        assert_eq!(limited.headroom(1, 2 << 20, 60, 1000), 1060);
        assert_eq!(limited.headroom(2, 2 << 20, 60, 1000), 1060);
        assert_eq!(growth("x --socket-limit=1").headroom(0, 2 << 20, 60, 1000), 60);
    }
}
