//! The state of the switch that translations read: bridges, their ports and tables, as one immutable structure.
//!
//! The switch publishes a new snapshot for each change; it shares unchanged parts with the previous snapshot. A
//! translation uses one snapshot from beginning to end. Traffic changes the learning tables, so a snapshot has references
//! to them.

use crate::bridge_id::BridgeId;
use crate::mirror::Mirror;
use crate::sampling_settings::Sampling;
use crate::tunnel_ports::TunnelPorts;
use crate::underlay::Underlay;
use bitflags::bitflags;
use bridge::spanning_tree::{PortTreeState, Protocol};
use bridge::tunnel::PacketTypes;
use bridge::{BundleId, GroupRead, MacRead, TunnelConfig, VlanConfig, bfd, cfm};
use cpu::KeyedHash64;
use dpif::Capabilities;
use flow::{Flow, Tunnel};
use numbered::NumberedTable;
use ofproto::Tables;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{OfPort, PortNo};

bitflags! {
    /// Settings of `ofp_port_mod` (OpenFlow 1.0 §5.2.1), with the bits of OpenFlow 1.0.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct PortFlags: u32 {
        /// The port is administratively down.
        const PORT_DOWN = 1 << 0;
        /// No spanning tree on the port.
        const NO_STP = 1 << 1;
        /// Drop received packets, except for spanning tree packets.
        const NO_RECV = 1 << 2;
        /// Drop received spanning tree packets.
        const NO_RECV_STP = 1 << 3;
        /// Not a target of FLOOD.
        const NO_FLOOD = 1 << 4;
        /// Drop packets to be sent.
        const NO_FWD = 1 << 5;
        /// No packet-in for packets that no flow matches.
        const NO_PACKET_IN = 1 << 6;
    }
}

/// The destination of packets that are output to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A port of the datapath.
    Datapath(PortNo),
    /// Another bridge, as if its port with this number had received the packet.
    Patch(BridgeId, OfPort),
    /// No destination: a patch port without its peer, or a device that does not exist.
    None,
}

/// An OpenFlow port of a bridge.
#[derive(Clone, Debug)]
pub struct PortView {
    /// OpenFlow port number.
    pub ofport: OfPort,
    /// Name of the port.
    pub name: String,
    /// The bridge's port (bundle) to which it belongs.
    pub bundle: Option<BundleId>,
    /// The destination of packets that are output to the port.
    pub attachment: Attachment,
    /// Settings made by port modifications.
    pub flags: PortFlags,
    /// Groups and `bundle` actions may select the port, because its link is up.
    pub is_live: bool,
    /// Configuration, if it is a tunnel.
    pub tunnel: Option<Arc<TunnelConfig>>,
    /// Selects the packets for the port's BFD session, if it has one.
    pub bfd: Option<bfd::Filter>,
    /// Selects the packets for the port's CFM session, if it has one.
    pub cfm: Option<cfm::Filter>,
    /// LLDP is enabled on the port.
    pub lldp: bool,
    /// LACP is enabled on the port.
    pub lacp: bool,
    /// The port's state in the spanning tree, if it takes part.
    pub tree: Option<PortTreeState>,
    /// The interface index, for sFlow; 0: the port has none.
    pub ifindex: u32,
    /// DSCP for the packets of a queue: the queue's priority, and the DSCP in the upper six bits of a TOS byte.
    pub queue_dscp: Vec<(u32, u8)>,
}

impl PortView {
    /// The packet types that the port accepts and sends. A patch port accepts all types: the ports of the other bridge check
    /// them.
    pub fn packet_types(&self) -> PacketTypes {
        match (&self.attachment, &self.tunnel) {
            (Attachment::Patch(..), _) => PacketTypes::Aware,
            (_, Some(tunnel)) => tunnel.packet_types,
            _ => PacketTypes::Ethernet,
        }
    }

    /// An enabled port of the datapath without special configuration.
    pub fn new(ofport: OfPort, name: &str, bundle: BundleId, attachment: Attachment) -> PortView {
        PortView {
            ofport,
            name: name.to_owned(),
            bundle: Some(bundle),
            attachment,
            flags: PortFlags::empty(),
            is_live: true,
            tunnel: None,
            bfd: None,
            cfm: None,
            lldp: false,
            lacp: false,
            tree: None,
            ifindex: 0,
            queue_dscp: Vec::new(),
        }
    }
}

/// A port of a bridge (a row of table Port), with one interface or several; NORMAL forwards between bundles.
#[derive(Clone, Debug)]
pub struct Bundle {
    /// The identity of the bundle.
    pub id: BundleId,
    /// Name of the row in table Port.
    pub name: String,
    /// The OpenFlow ports of its interfaces.
    pub ports: Vec<OfPort>,
    /// The VLAN configuration.
    pub vlan: VlanConfig,
    /// Packets are flooded to it.
    pub floodable: bool,
    /// Packets are not forwarded between protected ports.
    pub protected: bool,
    /// The bond, if it has several interfaces.
    pub bond: Option<Arc<bond::View>>,
}

/// Handling of IP fragments in look-ups (OpenFlow 1.0 §5.3.2, `OFPC_FRAG_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fragments {
    /// A look-up matches transport ports 0 for every fragment.
    #[default]
    Normal,
    /// Fragments are dropped.
    Drop,
    /// A look-up matches the transport ports of first fragments (`nx-match`).
    Match,
}

