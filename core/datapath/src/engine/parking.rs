//! What a worker needs to let others translate for it.

use crate::packet::Packet;
use crate::park::{Limits, Park};
use crate::shared::Shared;
use crate::upcall_budget::UpcallBudget;
use crate::upcalls::{Answer, Inbox, Request, Spent, Wake};
use std::collections::VecDeque;
use std::sync::Arc;

/// See the module.
pub(crate) struct Parking {
    pub(crate) park: Park<Packet>,
    pub(crate) budget: UpcallBudget,
    /// Asked, and not yet in the queue.
    pub(crate) outbox: Vec<Request>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) answers: VecDeque<Answer>,
    /// Copies of packets that were answered, for the next ones.
    pub(crate) copies: Vec<Vec<u8>>,
    /// Done with, and not yet given back.
    pub(crate) spent: Vec<Spent>,
    /// Somebody served when the turn began.
    pub(crate) served: bool,
    /// Packets of the queue that is being received from for which there was no room.
    pub(crate) overflow: u64,
}

impl Parking {
    /// Nothing is parked. `wake` ends the worker's sleep.
    pub(crate) fn new(shared: &Shared, limits: Limits, wake: Wake) -> Parking {
        let inbox = Arc::new(Inbox::new(wake));
        shared.upcalls.add_inbox(&inbox);
        Parking {
            park: Park::new(limits),
            budget: UpcallBudget::default(),
            outbox: Vec::new(),
            inbox,
            answers: VecDeque::new(),
            copies: Vec::new(),
            spent: Vec::new(),
            served: false,
            overflow: 0,
        }
    }
}
