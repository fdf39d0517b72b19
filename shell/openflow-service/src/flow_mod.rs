//! Flow mods, and the consequences of flow changes.

use crate::announce::announce;
use crate::reclaim;
use crate::service::{Answer, Service};
use flow::Match;
use ofproto::{Effects, N_TABLES};
use openflow::flow_mod::FlowMod;
use openflow::wire::check::{Limits, consistency};
use openflow::{Action, OfError, Version};
use std::sync::Arc;
use units::OfPort;

impl Service<'_> {
    pub(crate) fn flow_mod(&mut self, fm: &FlowMod, version: Version) -> Answer {
        check_flow_mod(fm, version)?;
        let before = Arc::clone(self.bridge.ofproto.published());
        let effects = self.bridge.ofproto.handle_flow_mod(fm, self.now)?;
        self.tell_missing_of_flow(fm);
        self.after(&effects);
        // A deletion may concern a million flows.
        let n = effects.flows.len();
        reclaim::let_go(n, effects);
        reclaim::let_go_last(n, before);
        let now = self.now;
        self.session()?.count_flow_mod(fm.command, now);
        Ok(None)
    }

    /// Collects final counters, sends messages about changed flows, and reports the change to translations.
    pub(crate) fn after(&mut self, effects: &Effects) {
        if effects.tells() {
            self.host.fold_statistics();
        }
        announce(self.bridge, effects, Some((self.conn, self.xid)), self.now);
        self.host.changed_by(self.bridge.id, effects);
    }
}

/// Checks of a flow mod that do not need the tables.
pub(crate) fn check_flow_mod(fm: &FlowMod, version: Version) -> Result<(), OfError> {
    if fm.flags.emergency {
        // There is no emergency flow cache (OpenFlow 1.0.2 §4.3).
        let timeouts = fm.idle_timeout != 0 || fm.hard_timeout != 0;
        return Err(if timeouts { OfError::FmfcBadEmergTimeout } else { OfError::FmfcTableFull });
    }
    check_actions(&fm.actions, &fm.matching, fm.table, version)
}

/// Checks that the actions fit the match and the switch.
pub(crate) fn check_actions(
    actions: &[Action],
    matching: &Match,
    table: u8,
    version: Version,
) -> Result<(), OfError> {
    let limits = Limits { max_port: OfPort::MAX, table, n_tables: N_TABLES as u8 };
    consistency(actions, matching, limits, version)
}
