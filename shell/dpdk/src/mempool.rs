//! `Mempool`: a pool of packet buffers (mbufs) for DPDK devices.
//!
//! As in Open vSwitch, ports on one NUMA node whose MTUs need the same buffer size share a pool. With
//! `per-port-memory`, each port has its own pool, sized for its queues. If memory is short, half the wanted size is tried,
//! then a quarter, and so on down to [`MIN_MBUFS`]. Only the last attempt may use [`memory_headroom::RESERVE`].
//!
//! # Invariants
//!
//! - A pool is freed only when no [`Mempool`] refers to it and all its packets have been returned, because frames in flight
//!   and packets in the rings of other ports' devices point into it. An unreferenced pool with missing packets is checked whenever
//!   another pool is requested or released, and a port with the same requirements uses it again.
//! - The lock of the list is held while a pool is created, found, or freed, but never while packets are forwarded.
//!
//! Source: Open vSwitch's `Documentation/topics/dpdk/memory.rst`.

use crate::settings::{Settings, settings};
use crate::{eal, log, memory_headroom, memstream};
use dpdk_sys as sys;
use std::ffi::CString;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use units::NumaId;

/// Number of packet buffers of a shared pool whose buffers hold a full Ethernet MTU.
const SHARED_POOL_MBUFS: u32 = 4096 * 64;
/// Number of packet buffers of the smallest pool. A port's own pool has this number in addition to the packets for its queues.
const MIN_MBUFS: u32 = 4096 * 4;
/// Maximum number of packet buffers of a pool: the pool's name has space for 7 digits, and no machine has memory for more.
const MBUFS_MAX: u32 = 9_999_999;
/// Number of packet buffers cached per lcore: more than a burst, but few enough to stay in the core's cache.
const CACHE: u32 = 256;
/// Bytes in front of a packet, which drivers expect to be free.
pub const HEADROOM: u32 = 128;
/// Buffer sizes without headroom are multiples of this number of bytes, so that similar MTUs share a pool.
const ALIGN: u32 = 1024;
/// Bytes of a frame that the MTU does not include: Ethernet header (14) and check sequence (4).
const ETHERNET_OVERHEAD: u32 = 18;
/// The same bytes with two VLAN tags (8).
const ETHERNET_OVERHEAD_MAX: u32 = ETHERNET_OVERHEAD + 8;
/// The MTU of Ethernet in bytes.
const ETHER_MTU: u32 = 1500;
/// Number of packets that each receive queue may have in a burst, added to the size of a port's own pool.
const BURST: u32 = 32;
/// Maximum number of lcores in DPDK (`RTE_MAX_LCORE`).
const MAX_LCORE: u32 = 128;

/// The requirements of a port on its pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolRequest {
    /// The port's name.
    pub port: String,
    /// MTU in bytes.
    pub mtu: u32,
    /// NUMA node of the device.
    pub numa: NumaId,
    /// Number of receive queues.
    pub n_rxq: u32,
    /// Number of descriptors of each receive queue.
    pub n_rxq_desc: u32,
    /// Number of transmit queues.
    pub n_txq: u32,
    /// Number of descriptors of each transmit queue.
    pub n_txq_desc: u32,
}

/// The error that no pool could be created, not even of the smallest size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MempoolError {
    /// The port's name.
    pub port: String,
    /// The requested MTU.
    pub mtu: u32,
    /// The requested NUMA node.
    pub numa: NumaId,
    /// The reason.
    pub why: String,
}

impl MempoolError {
    fn new(request: &MempoolRequest, why: String) -> MempoolError {
        MempoolError { port: request.port.clone(), mtu: request.mtu, numa: request.numa, why }
    }

    /// The error that the port's queues need more packet buffers than a pool can have.
    fn too_many(request: &MempoolRequest, n: u32) -> MempoolError {
        let queues = |n: u32, desc: u32| format!("{n} with {desc} descriptors each");
        let (rx, tx) = (queues(request.n_rxq, request.n_rxq_desc), queues(request.n_txq, request.n_txq_desc));
        let text = format!(
            "receive queues ({rx}) and transmit queues ({tx}) need {n} packet buffers; a pool has at most {MBUFS_MAX}"
        );
        MempoolError::new(request, text)
    }
}

