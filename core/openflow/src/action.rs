//! Actions and instructions of all versions as one enum.
//!
//! A flow's instructions and actions form one list, in order of execution. Instructions other than `ApplyActions`
//! (`ClearActions`, `WriteActions`, `WriteMetadata`, `GotoTable`) follow the actions in this list; `Meter` precedes
//! them. If versions encode the same action differently, the enum has one variant, with a flag if the effect or only the name differs
//! (`SetVlanVid::push`, `StripVlan::pop`). If the text has another form, there are two variants (`RegLoad` and `SetField`).

mod nested;

pub use nested::{
    Bundle, BundleAlgorithm, Controller, Encap, EncapProperty, HashFields, Learn, LearnSource, LearnSpec,
    LearnTarget, Multipath, MultipathAlgorithm, Nat, NatRange, NumberOrField, PACKET_TYPE_NEXT, Sample,
    SampleDirection, SetTlv,
};

use flow::{FieldId, Mac, Subfield};
use std::net::Ipv4Addr;
use units::OfPort;

/// One action or instruction. Its name in text is in brackets.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Sends to a port; `max_len` applies to `CONTROLLER` only. (`output`)
    Output { port: OfPort, max_len: u16 },
    /// Sends to the port whose number a field holds. (`output:reg0[]`)
    OutputReg { src: Subfield, max_len: u16 },
    /// Sends to a port, truncated to `max_len` bytes. (`output(port=…,max_len=…)`)
    OutputTrunc { port: OfPort, max_len: u32 },
    /// Sends to a controller, with parameters that `Output` does not have. (`controller(…)`)
    Controller(Box<Controller>),
    /// Sends through a group. (`group`)
    Group(u32),
    /// Sends to a queue of a port. (`enqueue`)
    Enqueue { port: OfPort, queue: u32 },
    /// Selects one of several ports. (`bundle`, `bundle_load`)
    Bundle(Box<Bundle>),

    /// Writes the bits of the field that are set in `mask`. (`set_field`)
    SetField { field: FieldId, value: u128, mask: u128 },
    /// Writes a field of tunnel options. (`set_field`)
    SetTlv(Box<SetTlv>),
    /// Writes a subfield, in Nicira's older form. (`load`)
    RegLoad { dst: Subfield, value: u128 },
    /// Copies bits. (`move`)
    RegMove { src: Subfield, dst: Subfield },
    /// (`push`)
    StackPush(Subfield),
    /// (`pop`)
    StackPop(Subfield),
    /// Sets the VID. `push`: adds a tag to packets without a tag, as OpenFlow 1.0 does. (`mod_vlan_vid`,
    /// `set_vlan_vid`)
    SetVlanVid { vid: u16, push: bool },
    /// Sets the VLAN priority; `push` as in `SetVlanVid`. (`mod_vlan_pcp`, `set_vlan_pcp`)
    SetVlanPcp { pcp: u8, push: bool },
    /// Removes the outer tag. `pop`: use the form and name of OpenFlow 1.1. (`strip_vlan`, `pop_vlan`)
    StripVlan { pop: bool },
    /// Adds a tag with this Ethernet type. (`push_vlan`)
    PushVlan(u16),
    /// (`mod_dl_src`)
    SetEthSrc(Mac),
    /// (`mod_dl_dst`)
    SetEthDst(Mac),
    /// (`mod_nw_src`)
    SetIpv4Src(Ipv4Addr),
    /// (`mod_nw_dst`)
    SetIpv4Dst(Ipv4Addr),
    /// Sets the DSCP. The value is a TOS byte, whose two lowest bits are 0. (`mod_nw_tos`)
    SetIpDscp(u8),
    /// (`mod_nw_ecn`)
    SetIpEcn(u8),
    /// (`mod_nw_ttl`)
    SetIpTtl(u8),
    /// (`mod_tp_src`)
    SetL4Src(u16),
    /// (`mod_tp_dst`)
    SetL4Dst(u16),
    /// Decrements the TTL. A packet whose TTL expires is sent to the controllers with these ids. The standard's
    /// form (`nicira` is false) has the ids `[0]`. (`dec_ttl`)
    DecTtl { ids: Vec<u16>, nicira: bool },
    /// (`set_mpls_label`)
    SetMplsLabel(u32),
    /// (`set_mpls_tc`)
    SetMplsTc(u8),
    /// (`set_mpls_ttl`)
    SetMplsTtl(u8),
    /// (`dec_mpls_ttl`)
    DecMplsTtl,
    /// Adds a label with this Ethernet type. (`push_mpls`)
    PushMpls(u16),
    /// Removes a label; the packet then has this Ethernet type. (`pop_mpls`)
    PopMpls(u16),
    /// (`delete_field`)
    DeleteField(Subfield),
    /// Adds an outer header. (`encap`)
    Encap(Encap),
    /// Removes the outer header; `packet_type` is the type of the remaining packet. (`decap`)
    Decap { packet_type: u32 },
    /// (`dec_nsh_ttl`)
    DecNshTtl,

    /// Sets the tunnel key. `wide`: use the form with a 64-bit key. (`set_tunnel`, `set_tunnel64`)
    SetTunnel { id: u64, wide: bool },
    /// (`set_queue`)
    SetQueue(u32),
    /// (`pop_queue`)
    PopQueue,
    /// Shortens the flow's timeouts when a TCP connection ends; in seconds. (`fin_timeout`)
    FinTimeout { idle: u16, hard: u16 },

    /// Looks up the packet again; `None` stands for the current in_port or the current table. (`resubmit`)
    Resubmit { port: Option<OfPort>, table: Option<u8>, with_ct: bool },
    /// Adds a flow. (`learn`)
    Learn(Box<Learn>),
    /// Part of a conjunctive match; `clause` counts from 0. (`conjunction`)
    Conjunction { id: u32, clause: u8, n_clauses: u8 },
    /// Writes a link number selected by a hash. (`multipath`)
    Multipath(Box<Multipath>),

    /// Has no effect; contains bytes as a comment on the flow. (`note`)
    Note(Vec<u8>),
    /// Ends the processing of this packet in this and all calling tables. (`exit`)
    Exit,
    /// Samples for IPFIX. (`sample`)
    Sample(Box<Sample>),
    /// Connection tracking. (`ct`)
    Ct(Box<Ct>),
    /// Address translation, only inside `Ct`. (`nat`)
    Nat(Box<Nat>),
    /// (`ct_clear`)
    CtClear,
    /// Runs the actions on a copy of the packet. (`clone`)
    Clone(Vec<Action>),
    /// Writes 1 to `dst` if the packet is longer than `len` bytes, otherwise 0. (`check_pkt_larger`)
    CheckPktLarger { len: u16, dst: Subfield },
    /// For tests only. (`debug_recirc`)
    DebugRecirc,
    /// For tests only. (`debug_slow`)
    DebugSlow,

    /// (`meter`)
    Meter(u32),
    /// (`clear_actions`)
    ClearActions,
    /// (`write_actions`)
    WriteActions(Vec<Action>),
    /// (`write_metadata`)
    WriteMetadata { value: u64, mask: u64 },
    /// (`goto_table`)
    GotoTable(u8),
}

