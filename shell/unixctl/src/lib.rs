//! The control socket: JSON-RPC server and client.
