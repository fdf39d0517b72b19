//! Sending messages: out of their ports as any packet of the switch, so that a patch port takes them to the next bridge and
//! a tunnel gets its header. No table sees them.

use super::sessions::Due;
use crate::control::Published;
use crate::handler::Handler;
use datapath::Datapath;
use flow::FieldId;
use flow::extract::extract_from;
use openflow::Action;
use units::{Millis, OfPort, PortNo};
use xlate::{Input, Start};

/// Bit of the field `tun_flags`: the packet is one for operation and maintenance.
const OAM: u128 = 1;

/// Sends what is due; true if that was anything.
pub(crate) fn send_due(handler: &Handler, datapath: &Datapath, now: Millis) -> bool {
    let published = handler.control.published();
    let due = handler.bfd.take_due(&published, now);
    due.iter().for_each(|due| send(handler, datapath, &published, due, now));
    !due.is_empty()
}

fn send(handler: &Handler, datapath: &Datapath, published: &Published, due: &Due, now: Millis) {
    let (bridge, port) = due.at;
    let mark = Action::SetField { field: FieldId::TunFlags, value: OAM, mask: OAM };
    let actions = [mark, Action::output(port)];
    let input = Input {
        bridge,
        // By no port: no session takes it for a message to itself.
        flow: &extract_from(&due.frame, u32::from(OfPort::NONE.0)),
        packet: Some(&due.frame),
        start: Start::Actions(if due.oam { &actions } else { &actions[1..] }),
        packet_out: false,
        side_effects: true,
        pretend: false,
        recirc: &*handler.control,
        trace: None,
    };
    handler.inject(datapath, (published, &published.snapshot), &input, PortNo::NONE, now);
}
