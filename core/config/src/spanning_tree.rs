//! Reads the parameters of spanning trees from `Bridge` and `Port` rows.

use crate::row::Row;
use bridge::spanning_tree::Protocol;
use bridge::spanning_tree::rstp::{PointToPoint, PortSettings};
use settings::bridge as of_bridge;
use settings::port::{
    RSTP_ADMIN_P2P_MAC, RSTP_ADMIN_PORT_STATE, RSTP_ENABLE, RSTP_PATH_COST, RSTP_PORT_ADMIN_EDGE,
    RSTP_PORT_AUTO_EDGE, RSTP_PORT_MCHECK, RSTP_PORT_NUM, RSTP_PORT_PRIORITY, STP_ENABLE, STP_PATH_COST,
    STP_PORT_NUM, STP_PORT_PRIORITY,
};

/// The spanning tree protocols that a bridge's row enables; the bridge uses one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeConfig {
    /// `stp_enable`
    pub stp: bool,
    /// `rstp_enable`
    pub rstp: bool,
}

impl TreeConfig {
    /// The protocol that the bridge uses; RSTP takes precedence.
    pub fn protocol(self) -> Option<Protocol> {
        match self {
            TreeConfig { rstp: true, .. } => Some(Protocol::Rstp),
            TreeConfig { stp: true, .. } => Some(Protocol::Stp),
            _ => None,
        }
    }

    /// Reads a row of table Bridge.
    pub(crate) fn read(row: &Row<'_>) -> TreeConfig {
        TreeConfig {
            stp: row.bool(of_bridge::STP_ENABLE.column),
            rstp: row.bool(of_bridge::RSTP_ENABLE.column),
        }
    }
}

/// A port's parameters for one protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreePortConfig {
    /// Whether the port takes part in the spanning tree.
    pub enable: bool,
    /// The port's number in its identifier; `None`: any number.
    pub number: Option<u16>,
    /// The port's priority.
    pub priority: u8,
    /// The path cost; `None`: it depends on the speed.
    pub path_cost: Option<u32>,
}

/// A port's parameters for both protocols.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreePortConfigs {
    /// For STP.
    pub stp: TreePortConfig,
    /// For RSTP.
    pub rstp: TreePortConfig,
    /// Settings that only RSTP has.
    pub rapid: PortSettings,
}

impl TreePortConfigs {
    /// Reads a row of table Port.
    pub(crate) fn read(row: &Row<'_>) -> TreePortConfigs {
        let other_config = &row.map("other_config");
        let config = |[enable, number, priority, cost]: [settings::Setting; 4]| TreePortConfig {
            enable: enable.flag_of(other_config),
            number: number.opt_number(other_config).and_then(|n| u16::try_from(n).ok()),
            priority: u8::try_from(priority.number(other_config)).unwrap_or(u8::MAX),
            path_cost: cost.opt_number(other_config).and_then(|n| u32::try_from(n).ok()),
        };
        TreePortConfigs {
            stp: config([STP_ENABLE, STP_PORT_NUM, STP_PORT_PRIORITY, STP_PATH_COST]),
            rstp: config([RSTP_ENABLE, RSTP_PORT_NUM, RSTP_PORT_PRIORITY, RSTP_PATH_COST]),
            rapid: PortSettings {
                admin_edge: RSTP_PORT_ADMIN_EDGE.flag_of(other_config),
                auto_edge: RSTP_PORT_AUTO_EDGE.flag_of(other_config),
                mcheck: RSTP_PORT_MCHECK.flag_of(other_config),
                point_to_point: match RSTP_ADMIN_P2P_MAC.number(other_config) {
                    0 => PointToPoint::No,
                    1 => PointToPoint::Yes,
                    _ => PointToPoint::Auto,
                },
                enabled: RSTP_ADMIN_PORT_STATE.flag_of(other_config),
            },
        }
    }
}
