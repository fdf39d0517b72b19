//! Unix and TCP byte streams, active and passive, with reconnect.
