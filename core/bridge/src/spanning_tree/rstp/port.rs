//! Variables of a port (§17.19) and its timers (§17.17).

use super::vector::{NUMBER_MASK, Times, Vector};
use crate::spanning_tree::bpdu::Bpdu;
use crate::spanning_tree::port_setup::{Link, PortSetup};
use crate::spanning_tree::port_setup::{PointToPoint, PortSettings};
use crate::spanning_tree::port_state::PortState;
use bitflags::bitflags;
use units::OfPort;

bitflags! {
    /// The boolean variables of a port.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub(super) struct Variables: u32 {
        const AGREE = 1 << 0;
        const AGREED = 1 << 1;
        const DISPUTED = 1 << 2;
        const FORWARD = 1 << 3;
        const FORWARDING = 1 << 4;
        const LEARN = 1 << 5;
        const LEARNING = 1 << 6;
        const MCHECK = 1 << 7;
        const NEW_INFO = 1 << 8;
        const OPER_EDGE = 1 << 9;
        const PROPOSED = 1 << 10;
        const PROPOSING = 1 << 11;
        const RCVD_MSG = 1 << 12;
        const RCVD_RSTP = 1 << 13;
        const RCVD_STP = 1 << 14;
        const RCVD_TC = 1 << 15;
        const RCVD_TC_ACK = 1 << 16;
        const RCVD_TCN = 1 << 17;
        const RE_ROOT = 1 << 18;
        const RESELECT = 1 << 19;
        const SELECTED = 1 << 20;
        const SEND_RSTP = 1 << 21;
        const SYNC = 1 << 22;
        const SYNCED = 1 << 23;
        const TC_ACK = 1 << 24;
        const TC_PROP = 1 << 25;
        const UPDT_INFO = 1 << 26;
    }
}

/// Role of a port (§17.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PortRole {
    #[default]
    Disabled,
    Root,
    Designated,
    Alternate,
    Backup,
}

impl PortRole {
    pub(super) const fn name(self) -> &'static str {
        match self {
            PortRole::Disabled => "Disabled",
            PortRole::Root => "Root",
            PortRole::Designated => "Designated",
            PortRole::Alternate => "Alternate",
            PortRole::Backup => "Backup",
        }
    }

    /// Whether the port is a part of the tree: a root port or a designated port.
    pub(super) fn is_active(self) -> bool {
        matches!(self, PortRole::Root | PortRole::Designated)
    }
}

/// Origin of the information of a port (infoIs, §17.19.10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum InfoIs {
    #[default]
    Disabled,
    Aged,
    Mine,
    Received,
}

/// The information of a port about its LAN.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Info {
    pub(super) is: InfoIs,
    /// The priority vector in force on the LAN (portPriority).
    pub(super) priority: Vector,
    /// The times in force on the LAN (portTimes).
    pub(super) times: Times,
    /// The priority vector that the bridge would announce on the LAN (designatedPriority).
    pub(super) designated: Vector,
    /// The times that the bridge would announce on the LAN (designatedTimes).
    pub(super) designated_times: Times,
}

/// The timers of a port in seconds; they count down to 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Timers {
    pub(super) edge_delay: u16,
    pub(super) forward_delay: u16,
    pub(super) hello: u16,
    pub(super) migration_delay: u16,
    pub(super) recent_backup: u16,
    pub(super) received_info: u16,
    pub(super) recent_root: u16,
    pub(super) topology_change: u16,
}

impl Timers {
    pub(super) fn tick(&mut self) {
        let all = [
            &mut self.edge_delay,
            &mut self.forward_delay,
            &mut self.hello,
            &mut self.migration_delay,
            &mut self.recent_backup,
            &mut self.received_info,
            &mut self.recent_root,
            &mut self.topology_change,
        ];
        all.into_iter().for_each(|timer| *timer = timer.saturating_sub(1));
    }
}

/// States of the port protocol migration machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Migration {
    #[default]
    CheckingRstp,
    SelectingStp,
    Sensing,
}

