//! The names of TLS files.

use transport::tls::Names;

/// The TLS settings as file names and values, or as `db:` names of columns.
pub type TlsNames = Names<String>;
