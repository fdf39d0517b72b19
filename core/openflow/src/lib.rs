//! OpenFlow wire codec and the ovs-ofctl text syntax over one set of types.
