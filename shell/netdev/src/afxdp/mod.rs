//! `afxdp` and `afxdp-nonpmd`: a port on a kernel device through AF_XDP sockets, one for each of its queues.
//!
//! An XDP program passes received packets to the sockets before the kernel's stack sees them. `afxdp` is polled by PMD
//! threads, `afxdp-nonpmd` by the worker of kernel ports; otherwise they are equal. Packets are copied between the
//! sockets' memory and frames, once in each direction.
//!
//! AF_XDP does not transport offload requests on reception. A virtual device (veth, tap) whose peer leaves the
//! checksum to the device delivers packets that have only the pseudo header's sum in the field. `queue` detects these
//! and sets the frame's offload request, so TCP works without `ethtool -K ... tx off` at the peer. On transmission,
//! checksums are left to the kernel if it supports that, so that no checksum is computed between two virtual devices;
//! other requests are performed here.
//!
//! Invariants: the program is attached while the [`Afxdp`] lives and runs, and no longer (the kernel detaches it also
//! if the process is killed); the sockets are closed when their last queue is dropped. Memory: 16 MiB for each queue with
//! rings of its own; in mode `spp` the queues of a NUMA node share pools (`pooled_rx`, `pooled_tx`, `pools`), and frames
//! are not copied on reception. The main thread owns the `Afxdp`, workers own the queues.
//!
//! Sources for options, limits and counters: vswitch.xml and the afxdp chapter of the Open vSwitch 3.7 manual.

mod options;
mod pooled_rx;
mod pooled_tx;
mod pools;
mod port;
mod queue;
mod running;
mod sockets;

pub use port::Afxdp;
