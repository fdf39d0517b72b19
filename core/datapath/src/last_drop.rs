//! The packet of each port that was dropped last, so that somebody can ask why (`ofproto/trace --last-drop`).
//!
//! A worker holds the packet that it dropped last until its turn ends, or until it drops one of another port; only then
//! are the bytes copied. So a packet that is not dropped pays nothing, and of a stream that is dropped one packet of a
//! turn is copied. Buffers go back with the turn.
//!
//! **Bound**: one frame for each port and worker.
//!
//! **Threads**: the worker writes, anybody reads. A worker that finds somebody reading does not wait, and forgets.

use crate::packet::{Meta, Packet};
use dpif::DropReason;
use flow::Flow;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError, TryLockError};
use units::{Millis, WorkerId};

/// A packet as it was when it was dropped: what was done to it before shows.
#[derive(Clone, Debug, Default)]
pub struct LastDrop {
    /// When.
    pub at: Millis,
    /// By whom.
    pub worker: WorkerId,
    /// Why; `None`: nothing was.
    pub reason: Option<DropReason>,
    /// Its bytes.
    pub bytes: Vec<u8>,
    meta: Meta,
}

impl LastDrop {
    /// Its fields; `in_port` is a datapath number.
    pub fn flow(&self) -> Flow {
        self.meta.flow_of(&self.bytes)
    }
}

/// What one worker remembers, by port.
#[derive(Debug, Default)]
pub(crate) struct LastDrops(Mutex<BTreeMap<u32, LastDrop>>);

impl LastDrops {
    /// Remembers a packet in the place of the one before.
    pub(crate) fn write(&self, packet: &Packet, reason: DropReason, worker: WorkerId, at: Millis) {
        let mut by_port = match self.0.try_lock() {
            Ok(by_port) => by_port,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let last = by_port.entry(packet.meta.in_port).or_default();
        (last.at, last.worker, last.reason) = (at, worker, Some(reason));
        last.meta.clone_from(&packet.meta);
        last.bytes.clear();
        last.bytes.extend_from_slice(packet.frame.bytes());
    }

    /// What there is of a port.
    pub(crate) fn of(&self, port: u32) -> Option<LastDrop> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&port).cloned()
    }

    /// The port is gone.
    pub(crate) fn forget(&self, port: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&port);
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{Control, Wire};
    use crate::{Config, Datapath};
    use dpif::{DpAction, DropReason};
    use flow::Flow;
    use flow::compose::compose;
    use std::sync::Arc;
    use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

    fn packet(src: u32) -> Vec<u8> {
        compose(&Flow { dl_type: 0x0800, nw_proto: 17, nw_ttl: 64, nw_src: src, ..Flow::ZERO }, b"")
    }

    #[test]
    fn the_last_of_each_port_and_why() {
        let control = Arc::new(Control::default());
        let nw_src = Flow { nw_src: u32::MAX, dl_type: u16::MAX, ..Flow::ZERO };
        let rule = |src, action| (Flow { nw_src: src, dl_type: 0x0800, ..Flow::ZERO }, nw_src, vec![action]);
        *control.rules.lock().unwrap() = vec![
            rule(1, DpAction::Output(PortNo(2))),
            rule(2, DpAction::Drop(DropReason::ActionOfPipeline)),
            rule(3, DpAction::Drop(DropReason::ActionRecursionTooDeep)),
        ];
        let datapath = Datapath::new(&Config::default());
        datapath.set_handler(control);
        let mut worker = datapath.worker(WorkerId(1), 0);
        let wires = [1, 2].map(|no| {
            let wire = Wire::default();
            datapath.add_port(PortNo(no), vec![Box::new(Wire::default())]).unwrap();
            worker.add_rxq(PortNo(no), QueueId(0), Box::new(wire.clone()));
            wire
        });
        let mut at = 0;
        let mut send = |port: usize, sources: &[u32]| {
            sources.iter().for_each(|&src| wires[port - 1].put(&packet(src)));
            at += 1;
            worker.poll(Millis(at), Cycles(0));
        };
        send(1, &[1]);
        assert!(datapath.last_drop(PortNo(1)).is_none());
        // First by an upcall, then by megaflows: the whole batch, and some of it.
        for sources in [&[3, 2][..], &[2, 2], &[2, 3, 1, 2, 1]] {
            send(1, sources);
            let last = datapath.last_drop(PortNo(1)).unwrap();
            assert_eq!((last.reason, last.worker), (Some(DropReason::ActionOfPipeline), WorkerId(1)));
            let flow = last.flow();
            assert_eq!((flow.in_port, flow.nw_src, last.bytes), (1, 2, packet(2)));
        }
        send(2, &[3]);
        let last = |port| datapath.last_drop(PortNo(port)).map(|d| (d.at, d.reason.unwrap()));
        assert_eq!(last(1), Some((Millis(4), DropReason::ActionOfPipeline)));
        assert_eq!(last(2), Some((Millis(5), DropReason::ActionRecursionTooDeep)));
        datapath.del_port(PortNo(2)).unwrap();
        assert!(last(2).is_none() && last(1).is_some());
    }
}
