//! The text syntax of ovs-ofctl(8): parses and prints actions, flows, statistics and messages.
//!
//! Scripts compare the text, so every byte of it is fixed, including error messages. Parsers accept any input:
//! for invalid text they return an error that names the fault. They do not nest deeper than [`DEPTH_MAX`].
//!
//! Modules `*_in` parse, modules `*_out` print. For packets, where these names would mean the messages packet-in and packet-out, the
//! modules are `packet_parse` and `packet_print`.

mod action_in;
mod action_out;
mod arguments;
mod ct_in;
mod encap_in;
mod flow_in;
mod flow_out;
mod group_in;
mod group_out;
mod hex;
mod learn_in;
mod learn_out;
mod message_name;
mod message_out;
mod meter_in;
mod meter_out;
mod monitor_in;
mod monitor_out;
mod packet_parse;
mod packet_print;
mod port_out;
mod protocol;
mod session_in;
mod session_out;
mod stats_out;
mod table_out;
mod type_name;

pub use action_in::{DEPTH_MAX, parse_actions};
pub use action_out::{action_text, actions_text};
pub use flow_in::{AllowedParts, ParsedFlow, parse_flow_filter, parse_flow_line, parse_flow_mod};
pub use flow_out::{flow_mod_text, flow_stats_text, flow_stats_text_short, match_text};
pub use group_in::{parse_group_line, parse_group_mod};
pub use group_out::group_desc_text;
pub use hex::{hex_bytes, hex_dump};
pub use message_out::{message_text, packet_in_format_name};
pub use meter_in::parse_meter_mod;
pub use monitor_in::parse_flow_monitor;
pub use packet_parse::{parse_packet, parse_packet_out};
pub use packet_print::packet_text;
pub use protocol::Protocols;
pub use session_in::{parse_ct_flush, parse_tlv_maps};
pub use session_out::ct_flush_text;
pub use session_out::{frag_mode_from_name, frag_mode_name};
pub use table_out::TablesText;
pub use type_name::message_type_name;

pub use flow::text::{NameMap, NoNames, TextError};

#[cfg(test)]
mod tests;