/// States of the port information machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Information {
    #[default]
    Disabled,
    Aged,
    Current,
}

/// States of the port role transitions machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Transition {
    #[default]
    Disable,
    Disabled,
    Root,
    Designated,
    Block,
    Alternate,
}

/// States of the topology change machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Topology {
    #[default]
    Inactive,
    Learning,
    Active,
}

/// States of the state machines that have more than one state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Machines {
    pub(super) migration: Migration,
    pub(super) information: Information,
    pub(super) transition: Transition,
    pub(super) topology: Topology,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// BPDUs sent.
    pub(super) tx: i64,
    /// Valid BPDUs received.
    pub(super) rx: i64,
    /// Invalid BPDUs received.
    pub(super) errors: i64,
    /// Seconds since the port was added; seconds that `Bridge::run` missed are not counted.
    pub(super) uptime: i64,
}

/// A port.
#[derive(Debug)]
pub(super) struct Port {
    /// The OpenFlow port number. The key in `Bridge::ports` is another number: that of the port identifier.
    pub(super) ofport: OfPort,
    pub(super) name: String,
    pub(super) link: Link,
    pub(super) settings: PortSettings,
    /// Port identifier: priority and number.
    pub(super) id: u16,
    pub(super) path_cost: u32,
    pub(super) variables: Variables,
    pub(super) role: PortRole,
    pub(super) selected_role: PortRole,
    pub(super) info: Info,
    pub(super) timers: Timers,
    pub(super) machines: Machines,
    /// Number of BPDUs sent, decremented once per second (txCount).
    pub(super) tx_count: u16,
    /// A received BPDU that has not been processed yet.
    pub(super) received: Option<Bpdu>,
    /// The state that the port must have; the datapath may reach it later.
    pub(super) state: PortState,
    pub(super) counts: Counts,
}

/// The port identifier for a priority and a number.
pub(super) fn port_id(priority: u8, number: u16) -> u16 {
    u16::from(priority & 0xf0) << 8 | number & NUMBER_MASK
}

impl Port {
    /// A port whose machines have not run.
    pub(super) fn new(number: u16, setup: &PortSetup) -> Port {
        Port {
            ofport: setup.port,
            name: setup.name.clone(),
            link: Link::default(),
            settings: setup.rapid.clone(),
            id: port_id(setup.priority, number),
            path_cost: setup.path_cost,
            variables: Variables::empty(),
            role: PortRole::Disabled,
            selected_role: PortRole::Disabled,
            info: Info::default(),
            timers: Timers::default(),
            machines: Machines::default(),
            tx_count: 0,
            received: None,
            state: PortState::Discarding,
            counts: Counts::default(),
        }
    }

    /// Whether all of these variables are true.
    pub(super) fn has(&self, all: Variables) -> bool {
        self.variables.contains(all)
    }

    /// Whether at least one of these variables is true.
    pub(super) fn has_any(&self, any: Variables) -> bool {
        self.variables.intersects(any)
    }

    /// portEnabled (§17.19.18)
    pub(super) fn is_enabled(&self) -> bool {
        self.link.up && self.settings.enabled
    }

    /// operPointToPointMAC
    pub(super) fn is_point_to_point(&self) -> bool {
        self.settings.point_to_point == PointToPoint::Yes
    }

    /// Whether the selected role is final, which most transitions require.
    pub(super) fn is_settled(&self) -> bool {
        self.has(Variables::SELECTED) && !self.has(Variables::UPDT_INFO)
    }

    /// forwardDelay (§17.20.6). On a shared LAN agreements are not possible, so the delay is as long as in STP.
    pub(super) fn forward_delay(&self) -> u16 {
        let times = &self.info.designated_times;
        let is_short = self.has(Variables::SEND_RSTP) && self.is_point_to_point();
        if is_short { times.hello_time } else { times.forward_delay }
    }

    /// Requests a new selection of roles.
    pub(super) fn reselect(&mut self) {
        self.variables |= Variables::RESELECT;
        self.variables -= Variables::SELECTED;
    }
}
