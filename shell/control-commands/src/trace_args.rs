//! Parses the arguments of `ofproto/trace`: options at any position, and the packet to trace.

use flow::flow::ct_state;
use flow::text::flags;

/// Maximum length of a generated payload in bytes.
const MAX_DATA: usize = 64_000;

/// The payload of a generated packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// These bytes.
    Bytes(Vec<u8>),
    /// This many bytes with increasing values.
    Len(usize),
}

/// The parsed arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Args {
    /// The arguments that are not options, up to three: datapath or bridge, flow, packet.
    pub(crate) plain: Vec<String>,
    /// Generate a packet.
    pub(crate) generate: bool,
    /// The payload of the generated packet.
    pub(crate) data: Data,
    /// The actions must be consistent with the flow.
    pub(crate) consistent: bool,
    /// Show ports by name.
    pub(crate) names: bool,
    /// Results of connection tracking, in order.
    pub(crate) ct_next: Vec<u8>,
}

impl Args {
    /// Parses the arguments. `packet_out`: option `--consistent` is allowed. The error is the text of the reply.
    pub(crate) fn parse(args: &[String], packet_out: bool) -> Result<Args, String> {
        let mut out = Args {
            plain: Vec::new(),
            generate: false,
            data: Data::Len(64),
            consistent: false,
            names: false,
            ct_next: Vec::new(),
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().ok_or_else(|| format!("Missing argument for option {arg}"));
            match arg.as_str() {
                "-generate" | "--generate" => out.generate = true,
                "--l7" => {
                    let bytes = packet::hex::parse(value()?);
                    out.data = Data::Bytes(bytes.ok_or("Trailing garbage in packet data")?);
                }
                "--l7-len" => out.data = Data::Len(data_len(value()?)?),
                "-consistent" | "--consistent" if packet_out => out.consistent = true,
                "-names" | "--names" => out.names = true,
                "--ct-next" => out.ct_next.push(parse_ct_state(value()?)?),
                _ if arg.starts_with('-') => return Err(format!("{arg}: unknown option")),
                _ if out.plain.len() >= 3 => return Err("too many arguments".to_owned()),
                _ => out.plain.push(arg.clone()),
            }
        }
        Ok(out)
    }

    /// Removes the packet from the end of the plain arguments, if there is one, and returns it.
    pub(crate) fn take_packet(&mut self) -> Result<Option<Vec<u8>>, String> {
        if self.generate || self.plain.len() < 2 {
            return Ok(None);
        }
        let text = self.plain.last().map(String::as_str).unwrap_or_default();
        match parse_packet(text) {
            Ok(packet) => {
                self.plain.pop();
                Ok(Some(packet))
            }
            // With three arguments, the last one must be a packet.
            Err(e) if self.plain.len() > 2 => Err(e.to_owned()),
            Err(_) => Ok(None),
        }
    }
}

fn data_len(text: &str) -> Result<usize, String> {
    let digits = text.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    let len = if digits.is_empty() { 0 } else { digits.parse().unwrap_or(usize::MAX) };
    if len > MAX_DATA { Err(format!("{text}: too much L7 data")) } else { Ok(len) }
}

fn parse_packet(text: &str) -> Result<Vec<u8>, &'static str> {
    let bytes = packet::hex::parse(text).ok_or("Trailing garbage in packet data")?;
    if bytes.len() < 14 { Err("Packet data too short for Ethernet") } else { Ok(bytes) }
}

fn parse_ct_state(text: &str) -> Result<u8, String> {
    let mut state = 0;
    for name in text.split([',', ' ']).filter(|s| !s.is_empty()) {
        let bit = (0..8).map(|i| 1 << i).find(|bit| flags::ct_state(*bit) == Some(name));
        let bit = bit.ok_or_else(|| format!("{name}: unknown connection tracking state flag"))?;
        state |= bit as u8;
    }
    validate_ct_state(state).map(|()| state)
}

/// The rules of ovs-fields(7) about `ct_state`.
fn validate_ct_state(state: u8) -> Result<(), String> {
    let has = |bits: u8| state & bits == bits;
    let only = ct_state::TRACKED | ct_state::INVALID;
    let rules = [
        (state != 0 && !has(ct_state::TRACKED), "If \"trk\" is unset, no other flags are set"),
        (has(ct_state::INVALID) && state & !only != 0, "when \"inv\" is set, only \"trk\" may also be set"),
        (has(ct_state::NEW | ct_state::ESTABLISHED), "\"new\" and \"est\" are mutually exclusive"),
        (has(ct_state::NEW | ct_state::REPLY_DIR), "\"new\" and \"rpy\" are mutually exclusive"),
    ];
    let name = flags::format(flags::ct_state, state.into(), '|');
    let broken = rules.iter().filter(|(broken, _)| *broken);
    let text: String = broken.map(|(_, why)| format!("{name}: invalid connection state: {why}\n")).collect();
    if text.is_empty() { Ok(()) } else { Err(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Args, String> {
        Args::parse(&args.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>(), false)
    }

    #[test]
    fn options_may_be_at_any_position() {
        let args = parse(&["br0", "--l7-len", "9", "in_port=1", "--names"]).unwrap();
        assert_eq!((args.plain.len(), &args.data, args.names), (2, &Data::Len(9), true));
        assert_eq!(parse(&["--l7"]), Err("Missing argument for option --l7".to_owned()));
        assert_eq!(parse(&["--foo"]), Err("--foo: unknown option".to_owned()));
        assert_eq!(parse(&["-consistent"]), Err("-consistent: unknown option".to_owned()));
        assert_eq!(parse(&["a", "b", "c", "d"]), Err("too many arguments".to_owned()));
        assert_eq!(parse(&["--l7-len", "64001"]), Err("64001: too much L7 data".to_owned()));
    }

    #[test]
    fn a_packet_is_the_last_argument() {
        let packet = "0011223344550011223344660800";
        let mut args = parse(&["br0", "in_port=1", packet]).unwrap();
        assert_eq!(args.take_packet().map(|p| p.map(|p| p.len())), Ok(Some(14)));
        assert_eq!(args.plain.len(), 2);
        assert_eq!(args.take_packet(), Ok(None));
        let mut short = parse(&["br0", "in_port=1", "00"]).unwrap();
        assert_eq!(short.take_packet(), Err("Packet data too short for Ethernet".to_owned()));
    }

    #[test]
    fn states_of_connections() {
        assert_eq!(parse_ct_state("trk,new"), Ok(ct_state::TRACKED | ct_state::NEW));
        let unknown = "foo: unknown connection tracking state flag";
        assert_eq!(parse_ct_state("foo"), Err(unknown.to_owned()));
        let untracked = "new: invalid connection state: If \"trk\" is unset, no other flags are set\n";
        assert_eq!(parse_ct_state("new"), Err(untracked.to_owned()));
    }
}
