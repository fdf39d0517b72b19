//! The capabilities of the datapath: the actions and fields that the control half may use.

/// Capabilities (`dpif/show-dp-features`, and the `Datapath` table's `capabilities`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Capabilities {
    pub max_vlan_headers: usize,
    pub max_mpls_depth: usize,
    pub recirc: bool,
    pub masked_set: bool,
    pub clone: bool,
    pub sample_nesting: usize,
    pub trunc: bool,
    pub check_pkt_len: bool,
    pub explicit_drop: bool,
    pub add_mpls: bool,
    pub ct: bool,
    /// `ct` supports address translation.
    pub ct_nat: bool,
    pub tunnels: bool,
    pub lb_output: bool,
    /// Highest hash algorithm of `hash`: 0 is L4, 1 is symmetric L4.
    pub max_hash_alg: u32,
}

impl Capabilities {
    /// The user-space datapath of this switch.
    pub const USERSPACE: Capabilities = Capabilities {
        max_vlan_headers: flow::flow::VLANS_MAX,
        max_mpls_depth: flow::flow::MPLS_MAX,
        recirc: true,
        masked_set: true,
        clone: true,
        sample_nesting: 10,
        trunc: true,
        check_pkt_len: true,
        explicit_drop: true,
        add_mpls: true,
        ct: true,
        ct_nat: true,
        tunnels: true,
        lb_output: true,
        max_hash_alg: 1,
    };
}
