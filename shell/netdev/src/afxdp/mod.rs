//! `afxdp` and `afxdp-nonpmd`: a port on a kernel device through AF_XDP sockets, one for each of its queues.
//!
//! An XDP program redirects received packets to the sockets before the kernel's network stack sees them. `afxdp` ports are polled by PMD
//! threads, `afxdp-nonpmd` ports by the worker of kernel ports; otherwise both types are the same. Packets are copied between the
//! sockets' memory and frames, once in each direction.
//!
//! AF_XDP does not transport offload requests of received packets. If the peer of a virtual device (veth, tap) leaves the
//! checksum to the device, the packet has only the sum of the pseudo header in the checksum field. Module `queue` detects this
//! and sets the frame's offload request, so TCP works without `ethtool -K ... tx off` at the peer. When packets are sent,
//! checksums are left to the kernel if it supports that, so no checksum is computed between two virtual devices.
//! Other requests are performed by the switch.
//!
//! Invariants: the program is attached exactly as long as the [`Afxdp`] lives and runs (the kernel detaches it also
//! if the process is killed); the sockets are closed when their last queue is dropped. Memory: 16 MiB for each queue with
//! its own rings. In mode `spp` the queues of a NUMA node share pools (`pooled_rx`, `pooled_tx`, `pools`), and received packets
//! are not copied. The main thread owns the `Afxdp`, workers own the queues.
//!
//! Sources for options, limits and counters: vswitch.xml and the AF_XDP chapter of the Open vSwitch 3.7 manual.

mod options;
mod pooled_rx;
mod pooled_tx;
mod pools;
mod port;
mod queue;
mod running;
mod sockets;

pub use port::Afxdp;
