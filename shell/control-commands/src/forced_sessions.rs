//! `bfd/set-forwarding` and `cfm/set-fault`: a command decides in place of a session.

use switch::{Backer, Switch};
use units::Millis;

/// Forces a state on the sessions of one interface or of all interfaces. `word`: the state, or `normal` to let sessions decide again. `set`: applies
/// the state in a datapath, and returns whether the datapath has such a session. `missing`: the error if no datapath has one.
pub(crate) fn force(
    switch: &Switch,
    interface: Option<&String>,
    word: &str,
    missing: &str,
    set: impl Fn(&Backer, Option<&str>, Option<bool>, Millis) -> bool,
) -> Result<String, String> {
    let forced = match word.to_ascii_lowercase().as_str() {
        "true" => Some(true),
        "false" => Some(false),
        "normal" => None,
        _ => return Err("unknown fault string".to_owned()),
    };
    let now = switch.clock.now();
    let name = interface.map(String::as_str);
    let any = switch.datapaths.with_bridges().fold(false, |any, backer| any | set(backer, name, forced, now));
    match any || interface.is_none() {
        true => Ok("OK".to_owned()),
        false => Err(missing.to_owned()),
    }
}