impl fmt::Display for MempoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Failed to create memory pool for netdev {}, with MTU {} on socket {}: {}",
            self.port, self.mtu, self.numa.0, self.why
        )
    }
}

impl std::error::Error for MempoolError {}

/// A pool to which a [`Mempool`] refers.
struct Pool {
    raw: NonNull<sys::rte_mempool>,
}

// SAFETY: a pool is used through DPDK's functions, which are thread-safe. It is freed only under the lock of the list, when
// no `Pool` refers to it.
unsafe impl Send for Pool {}
// SAFETY: as for `Send`.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        list().free_unused();
    }
}

/// A reference to a memory pool.
#[derive(Clone)]
pub struct Mempool(Arc<Pool>);

impl fmt::Debug for Mempool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mempool({:p})", self.0.raw)
    }
}

impl Mempool {
    /// Finds or creates the pool for these requirements, by the settings of DPDK.
    pub fn request(request: &MempoolRequest) -> Result<Mempool, MempoolError> {
        if !eal::initialized() {
            return Err(MempoolError::new(request, log::error_text(libc::ENODEV)));
        }
        let settings = settings();
        let size = buffer_size(request, settings);
        // The port that owns the pool alone; `None`: the pool is shared.
        let owner = settings.per_port_memory.then(|| request.port.clone());
        let n = n_mbufs(request, size, settings);
        if n > MBUFS_MAX {
            return Err(MempoolError::too_many(request, n));
        }
        let key = Key { size, numa: request.numa, owner, n };
        let mut list = list();
        if let Some(found) = list.find(&key) {
            return Ok(found);
        }
        // Unused pools may occupy the memory that is needed.
        list.free_unused();
        let raw = create(&key, request)?;
        let pool = Arc::new(Pool { raw });
        list.entries.push(Entry { key, raw: Raw(raw), references: Arc::downgrade(&pool) });
        Ok(Mempool(pool))
    }

    /// DPDK's pointer.
    #[inline]
    pub(crate) fn raw(&self) -> *mut sys::rte_mempool {
        self.0.raw.as_ptr()
    }

    /// Number of free packet buffers.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool lives as long as `self` refers to it.
        unsafe { sys::rte_mempool_avail_count(self.raw()) }
    }

    /// Number of packet buffers in use.
    pub fn in_use(&self) -> u32 {
        // SAFETY: the pool lives as long as `self` refers to it.
        unsafe { sys::rte_mempool_in_use_count(self.raw()) }
    }

    /// The text of `netdev-dpdk/get-mempool-info` for this pool.
    pub fn info(&self) -> String {
        // SAFETY: the pool lives as long as `self` refers to it; the stream is open while the closure runs.
        let dump = memstream::capture_text(|f| unsafe { sys::rte_mempool_dump(f, self.raw()) });
        let (available, used) = (self.available(), self.in_use());
        format!("{}    count: avail ({available}), in use ({used})\n", dump.unwrap_or_default())
    }
}

/// The text of `netdev-dpdk/get-mempool-info` for all pools; empty while DPDK is not initialized.
pub fn info_of_all() -> String {
    if !eal::initialized() {
        return String::new();
    }
    let _list = list();
    // SAFETY: none of our pools is freed while the list is locked; the stream is open while the closure runs.
    memstream::capture_text(|f| unsafe { sys::rte_mempool_list_dump(f) }).unwrap_or_default()
}

/// Name, size and packets in use of each pool.
pub fn usage() -> Vec<(String, u32, u32)> {
    let list = list();
    let pools = list.entries.iter().map(|entry| {
        let raw = entry.raw.0.as_ptr();
        // SAFETY: no pool is freed while the list is locked; the `name` of a pool ends with a zero byte.
        unsafe {
            let name = std::ffi::CStr::from_ptr((*raw).name.as_ptr());
            (name.to_string_lossy().into_owned(), (*raw).size, sys::rte_mempool_in_use_count(raw))
        }
    });
    pools.collect()
}

