//! A dummy as a `Netdev`: its options, facts and settings.

use super::checksums::Checksums;
use super::pcap::Pcap;
use super::queue::{DummyRx, DummyTx};
use super::state::{ChangedDummies, Count, DummyHandle, Queue, State, Totals};
use super::stream::Streams;
use crate::device::{Facts, Netdev, RxHandle, TxOffloads};
use crate::error::{NetdevError, errno_of};
use crate::stats::Stats;
use packet::queue::{RxQueue, TxQueue};
use settings::Setting;
use settings::options::{
    DUMMY_IFINDEX, DUMMY_N_RXQ, DUMMY_N_TXQ, DUMMY_NUMA_ID, DUMMY_OL_TSO_SEGSZ, DUMMY_PCAP, DUMMY_RXQ_PCAP,
    DUMMY_TX_PCAP,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use units::NumaId;

const MTUS: std::ops::RangeInclusive<u32> = 68..=65535;

/// A dummy port.
pub struct Dummy {
    handle: DummyHandle,
    kind: String,
    pmd: bool,
    /// The generation ([`State::generation`]) whose rx queues were taken last.
    taken_generation: Option<u64>,
    next_txq: AtomicUsize,
}

impl Dummy {
    /// Creates the dummy with number `serial`, from which its MAC address is derived. Its changes are reported to
    /// `changes`.
    pub fn new(
        name: &str,
        kind: &str,
        serial: u32,
        changes: &Arc<ChangedDummies>,
    ) -> Result<Dummy, NetdevError> {
        let queue = Queue::new().map_err(|e| NetdevError::open(name, errno_of(&e)))?;
        let [a, b, c, d] = 0xaa55_0000u32.wrapping_add(serial).to_be_bytes();
        let state = State {
            mac: [0xaa, 0x55, a, b, c, d],
            mtu: 1500,
            up: true,
            ifindex: None,
            numa_id: 0,
            segment_size: 0,
            checksums: Checksums::default(),
            rxqs: vec![queue],
            txqs: vec![Count::default()],
            totals: Totals::default(),
            streams: Streams::default(),
            tx_pcap: None,
            rxq_pcap: None,
            ip4: Vec::new(),
            ip6: Vec::new(),
            seq: 1,
            generation: 0,
            ended: false,
        };
        let handle = DummyHandle::new(name, state, changes);
        Ok(Dummy {
            handle,
            kind: kind.to_owned(),
            pmd: kind == "dummy-pmd",
            taken_generation: None,
            next_txq: AtomicUsize::new(0),
        })
    }
}

impl Drop for Dummy {
    fn drop(&mut self) {
        let mut state = self.handle.lock();
        state.ended = true;
        state.streams = Streams::default();
        state.tx_pcap = None;
        state.rxq_pcap = None;
    }
}

/// Replaces the pcap files by those that the options name. Returns an error if a file cannot be opened.
fn open_pcaps(state: &mut State, options: &BTreeMap<String, String>) -> Option<NetdevError> {
    let mut failure = None;
    let mut open = |setting: Setting, both: bool| {
        let path = setting.get(options)?;
        Pcap::append(Path::new(path), both).map_err(|e| failure = Some(NetdevError::from_io(path, &e))).ok()
    };
    (state.rxq_pcap, state.tx_pcap) = match DUMMY_PCAP.get(options).is_some() {
        true => (None, open(DUMMY_PCAP, true)),
        false => (open(DUMMY_RXQ_PCAP, false), open(DUMMY_TX_PCAP, false)),
    };
    failure
}

impl Netdev for Dummy {
    fn name(&self) -> &str {
        self.handle.name()
    }
    fn kind(&self) -> &str {
        &self.kind
    }
    fn is_pmd(&self) -> bool {
        self.pmd
    }
    fn n_rxq(&self) -> usize {
        self.handle.n_rxq()
    }
    fn n_txq(&self) -> usize {
        self.handle.lock().txqs.len()
    }
    fn numa_id(&self) -> NumaId {
        NumaId(self.handle.lock().numa_id)
    }
    fn take_rx_queues(&mut self) -> Vec<RxHandle> {
        let state = self.handle.lock();
        let generation = state.generation;
        if self.taken_generation.replace(generation) == Some(generation) {
            return Vec::new();
        }
        let device = &self.handle;
        let give = |(qid, queue): (usize, &Queue)| {
            let rx: Box<dyn RxQueue> = Box::new(DummyRx { device: device.clone(), qid, generation });
            RxHandle { queue: rx, poll_fd: Some(queue.wake_fd()) }
        };
        state.rxqs.iter().enumerate().map(give).collect()
    }
    fn tx_queue(&self) -> Box<dyn TxQueue> {
        let qid = self.next_txq.fetch_add(1, Ordering::Relaxed) % self.n_txq().max(1);
        Box::new(DummyTx { device: self.handle.clone(), qid })
    }
    fn facts(&mut self) -> Result<Facts, NetdevError> {
        let state = self.handle.lock();
        Ok(Facts {
            ifindex: state.ifindex,
            mac: state.mac,
            mtu: state.mtu,
            admin_up: state.up,
            link_up: true,
            tx_offloads: TxOffloads { segmentation: state.segment_size > 0, ..TxOffloads::default() },
            ..Facts::default()
        })
    }
    fn activity(&self) -> Option<u64> {
        let state = self.handle.lock();
        Some(state.generation << 48 ^ state.totals.rx.packets.wrapping_add(state.totals.tx.packets))
    }
    fn stats(&mut self) -> Result<Stats, NetdevError> {
        Ok(self.handle.lock().stats())
    }
    fn set_mtu(&mut self, mtu: u32) -> Result<(), NetdevError> {
        if !MTUS.contains(&mtu) {
            return Err(NetdevError::other(
                &format!("{}: setting the MTU failed", self.name()),
                NetdevError::INVALID,
            ));
        }
        let mut state = self.handle.lock();
        if state.mtu != mtu {
            state.mtu = mtu;
            self.handle.changed(&mut state);
        }
        Ok(())
    }
    fn set_mac(&mut self, mac: [u8; 6]) -> Result<(), NetdevError> {
        let mut state = self.handle.lock();
        if state.mac != mac {
            state.mac = mac;
            self.handle.changed(&mut state);
        }
        Ok(())
    }
    fn set_admin(&mut self, up: bool) -> Result<(), NetdevError> {
        self.handle.set_admin(up);
        Ok(())
    }
    fn set_options(&mut self, options: &BTreeMap<String, String>) -> Result<bool, NetdevError> {
        let queues = |setting: Setting| if self.pmd { setting.number(options) as usize } else { 1 };
        let (n_rxq, n_txq) = (queues(DUMMY_N_RXQ), queues(DUMMY_N_TXQ));
        let mut state = self.handle.lock();
        state.ifindex = DUMMY_IFINDEX.opt_number(options).map(|n| n as u32);
        state.segment_size = DUMMY_OL_TSO_SEGSZ.opt_number(options).map_or(0, |n| n as u16);
        state.checksums = Checksums::from_options(options);
        state.streams.configure(options);
        let connects = !state.streams.options().is_empty();
        let failure = open_pcaps(&mut state, options);
        self.handle.changed(&mut state);
        if self.pmd {
            state.numa_id = DUMMY_NUMA_ID.number(options) as u32;
        }
        let resized = (n_rxq, n_txq) != (state.rxqs.len(), state.txqs.len());
        if resized {
            let made: Result<Vec<Queue>, _> = (0..n_rxq).map(|_| Queue::new()).collect();
            state.rxqs = made.map_err(|e| NetdevError::from_io(self.handle.name(), &e))?;
            state.txqs = vec![Count::default(); n_txq];
            state.totals = Totals::default();
            state.generation += 1;
        }
        let captures = state.has_captures();
        // The lock order of `ChangedDummies`.
        drop(state);
        if connects {
            self.handle.register_connections();
        }
        if captures {
            self.handle.register_captures();
        }
        failure.map_or(Ok(resized), Err)
    }
    fn options(&self) -> BTreeMap<String, String> {
        let state = self.handle.lock();
        let mut options = state.streams.options();
        let mut put = |key: &str, value: String| options.insert(key.to_owned(), value);
        if let Some(ifindex) = state.ifindex {
            put("ifindex", ifindex.to_string());
        }
        if state.segment_size > 0 {
            put("ol_tso_segsz", state.segment_size.to_string());
        }
        for name in state.checksums.names() {
            put(name, "true".to_owned());
        }
        if self.pmd {
            put("n_rxq", state.rxqs.len().to_string());
            put("n_txq", state.txqs.len().to_string());
            put("numa_id", state.numa_id.to_string());
        }
        options
    }
    fn change_seq(&self) -> u64 {
        self.handle.lock().seq
    }
    fn dummy(&self) -> Option<&DummyHandle> {
        Some(&self.handle)
    }
}
