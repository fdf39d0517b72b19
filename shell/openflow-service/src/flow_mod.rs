//! Flow mods, and the consequences of flow changes.

use crate::announce::announce;
use crate::reclaim;
use crate::request_context::{RequestContext, RequestResult};
use ofproto::{FlowRequest, TableChanges, check_flow_mod};
use openflow::flow_mod::FlowMod;
use openflow::{OfError, Version};
use std::sync::Arc;

impl RequestContext<'_> {
    pub(crate) fn flow_mod(&mut self, fm: &FlowMod, version: Version) -> RequestResult {
        check_flow_mod(fm, version)?;
        let request = self.bridge.ofproto.request(fm);
        self.execute(request)?;
        Ok(None)
    }

    /// Executes a flow mod that the thread of the sockets has checked and converted.
    pub(crate) fn prepared_flow_mod(
        &mut self,
        prepared: Result<FlowRequest, OfError>,
    ) -> Result<(), OfError> {
        self.refuse_secondary()?;
        self.execute(prepared?)
    }

    /// Executes a flow mod.
    pub(crate) fn execute(&mut self, request: FlowRequest) -> Result<(), OfError> {
        let command = request.command();
        let before = Arc::clone(self.bridge.ofproto.published());
        let changes = self.bridge.ofproto.execute(request, self.now)?;
        self.report_table_changes(&changes);
        // A deletion may affect a million flows, which take long to free.
        let n = changes.flows.len();
        reclaim::drop_in_background(n, changes);
        reclaim::drop_when_unshared(n, before);
        let now = self.now;
        self.session()?.count_flow_mod(command, now);
        Ok(())
    }

    /// Reads final counters if flow-removed messages must be sent, sends controllers the messages about the changes, and reports the changes
    /// to translations.
    pub(crate) fn report_table_changes(&mut self, changes: &TableChanges) {
        if changes.sends_flow_removed() {
            self.outside.fold_statistics();
        }
        announce(self.bridge, changes, Some((self.conn, self.xid)), self.now);
        self.outside.note_table_changes(self.bridge.id, changes);
    }
}