/// Identifies a pool: ports whose requirements have equal keys share one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Key {
    size: u32,
    numa: NumaId,
    owner: Option<String>,
    n: u32,
}

/// A pool's address in the list.
struct Raw(NonNull<sys::rte_mempool>);

// SAFETY: the address is used only while the lock of the list is held, see `Pool`.
unsafe impl Send for Raw {}

struct Entry {
    key: Key,
    raw: Raw,
    /// The references to the pool. Without any, the pool is freed when all its packets have been returned.
    references: Weak<Pool>,
}

struct List {
    entries: Vec<Entry>,
}

static LIST: Mutex<List> = Mutex::new(List { entries: Vec::new() });

fn list() -> MutexGuard<'static, List> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

impl List {
    fn find(&mut self, key: &Key) -> Option<Mempool> {
        let entry = self.entries.iter_mut().find(|e| e.key == *key)?;
        let pool = entry.references.upgrade().unwrap_or_else(|| Arc::new(Pool { raw: entry.raw.0 }));
        entry.references = Arc::downgrade(&pool);
        Some(Mempool(pool))
    }

    /// Frees unreferenced pools whose packets have all been returned.
    fn free_unused(&mut self) {
        self.entries.retain(|entry| {
            if entry.references.strong_count() > 0 {
                return true;
            }
            let raw = entry.raw.0.as_ptr();
            // SAFETY: pools are freed only here, and then removed from the list. No reference exists (references are created only
            // under this lock), so no packet is allocated from the pool any more. If all packets are available, none is in use.
            unsafe {
                if sys::rte_mempool_avail_count(raw) < (*raw).size {
                    return true;
                }
                sys::rte_mempool_free(raw);
            }
            false
        });
    }
}

/// Bytes of a buffer, including its headroom.
fn buffer_size(request: &MempoolRequest, settings: &Settings) -> u32 {
    let size = buffer_size_for_mtu(request.mtu);
    if settings.per_port_memory {
        return size;
    }
    let pools_of_node =
        settings.shared_pools.iter().filter(|pool| pool.numa.is_none_or(|numa| numa == request.numa.0));
    pools_of_node
        .map(|pool| buffer_size_for_mtu(pool.mtu))
        .filter(|configured| *configured >= size)
        .min()
        .unwrap_or(size)
}

/// Bytes of a buffer for packets of this MTU, including its headroom.
fn buffer_size_for_mtu(mtu: u32) -> u32 {
    mtu.saturating_add(ETHERNET_OVERHEAD_MAX)
        .min(u32::from(u16::MAX) - ALIGN - HEADROOM)
        .next_multiple_of(ALIGN)
        + HEADROOM
}

/// Number of packets of the pool for these requirements.
fn n_mbufs(request: &MempoolRequest, size: u32, settings: &Settings) -> u32 {
    match settings.per_port_memory {
        false if size - ETHERNET_OVERHEAD >= ETHER_MTU => SHARED_POOL_MBUFS,
        false => MIN_MBUFS,
        true => {
            let queues = request.n_rxq * request.n_rxq_desc + request.n_txq * request.n_txq_desc;
            queues + request.n_rxq.min(MAX_LCORE) * BURST + MIN_MBUFS
        }
    }
}

/// Creates a pool. It is smaller than `key.n` if memory is short.
fn create(key: &Key, request: &MempoolRequest) -> Result<NonNull<sys::rte_mempool>, MempoolError> {
    let (mut n, headroom) = (key.n, memory_headroom::headroom(key.numa));
    while n / 2 >= MIN_MBUFS && headroom < bytes(n, key.size) + memory_headroom::RESERVE {
        n /= 2;
    }
    loop {
        let name = name_of(key, &request.port, n);
        // SAFETY: the name lives until the call returns.
        let raw = unsafe {
            sys::rte_pktmbuf_pool_create(name.as_ptr(), n, CACHE, 0, key.size as u16, key.numa.0 as i32)
        };
        if let Some(raw) = NonNull::new(raw) {
            return Ok(raw);
        }
        // SAFETY: the function only reads a thread-local variable.
        let errno = unsafe { sys::sluice_errno() };
        n /= 2;
        if ![libc::ENOMEM, libc::ENOBUFS].contains(&errno) || n < MIN_MBUFS {
            return Err(MempoolError::new(request, log::error_text(errno)));
        }
    }
}

