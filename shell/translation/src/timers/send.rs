//! Sends protocol messages from their ports. They are translated like other packets of the switch itself, so a patch port
//! passes them to the next bridge, and a tunnel adds its header. They do not enter the OpenFlow tables of their bridge.

use crate::port_sessions::DueMessage;
use crate::published::PublishedState;
use crate::upcall::handler::Handler;
use crate::upcall::inject::OwnFrame;
use datapath::Datapath;
use flow::FieldId;
use openflow::Action;
use units::Millis;

/// Bit of the field `tun_flags` that marks packets of operation and maintenance (OAM).
const OAM: u128 = 1;

/// Sends the messages of BFD, CFM, LLDP, LACP and spanning trees that are due. Returns whether there were any.
pub fn send_due(handler: &Handler, datapath: &Datapath, now: Millis) -> bool {
    let published = handler.shared.published();
    let plain = |(at, frame)| DueMessage { at, frame, oam: false };
    let lacp = handler.lacp.take_due(now).into_iter().map(plain);
    let bpdus = handler.trees.take_due(&published, now).into_iter().map(plain);
    let bfd = handler.bfd.take_due(&published, now).into_iter();
    let sessions =
        bfd.chain(handler.cfm.take_due(&published, now)).chain(handler.lldp.take_due(&published, now));
    let due: Vec<DueMessage> = sessions.chain(lacp).chain(bpdus).collect();
    due.iter().for_each(|due| send(handler, datapath, &published, due, now));
    !due.is_empty()
}

fn send(handler: &Handler, datapath: &Datapath, published: &PublishedState, due: &DueMessage, now: Millis) {
    let (bridge, port) = due.at;
    let mark = Action::SetField { field: FieldId::TunFlags, value: OAM, mask: OAM };
    let actions = [mark, Action::output(port)];
    let actions = if due.oam { &actions } else { &actions[1..] };
    let own = OwnFrame { bridge, from: OwnFrame::NO_PORT, frame: &due.frame, actions };
    handler.send(datapath, published, &own, now);
}
