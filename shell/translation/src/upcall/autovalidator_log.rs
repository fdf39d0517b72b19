//! Log of the autovalidator, which compares subtable look-ups with a naive implementation.

use crate::upcall::translator::UpcallTranslator;
use runtime::log::Level;
use runtime::{Module, RateLimit};
use units::Ufid;

static LOG: Module = Module::new("dpif_lookup_autovalidator");
static LIMIT: RateLimit = RateLimit::new(1, 5);

impl UpcallTranslator {
    /// Logs that a worker's look-up of a packet differed from the naive one.
    pub(crate) fn log_lookup_difference(&self, packet: &[u8], found: Option<Ufid>, naive: Option<Ufid>) {
        let text = |ufid: Option<Ufid>| ufid.map_or("nothing".to_owned(), dpif::text::ufid_text);
        let hex: String = packet.iter().map(|b| format!("{b:02x}")).collect();
        runtime::log_rl!(
            LOG,
            LIMIT,
            Level::Err,
            "{}: look-up found {}, the naive one {}: {hex}",
            self.name,
            text(found),
            text(naive)
        );
    }
}
