//! Two replies of the daemon, and access to their values.

use ovsdb::Json;

/// Two replies, and the time between them.
pub struct ReplyPair<'a> {
    pub before: &'a Json,
    pub now: &'a Json,
    pub seconds: f64,
}

impl ReplyPair<'_> {
    /// For each datapath: its name, its newer state, its older state.
    pub fn datapaths(&self) -> impl Iterator<Item = (&str, &Json, &Json)> {
        let all = self.now["datapaths"].as_object().into_iter().flatten();
        all.map(|(name, now)| (name.as_str(), now, &self.before["datapaths"][name.as_str()]))
    }
}

pub fn list(of: &Json) -> &[Json] {
    of.as_array().map_or(&[], Vec::as_slice)
}

pub fn number(of: &Json, name: &str) -> u64 {
    of[name].as_u64().unwrap_or(0)
}

pub fn word<'a>(of: &'a Json, name: &str) -> &'a str {
    of[name].as_str().unwrap_or("")
}
