//! Actions that send packets to controllers.

use crate::outcome::metered;
use crate::walk::Walk;
use classifier::of::ClassifierRule;
use dpif::{DpAction, Userspace, UserspaceCookie};
use openflow::action::{Action, Controller};
use openflow::meter::METER_CONTROLLER;

/// Values of `OFPR_*` (OpenFlow 1.5.1 §7.4.1). `EXPLICIT_MISS` is internal: it is sent as "action" or "no match".
mod reason {
    pub const ACTION: u8 = 1;
    pub const INVALID_TTL: u8 = 2;
    pub const ACTION_SET: u8 = 3;
    pub const GROUP: u8 = 4;
    pub const PACKET_OUT: u8 = 5;
    pub const EXPLICIT_MISS: u8 = 6;
}

impl Walk<'_> {
    /// `output:CONTROLLER`
    pub(crate) fn output_controller(&mut self, max_len: u16, in_bucket: bool) {
        let reason = if self.is_packet_out() {
            reason::PACKET_OUT
        } else if in_bucket {
            reason::GROUP
        } else if self.progress.in_action_set {
            reason::ACTION_SET
        } else {
            reason::ACTION
        };
        self.controller(&Controller { max_len, reason, ..Controller::default() });
    }

    /// Sends the packet to controllers because its TTL is exceeded.
    pub(crate) fn invalid_ttl(&mut self, controller_id: u16) {
        self.controller(&Controller { controller_id, reason: reason::INVALID_TTL, ..Controller::default() });
    }

    /// `controller(..)`
    pub(crate) fn controller(&mut self, c: &Controller) {
        self.commit();
        let table_miss =
            self.current.rule.as_ref().is_some_and(|r| r.priority() == 0 && r.matching().mask().is_empty());
        let reason = if c.reason == reason::ACTION && table_miss { reason::EXPLICIT_MISS } else { c.reason };
        let state = self.frozen_state(Vec::new(), Vec::<Action>::new(), c.userdata.clone());
        if let Some(id) = self.store_frozen(state) {
            self.send_to_controller(c, reason, id, false);
        }
    }

    /// Emits the datapath action that passes the packet to the control half.
    pub(crate) fn send_to_controller(
        &mut self,
        c: &Controller,
        reason: u8,
        recirc_id: u32,
        continuation: bool,
    ) {
        let cookie = UserspaceCookie::Controller {
            dont_send: self.input.dry_run,
            continuation,
            reason,
            recirc_id,
            rule_cookie: self.current.rule_cookie,
            controller_id: c.controller_id,
            max_len: c.max_len,
        };
        let send = DpAction::Userspace(Box::new(Userspace::new(cookie)));
        let own = (c.meter != 0).then(|| self.meter(c.meter)).flatten();
        self.out.actions.push(match own.or_else(|| self.meter(METER_CONTROLLER)) {
            Some(meter) => metered(meter, send),
            None => send,
        });
    }

    /// The number of a meter in the datapath.
    pub(crate) fn meter(&self, id: u32) -> Option<u32> {
        self.bridge.tables.meter(id).map(|m| m.datapath_id())
    }
}
