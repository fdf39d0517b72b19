//! `sluice pool`: shows the pools of receive buffers, and how many buffers each port holds.

use crate::call::Call;
use crate::common;
use crate::getopt::Opt;
use crate::page::{Names, Page};
use crate::pmd::{TARGET, print_reply};
use std::process::ExitCode;

fn options() -> Vec<Opt> {
    common::options([TARGET])
}

/// The names of the tool.
pub const NAMES: Names = Names { tool: "pool", other_names: &[] };

/// The help page of the tool.
pub fn page() -> Page {
    Page {
        names: NAMES,
        title: "shows the receive buffers that ports share",
        synopsis: "[--json]",
        commands: Vec::new(),
        options: options(),
        notes: vec![(
            "What it prints",
            "For each pool its buffers and how many are held; for each rx queue of a port with other_config:rx-pool=spp: \
             buffers held (posted, or in packets that were received and not yet sent or dropped), posted, used for \
             packets that are sent by copying, the number that it may hold at this moment, the number that it is certain to \
             get, the most that are posted, the most that were held, whether it is busy, how often it became busy, and packets \
             that found no buffer: all, and those of the first burst after an idle time. For ports with other_config:rx-pool=basic \
             the rx queues that they share: packets, packets that were lost because the queue was full, packets that wait for the \
             worker, and the ports."
                .into(),
        )],
    }
}

/// Runs the tool.
pub fn main(call: &Call) -> ExitCode {
    let (parsed, json) = match common::arguments(call, &options(), page) {
        Ok(known) => known,
        Err(code) => return code,
    };
    match parsed.rest.first() {
        Some(word) => common::refuse(call, &format!("unexpected argument '{word}'; use --help for help")),
        None => print_reply(call, parsed.value("target"), "rxpool/show", json),
    }
}
