//! `qos/*`: QoS of interfaces.

use crate::answer::{Answer, unknown};
use ctl::names;
use switch::Switch;

pub(crate) fn execute(switch: &Switch, name: &str, args: &[String]) -> Answer {
    match (name, args) {
        (names::QOS_SHOW, [interface]) => switch.show_qos(interface).into(),
        (names::QOS_SHOW_TYPES, [interface]) => switch.qos_types(interface).into(),
        _ => unknown(name),
    }
}