/// `ct(…)`
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ct {
    /// Commit the connection to the connection tracking table.
    pub commit: bool,
    /// If the packet belongs to the reply direction of an existing connection, remove this connection before committing.
    pub force: bool,
    /// The zone.
    pub zone: NumberOrField,
    /// Continue in this table, with the state of the connection in the metadata.
    pub recirc_table: Option<u8>,
    /// The port of the helper: 21 for FTP, 69 for TFTP; 0: no helper.
    pub alg: u16,
    /// `nat`, and set-field of `ct_mark` and `ct_label`.
    pub actions: Vec<Action>,
}

impl Default for Ct {
    fn default() -> Ct {
        Ct {
            commit: false,
            force: false,
            zone: NumberOrField::Number(0),
            recirc_table: None,
            alg: 0,
            actions: Vec::new(),
        }
    }
}

impl Action {
    /// `OFPCML_NO_BUFFER`: send the complete packet to the controller.
    pub const NO_BUFFER: u16 = 0xffff;

    /// An output of the complete packet to a port.
    pub fn output(port: OfPort) -> Action {
        Action::Output { port, max_len: if port == OfPort::CONTROLLER { Action::NO_BUFFER } else { 0 } }
    }

    /// Returns whether this is an instruction of OpenFlow 1.1 and later other than `ApplyActions`.
    pub fn is_instruction(&self) -> bool {
        matches!(
            self,
            Action::Meter(_)
                | Action::ClearActions
                | Action::WriteActions(_)
                | Action::WriteMetadata { .. }
                | Action::GotoTable(_)
        )
    }

    /// The actions inside this action.
    pub fn nested(&self) -> &[Action] {
        match self {
            Action::Clone(list) | Action::WriteActions(list) => list,
            Action::Ct(ct) => &ct.actions,
            _ => &[],
        }
    }

    /// Returns whether the action outputs to the port in the sense of `out_port`. As in Open vSwitch,
    /// `output(port=,max_len=)` and the members of a bundle do not count.
    pub fn outputs_to(&self, wanted: OfPort) -> bool {
        match self {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => *port == wanted,
            Action::Controller(_) => wanted == OfPort::CONTROLLER,
            _ => self.nested().iter().any(|a| a.outputs_to(wanted)),
        }
    }

    /// Returns whether the action sends packets through the group.
    pub fn outputs_to_group(&self, wanted: u32) -> bool {
        matches!(self, Action::Group(id) if *id == wanted)
            || self.nested().iter().any(|a| a.outputs_to_group(wanted))
    }
}
