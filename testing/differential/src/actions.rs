//! Random actions and instructions as text.

use crate::bounds::TABLES;
use crate::change::{change, hash_fields, set};
use crate::kind::Kind;
use crate::pools::port;
use crate::reshape;
use crate::rng::Rng;

/// The meter of br0, which passes all packets.
pub const METER: u32 = 1;

/// Random actions of a flow in table `table`; groups 1 to `groups` exist.
pub fn list(rng: &mut Rng, kind: Kind, table: u64, groups: u64) -> String {
    if rng.chance(4) {
        return "drop".to_owned();
    }
    let mut list: Vec<String> = Vec::new();
    for _ in 0..rng.between(0, 2) {
        list.push(change(rng, kind));
    }
    list.push(send(rng, kind, table, groups, 0));
    if rng.chance(35) {
        list.push(change(rng, kind));
        list.push(send(rng, kind, table, groups, 0));
    }
    if rng.chance(8) {
        list.push(reshape::last_actions(rng, kind, table));
    }
    if rng.chance(3) {
        list.push("exit".to_owned());
    }
    instructions(rng, kind, table, groups, &mut list);
    list.join(",")
}

fn instructions(rng: &mut Rng, kind: Kind, table: u64, groups: u64, list: &mut Vec<String>) {
    if rng.chance(3) {
        list.insert(0, format!("meter:{METER}"));
    }
    if rng.chance(4) {
        list.push("clear_actions".to_owned());
    }
    if rng.chance(10) {
        let mut write_set = vec![format!("output:{}", port(rng))];
        if rng.chance(50) {
            write_set.insert(0, set(rng, kind));
        }
        // An action set executes these actions in the order that the standard defines.
        if rng.chance(40) {
            write_set.push(rng.pick(&["pop_vlan", "push_vlan:0x8100", "mod_vlan_pcp:5"]).to_owned());
        }
        if (kind.is_ip4() || kind.is_ip6()) && rng.chance(30) {
            write_set.push("dec_ttl".to_owned());
        }
        if groups > 0 && rng.chance(20) {
            write_set.push(format!("group:{}", rng.between(1, groups)));
        }
        list.push(format!("write_actions({})", write_set.join(",")));
    }
    if rng.chance(10) {
        list.push(format!("write_metadata:{:#x}{}", rng.below(4), rng.pick(&["", "/0x3", "/0xff"])));
    }
    if table + 1 < TABLES && rng.chance(25) {
        list.push(format!("goto_table:{}", rng.between(table + 1, TABLES - 1)));
    }
}

/// An action that sends the packet somewhere.
fn send(rng: &mut Rng, kind: Kind, table: u64, groups: u64, depth: u32) -> String {
    match rng.below(25) {
        0..6 => format!("output:{}", port(rng)),
        6..9 => "NORMAL".to_owned(),
        9 => "FLOOD".to_owned(),
        10 => rng.pick(&["ALL", "IN_PORT", "IN_PORT", "LOCAL"]).to_owned(),
        11..15 if table + 1 < TABLES => format!("resubmit(,{})", rng.between(table + 1, TABLES - 1)),
        15 if table + 1 < TABLES => format!("resubmit({},{})", port(rng), rng.between(table + 1, TABLES - 1)),
        16..18 if groups > 0 => format!("group:{}", rng.between(1, groups)),
        18 if depth == 0 => {
            let inner = [change(rng, kind), send(rng, kind, table, groups, depth + 1)];
            format!("clone({})", inner.join(","))
        }
        19 => learn(rng, kind),
        20 => rng
            .pick(&[
                "CONTROLLER:128",
                "controller(pause)",
                "controller(reason=no_match,max_len=64)",
                "output:reg0[]",
                "output:NXM_NX_REG1[0..15]",
            ])
            .to_owned(),
        21 if rng.chance(80) => {
            format!("output(port={},max_len={})", port(rng), rng.pick(&[14, 20, 64, 1000]))
        }
        21 => format!("enqueue:{}:1", port(rng)),
        22 => bundle(rng, kind),
        23 if table + 1 < TABLES && (kind.is_ip4() || kind.is_ip6()) => {
            format!("resubmit(,{},ct)", rng.between(table + 1, TABLES - 1))
        }
        _ => format!("output:{}", port(rng)),
    }
}

fn bundle(rng: &mut Rng, kind: Kind) -> String {
    let fields = hash_fields(rng, kind);
    let algorithm = rng.pick(&["active_backup", "hrw"]);
    let basis = rng.below(3);
    if rng.chance(50) {
        return format!("bundle({fields},{basis},{algorithm},ofport,members:{},{})", port(rng), port(rng));
    }
    format!(
        "bundle_load({fields},{basis},{algorithm},ofport,NXM_NX_REG{}[0..15],members:{},{})",
        rng.below(3),
        port(rng),
        port(rng)
    )
}

fn learn(rng: &mut Rng, kind: Kind) -> String {
    let table = TABLES;
    match rng.below(5) {
        0 => format!(
            "learn(table={table},hard_timeout=600,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])"
        ),
        1 if kind.is_ip4() => {
            format!(
                "learn(table={table},priority=7,eth_type=0x800,nw_dst=10.0.0.1,NXM_OF_IP_SRC[],load:NXM_OF_IN_PORT[]->NXM_NX_REG0[0..15])"
            )
        }
        2 => format!(
            "learn(table={table},cookie=0x7,limit=2,result_dst=NXM_NX_REG1[3],priority=9,NXM_OF_IN_PORT[],output:NXM_NX_REG0[0..15])"
        ),
        3 if matches!(kind, Kind::Tcp) => format!(
            "learn(table={table},idle_timeout=500,fin_idle_timeout=2,delete_learned,eth_type=0x800,nw_proto=6,NXM_OF_TCP_DST[]=NXM_OF_TCP_SRC[],NXM_OF_IP_DST[]=NXM_OF_IP_SRC[],load:NXM_OF_IP_DST[]->NXM_NX_REG1[])"
        ),
        _ => format!(
            "learn(table={table},cookie=0x5,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],load:0x3->NXM_NX_REG2[0..7])"
        ),
    }
}
