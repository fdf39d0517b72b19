//! For tests of drops and captures: a worker that handles packets by their source address.

use crate::port::RX_BURST;
use crate::tests::{Control, Wire};
use crate::{Config, Datapath, Worker};
use dpif::{DpAction, DropReason};
use flow::compose::compose;
use flow::{Flow, Match};
use std::sync::Arc;
use units::{Cycles, Millis, PortNo, QueueId, WorkerId};

/// A packet of this source.
pub(crate) fn packet(src: u32) -> Vec<u8> {
    compose(&Flow { dl_type: 0x0800, nw_proto: 17, nw_ttl: 64, nw_src: src, ..Flow::ZERO }, b"")
}

/// Matches the packets of a source.
pub(crate) fn source(src: u32) -> Match {
    let mask = Flow { nw_src: u32::MAX, dl_type: u16::MAX, ..Flow::ZERO };
    Match::new(&Flow { nw_src: src, dl_type: 0x0800, ..Flow::ZERO }, &mask)
}

/// Port 1 receives; it is the only port. Packets of sources 1 to 9 go to the port with this number, packets of source
/// 10 fail, and all others are dropped by the tables.
pub(crate) struct BySource {
    pub(crate) datapath: Arc<Datapath>,
    pub(crate) worker: Worker,
    pub(crate) wire: Wire,
    pub(crate) at: u64,
}

impl BySource {
    pub(crate) fn new() -> BySource {
        let control = Arc::new(Control::default());
        let rule = |src, action| {
            let m = source(src);
            (m.flow, m.mask, vec![action])
        };
        let mut rules: Vec<_> = (1..10).map(|n| rule(n, DpAction::Output(PortNo(n)))).collect();
        rules.push(rule(10, DpAction::Drop(DropReason::ActionRecursionTooDeep)));
        let ip = |dl_type| Flow { dl_type, ..Flow::ZERO };
        rules.push((ip(0x0800), ip(u16::MAX), vec![DpAction::Drop(DropReason::ActionOfPipeline)]));
        *control.rules.lock().unwrap() = rules;
        let datapath = Datapath::new(&Config::default());
        datapath.set_handler(control);
        let mut worker = datapath.worker(WorkerId(1), 0);
        let wire = Wire::default();
        datapath.add_port(PortNo(1), vec![Box::new(Wire::default())]).unwrap();
        worker.add_rxq(PortNo(1), QueueId(0), Box::new(wire.clone()));
        BySource { datapath, worker, wire, at: 0 }
    }

    /// Receives a packet of each source, in as few iterations as possible.
    pub(crate) fn send(&mut self, sources: &[u32]) {
        for burst in sources.chunks(RX_BURST) {
            burst.iter().for_each(|&src| self.wire.put(&packet(src)));
            self.iteration();
        }
    }

    pub(crate) fn iteration(&mut self) {
        self.at += 1;
        self.worker.poll(Millis(self.at), Cycles(0));
    }
}
