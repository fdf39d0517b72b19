//! The columns of the schema that are not settings: state that the switch writes, and data of other programs.

/// Which program writes a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The switch.
    Switch,
    /// No program writes the column in this version; the text is the reason.
    Unwritten(&'static str),
    /// Other programs write and read the column.
    Others,
}

use Writer::{Others, Switch, Unwritten};

/// The columns, by table.
pub const COLUMNS: &[(&str, &[(&str, Writer)])] = &[
    (
        "Open_vSwitch",
        &[
            ("cur_cfg", Switch),
            ("datapath_types", Switch),
            ("iface_types", Switch),
            ("dpdk_initialized", Switch),
            ("dpdk_version", Switch),
            ("ovs_version", Switch),
            ("db_version", Switch),
            ("system_type", Switch),
            ("system_version", Switch),
            (
                "statistics",
                Unwritten(
                    "not implemented: the host's load is not measured; values of another switch are removed",
                ),
            ),
            ("external_ids", Others),
        ],
    ),
    (
        "Bridge",
        &[
            ("datapath_id", Switch),
            ("datapath_version", Switch),
            ("status", Switch),
            ("rstp_status", Switch),
            ("external_ids", Others),
        ],
    ),
    (
        "Port",
        &[
            ("bond_active_slave", Switch),
            ("status", Switch),
            ("statistics", Switch),
            ("rstp_status", Switch),
            ("rstp_statistics", Switch),
            ("external_ids", Others),
        ],
    ),
    (
        "Interface",
        &[
            ("admin_state", Switch),
            ("link_state", Switch),
            ("link_resets", Switch),
            ("link_speed", Switch),
            ("duplex", Switch),
            ("error", Switch),
            ("ifindex", Switch),
            ("mac_in_use", Switch),
            ("mtu", Switch),
            ("ofport", Switch),
            ("status", Switch),
            ("statistics", Switch),
            ("bfd_status", Switch),
            ("cfm_fault", Switch),
            ("cfm_fault_status", Switch),
            ("cfm_flap_count", Switch),
            ("cfm_health", Switch),
            ("cfm_remote_mpids", Switch),
            ("cfm_remote_opstate", Switch),
            ("lacp_current", Switch),
            ("external_ids", Others),
        ],
    ),
    (
        "Controller",
        &[("is_connected", Switch), ("role", Switch), ("status", Switch), ("external_ids", Others)],
    ),
    ("Manager", &[("is_connected", Others), ("status", Others), ("external_ids", Others)]),
    ("Mirror", &[("statistics", Switch), ("external_ids", Others)]),
    (
        "Datapath",
        &[
            ("datapath_version", Unwritten("a datapath has no version of its own")),
            ("capabilities", Switch),
            ("external_ids", Others),
        ],
    ),
    ("Flow_Table", &[("external_ids", Others)]),
    ("QoS", &[("external_ids", Others)]),
    ("Queue", &[("external_ids", Others)]),
    ("SSL", &[("external_ids", Others)]),
    ("NetFlow", &[("external_ids", Others)]),
    ("sFlow", &[("external_ids", Others)]),
    ("IPFIX", &[("external_ids", Others)]),
    ("Flow_Sample_Collector_Set", &[("external_ids", Others)]),
    ("CT_Zone", &[("external_ids", Others)]),
    ("CT_Timeout_Policy", &[("external_ids", Others)]),
];
