//! FTP control messages that announce a data connection: `PORT` and the reply 227 to `PASV` (RFC 959 §4.1.2, §5.4), `EPRT` and the
//! reply 229 to `EPSV` (RFC 2428).
//!
//! A message must begin at the start of a segment, and all parts that the parser needs must be in the first [`MESSAGE_MAX`] bytes of the
//! segment. Text that is split over two segments is not reassembled, as in Open vSwitch.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// Maximum number of bytes of a message that are read.
pub const MESSAGE_MAX: usize = 128;
/// Maximum length of an address in text form.
const ADDRESS_MAX: usize = 45;

/// Which endpoint listens for the data connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The endpoint that sends the command: `PORT`, `EPRT`.
    Active,
    /// The endpoint that sends the reply: 227, 229.
    Passive,
}

/// An announced data connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Which endpoint listens.
    pub mode: Mode,
    /// Address on which this endpoint listens. `None`: the address of the control connection.
    pub address: Option<IpAddr>,
    /// Port on which this endpoint listens, never 0.
    pub port: u16,
    /// Byte range of the address text in the payload; empty if the message has no address.
    pub text: Range<usize>,
    /// The message has the notation of RFC 959: six numbers separated by commas. Otherwise it has the notation of RFC 2428.
    pub is_rfc959: bool,
}

/// What a segment of an FTP control connection contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The segment announces no data connection.
    Other,
    /// The segment begins like an announcement and cannot be parsed.
    Malformed,
    /// The segment announces a data connection.
    Announces(Announcement),
}

/// Parses the payload of a segment. `v6`: the control connection uses IPv6; then `PORT` and 227 do not count as announcements.
pub fn read(payload: &[u8], v6: bool) -> Message {
    let head = payload.get(..MESSAGE_MAX).unwrap_or(payload);
    let mut parser = Parser { bytes: head, at: 0 };
    let found = if !v6 && parser.keyword(b"PORT") {
        classic(&mut parser, Mode::Active)
    } else if parser.keyword(b"EPRT") {
        extended_address(&mut parser)
    } else if !v6 && parser.keyword(b"227") {
        parser.skip_to_digit().and_then(|()| classic(&mut parser, Mode::Passive))
    } else if parser.keyword(b"229") {
        extended_port(&mut parser)
    } else {
        return Message::Other;
    };
    match found {
        Some(announcement) if announcement.port != 0 => Message::Announces(announcement),
        _ => Message::Malformed,
    }
}

/// Parser of a message: its text and the present position.
struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    /// Consumes a command or a reply code, and the spaces after it. `false`: the text begins with another word, or it is a line of a
    /// multi-line reply other than the last.
    fn keyword(&mut self, word: &[u8]) -> bool {
        let matches = self.rest().get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
            && self.rest().get(word.len()) == Some(&b' ');
        if matches {
            self.at += word.len();
            while self.peek() == Some(b' ') {
                self.at += 1;
            }
        }
        matches
    }

    fn skip_to_digit(&mut self) -> Option<()> {
        self.at += self.rest().iter().position(u8::is_ascii_digit)?;
        Some(())
    }

    /// Consumes a decimal number of at most five digits that is at most `max`. Another character must follow the last digit, because
    /// otherwise the number could continue in the next segment.
    fn number(&mut self, max: u32) -> Option<u32> {
        let mut value = 0u32;
        let first = self.at;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value * 10 + u32::from(digit - b'0');
            if value > max || self.at - first == 5 {
                return None;
            }
            self.at += 1;
        }
        (self.at > first && self.peek().is_some()).then_some(value)
    }
}

/// `h1,h2,h3,h4,p1,p2`
fn classic(parser: &mut Parser<'_>, mode: Mode) -> Option<Announcement> {
    let first = parser.at;
    let mut octets = [0; 4];
    let mut end = first;
    for octet in &mut octets {
        *octet = parser.number(255)? as u8;
        end = parser.at;
        parser.expect(b',')?;
    }
    let high = parser.number(255)?;
    parser.expect(b',')?;
    let low = parser.number(255)?;
    let address = Some(IpAddr::V4(Ipv4Addr::from(octets)));
    let port = (high << 8 | low) as u16;
    Some(Announcement { mode, address, port, text: first..end, is_rfc959: true })
}

/// `|2|2001:db8::1|5282|`, with any delimiter (RFC 2428 §2).
fn extended_address(parser: &mut Parser<'_>) -> Option<Announcement> {
    let delimiter = delimiter(parser)?;
    let family = parser.number(2)?;
    parser.expect(delimiter)?;
    let first = parser.at;
    let len = parser.rest().iter().take(ADDRESS_MAX + 1).position(|byte| *byte == delimiter)?;
    let address = std::str::from_utf8(parser.rest().get(..len)?).ok()?;
    let address = match family {
        1 => IpAddr::V4(address.parse::<Ipv4Addr>().ok()?),
        2 => IpAddr::V6(address.parse::<Ipv6Addr>().ok()?),
        _ => return None,
    };
    parser.at += len;
    let range = first..parser.at;
    parser.expect(delimiter)?;
    let port = parser.number(u16::MAX.into())? as u16;
    parser.expect(delimiter)?;
    Some(Announcement { mode: Mode::Active, address: Some(address), port, text: range, is_rfc959: false })
}

/// `… (|||6446|)`
fn extended_port(parser: &mut Parser<'_>) -> Option<Announcement> {
    parser.at += parser.rest().iter().position(|byte| *byte == b'(')? + 1;
    let delimiter = delimiter(parser)?;
    parser.expect(delimiter)?;
    parser.expect(delimiter)?;
    let port = parser.number(u16::MAX.into())? as u16;
    parser.expect(delimiter)?;
    Some(Announcement { mode: Mode::Passive, address: None, port, text: 0..0, is_rfc959: false })
}

/// Consumes any visible character that is neither a digit nor part of an address.
fn delimiter(parser: &mut Parser<'_>) -> Option<u8> {
    parser
        .next()
        .filter(|byte| byte.is_ascii_graphic() && !byte.is_ascii_alphanumeric() && !b".:".contains(byte))
}

/// Formats an address for an announcement.
pub fn address_text(address: IpAddr, is_rfc959: bool) -> String {
    let text = address.to_string();
    if is_rfc959 { text.replace('.', ",") } else { text }
}
