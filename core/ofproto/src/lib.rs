//! OpenFlow tables, groups, bundles and expiry, with versioned snapshots.
