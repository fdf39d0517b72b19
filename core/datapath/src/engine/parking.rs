//! State of a worker that parks misses.

use crate::packet::Packet;
use crate::park::{Limits, Park};
use crate::shared::Shared;
use crate::upcall_budget::UpcallBudget;
use crate::upcalls::{Answer, Inbox, Request, Spent, Wake};
use std::collections::VecDeque;
use std::sync::Arc;

/// State of a worker that parks misses.
pub(crate) struct Parking {
    pub(crate) park: Park<Packet>,
    pub(crate) budget: UpcallBudget,
    /// Upcalls that are not in the queue yet.
    pub(crate) outbox: Vec<Request>,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) answers: VecDeque<Answer>,
    /// Buffers of answered upcalls, for the next ones.
    pub(crate) copies: Vec<Vec<u8>>,
    /// Memory to be returned to handlers.
    pub(crate) spent: Vec<Spent>,
    /// A handler existed when the iteration began.
    pub(crate) served: bool,
    /// Packets of the queue that is being received from that could not be parked.
    pub(crate) overflow: u64,
}

impl Parking {
    /// Makes a state without parked packets. `wake` ends the worker's sleep.
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
