//! Group and meter mods.

use crate::request_context::{RequestContext, RequestResult};
use openflow::Message;
use openflow::group::GroupMod;
use openflow::meter::MeterMod;

/// `OFPRFR_GROUP_MOD`
const GROUPS: u8 = 0;
/// `OFPRFR_METER_MOD`
const METERS: u8 = 1;

impl RequestContext<'_> {
    pub(crate) fn group_mod(&mut self, gm: &GroupMod, message: &Message) -> RequestResult {
        let changes = self.bridge.ofproto.handle_group_mod(gm, self.now)?;
        if let Some(group) = self.bridge.ofproto.group(gm.group) {
            crate::group_log::changed(gm, group);
        }
        self.report_table_changes(&changes);
        self.forward(message, GROUPS);
        Ok(None)
    }

    pub(crate) fn meter_mod(&mut self, mm: &MeterMod, message: &Message) -> RequestResult {
        let changes = self.bridge.ofproto.handle_meter_mod(mm, self.now)?;
        self.report_table_changes(&changes);
        self.forward(message, METERS);
        Ok(None)
    }
}
