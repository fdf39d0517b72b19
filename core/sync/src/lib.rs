//! Shared state: the megaflow arena, publish and snapshot, rings, per-worker counters.
