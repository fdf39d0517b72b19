//! `bond/*` and `lacp/*`: bonds and LACP.

use crate::answer::{Answer, unknown};
use bond::{BUCKETS, station_hash};
use ctl::names;
use flow::text::address::parse_mac;
use switch::Switch;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match (name, &args[..]) {
        (names::BOND_LIST, _) => switch.list_bonds().into(),
        (names::BOND_SHOW, args) => {
            switch.show_bonds(args.first().copied()).ok_or_else(|| "no such bond".to_owned()).into()
        }
        (names::BOND_HASH, args) => hash(args).map_err(str::to_owned).into(),
        (names::BOND_MIGRATE, [bond, hash, link]) => {
            switch.change_bond(bond, |b| b.migrate(hash, link)).into()
        }
        (names::BOND_SET_ACTIVE_MEMBER | names::BOND_SET_ACTIVE_SLAVE, [bond, link]) => {
            switch.change_bond(bond, |b| b.set_active(link)).into()
        }
        (names::BOND_ENABLE_MEMBER | names::BOND_ENABLE_SLAVE, [bond, link]) => {
            switch.change_bond(bond, |b| b.set_enabled(link, true)).into()
        }
        (names::BOND_DISABLE_MEMBER | names::BOND_DISABLE_SLAVE, [bond, link]) => {
            switch.change_bond(bond, |b| b.set_enabled(link, false)).into()
        }
        (names::LACP_SHOW | names::LACP_SHOW_STATS, args) => {
            let stats = name == names::LACP_SHOW_STATS;
            let text = switch.show_lacp(args.first().copied(), stats);
            text.ok_or_else(|| "no such lacp object".to_owned()).into()
        }
        _ => unknown(name),
    }
}

/// `bond/hash`: the bucket of a station.
fn hash(args: &[&str]) -> Result<String, &'static str> {
    let number = |i: usize, error| match args.get(i) {
        None => Ok(0),
        Some(text) => text.parse::<u32>().map_err(|_| error),
    };
    let vlan = number(1, "invalid vlan")?;
    let basis = number(2, "invalid basis")?;
    let mac = args.first().and_then(|text| parse_mac(text)).ok_or("invalid mac")?;
    Ok((station_hash(mac, vlan as u16, basis) as usize % BUCKETS).to_string())
}
