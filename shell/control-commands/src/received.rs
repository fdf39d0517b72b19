//! A datapath flow as OpenFlow sees it.

use flow::Flow;
use switch::Backer;
use translation::Published;
use units::PortNo;
use xlate::{BridgeId, Recirc};

/// The bridge, and the flow as it sees it; the error is the reason why there is none.
pub(crate) fn received(
    backer: &Backer,
    published: &Published,
    key: &Flow,
) -> Result<(BridgeId, Flow), String> {
    if key.recirc_id != 0 {
        let state = backer.shared.thaw(key.recirc_id);
        let state =
            state.ok_or_else(|| format!("no recirculation data for recirc_id {:#x}", key.recirc_id))?;
        // The rest of the frozen state is restored during translation: the datapath did not report it.
        return Ok((state.bridge, Flow { in_port: state.metadata.in_port.0.into(), ..*key }));
    }
    let found = published.snapshot.receive(key);
    if found.is_some_and(|(_, flow)| flow.has_raw_options()) {
        return Err("Failed to parse Geneve options".to_owned());
    }
    found.ok_or_else(|| match bridge::tunnel::is_tunnelled(&key.tunnel) {
        true => "no OpenFlow tunnel port for this packet".to_owned(),
        false => format!("no OpenFlow port for datapath port {}", PortNo(key.in_port).0),
    })
}
