//! The interface of all kinds of ports.
//!
//! The main thread (or a helper of it) owns the `Netdev` for facts and settings. Each queue is given once, to the
//! worker that polls it. Dropping the `Netdev` closes the port; queues that a worker still holds then receive nothing
//! and drop everything, until the worker drops them.

use crate::dummy::DummyHandle;
use crate::error::NetdevError;
use crate::rx_buffers::{QueueUse, RxBuffers};
use crate::shared_member::Member;
use crate::stats::Stats;
use packet::queue::{RxQueue, TxQueue};
use rxpool::Mode;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{NumaId, QueueId};

/// A receive queue, and the descriptor that is readable while it has frames.
pub struct RxHandle {
    /// The queue that the worker polls.
    pub queue: Box<dyn RxQueue>,
    /// The descriptor that it sleeps on; `None` if packets can only be detected by polling.
    pub poll_fd: Option<Arc<OwnedFd>>,
}

/// Speed and modes of the link, as far as the device reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkModes {
    /// Megabits per second.
    pub speed_mbps: Option<u32>,
    /// Full, not half.
    pub full_duplex: Option<bool>,
    /// In use, in the bits of OpenFlow 1.1's `ofp_port_features`.
    pub current: u32,
    /// Advertised, the same bits.
    pub advertised: u32,
    /// Possible, the same bits.
    pub supported: u32,
}

/// Offloads that a port performs on transmission; others are performed before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxWork {
    /// The checksum of an IPv4 header.
    pub ip_checksum: bool,
    /// The checksums of TCP and UDP.
    pub checksum: bool,
    /// The checksum of SCTP.
    pub sctp_checksum: bool,
    /// TCP segmentation.
    pub segmentation: bool,
}

impl TxWork {
    /// Kernel devices: what the device cannot do, the kernel does.
    pub const KERNEL: TxWork =
        TxWork { ip_checksum: false, checksum: true, sctp_checksum: true, segmentation: true };

    /// The offloads in the `status` column. Offloads inside of tunnels are never used.
    pub fn status(self) -> BTreeMap<String, String> {
        [
            ("ip_csum", self.ip_checksum),
            ("tcp_csum", self.checksum),
            ("udp_csum", self.checksum),
            ("sctp_csum", self.sctp_checksum),
            ("tcp_seg", self.segmentation),
            ("vxlan_tso", false),
            ("gre_tso", false),
            ("geneve_tso", false),
            ("out_ip_csum", false),
            ("out_udp_csum", false),
        ]
        .into_iter()
        .map(|(name, does)| (format!("tx_{name}_offload"), does.to_string()))
        .collect()
    }
}

/// Where a port's packets are queued and policed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QosPlace {
    /// No QoS.
    #[default]
    None,
    /// In the kernel: the device has a queueing discipline.
    Kernel,
    /// In the datapath, before packets get to the device.
    Datapath,
}

/// The current state of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Interface index; `None` if it is not a kernel device.
    pub ifindex: Option<u32>,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// MTU.
    pub mtu: u32,
    /// Administratively up.
    pub admin_up: bool,
    /// The link is up.
    pub link_up: bool,
    /// How often the link changed since the port was opened.
    pub link_resets: u64,
    /// The link's speed and modes.
    pub modes: LinkModes,
    /// Its offloads on transmission.
    pub tx_work: TxWork,
    /// Why it is out of service, for the `error` column; `None` if it works.
    pub trouble: Option<String>,
    /// The `status` column without offloads: driver and versions.
    pub status: BTreeMap<String, String>,
}

/// Counters of a kernel device. Readers of many devices get the kernel's part for all of them at once (`/proc/net/dev`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// The kernel's side is the other end: what it transmits, the switch receives.
    pub is_other_end: bool,
    /// Packets that the port itself dropped on reception, and on transmission, which the kernel does not count.
    pub dropped: (u64, u64),
}

