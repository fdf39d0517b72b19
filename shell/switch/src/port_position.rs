//! A position in the list of all ports of all bridges. Work on all ports that takes several turns of the main loop keeps its position here: bridges
//! and ports can be added and removed between two turns.

use openflow_service::Bridge;
use std::collections::BTreeMap;
use units::OfPort;

/// A position in the list of all ports, in the order of the bridges' names and of the ports' numbers. The default value is the beginning.
#[derive(Clone, Debug, Default)]
pub struct PortPosition {
    /// The name of the bridge, or a string that sorts directly after the name of the bridge before.
    bridge: String,
    /// The last port of this bridge that was visited.
    after: Option<OfPort>,
}

impl PortPosition {
    /// The bridge whose ports come next, and its last port that was visited; `None` at the end of the list.
    pub fn bridge<'a>(
        &mut self,
        bridges: &'a mut BTreeMap<String, Bridge>,
    ) -> Option<(&'a mut Bridge, Option<OfPort>)> {
        let (name, bridge) = bridges.range_mut(self.bridge.clone()..).next()?;
        if *name != self.bridge {
            *self = PortPosition { bridge: name.clone(), after: None };
        }
        Some((bridge, self.after))
    }

    /// Records that this port of the bridge was visited.
    pub fn visited(&mut self, port: OfPort) {
        self.after = Some(port);
    }

    /// Moves to the first port of the next bridge.
    pub fn end_bridge(&mut self) {
        // No string sorts between a name and the same name followed by a zero byte.
        self.bridge.push('\0');
        self.after = None;
    }
}