/// Bytes of memory that a pool of `n` packets needs.
fn bytes(n: u32, size: u32) -> u64 {
    let element = size + size_of::<sys::rte_mbuf>() as u32;
    // SAFETY: the function only computes a size; the null pointer requests no details.
    let object = unsafe { sys::rte_mempool_calc_obj_size(element, 0, std::ptr::null_mut()) };
    // The pool's ring has a pointer to each packet, and a power of two of entries. 1/64 is added for unused space at the ends
    // of pages.
    let (objects, ring) = (u64::from(n) * u64::from(object), u64::from(n.next_power_of_two()) * 8);
    objects + objects / 64 + ring
}

/// A unique name of at most 25 bytes.
fn name_of(key: &Key, port: &str, n: u32) -> CString {
    // FNV-1a hash of the port's name, so that the pools of two ports have different names.
    let hash = port.bytes().fold(0x811c_9dc5u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    CString::new(format!("ovs{hash:08x}{:02}{:05}{n:07}", key.numa.0 % 100, key.size - ETHERNET_OVERHEAD))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SharedPool;

    fn request(mtu: u32) -> MempoolRequest {
        let port = "p0".to_owned();
        MempoolRequest { port, mtu, numa: NumaId(0), n_rxq: 2, n_rxq_desc: 2048, n_txq: 3, n_txq_desc: 1024 }
    }

    #[test]
    fn sizes_are_those_of_open_vswitch() {
        let shared = Settings::default();
        assert_eq!(buffer_size(&request(1500), &shared), 2048 + 128);
        assert_eq!(buffer_size(&request(9000), &shared), 9216 + 128);
        assert_eq!(buffer_size(&request(u32::MAX), &shared), 64512 + 128);
        let pool = |mtu, numa| SharedPool { mtu, numa };
        let shared_pools = vec![pool(9000, None), pool(6000, Some(1)), pool(900, None)];
        let sized = Settings { shared_pools, ..Settings::default() };
        assert_eq!(buffer_size(&request(1500), &sized), 9216 + 128);
        assert_eq!(n_mbufs(&request(1500), 2176, &shared), 262_144);
        let own = Settings { per_port_memory: true, ..shared };
        assert_eq!(n_mbufs(&request(1500), 2176, &own), 2 * 2048 + 3 * 1024 + 2 * 32 + 16384);
    }

    #[test]
    fn too_many_queues_are_reported() {
        let own = Settings { per_port_memory: true, ..Settings::default() };
        let most = MempoolRequest {
            n_rxq: 65_535,
            n_rxq_desc: 32_768,
            n_txq: 65_535,
            n_txq_desc: 32_768,
            ..request(1500)
        };
        let n = n_mbufs(&most, 2176, &own);
        assert!(n > MBUFS_MAX);
        assert_eq!(
            MempoolError::too_many(&most, n).to_string(),
            "Failed to create memory pool for netdev p0, with MTU 1500 on socket 0: receive queues (65535 with 32768 \
             descriptors each) and \
             transmit queues (65535 with 32768 descriptors each) need 4294922240 packet buffers; a pool has at most 9999999"
        );
    }

    #[test]
    fn names_fit() {
        let key = Key { size: 64_640, numa: NumaId(3), owner: None, n: SHARED_POOL_MBUFS };
        let name = name_of(&key, "a port with a long name", SHARED_POOL_MBUFS);
        assert_eq!(name.as_bytes().len(), 25);
        assert!(name.to_str().unwrap().ends_with("03646220262144"));
        assert_eq!(name_of(&key, "p0", MBUFS_MAX).as_bytes().len(), 25);
    }
}
