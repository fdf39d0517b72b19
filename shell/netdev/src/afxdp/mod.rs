//! `afxdp` and `afxdp-nonpmd`: a port on a kernel device through AF_XDP sockets, one for each of its queues.
//!
//! An XDP program hands what the device receives to the sockets before the kernel's stack sees it. `afxdp` is polled
//! by the threads of `pmd-cpu-mask`, `afxdp-nonpmd` by the worker of the other kernel ports; they differ in nothing
//! else. Packets are copied between the sockets' memory and frames, once in each direction.
//!
//! AF_XDP carries no note of work left undone. A virtual device (veth, tap) whose other end leaves the checksum to
//! the device brings packets with only the pseudo header's sum in the field; `queue` finds them by that and notes it,
//! so TCP passes without `ethtool -K ... tx off` there. On the way out a checksum is left to the kernel where it takes
//! such notes, so that nobody sums what travels between two virtual devices; what else is undone is finished here.
//!
//! Invariants: the program is on the device while the [`Afxdp`] lives and runs, and no longer (the kernel sees to it
//! also when the process is killed); the sockets close when their last queue is dropped. Memory: 16 MiB for each
//! queue. The main thread owns the `Afxdp`, workers own the queues.
//!
//! Sources for options, limits and counters: vswitch.xml and the afxdp chapter of the Open vSwitch 3.7 manual.

mod options;
mod port;
mod queue;
mod sockets;

pub use port::Afxdp;
