//! Ports: AF_PACKET, tap and internal, dummy.
