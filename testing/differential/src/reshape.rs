//! Random actions that change the kind of a packet, and the actions after them. They are the last ones of a list, because
//! the match does not cover the new kind of packet, so further actions would be refused.

use crate::bounds::TABLES;
use crate::kind::Kind;
use crate::pools::port;
use crate::rng::Rng;

/// The last actions of a flow of table `table`.
pub fn last_actions(rng: &mut Rng, kind: Kind, table: u64) -> String {
    let next = |rng: &mut Rng| {
        if table + 1 < TABLES && rng.chance(50) {
            format!("resubmit(,{})", rng.between(table + 1, TABLES - 1))
        } else {
            format!("output:{}", port(rng))
        }
    };
    let ip = kind.is_ip4() || kind.is_ip6();
    let list = match (kind, rng.below(8)) {
        (Kind::Mpls, 0..3) => format!("pop_mpls:0x0800,{}", next(rng)),
        (Kind::Mpls, 3) => format!("pop_mpls:0x8847,{}", next(rng)),
        (Kind::Mpls, _) => format!("push_mpls:0x8847,set_field:18->mpls_label,{}", next(rng)),
        (Kind::Nsh, 0..4) => format!("decap(),{}", next(rng)),
        (Kind::Nsh, _) => format!("decap(),decap(),output:{}", port(rng)),
        (_, 0) if ip => {
            format!("push_mpls:0x8847,set_field:17->mpls_label,set_field:2->mpls_tc,{}", next(rng))
        }
        (_, 1) if ip => format!("push_mpls:0x8848,push_mpls:0x8848,set_field:5->mpls_label,{}", next(rng)),
        (_, 2 | 3) => format!(
            "encap(nsh(md_type=1)),set_field:{:#x}->nsh_spi,set_field:{}->nsh_si,set_field:0x11->nsh_c1,{}output:{}",
            rng.between(1, 4),
            rng.between(1, 255),
            rng.pick(&["encap(ethernet),", "encap(ethernet),set_field:50:54:00:00:00:01->eth_dst,", ""]),
            port(rng)
        ),
        (_, 4) => format!(
            "encap(nsh(md_type=2,tlv(0x1000,10,0x12345678),tlv(0x2000,20,0xfedcba9876543210))),encap(ethernet),{}",
            next(rng)
        ),
        (_, 5) => format!("decap(),{}output:{}", rng.pick(&["encap(ethernet),", ""]), port(rng)),
        (_, 6) if ip => format!("encap(mpls),set_field:9->mpls_label,encap(ethernet),{}", next(rng)),
        (_, 7) if ip => connection_tracking(rng, table),
        _ => next(rng),
    };
    if rng.chance(30) { format!("clone({list})") } else { list }
}

fn connection_tracking(rng: &mut Rng, table: u64) -> String {
    let then = table + 1;
    match rng.below(6) {
        _ if then >= TABLES => "ct(commit)".to_owned(),
        0 => format!("ct(table={then})"),
        1 => format!("ct(commit,zone=5,table={then},exec(set_field:0x1->ct_mark))"),
        2 => format!("ct(table={then},zone=NXM_NX_REG0[0..15],nat)"),
        3 => "ct(commit,force,exec(load:0x1->NXM_NX_CT_LABEL[0..31]))".to_owned(),
        4 => "ct(commit,nat(src=10.0.0.1-10.0.0.3:1000-2000,random))".to_owned(),
        _ => format!("ct(commit,alg=ftp,table={then}),ct_clear,output:2"),
    }
}
