//! RFC 7047 without I/O: values, schema, operations, transactions, monitors, log records, client replica.
