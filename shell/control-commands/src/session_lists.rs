//! Texts about the sessions of ports (BFD, CFM, LLDP), in all datapaths.

use switch::{Backer, Switch};
use units::Millis;

/// Name and text of the sessions that `of` returns for each datapath, sorted by name.
pub(crate) fn sessions(
    switch: &Switch,
    of: impl Fn(&Backer, Millis) -> Vec<(String, String)>,
) -> Vec<(String, String)> {
    let now = switch.clock.now();
    let mut all: Vec<_> = switch.datapaths.with_bridges().flat_map(|backer| of(backer, now)).collect();
    all.sort();
    all
}

/// The texts, each below a line with the name of its port.
pub(crate) fn with_headings(sessions: &[(String, String)]) -> String {
    sessions.iter().map(|(name, text)| format!("---- {name} ----\n{text}")).collect()
}
