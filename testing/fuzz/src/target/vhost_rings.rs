//! Rings of a guest: whatever they contain, the switch stays within the guest's memory and keeps its counts.

/// The first byte selects the features; the rest is the guest's memory, which begins with a ring.
pub fn run(data: &[u8]) {
    vhost::probe::rings(data);
}
