//! Packet builders and scenarios for tests.
