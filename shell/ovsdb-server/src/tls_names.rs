//! Where the files of TLS are.

use transport::tls::Names;

/// File names and choices, or the columns that hold them.
pub type TlsNames = Names<String>;
