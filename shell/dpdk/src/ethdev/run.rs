//! A running device: its configuration, and the state that its queues share.

use super::claim::Claim;
use super::error::{DeviceError, check};
use super::raw_info;
use super::tx_offloads::TxOffloads;
use crate::mempool::Mempool;
use dpdk_sys as sys;
use packet::gso::GsoKinds;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use sync::CachePadded;
use units::NumaId;

/// The usual Ethernet MTU in bytes. Packets of a larger MTU may need more than one buffer.
const ETHER_MTU: u16 = 1500;
/// Bytes of a frame that the MTU does not include: Ethernet header (14) and check sequence (4).
const ETHERNET_OVERHEAD: usize = 18;

/// Configuration with which a device is started.
#[derive(Clone, Debug)]
pub struct Config {
    /// Requested number of receive queues. It is reduced to the number that the device supports.
    pub n_rxq: u16,
    /// Requested number of transmit queues. It is reduced to the number that the device supports.
    pub n_txq: u16,
    /// Number of descriptors of each receive queue.
    pub n_rxq_desc: u16,
    /// Number of descriptors of each transmit queue.
    pub n_txq_desc: u16,
    /// MTU in bytes.
    pub mtu: u16,
    /// Whether to request interrupts for link changes.
    pub link_interrupt: bool,
    /// NUMA node of the queues' memory.
    pub numa: NumaId,
    /// The pool for received packets.
    pub mempool: Mempool,
    /// Whether to use the device's segmentation if it has one.
    pub segmentation: bool,
}

/// State that the queues of a started device share.
pub(crate) struct Running {
    pub(crate) claim: Arc<Claim>,
    pub(crate) mempool: Mempool,
    /// Maximum length of packets to be sent, in bytes.
    pub(crate) max_len: usize,
    /// Offloads that are in use.
    pub(crate) tx_offloads: TxOffloads,
    n_rxq: u16,
    /// A lock for each transmit queue, because several senders may share a queue. Each lock is in cache lines of its own, because
    /// workers write their locks for every burst.
    txqs: Vec<CachePadded<Mutex<()>>>,
    rx_taken: AtomicBool,
}

impl Running {
    /// Configures and starts the device, which must be stopped.
    pub(super) fn start(claim: Arc<Claim>, config: &Config) -> Result<Running, DeviceError> {
        let port = claim.port;
        let info = raw_info::raw(port)?;
        let n_rxq = config.n_rxq.min(info.max_rx_queues).max(1);
        let n_txq = config.n_txq.min(info.max_tx_queues).max(1);
        let mut tx_offloads = raw_info::tx_offloads(&info);
        if !config.segmentation {
            tx_offloads.segmentation = GsoKinds::default();
        }
        let mut conf = device_conf(config, &info);
        conf.txmode.offloads = tx_offloads.as_flags();
        let (n_rxq, n_txq) = configure(port, config, &conf, n_rxq, n_txq)?;
        // SAFETY: the port is claimed and configured.
        unsafe {
            check("start error", sys::rte_eth_dev_start(port))?;
            // Errors are ignored: a driver that supports neither call receives all packets anyway.
            sys::rte_eth_promiscuous_enable(port);
            sys::rte_eth_allmulticast_enable(port);
        }
        Ok(Running {
            claim,
            mempool: config.mempool.clone(),
            max_len: usize::from(config.mtu) + ETHERNET_OVERHEAD,
            tx_offloads,
            n_rxq,
            txqs: (0..n_txq).map(|_| CachePadded::default()).collect(),
            rx_taken: AtomicBool::new(false),
        })
    }

    pub(crate) fn n_rxq(&self) -> usize {
        usize::from(self.n_rxq)
    }

    pub(crate) fn n_txq(&self) -> usize {
        self.txqs.len()
    }

    /// Returns true only at the first call.
    pub(super) fn take_rx_once(&self) -> bool {
        !self.rx_taken.swap(true, Ordering::Relaxed)
    }

