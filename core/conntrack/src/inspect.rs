//! Inspects packets of control connections, and adds expectations of the announced connections; see `helper.rs`.

use crate::helper::{
    BY_COMMAND, ControlPacket, ExpectedConnection, ExpectedNat, HELPER_BITS, Helper, InspectionResult,
    Parent, RELATED_BIT, SKEWED, TextEdit, endpoints_of, helper_of, key_of,
};
use crate::key::{Key, Tuple};
use crate::packet_fields::Packet;
use crate::record::{Record, Side};
use crate::table::Handle;
use crate::tracker::{Connection, Conntrack, Metadata, lock};
use helpers::Endpoints;
use helpers::ftp::{self, Message, Mode};
use packet::ether::ethertype;
use packet::ip::skip_extensions;
use packet::{Ipv4, Ipv6, Tcp};
use std::net::IpAddr;

impl ControlPacket {
    /// Returns the control connection of a packet, if its connection `c` has a helper.
    #[inline(always)]
    pub(crate) fn of(c: &Connection<'_>, reply: bool, translated: bool) -> Option<ControlPacket> {
        let is_control = c.record.helper_word() & HELPER_BITS != 0;
        is_control.then_some(ControlPacket { handle: c.handle, reply, translated })
    }
}

impl Conntrack {
    /// Returns the control connection that announced the connection with this key.
    pub(crate) fn find_parent(&self, key: &Key) -> Option<Parent> {
        self.helpers.expectations.find(&endpoints_of(key))
    }

    /// Sets tuple and control connection in `meta` for a packet of a connection whose helper word is not 0.
    #[cold]
    pub(crate) fn write_helper_state(
        &self,
        c: &Connection<'_>,
        reply: bool,
        translated: bool,
        meta: &mut Metadata,
    ) {
        let helper_word = c.record.helper_word();
        if helper_word & RELATED_BIT != 0
            && let Some([original, replies]) = self.table().keys(c.handle)
        {
            let like = if helper_word & BY_COMMAND != 0 { replies } else { original };
            let ports = ((helper_word >> 48) as u16, (helper_word >> 32) as u16);
            meta.tuple = Tuple { tp_src: ports.0, tp_dst: ports.1, ..like.tuple() };
        }
        meta.control = ControlPacket::of(c, reply, translated);
    }

    /// The endpoints of a connection that has a helper; `None` for other connections.
    #[inline]
    pub(crate) fn control_endpoints(&self, handle: Handle) -> Option<Endpoints> {
        let table = self.table.get()?;
        table.get(handle).filter(|record| record.helper_word() & HELPER_BITS != 0)?;
        table.keys(handle).map(|[original, _]| endpoints_of(&original))
    }

    /// Removes the expectations and the sequence number shifts of a control connection after its record was removed: then another thread that
    /// still inspects a packet of it adds them before this call, or finds in [`inspect_found`](Self::inspect_found) that the record is gone.
    pub(crate) fn forget_control(&self, control: &Endpoints) {
        self.helpers.expectations.forget(control);
        lock(&self.helpers.skews).remove(control);
    }

    /// Inspects a packet of a control connection after its translation. The caller applies the returned edits.
    pub fn inspect(&self, control: &ControlPacket, packet: &Packet<'_>) -> InspectionResult {
        let found = self
            .table
            .get()
            .and_then(|table| Some((table.get(control.handle)?, table.keys(control.handle)?)));
        let Some((record, keys)) = found else { return InspectionResult::default() };
        self.inspect_found(control, packet, record, keys)
    }

    /// Inspects a packet of the control connection with this record, which another thread may remove meanwhile.
    pub(crate) fn inspect_found(
        &self,
        control: &ControlPacket,
        packet: &Packet<'_>,
        record: &Record,
        keys: [Key; 2],
    ) -> InspectionResult {
        let result = match helper_of(record.helper_word()) {
            None => InspectionResult::default(),
            Some(Helper::Tftp) => {
                let inherited = (record.mark(), record.label());
                self.expect_connection(&keys, control.reply, keys[0].ports().0, inherited);
                InspectionResult::default()
            }
            Some(Helper::Ftp) => self.inspect_ftp(control, packet, record, keys),
        };
        // Otherwise nothing would remove what this call has added after the removal.
        if self.table().get(control.handle).is_none() {
            self.forget_control(&endpoints_of(&keys[0]));
        }
        result
    }

