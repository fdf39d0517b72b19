//! State of a worker that parks misses.

use crate::packet::Packet;
use crate::park::{Limits, Park};
use crate::shared::Shared;
use crate::upcall_budget::UpcallBudget;
use crate::upcalls::{Answer, Inbox, Request, Unneeded, Wake};
use std::collections::VecDeque;
use std::sync::Arc;

/// State of a worker that parks misses.
pub(crate) struct Parking {
    pub(crate) park: Park<Packet>,
    pub(crate) budget: UpcallBudget,
    /// Upcalls that are not in the shared queue yet.
    pub(crate) outbox: Vec<Request>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) answers: VecDeque<Answer>,
    /// Buffers of answered upcalls, for the next upcalls.
    pub(crate) packet_buffers: Vec<Vec<u8>>,
    /// Memory to be returned to handlers, which allocated it.
    pub(crate) unneeded: Vec<Unneeded>,
    /// A handler existed when the iteration began.
    pub(crate) has_handler_thread: bool,
    /// Number of packets that could not be parked, of the queue that is being received from.
    pub(crate) overflow: u64,
}

impl Parking {
    /// Makes a state without parked packets. `wake` ends the worker's sleep when an answer arrives.
    pub(crate) fn new(shared: &Shared, limits: Limits, wake: Wake) -> Parking {
        let inbox = Arc::new(Inbox::new(wake));
        shared.upcalls.add_inbox(&inbox);
        Parking {
            park: Park::new(limits),
            budget: UpcallBudget::default(),
            outbox: Vec::new(),
            inbox,
            answers: VecDeque::new(),
            packet_buffers: Vec::new(),
            unneeded: Vec::new(),
            has_handler_thread: false,
            overflow: 0,
        }
    }
}
