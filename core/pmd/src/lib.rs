//! What poll threads decide, without any thread: assignment of rx queues to cores, load accounting.
