//! Prints `tunnel(...)`: the outer header with which a packet was received or will be sent.

use super::field::Fields;
use flow::Tunnel;
use flow::text::{bytes_text, flags};

// Bits of `Tunnel::flags`.
const OAM: u16 = 1;
const DF: u16 = 2;
const CSUM: u16 = 4;
const KEY: u16 = 8;

/// The Geneve options of a header, and their mask.
pub(super) struct Options<'a> {
    pub(super) bytes: &'a [u8],
    /// The mask, with the same length as `bytes`; `None`: all bits are exact.
    pub(super) mask: Option<&'a [u8]>,
    /// Print `geneve()` if there are no options.
    pub(super) show_empty: bool,
}

/// The text in the parentheses. `mask`: `None` if all fields are exact, as in actions; then no masks are printed. `verbose`:
/// print also the fields that the mask ignores.
pub(super) fn tunnel(key: &Tunnel, mask: Option<&Tunnel>, options: Options<'_>, verbose: bool) -> String {
    let zero = Tunnel::default();
    let m = mask.unwrap_or(&zero);
    let mut out = Fields::new(verbose, mask.is_some());
    let has_id = key.tun_id != 0 || key.flags & KEY != 0;
    if has_id {
        out.tun_id((key.tun_id, m.tun_id));
    }
    if key.ip_src != 0 {
        out.ipv4("src", (key.ip_src, m.ip_src));
    }
    if key.ip_dst != 0 {
        out.ipv4("dst", (key.ip_dst, m.ip_dst));
    }
    if key.ipv6_src != [0; 16] {
        out.ipv6("ipv6_src", (key.ipv6_src, m.ipv6_src));
    }
    if key.ipv6_dst != [0; 16] {
        out.ipv6("ipv6_dst", (key.ipv6_dst, m.ipv6_dst));
    }
    if key.ip_tos != 0 {
        out.hex8("tos", (key.ip_tos, m.ip_tos));
    }
    out.dec8("ttl", (key.ip_ttl, m.ip_ttl));
    if key.tp_src != 0 {
        out.dec16("tp_src", (key.tp_src, m.tp_src));
    }
    if key.tp_dst != 0 {
        out.dec16("tp_dst", (key.tp_dst, m.tp_dst));
    }
    if key.gbp_id != 0 || key.gbp_flags != 0 {
        let mut gbp = Fields::new(verbose, mask.is_some());
        gbp.dec16("id", (key.gbp_id, m.gbp_id));
        gbp.hex8("flags", (key.gbp_flags, m.gbp_flags));
        out.push(format!("vxlan(gbp({}))", gbp.finish()));
    }
    if !options.bytes.is_empty() || options.show_empty {
        out.push(format!("geneve({})", geneve_text(options, verbose)));
    }
    if matches!(key.erspan_ver, 1 | 2) {
        out.push(format!("erspan({})", erspan(key, m, verbose, mask.is_some())));
    }
    if key.gtpu_flags != 0 || key.gtpu_msgtype != 0 {
        let mut gtpu = Fields::new(verbose, mask.is_some());
        gtpu.hex8("flags", (key.gtpu_flags, m.gtpu_flags));
        gtpu.dec8("msgtype", (key.gtpu_msgtype, m.gtpu_msgtype));
        out.push(format!("gtpu({})", gtpu.finish()));
    }
    let shown = OAM | DF | CSUM;
    // KEY is printed if the key has a tunnel id, even if the flag is not set.
    let value = key.flags & shown | if has_id { KEY } else { 0 };
    let id_mask = if has_id { KEY } else { 0 };
    match mask.map(|m| m.flags & shown | id_mask) {
        None => out.push(format!("flags({})", flags::format(flags::tunnel, value.into(), '|'))),
        Some(0) if !verbose => {}
        Some(bits) => {
            let text = flags::format_masked(flags::tunnel, value.into(), bits.into(), 0xf);
            out.push(format!("flags({text})"));
        }
    }
    out.finish()
}

fn erspan(key: &Tunnel, m: &Tunnel, verbose: bool, masked: bool) -> String {
    let mut out = Fields::new(verbose, masked);
    out.dec8("ver", (key.erspan_ver, m.erspan_ver));
    if key.erspan_ver == 1 {
        out.hex32("idx", (key.erspan_idx, m.erspan_idx));
    } else {
        out.dec8("dir", (key.erspan_dir, m.erspan_dir));
        out.hex8("hwid", (key.erspan_hwid, m.erspan_hwid));
    }
    out.finish()
}

/// The text of Geneve options: `{class=..,type=..,len=..,0x..}` for each. A truncated option ends the list. Only the low five
/// bits of the length byte are the length, so a mask of these bits counts as exact.
pub(super) fn geneve_text(options: Options<'_>, verbose: bool) -> String {
    let (mut out, mut at) = (String::new(), 0);
    while let Some(&[class_high, class_low, kind, words]) = options.bytes[at..].first_chunk::<4>() {
        let len = usize::from(words & 0x1f) * 4;
        let Some(data) = options.bytes.get(at + 4..at + 4 + len) else { break };
        let mask = options.mask.and_then(|m| m.get(at..at + 4 + len));
        let [mask_high, mask_low, kind_mask, len_mask] =
            *mask.and_then(|m| m.first_chunk()).unwrap_or(&[0xff; 4]);
        let mut fields = Fields::new(verbose, mask.is_some());
        let class = |high, low| u16::from_be_bytes([high, low]);
        fields.hex16("class", (class(class_high, class_low), class(mask_high, mask_low)));
        fields.hex8("type", (kind, kind_mask));
        fields.dec8("len", (len as u8, if len_mask & 0x1f == 0x1f { 0xff } else { len_mask & 0x1f }));
        let bits = mask.map(|m| &m[4..]);
        if len > 0 && (verbose || bits.is_none_or(|b| b.iter().any(|b| *b != 0))) {
            let partial = bits.filter(|b| b.iter().any(|b| *b != 0xff));
            let partial = partial.map(|b| format!("/{}", bytes_text(b))).unwrap_or_default();
            fields.push(format!("{}{partial}", bytes_text(data)));
        }
        out.push_str(&format!("{{{}}}", fields.finish()));
        at += 4 + len;
    }
    out
}
