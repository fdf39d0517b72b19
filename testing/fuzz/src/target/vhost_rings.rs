//! Rings of a guest: whatever they contain, the switch accesses only the guest's memory, and its counters stay correct.

/// The first byte selects the features. The rest is the guest's memory, which begins with a ring.
pub fn run(data: &[u8]) {
    vhost::fuzz_rings::run(data);
}