    fn inspect_ftp(
        &self,
        control: &ControlPacket,
        packet: &Packet<'_>,
        record: &Record,
        keys: [Key; 2],
    ) -> InspectionResult {
        let Some((tcp, payload)) = tcp_of(packet) else { return InspectionResult::default() };
        let mut result = InspectionResult::default();
        match ftp::read(payload, keys[0].v6) {
            Message::Other => {}
            Message::Malformed => result.invalid = true,
            // Commands come only from the client, replies only from the server.
            Message::Announces(a) if (a.mode == Mode::Active) == control.reply => {}
            Message::Announces(a) => {
                let [original, reply] = keys;
                let (own, seen) = match a.mode {
                    Mode::Active => (original.src(), reply.dst()),
                    Mode::Passive => (reply.src(), original.dst()),
                };
                if a.address.is_some_and(|address| address != own && address != seen) {
                    result.invalid = true;
                } else {
                    self.expect_connection(&keys, control.reply, a.port, (record.mark(), record.label()));
                    result.edit = replacement(&a, seen).filter(|_| control.translated);
                }
            }
        }
        if control.translated && (result.edit.is_some() || record.helper_word() & SKEWED != 0) {
            self.shift_numbers(control, &keys[0], (tcp.seq(), tcp.ack()), &mut result);
            record.add_helper_bits(SKEWED);
        }
        result
    }

    /// Computes by how much a packet's sequence and acknowledgement numbers are shifted, and stores the shift that an edit of this packet
    /// causes for later packets.
    fn shift_numbers(
        &self,
        control: &ControlPacket,
        original: &Key,
        (seq, ack): (u32, u32),
        result: &mut InspectionResult,
    ) {
        let mut skews = lock(&self.helpers.skews);
        let [first, second] = skews.entry(endpoints_of(original)).or_default();
        let (own, other) = if control.reply { (second, first) } else { (first, second) };
        (result.seq, result.ack) = (own.seq_shift(seq), other.ack_shift(ack).wrapping_neg());
        if let Some(TextEdit { range, text }) = &result.edit {
            own.record_change(seq, text.len() as i32 - range.len() as i32);
        }
    }

    /// Adds the expectation of a connection to `port` of the endpoint that sent the packet. `by_reply`: the packet was a reply.
    fn expect_connection(
        &self,
        [original, reply]: &[Key; 2],
        by_reply: bool,
        port: u16,
        (mark, label): (u32, [u64; 2]),
    ) {
        let translated = match () {
            () if original.dst.address != reply.src.address => Some(Side::Destination),
            () if original.src.address != reply.dst.address => Some(Side::Source),
            () => None,
        };
        // The other endpoint connects to the address that it knows, which is the translated one.
        let (from, side, address) = match (by_reply, translated) {
            (true, Some(Side::Destination)) => (original, Side::Destination, reply.src.address),
            (true, _) => (original, Side::Source, reply.dst.address),
            (false, Some(Side::Destination)) => (reply, Side::Source, original.dst.address),
            (false, _) => (reply, Side::Destination, original.src.address),
        };
        let endpoints = Endpoints { src_port: 0, dst_port: port, ..endpoints_of(from) };
        let nat = ExpectedNat(translated.map(|_| (side, address)));
        self.helpers
            .expectations
            .add(endpoints, Parent { endpoints: endpoints_of(original), mark, label, nat });
    }

    /// The expected connections of a zone (`None`: of all zones).
    pub fn dump_expected(&self, zone: Option<u16>) -> Vec<ExpectedConnection> {
        let all = self.helpers.expectations.dump(zone).into_iter();
        all.map(|e| ExpectedConnection {
            key: key_of(&e.endpoints),
            parent: key_of(&e.parent.endpoints),
            mark: e.parent.mark,
            label: e.parent.label,
        })
        .collect()
    }
}

/// The edit that replaces an announced address by `address`; `None` if they are equal or no address was announced.
fn replacement(a: &ftp::Announcement, address: IpAddr) -> Option<TextEdit> {
    let text = ftp::address_text(address, a.is_rfc959);
    (a.address? != address).then_some(TextEdit { range: a.text.clone(), text })
}

/// The TCP header and payload of a packet.
fn tcp_of<'a>(packet: &Packet<'a>) -> Option<(Tcp<'a>, &'a [u8])> {
    let data = match packet.ethertype {
        ethertype::IPV4 => Ipv4::parse_checked(packet.l3)?.1,
        _ => {
            let (ip, payload) = Ipv6::parse_checked(packet.l3)?;
            skip_extensions(ip.next_header(), payload)?.data
        }
    };
    Tcp::parse_checked(data)
}