/// A network device that is a port of the switch.
pub trait Netdev: Send {
    /// Its name.
    fn name(&self) -> &str;
    /// Its type, as it was opened.
    fn kind(&self) -> &str;
    /// Polled by PMD threads, not by the worker of kernel ports.
    fn is_pmd(&self) -> bool {
        false
    }
    /// Number of receive queues.
    fn n_rxq(&self) -> usize {
        1
    }
    /// Number of transmit queues.
    fn n_txq(&self) -> usize {
        1
    }
    /// The NUMA node of its memory.
    fn numa_id(&self) -> NumaId {
        NumaId(0)
    }
    /// Whether the queue is in use: a guest may use fewer queues than there are.
    fn rxq_enabled(&self, _queue: QueueId) -> bool {
        true
    }
    /// Announces the number of workers that will send, each with a queue of its own if the device supports that. Takes
    /// effect with `restart`.
    fn set_senders(&mut self, _workers: usize) {}
    /// Whether settings wait for a `restart`.
    fn needs_restart(&self) -> bool {
        false
    }
    /// Stops the device, applies waiting settings, and starts it. To be called when no worker has a queue of it any
    /// more: the device waits, for a bounded time, until all queues have been dropped. Afterwards its queues are to be
    /// taken again, also if it failed (it then has none).
    fn restart(&mut self) -> Result<(), NetdevError> {
        Ok(())
    }
    /// The receive queues, by number. Returned once after opening and once after each `restart`; other calls return
    /// none.
    fn take_rx_queues(&mut self) -> Vec<RxHandle>;
    /// A transmit queue, one for each caller.
    fn tx_queue(&self) -> Box<dyn TxQueue>;
    /// Reads its state. May ask the kernel: call it when something changed, not per packet.
    fn facts(&mut self) -> Result<Facts, NetdevError>;
    /// A number that changes whenever `stats` does, if the device has one that is cheaper than `stats`.
    fn activity(&self) -> Option<u64> {
        None
    }
    /// For a device whose counters the kernel has: what `stats` makes of those.
    fn kernel_counters(&self) -> Option<KernelCounters> {
        None
    }
    /// Its counters.
    fn stats(&mut self) -> Result<Stats, NetdevError>;
    /// Sets the MTU.
    fn set_mtu(&mut self, mtu: u32) -> Result<(), NetdevError>;
    /// Sets the Ethernet address.
    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), NetdevError>;
    /// Sets it up or down.
    fn set_admin(&mut self, up: bool) -> Result<(), NetdevError>;
    /// Applies the `options` column. Returns true if the number of queues changed: earlier queues are then dead and
    /// are to be taken again.
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<bool, NetdevError>;
    /// The options in force (`netdev` configuration as `dpctl/show` prints it).
    fn options(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    /// Sets how the port gets its receive buffers; takes effect now or with `restart`. Returns true if earlier queues are
    /// dead and are to be taken again. If the device cannot do that, the error says why, and the port stays as it is or has
    /// rings of its own.
    fn set_rx_buffers(&mut self, wanted: &RxBuffers) -> Result<bool, NetdevError> {
        match wanted.mode {
            Mode::None => Ok(false),
            mode => {
                let why = "ports of this type have only rings of their own";
                Err(NetdevError::rx_pool(self.name(), mode.name(), why))
            }
        }
    }
    /// Its part in the datapath's shared rx queues, if it receives by those; it has no queue of its own then.
    fn shared_member(&self) -> Option<Arc<Member>> {
        None
    }
    /// The use of shared receive buffers by its rx queues; empty if it has rings of its own.
    fn rx_buffers(&self) -> Vec<QueueUse> {
        Vec::new()
    }
    /// Whether `look`, `change_seq` and `needs_restart` have to be called regularly. Changes of other devices are
    /// reported by the kernel or by [`crate::open::Netdevs::take_changed`].
    fn is_watched(&self) -> bool {
        false
    }
    /// A number that changes whenever `facts` may have changed, for devices without kernel events.
    fn change_seq(&self) -> u64 {
        0
    }
    /// Checks for a change of state if the device has no events; called regularly. A change shows in `change_seq`.
    fn look(&mut self) {}
    /// The process ends: a device that it made stays, for the next process.
    fn leave(&mut self) {}
    /// Its memory pool in the text of `netdev-dpdk/get-mempool-info`, empty while it has none; `None` for a device
    /// that is not DPDK's.
    fn mempool_info(&self) -> Option<String> {
        None
    }
    /// Where its packets are queued and policed.
    fn qos_place(&self) -> QosPlace {
        QosPlace::None
    }
    /// The controls of a dummy; `None` for other devices.
    fn dummy(&self) -> Option<&DummyHandle> {
        None
    }
}
