//! The TLS identity of the switch: from table SSL if it has a row, else from the command line.

use crate::switch::Switch;
use config::Desired;
use runtime::Module;
use transport::tls::{Files, configure};

static LOG: Module = Module::new("stream_ssl");

impl Switch {
    /// Applies the TLS identity at the start, and when table SSL changed.
    pub(crate) fn configure_identity(&mut self, desired: &Desired) {
        if self.start.configured && desired.ssl == self.applied.ssl {
            return;
        }
        let files = match &desired.ssl {
            Some(ssl) => Files {
                private_key: ssl.private_key.clone().into(),
                certificate: ssl.certificate.clone().into(),
                ca_cert: ssl.ca_cert.clone().into(),
                bootstrap: ssl.bootstrap_ca_cert,
                ..self.options.tls.clone()
            },
            None => self.options.tls.clone(),
        };
        if let Err(text) = configure(&files) {
            runtime::err!(LOG, "{text}");
        }
    }
}