    pub(crate) fn txq(&self, queue: u16) -> &Mutex<()> {
        &self.txqs[usize::from(queue)]
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // SAFETY: the port is claimed by `self.claim`. Each queue holds this structure, so no queue exists any more.
        unsafe { sys::rte_eth_dev_stop(self.claim.port) };
    }
}

/// Configures the device with as many queues as it provides: some drivers report more than they support.
fn configure(
    port: u16,
    config: &Config,
    conf: &sys::rte_eth_conf,
    mut n_rxq: u16,
    mut n_txq: u16,
) -> Result<(u16, u16), DeviceError> {
    let socket = config.numa.0;
    loop {
        // SAFETY: the port is claimed and stopped; `conf` lives until the call returns.
        let code = unsafe { sys::rte_eth_dev_configure(port, n_rxq, n_txq, conf) };
        if code < 0 && n_rxq != n_txq {
            // Some drivers (tap) need as many receive queues as transmit queues. Senders can share a queue.
            (n_rxq, n_txq) = (n_rxq.min(n_txq), n_rxq.min(n_txq));
            continue;
        }
        check("eth_dev setup error", code)?;
        // SAFETY: the port is claimed and stopped. A driver that does not support this call keeps its own MTU.
        let code = unsafe { sys::rte_eth_dev_set_mtu(port, config.mtu) };
        if code != -libc::ENOTSUP {
            check(&format!("MTU ({}) setup error", config.mtu), code)?;
        }
        // SAFETY: the port is configured and stopped; a null pointer selects the queue's default configuration.
        let refused = set_up_each(n_txq, |q| unsafe {
            sys::rte_eth_tx_queue_setup(port, q, config.n_txq_desc, socket, std::ptr::null())
        });
        if let Err((queue, code)) = refused {
            n_txq = working_queues(queue, "txq", code)?;
            continue;
        }
        // SAFETY: as for transmit queues. The pool lives as long as the queue, because every queue holds `Running`, which holds the
        // pool.
        let refused = set_up_each(n_rxq, |q| unsafe {
            let pool = config.mempool.raw();
            sys::rte_eth_rx_queue_setup(port, q, config.n_rxq_desc, socket, std::ptr::null(), pool)
        });
        match refused {
            Ok(()) => return Ok((n_rxq, n_txq)),
            Err((queue, code)) => n_rxq = working_queues(queue, "rxq", code)?,
        }
    }
}

/// Sets up all queues. The error consists of the first queue that failed and its error number.
fn set_up_each(n: u16, setup: impl Fn(u16) -> i32) -> Result<(), (u16, i32)> {
    (0..n).try_for_each(|q| match setup(q) {
        0 => Ok(()),
        code => Err((q, code)),
    })
}

/// The number of queues that were set up before `queue` failed. An error if there are none.
fn working_queues(queue: u16, kind: &str, code: i32) -> Result<u16, DeviceError> {
    match queue {
        0 => Err(DeviceError::new(format!("unable to setup {kind}(0)"), code)),
        _ => Ok(queue),
    }
}

/// The configuration in DPDK's form: scattered reception for large MTUs, link interrupts, and RSS over IP, TCP and UDP.
fn device_conf(config: &Config, info: &sys::rte_eth_dev_info) -> sys::rte_eth_conf {
    // SAFETY: all zeros are valid for this structure and request nothing.
    let mut conf: sys::rte_eth_conf = unsafe { std::mem::zeroed() };
    let scatter = sys::SLUICE_RTE_ETH_RX_OFFLOAD_SCATTER;
    if config.mtu > ETHER_MTU && info.rx_offload_capa & scatter != 0 {
        conf.rxmode.offloads |= scatter;
    }
    conf.intr_conf.set_lsc(u32::from(config.link_interrupt));
    let fields = sys::SLUICE_RTE_ETH_RSS_IP | sys::SLUICE_RTE_ETH_RSS_TCP | sys::SLUICE_RTE_ETH_RSS_UDP;
    let fields = fields & info.flow_type_rss_offloads;
    if fields != 0 {
        conf.rxmode.mq_mode = sys::RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = fields;
    }
    conf
}
