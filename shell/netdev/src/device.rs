//! The interface of all types of ports.
//!
//! The main thread (or a helper thread of it) owns the `Netdev` and reads facts and changes settings through it. Each queue is handed over
//! once, to the worker that polls it. Dropping the `Netdev` closes the port. Queues that a worker still holds then receive nothing
//! and drop all packets, until the worker drops the queues.

use crate::dummy::DummyHandle;
use crate::error::NetdevError;
use crate::rx_buffers::{QueueUse, RxPoolSettings};
use crate::shared_member::Member;
use crate::stats::Stats;
use packet::queue::{RxQueue, TxQueue};
use rxpool::Mode;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{NumaId, QueueId};

/// A receive queue, and a file descriptor that is readable while the queue has frames.
pub struct RxHandle {
    /// The queue that the worker polls.
    pub queue: Box<dyn RxQueue>,
    /// The file descriptor for which a sleeping worker waits; `None` if packets can only be detected by polling.
    pub poll_fd: Option<Arc<OwnedFd>>,
}

/// Speed and modes of the link, as far as the device reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkModes {
    /// Megabits per second.
    pub speed_mbps: Option<u32>,
    /// Whether the link is full-duplex.
    pub full_duplex: Option<bool>,
    /// Modes in use, as bits of OpenFlow 1.1's `ofp_port_features`.
    pub current: u32,
    /// Advertised modes, in the same bits.
    pub advertised: u32,
    /// Supported modes, in the same bits.
    pub supported: u32,
}

/// Offloads that a port performs when it sends. The switch performs all other requests before it passes the packet to the port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxOffloads {
    /// The checksum of an IPv4 header.
    pub ip_checksum: bool,
    /// The checksums of TCP and UDP.
    pub checksum: bool,
    /// The checksum of SCTP.
    pub sctp_checksum: bool,
    /// TCP segmentation.
    pub segmentation: bool,
}

impl TxOffloads {
    /// The offloads of kernel devices: the kernel performs those that the device does not support.
    pub const KERNEL: TxOffloads =
        TxOffloads { ip_checksum: false, checksum: true, sctp_checksum: true, segmentation: true };

    /// The offloads in the `status` column. Offloads for packets inside tunnels are never used.
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

/// Where the packets of a port's QoS are queued and policed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QosPlace {
    /// No QoS.
    #[default]
    None,
    /// In the kernel: the device has a queueing discipline.
    Kernel,
    /// In the datapath, before packets are passed to the device.
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
    /// Whether it is administratively up.
    pub admin_up: bool,
    /// Whether the link is up.
    pub link_up: bool,
    /// How often the link changed since the port was opened.
    pub link_resets: u64,
    /// The link's speed and modes.
    pub modes: LinkModes,
    /// Its offloads on transmission.
    pub tx_offloads: TxOffloads,
    /// Why the port is out of service, for the `error` column; `None` if it works.
    pub out_of_service_reason: Option<String>,
    /// The `status` column without offloads: driver and versions.
    pub status: BTreeMap<String, String>,
}

/// How the counters of a kernel device are computed. A reader of many devices reads the kernel's part for all of them at once
/// (`/proc/net/dev`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelCounters {
    /// Whether the kernel counts from the other side: packets that the kernel transmits are received by the switch.
    pub directions_swapped: bool,
    /// Packets that the port itself dropped on reception and on transmission. The kernel does not count them.
    pub dropped: (u64, u64),
}

/// A network device that is a port of the switch.
pub trait Netdev: Send {
    /// Its name.
    fn name(&self) -> &str;
    /// The type with which it was opened.
    fn kind(&self) -> &str;
    /// Whether PMD threads poll it, and not the worker of kernel ports.
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
    /// Whether the queue is in use. A guest may use fewer queues than the port has.
    fn rxq_enabled(&self, _queue: QueueId) -> bool {
        true
    }
    /// Announces the number of workers that will send. Each gets its own queue if the device supports that. Takes
    /// effect with `restart`.
    fn set_senders(&mut self, _workers: usize) {}
    /// Whether changed settings need a `restart`.
    fn needs_restart(&self) -> bool {
        false
    }
    /// Stops the device, applies changed settings, and starts it. Call it only when no worker uses a queue of the device any more: it
    /// waits, for a limited time, until all queues have been dropped. Afterwards the caller must take the queues again, also after an
    /// error (then there are none).
    fn restart(&mut self) -> Result<(), NetdevError> {
        Ok(())
    }
    /// The receive queues, by number. Returned once after opening and once after each `restart`; further calls return
    /// an empty list.
    fn take_rx_queues(&mut self) -> Vec<RxHandle>;
    /// Creates a transmit queue for one worker.
    fn tx_queue(&self) -> Box<dyn TxQueue>;
    /// Reads the state of the device. May make system calls, so call it only when something has changed.
    fn facts(&mut self) -> Result<Facts, NetdevError>;
    /// A number that changes whenever `stats` does; `None` if the device has no such number that is cheaper to read than `stats`.
    fn activity(&self) -> Option<u64> {
        None
    }
    /// For a device whose packets the kernel counts: how `stats` are computed from the kernel's counters.
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
    /// Applies the `options` column. Returns true if the number of queues changed: then the caller must drop earlier queues, which do not
    /// work any more, and take the queues again.
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<bool, NetdevError>;
    /// The options that the device uses (`netdev` configuration as `dpctl/show` prints it).
    fn options(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    /// Sets how the port gets its receive buffers. Takes effect now or with `restart`. Returns true if the caller must drop earlier
    /// queues, which do not work any more, and take the queues again. If the device does not support these settings, the error contains the
    /// reason, and the port is unchanged or uses its own rings.
    fn set_rx_buffers(&mut self, wanted: &RxPoolSettings) -> Result<bool, NetdevError> {
        match wanted.mode {
            Mode::None => Ok(false),
            mode => {
                let why = "ports of this type have only rings of their own";
                Err(NetdevError::rx_pool(self.name(), mode.name(), why))
            }
        }
    }
    /// Its membership in the datapath's shared rx queues, if it receives through them; then it has no rx queue of its own.
    fn shared_member(&self) -> Option<Arc<Member>> {
        None
    }
    /// Use of shared receive buffers, for each of its rx queues; empty if it has its own rings.
    fn rx_buffer_usage(&self) -> Vec<QueueUse> {
        Vec::new()
    }
    /// Whether `check_for_change`, `change_seq` and `needs_restart` must be called regularly. Changes of other devices are
    /// reported by the kernel or by [`crate::open::Netdevs::take_changed`].
    fn needs_periodic_check(&self) -> bool {
        false
    }
    /// A number that changes whenever `facts` may have changed, for devices without kernel events.
    fn change_seq(&self) -> u64 {
        0
    }
    /// Checks for a change of the device's state, for devices that report no events. Called regularly; a change increases `change_seq`.
    fn check_for_change(&mut self) {}
    /// Called before the process ends: a device that the port created must stay, for the next process.
    fn keep_device(&mut self) {}
    /// Its memory pool in the format of `netdev-dpdk/get-mempool-info`, empty while it has no pool; `None` for a port
    /// that does not use DPDK.
    fn mempool_info(&self) -> Option<String> {
        None
    }
    /// Where the packets of its QoS are queued and policed.
    fn qos_place(&self) -> QosPlace {
        QosPlace::None
    }
    /// The controls of a dummy; `None` for other devices.
    fn dummy(&self) -> Option<&DummyHandle> {
        None
    }
}