/// Multicast snooping of a bridge.
#[derive(Clone)]
pub struct Snooping {
    /// Members of groups, and router ports.
    pub groups: Arc<dyn GroupRead + Send + Sync>,
    /// The ports to which all multicast is sent, in the order in which they were set.
    pub flood_ports: Vec<BundleId>,
    /// The ports to which all reports are sent.
    pub report_ports: Vec<BundleId>,
    /// Packets to groups without members are flooded.
    pub flood_unregistered: bool,
}

/// One bridge.
#[derive(Clone)]
pub struct BridgeView {
    /// The identity of the bridge.
    pub id: BridgeId,
    /// Name of the bridge.
    pub name: String,
    /// OpenFlow tables, groups and meters.
    pub tables: Arc<Tables>,
    /// The MAC learning table.
    pub macs: Arc<dyn MacRead + Send + Sync>,
    /// Multicast snooping, if it is enabled.
    pub snooping: Option<Snooping>,
    /// OpenFlow ports.
    pub ports: NumberedTable<OfPort, PortView>,
    /// Bundles, in the order in which NORMAL floods.
    pub bundles: NumberedTable<BundleId, Bundle>,
    /// Mirrors.
    pub mirrors: Vec<Mirror>,
    /// Sampling settings; `None`: nothing is sampled.
    pub sampling: Option<Arc<Sampling>>,
    /// Frames to reserved multicast addresses are forwarded.
    pub forward_bpdu: bool,
    /// The bridge's spanning tree protocol, if it has one. The protocol consumes all BPDUs.
    pub tree: Option<Protocol>,
    /// Handling of fragments in look-ups.
    pub fragments: Fragments,
    /// In-band control: the bridge reaches its controllers through its own ports, so DHCP answers are also sent to its own
    /// device.
    pub in_band: bool,
    /// A controller requests packets that no flow matches (OpenFlow 1.0 to 1.2).
    pub packet_in_on_miss: bool,
    /// Group buckets that watch port CONTROLLER are live: a controller is connected, or the bridge forwards without one.
    pub controller_port_live: bool,
}

impl BridgeView {
    /// A port by number.
    pub fn port(&self, port: OfPort) -> Option<&PortView> {
        self.ports.get(&port)
    }

    /// A bundle by identity.
    pub fn bundle(&self, id: BundleId) -> Option<&Bundle> {
        self.bundles.get(&id)
    }

    /// The datapath's number of a port.
    pub fn datapath_port(&self, port: OfPort) -> Option<PortNo> {
        match self.port(port)?.attachment {
            Attachment::Datapath(no) => Some(no),
            Attachment::Patch(..) | Attachment::None => None,
        }
    }
}

/// The state of the switch at one moment.
#[derive(Clone)]
pub struct Snapshot {
    /// All bridges.
    pub bridges: BTreeMap<BridgeId, Arc<BridgeView>>,
    /// The bridge and OpenFlow port of each datapath port.
    pub ingress: NumberedTable<PortNo, (BridgeId, OfPort)>,
    /// Tunnel ports.
    pub tunnels: TunnelPorts,
    /// The underlay network of tunnels.
    pub underlay: Underlay,
    /// Capabilities of the datapath.
    pub capabilities: Capabilities,
    /// A packet that is dropped after a sample was taken is dropped by an explicit `drop` action, which counts it.
    pub explicit_sampled_drops: bool,
    /// The number of the timeout policy of each connection tracking zone that has one.
    pub timeouts: Arc<BTreeMap<u16, u16>>,
    /// Hashes dependencies with secrets of the process. The default has fixed secrets, for tests.
    pub chain: KeyedHash64,
}

impl Default for Snapshot {
    fn default() -> Snapshot {
        Snapshot {
            bridges: BTreeMap::new(),
            ingress: NumberedTable::default(),
            tunnels: TunnelPorts::default(),
            underlay: Underlay::default(),
            capabilities: Capabilities::USERSPACE,
            explicit_sampled_drops: false,
            timeouts: Arc::default(),
            chain: KeyedHash64::new(0),
        }
    }
}

impl Snapshot {
    /// A bridge by identity.
    pub fn bridge(&self, id: BridgeId) -> Option<&BridgeView> {
        self.bridges.get(&id).map(|b| &**b)
    }

    /// The mask of the outer header for a megaflow that drops tunnel packets for which [`receive`](Self::receive) finds no
    /// port.
    pub fn mask_without_tunnel_port(&self, datapath_flow: &Flow) -> Tunnel {
        self.tunnels.mask_without_port(datapath_flow)
    }

    /// Converts a datapath flow to OpenFlow: the bridge, and the flow with its OpenFlow port. `None` if no bridge has
    /// the port.
    pub fn receive(&self, datapath_flow: &Flow) -> Option<(BridgeId, Flow)> {
        let (bridge, port) = if bridge::tunnel::is_tunnelled(&datapath_flow.tunnel) {
            self.tunnel_port(datapath_flow)?
        } else {
            self.ingress.get(&PortNo(datapath_flow.in_port)).copied()?
        };
        let mut flow = Flow { in_port: u32::from(port.0), ..*datapath_flow };
        if let Some(bridge) = self.bridge(bridge) {
            bridge.decode_tunnel_options(&mut flow);
        }
        Some((bridge, flow))
    }
}
