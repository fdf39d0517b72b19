//! Actions and instructions: one enum over all versions, in the order in which they are executed.
//!
//! A flow's instructions are a list too: what is outside `ApplyActions` on the wire (`Meter`, `ClearActions`,
//! `WriteActions`, `WriteMetadata`, `GotoTable`) stands in the same list, after (`Meter`: before) the actions.
//! What the standard says in different ways in different versions is one variant, with a flag where the ways
//! differ in effect (`SetVlanVid::push`) or where they are printed differently (`RegLoad` and `SetField`).

mod nested;

pub use nested::{
    Bundle, BundleAlgorithm, Controller, Ct, Encap, EncapProperty, HashFields, Learn, LearnSource, LearnSpec,
    LearnTarget, Multipath, MultipathAlgorithm, Nat, NatRange, NumberOrField, PACKET_TYPE_NEXT, Sample,
    SampleDirection, SetTlv,
};

use flow::{FieldId, Mac, Subfield};
use std::net::Ipv4Addr;
use units::OfPort;

/// One action or instruction. Names in text are in brackets.
#[allow(missing_docs)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// To a port; `max_len` counts only for `CONTROLLER`. (`output`)
    Output { port: OfPort, max_len: u16 },
    /// To the port whose number is in a field. (`output:reg0[]`)
    OutputReg { src: Subfield, max_len: u16 },
    /// To a port, cut to `max_len` bytes. (`output(port=…,max_len=…)`)
    OutputTrunc { port: OfPort, max_len: u32 },
    /// To a controller, with more to say than `Output` has. (`controller(…)`)
    Controller(Box<Controller>),
    /// Through a group. (`group`)
    Group(u32),
    /// To a queue of a port. (`enqueue`)
    Enqueue { port: OfPort, queue: u32 },
    /// Chooses one of several ports. (`bundle`, `bundle_load`)
    Bundle(Box<Bundle>),

    /// Writes the bits of `mask`. (`set_field`)
    SetField { field: FieldId, value: u128, mask: u128 },
    /// The same for a field of tunnel options. (`set_field`)
    SetTlv(Box<SetTlv>),
    /// The same in Nicira's older form. (`load`)
    RegLoad { dst: Subfield, value: u128 },
    /// Copies bits. (`move`)
    RegMove { src: Subfield, dst: Subfield },
    /// (`push`)
    StackPush(Subfield),
    /// (`pop`)
    StackPop(Subfield),
    /// Sets the VID; `push`: adds a tag where there is none, as OpenFlow 1.0 does. (`mod_vlan_vid`, `set_vlan_vid`)
    SetVlanVid { vid: u16, push: bool },
    /// Sets the priority; `push` as above. (`mod_vlan_pcp`, `set_vlan_pcp`)
    SetVlanPcp { pcp: u8, push: bool },
    /// Takes the outer tag off; `pop`: by the name that OpenFlow 1.1 gave it. (`strip_vlan`, `pop_vlan`)
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
    /// The upper six bits of the TOS byte, in place. (`mod_nw_tos`)
    SetIpDscp(u8),
    /// (`mod_nw_ecn`)
    SetIpEcn(u8),
    /// (`mod_nw_ttl`)
    SetIpTtl(u8),
    /// (`mod_tp_src`)
    SetL4Src(u16),
    /// (`mod_tp_dst`)
    SetL4Dst(u16),
    /// One off the TTL; packets whose TTL ends go to the controllers with these ids: without Nicira's form, `[0]`. (`dec_ttl`)
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
    /// Takes a label away; the rest has this Ethernet type. (`pop_mpls`)
    PopMpls(u16),
    /// (`delete_field`)
    DeleteField(Subfield),
    /// Adds an outer header. (`encap`)
    Encap(Encap),
    /// Takes the outer header away; the packet type that is left. (`decap`)
    Decap { packet_type: u32 },
    /// (`dec_nsh_ttl`)
    DecNshTtl,

    /// The key of a tunnel; `wide`: in the 64-bit form. (`set_tunnel`, `set_tunnel64`)
    SetTunnel { id: u64, wide: bool },
    /// (`set_queue`)
    SetQueue(u32),
    /// (`pop_queue`)
    PopQueue,
    /// Shorter timeouts once a TCP connection ends. (`fin_timeout`)
    FinTimeout { idle: u16, hard: u16 },

    /// Looks up again; `None` is the in port or the table of now. (`resubmit`)
    Resubmit { port: Option<OfPort>, table: Option<u8>, with_ct: bool },
    /// Makes a flow. (`learn`)
    Learn(Box<Learn>),
    /// Part of a conjunctive match; `clause` counts from 0. (`conjunction`)
    Conjunction { id: u32, clause: u8, n_clauses: u8 },
    /// Hashes to a link number. (`multipath`)
    Multipath(Box<Multipath>),

    /// Nothing: for the reader. (`note`)
    Note(Vec<u8>),
    /// Ends the table's work. (`exit`)
    Exit,
    /// Samples for IPFIX. (`sample`)
    Sample(Box<Sample>),
    /// Connection tracking. (`ct`)
    Ct(Box<Ct>),
    /// Address translation, only inside `Ct`. (`nat`)
    Nat(Box<Nat>),
    /// (`ct_clear`)
    CtClear,
    /// Does these, then has the packet as it was. (`clone`)
    Clone(Vec<Action>),
    /// Puts 1 where the packet is longer. (`check_pkt_larger`)
    CheckPktLarger { len: u16, dst: Subfield },
    /// Tests only. (`debug_recirc`)
    DebugRecirc,
    /// Tests only. (`debug_slow`)
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

impl Action {
    /// `OFPCML_NO_BUFFER`: the whole packet to the controller.
    pub const NO_BUFFER: u16 = 0xffff;

    /// To a port, whole.
    pub fn output(port: OfPort) -> Action {
        Action::Output { port, max_len: if port == OfPort::CONTROLLER { Action::NO_BUFFER } else { 0 } }
    }

    /// An instruction of OpenFlow 1.1 and later other than `ApplyActions`.
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

    /// The actions inside this one.
    pub fn nested(&self) -> &[Action] {
        match self {
            Action::Clone(list) | Action::WriteActions(list) => list,
            Action::Ct(ct) => &ct.actions,
            _ => &[],
        }
    }

    /// This action names the port as `out_port` asks for it. As in Open vSwitch, `output(port=,max_len=)` and the members of a
    /// bundle are no such names.
    pub fn outputs_to(&self, wanted: OfPort) -> bool {
        match self {
            Action::Output { port, .. } | Action::Enqueue { port, .. } => *port == wanted,
            Action::Controller(_) => wanted == OfPort::CONTROLLER,
            _ => self.nested().iter().any(|a| a.outputs_to(wanted)),
        }
    }

    /// The packet could pass this group through this action.
    pub fn outputs_to_group(&self, wanted: u32) -> bool {
        matches!(self, Action::Group(id) if *id == wanted)
            || self.nested().iter().any(|a| a.outputs_to_group(wanted))
    }
}
