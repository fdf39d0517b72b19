//! Mode `spp` of ports that copy packets when they receive them (vhost-user, tap): the copy is charged to a pool until it
//! is freed, wherever it is. A queue that holds all that it may is not polled, so packets wait at their sender.

use crate::account::Account;
use crate::rx_buffers::{QueueUse, RxBuffers};
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult};
use rxpool::Mode;
use std::sync::Arc;

/// The name of pools for such ports.
const KIND: &str = "received";

/// The accounts of a port's queues.
#[derive(Default)]
pub struct Accounts {
    wanted: RxBuffers,
    queues: Vec<Arc<Account>>,
}

impl Accounts {
    /// Takes new settings; returns whether they differ, so that the queues are to be taken again.
    pub fn set(&mut self, wanted: &RxBuffers) -> bool {
        let wanted = if wanted.mode == Mode::Spp { *wanted } else { RxBuffers::default() };
        std::mem::replace(&mut self.wanted, wanted) != wanted
    }

    /// Forgets the accounts of earlier queues.
    pub fn clear(&mut self) {
        self.queues.clear();
    }

    /// The next queue of the port, charged if the port is in mode `spp`.
    pub fn wrap(&mut self, queue: Box<dyn RxQueue>) -> Box<dyn RxQueue> {
        if self.wanted.mode != Mode::Spp {
            return queue;
        }
        // Without a place the queue is as in mode `none`; `can_open` has checked that there is one.
        let Some(account) = Account::open(KIND, &self.wanted, self.wanted.pool_size) else { return queue };
        self.queues.push(Arc::clone(&account));
        Box::new(ChargedRx { inner: queue, account })
    }

    /// What the queues hold.
    pub fn usage(&self) -> Vec<QueueUse> {
        self.queues.iter().map(|account| QueueUse { posted: 0, ..account.usage() }).collect()
    }
}

/// A queue whose frames are charged.
struct ChargedRx {
    inner: Box<dyn RxQueue>,
    account: Arc<Account>,
}

impl RxQueue for ChargedRx {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let Account { pool: shared, place, wanted, .. } = &*self.account;
        let allowance = shared.allowance(*place, wanted.alpha);
        let room = shared.charge(*place, max as u32, allowance);
        if room == 0 {
            return RxResult { more: true, ..RxResult::default() };
        }
        let before = out.len();
        let result = self.inner.rx(pool, out, room as usize);
        let received = out.len() - before;
        shared.refund(*place, room - received as u32);
        let charged: Vec<Frame> =
            out.drain(before..).map(|frame| frame.charged(self.account.clone())).collect();
        out.extend(charged);
        result
    }

    fn waiting(&mut self) -> Option<u32> {
        self.inner.waiting()
    }

    /// While its frames use up the allowance, the queue must be polled, so that it goes on when they are freed.
    fn arm(&mut self, on: bool) -> bool {
        let Account { pool, place, wanted, .. } = &*self.account;
        self.inner.arm(on) && pool.held(*place) < pool.allowance(*place, wanted.alpha)
    }
}
