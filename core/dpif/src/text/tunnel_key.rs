//! `tunnel(...)`: the outer header that a packet came in, or goes out with.

use super::field::Fields;
use flow::Tunnel;
use flow::text::flags;

const OAM: u16 = 1;
const DF: u16 = 2;
const CSUM: u16 = 4;
const KEY: u16 = 8;

/// What stands in the parentheses.
pub(super) fn tunnel(key: &Tunnel, mask: Option<&Tunnel>, geneve_options: &[u8], verbose: bool) -> String {
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
    if !geneve_options.is_empty() {
        out.push(format!("geneve({})", geneve_text(geneve_options)));
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

/// TLV options as `{class=..,type=..,len=..,0x..}`; what is cut off ends the list.
pub(super) fn geneve_text(options: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = options;
    while let Some((&[class_high, class_low, kind, len], after)) = rest.split_first_chunk::<4>() {
        let len = usize::from(len & 0x1f) * 4;
        let Some((data, next)) = after.split_at_checked(len) else { break };
        let class = u16::from_be_bytes([class_high, class_low]);
        let mut fields = Fields::new(true, false);
        fields.hex16("class", (class, 0));
        fields.hex8("type", (kind, 0));
        fields.dec8("len", (len as u8, 0));
        if len > 0 {
            let digits = packet::hex::format(data);
            let digits = digits.trim_start_matches('0');
            fields.push(if digits.is_empty() { "0".to_owned() } else { format!("0x{digits}") });
        }
        out.push_str(&format!("{{{}}}", fields.finish()));
        rest = next;
    }
    out
}
