//! Sends protocol messages from their ports. They are translated like other packets of the switch itself, so a patch port
//! passes them to the next bridge, and a tunnel adds its header. They do not enter the OpenFlow tables of their bridge.

use crate::port_sessions::DueMessage;
use crate::published::PublishedState;
use crate::upcall::injected_packets::OwnFrame;
use crate::upcall::translator::UpcallTranslator;
use datapath::Datapath;
use flow::FieldId;
use openflow::Action;
use units::Millis;

/// Bit of the field `tun_flags` that marks packets of operation and maintenance (OAM).
const OAM: u128 = 1;

/// Sends the messages of BFD, CFM, LLDP, LACP and spanning trees that are due. Returns whether there were any.
pub fn send_due(translator: &UpcallTranslator, datapath: &Datapath, now: Millis) -> bool {
    let published = translator.shared.published();
    let plain = |(at, frame)| DueMessage { at, frame, oam: false };
    let lacp = translator.lacp.take_due(now).into_iter().map(plain);
    let bpdus = translator.trees.take_due(&published, now).into_iter().map(plain);
    let bfd = translator.bfd.take_due(&published, now).into_iter();
    let sessions =
        bfd.chain(translator.cfm.take_due(&published, now)).chain(translator.lldp.take_due(&published, now));
    let due: Vec<DueMessage> = sessions.chain(lacp).chain(bpdus).collect();
    due.iter().for_each(|due| send(translator, datapath, &published, due, now));
    !due.is_empty()
}

fn send(
    translator: &UpcallTranslator,
    datapath: &Datapath,
    published: &PublishedState,
    due: &DueMessage,
    now: Millis,
) {
    let (bridge, port) = due.at;
    let mark = Action::SetField { field: FieldId::TunFlags, value: OAM, mask: OAM };
    let actions = [mark, Action::output(port)];
    let actions = if due.oam { &actions } else { &actions[1..] };
    let own = OwnFrame { bridge, from: OwnFrame::NO_PORT, frame: &due.frame, actions };
    translator.send(datapath, published, &own, now);
}
