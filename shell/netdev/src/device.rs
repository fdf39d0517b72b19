//! What the switch asks of a port, whatever it is made of.
//!
//! The main thread (or a helper of it) owns the `Netdev`: facts and settings. The queues are given out
//! once, to the worker that polls them. Dropping the `Netdev` ends the port; queues that a worker
//! still holds then bring nothing and refuse everything, and are dropped when the worker lets go.

use crate::dummy::DummyHandle;
use crate::error::NetdevError;
use crate::stats::Stats;
use packet::queue::{RxQueue, TxQueue};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{NumaId, QueueId};

/// A receive queue, and the descriptor that is readable while it has frames.
pub struct RxHandle {
    /// What the worker polls.
    pub queue: Box<dyn RxQueue>,
    /// What it sleeps on; `None` for a queue that only polling can tell of.
    pub poll_fd: Option<Arc<OwnedFd>>,
}

/// Speed and modes of the link, as far as the device tells.
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

/// What work on a packet may be left to a port that sends it; the rest is done before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxWork {
    /// The checksum of an IPv4 header.
    pub ip_checksum: bool,
    /// The checksums of TCP and UDP.
    pub checksum: bool,
    /// That of SCTP.
    pub sctp_checksum: bool,
    /// Cutting TCP into segments.
    pub segmentation: bool,
}

impl TxWork {
    /// Of the kernel's devices: what the device cannot do, the kernel does.
    pub const KERNEL: TxWork =
        TxWork { ip_checksum: false, checksum: true, sctp_checksum: true, segmentation: true };

    /// Its part of the `status` column. Packets in tunnels are left to nobody.
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
    /// Nowhere.
    #[default]
    None,
    /// In the kernel: its device has a queueing discipline.
    Kernel,
    /// In the datapath, before the device gets them.
    Datapath,
}

/// The present state of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The kernel's number; `None` for a device that is not the kernel's.
    pub ifindex: Option<u32>,
    /// Ethernet address.
    pub mac: [u8; 6],
    /// MTU.
    pub mtu: u32,
    /// Set up by the administrator.
    pub admin_up: bool,
    /// There is a link.
    pub link_up: bool,
    /// How often the link came or went since the port was opened.
    pub link_resets: u64,
    /// The link's speed and modes.
    pub modes: LinkModes,
    /// What may be left to it.
    pub tx_work: TxWork,
    /// Why it is out of service, if it is: the `error` column.
    pub trouble: Option<String>,
    /// The `status` column, apart from that: driver and versions.
    pub status: BTreeMap<String, String>,
}

/// A network device that is a port of the switch.
pub trait Netdev: Send {
    /// Its name.
    fn name(&self) -> &str;
    /// Its type, as it was opened.
    fn kind(&self) -> &str;
    /// Polled by workers with `pmd` in their name, not by the worker of kernel ports.
    fn is_pmd(&self) -> bool {
        false
    }
    /// Receive queues it has.
    fn n_rxq(&self) -> usize {
        1
    }
    /// Transmit queues it has.
    fn n_txq(&self) -> usize {
        1
    }
    /// The NUMA node of its memory.
    fn numa_id(&self) -> NumaId {
        NumaId(0)
    }
    /// Whether the queue brings packets at present: a guest may have fewer in use than there are.
    fn rxq_enabled(&self, _queue: QueueId) -> bool {
        true
    }
    /// So many workers will send, each of them by a queue of its own if the device can: a wish for `restart`.
    fn set_senders(&mut self, _workers: usize) {}
    /// Settings wait that only `restart` puts in force.
    fn needs_restart(&self) -> bool {
        false
    }
    /// Stops the device, applies what waits, and starts it. To be called when no worker has a queue of it any more: the
    /// device waits, for a bounded time, until those that were given out have been dropped. Afterwards its queues are to be
    /// taken anew, also where it fails (it then has none).
    fn restart(&mut self) -> Result<(), NetdevError> {
        Ok(())
    }
    /// The receive queues, by number. Given once after the opening and once after each `restart`; other calls give none.
    fn take_rx_queues(&mut self) -> Vec<RxHandle>;
    /// A transmit queue of its own for each caller.
    fn tx_queue(&self) -> Box<dyn TxQueue>;
    /// Reads its state. Asks the kernel: call it when something changed, not for each packet.
    fn facts(&mut self) -> Result<Facts, NetdevError>;
    /// A number that changes with `stats`, of a device that knows one without counting up everything.
    fn activity(&self) -> Option<u64> {
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
    /// Applies the `options` column. `true`: the number of queues changed, so the queues that were given
    /// out are dead and are to be taken anew.
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<bool, NetdevError>;
    /// The options in force (`netdev` configuration as `dpctl/show` prints it).
    fn options(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    /// `look`, `change_seq` and `needs_restart` are to be called now and then. Of other devices the kernel tells, or
    /// [`crate::open::Netdevs::take_changed`].
    fn is_watched(&self) -> bool {
        false
    }
    /// A number that changes whenever `facts` may have changed, for devices that no kernel event covers.
    fn change_seq(&self) -> u64 {
        0
    }
    /// Looks whether its state changed, where nothing tells of that: called now and then. What it finds shows in
    /// `change_seq`.
    fn look(&mut self) {}
    /// The memory pool of its packets, as `netdev-dpdk/get-mempool-info` shows it, empty while it has none; `None` for a
    /// device that is not DPDK's.
    fn mempool_info(&self) -> Option<String> {
        None
    }
    /// Where its packets are queued.
    fn qos_place(&self) -> QosPlace {
        QosPlace::None
    }
    /// The controls that only a dummy has.
    fn dummy(&self) -> Option<&DummyHandle> {
        None
    }
}
