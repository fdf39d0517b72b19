//! The contract between the halves: datapath flow, action, upcall, statistics, capabilities.
