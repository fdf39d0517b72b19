//! The database service: connections, the durable file, monitors.
