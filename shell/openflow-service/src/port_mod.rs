//! Port mods: changes of a port's configuration by controllers.

use crate::features::port_description;
use crate::request_context::{RequestContext, RequestResult};
use openflow::OfError;
use openflow::port::{PortConfig, PortMod, PortReason, PortState};

impl RequestContext<'_> {
    pub(crate) fn port_mod(&mut self, pm: &PortMod) -> RequestResult {
        self.check_port_mod(pm)?;
        self.apply_port_mod(pm);
        Ok(None)
    }

    /// Checks that the port exists and has the address in the request.
    pub(crate) fn check_port_mod(&self, pm: &PortMod) -> Result<(), OfError> {
        let port = self.bridge.ports.get(&pm.number).ok_or(OfError::PmfcBadPort)?;
        if port_description(port).hw_addr == pm.hw_addr { Ok(()) } else { Err(OfError::PmfcBadHwAddr) }
    }

    /// Applies a checked port mod and reports the new configuration; the resulting change of the link is reported later, see
    /// [`BridgePort::reported_state`](crate::BridgePort::reported_state).
    pub(crate) fn apply_port_mod(&mut self, pm: &PortMod) {
        let Some(port) = self.bridge.ports.get_mut(&pm.number) else { return };
        let old = port_description(port);
        let wanted = merge(old.config, pm.config, pm.mask);
        let done =
            wanted.port_down == old.config.port_down || self.outside.set_port_admin(port, !wanted.port_down);
        port.config = if done { wanted } else { PortConfig { port_down: old.config.port_down, ..wanted } };
        let mut new = port_description(port);
        if new != old {
            self.outside.mark_all_changed();
            new.state = PortState { live: old.state.live && new.state.live, ..old.state };
            port.reported_state = Some(new.clone());
            self.bridge.unreported_ports.insert(pm.number);
            self.bridge.conns.send_port_status(PortReason::Modify, &new, Some(&old), Some(self.conn));
        }
    }
}

/// `old` with the bits of `new` where `mask` is set.
fn merge(old: PortConfig, new: PortConfig, mask: PortConfig) -> PortConfig {
    let pick = |old: bool, new: bool, mask: bool| if mask { new } else { old };
    PortConfig {
        port_down: pick(old.port_down, new.port_down, mask.port_down),
        no_stp: pick(old.no_stp, new.no_stp, mask.no_stp),
        no_recv: pick(old.no_recv, new.no_recv, mask.no_recv),
        no_recv_stp: pick(old.no_recv_stp, new.no_recv_stp, mask.no_recv_stp),
        no_flood: pick(old.no_flood, new.no_flood, mask.no_flood),
        no_fwd: pick(old.no_fwd, new.no_fwd, mask.no_fwd),
        no_packet_in: pick(old.no_packet_in, new.no_packet_in, mask.no_packet_in),
    }
}
