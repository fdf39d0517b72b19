//! What makes a bridge a bridge: MAC learning and VLAN modes.
