//! Parses actions. `tnl_push` is not supported, because only the control half builds tunnel headers.

use super::error::TextError;
use super::key_parser::{KeyReader, exact_mac, geneve_options, tunnel};
use super::names::{DpPortNames, NoNames};
use super::nsh;
use super::scan::{DEPTH_MAX, Item, items, masked, number};
use super::set::from_flows;
use crate::DropReason;
use crate::action::{CheckPktLen, Ct, CtNat, CtTimeout, DpAction, HashAlg, LbOutput, Sample};
use crate::set_field::{SetField, SetTunnel};
use crate::userspace::{SlowReason, Userspace, UserspaceCookie};
use flow::VLAN_CFI;
use std::net::IpAddr;
use units::PortNo;

/// Parses a list of actions. The text `drop` is an empty list.
pub fn parse_actions(text: &str, names: &dyn DpPortNames) -> Result<Vec<DpAction>, TextError> {
    Reader { names }.list(text, 0)
}

struct Reader<'a> {
    names: &'a dyn DpPortNames,
}

impl Reader<'_> {
    fn list(&self, text: &str, depth: usize) -> Result<Vec<DpAction>, TextError> {
        if depth > DEPTH_MAX {
            return Err(TextError::Depth);
        }
        let items = items(text)?;
        if let [only] = &items[..]
            && only.text == "drop"
        {
            return Ok(Vec::new());
        }
        items.iter().map(|item| self.action(item, depth)).collect()
    }

    fn action(&self, item: &Item<'_>, depth: usize) -> Result<DpAction, TextError> {
        let some = |action: Option<DpAction>| action.ok_or_else(|| item.error());
        Ok(match item.name {
            "userspace" => DpAction::Userspace(Box::new(self.userspace(item)?)),
            "set" => DpAction::Set(set(item)?),
            "push_vlan" => some(push_vlan(item.list()?))?,
            "pop_vlan" => DpAction::PopVlan,
            "push_mpls" => {
                let (ethertype, lse) = mpls_argument(item)?;
                DpAction::PushMpls { ethertype, lse }
            }
            "add_mpls" => {
                let (ethertype, lse) = mpls_argument(item)?;
                DpAction::AddMpls { ethertype, lse }
            }
            "pop_mpls" => some(pop_mpls(item.list()?))?,
            "push_eth" => some(push_eth(item.list()?))?,
            "pop_eth" => DpAction::PopEth,
            "push_nsh" => some(nsh::parse_push(item.list()?).map(|push| DpAction::PushNsh(Box::new(push))))?,
            "pop_nsh" => DpAction::PopNsh,
            "recirc" => DpAction::Recirc(item.argument()?),
            "hash" => some(hash(item.list()?))?,
            "ct" => DpAction::Ct(Box::new(ct(item.inside.unwrap_or("")).ok_or_else(|| item.error())?)),
            "ct_clear" => DpAction::CtClear,
            "clone" => DpAction::Clone(self.list(item.list()?, depth + 1)?),
            "sample" => DpAction::Sample(Box::new(self.sample(item, depth)?)),
            "meter" => DpAction::Meter(item.argument()?),
            "trunc" => DpAction::Trunc(item.argument()?),
            "check_pkt_len" => DpAction::CheckPktLen(Box::new(self.check_pkt_len(item, depth)?)),
            "drop" => DpAction::Drop(DropReason::ActionOfPipeline),
            "tnl_pop" => DpAction::TunnelPop(self.port(item.list()?).ok_or_else(|| item.error())?),
            "lb_output" => DpAction::LbOutput(LbOutput { bond_id: item.argument()? }),
            _ => DpAction::Output(self.port(item.text).ok_or_else(|| item.error())?),
        })
    }

    fn port(&self, text: &str) -> Option<PortNo> {
        number(text).map(PortNo).or_else(|| self.names.number(text))
    }

    fn sample(&self, item: &Item<'_>, depth: usize) -> Result<Sample, TextError> {
        let mut sample = Sample { probability: 0, actions: Vec::new() };
        for arg in items(item.list()?)? {
            match (arg.name, arg.value) {
                ("sample", Some(share)) => {
                    let share = share.strip_suffix('%').and_then(|s| s.parse::<f64>().ok());
                    let share = share.filter(|s| (0.0..=100.0).contains(s)).ok_or_else(|| item.error())?;
                    sample.probability = (f64::from(u32::MAX) * (share / 100.0)).round() as u32;
                }
                ("actions", None) => sample.actions = self.list(arg.list()?, depth + 1)?,
                _ => return Err(item.error()),
            }
        }
        Ok(sample)
    }

    fn check_pkt_len(&self, item: &Item<'_>, depth: usize) -> Result<CheckPktLen, TextError> {
        let mut out = CheckPktLen { pkt_len: 0, greater: Vec::new(), less_equal: Vec::new() };
        for arg in items(item.list()?)? {
            match arg.name {
                "size" => out.pkt_len = arg.number()?,
                "gt" => out.greater = self.list(arg.list()?, depth + 1)?,
                "le" => out.less_equal = self.list(arg.list()?, depth + 1)?,
                _ => return Err(item.error()),
            }
        }
        Ok(out)
    }

    fn userspace(&self, item: &Item<'_>) -> Result<Userspace, TextError> {
        let mut out = Userspace::slow_path(SlowReason::empty());
        for arg in items(item.list()?)? {
            match arg.name {
                "pid" => out.pid = arg.number()?,
                "actions" => out.include_actions = true,
                "tunnel_out_port" => {
                    let port = arg.value.and_then(|v| self.port(v)).ok_or_else(|| item.error())?;
                    out.tunnel_out_port = Some(port);
                }
                kind => out.cookie = self.cookie(kind, arg.list()?).ok_or_else(|| item.error())?,
            }
        }
        Ok(out)
    }

    fn cookie(&self, kind: &str, inside: &str) -> Option<UserspaceCookie> {
        let args = items(inside).ok()?;
        let value = |name: &str| args.iter().find(|a| a.name == name).and_then(|a| a.value);
        fn int<T: TryFrom<u128>>(text: Option<&str>) -> Option<T> {
            number(text?)
        }
        Some(match kind {
            "slow_path" => {
                let mut reason = SlowReason::empty();
                for arg in args.iter().filter(|a| a.name != "0") {
                    reason |= SlowReason::ALL.iter().find(|(_, name, _)| *name == arg.name)?.0;
                }
                UserspaceCookie::Slow { reason }
            }
            "controller" => UserspaceCookie::Controller {
                reason: int(value("reason"))?,
                dont_send: int::<u8>(value("dont_send"))? != 0,
                continuation: int::<u8>(value("continuation"))? != 0,
                recirc_id: int(value("recirc_id"))?,
                rule_cookie: int(value("rule_cookie"))?,
                controller_id: int(value("controller_id"))?,
                max_len: int(value("max_len"))?,
            },
            "sFlow" => {
                let (vid, pcp) = (int::<u16>(value("vid"))?, int::<u16>(value("pcp"))?);
                let tagged = if vid | pcp != 0 { VLAN_CFI } else { 0 };
                let vlan_tci = vid & 0xfff | (pcp & 7) << 13 | tagged;
                UserspaceCookie::Sflow { vlan_tci, output: int(value("output"))? }
            }
            "flow_sample" => UserspaceCookie::FlowSample {
                probability: int(value("probability"))?,
                collector_set_id: int(value("collector_set_id"))?,
                obs_domain_id: int(value("obs_domain_id"))?,
                obs_point_id: int(value("obs_point_id"))?,
                output_port: self.port(value("output_port")?)?,
                direction: match args.last()?.name {
                    "ingress" => 1,
                    "egress" => 2,
                    _ => 0,
                },
            },
            "ipfix" => UserspaceCookie::Ipfix { output_port: self.port(value("output_port")?)? },
            _ => return None,
        })
    }
}

fn set(item: &Item<'_>) -> Result<SetField, TextError> {
    let parts = items(item.list()?)?;
    let [part] = parts[..] else { return Err(item.error()) };
    if part.name == "tunnel" {
        return set_tunnel(part.list()?).ok_or_else(|| item.error());
    }
    let mut reader = KeyReader::new(&NoNames);
    reader.part(&part)?;
    from_flows(part.name, &reader.key, &reader.mask).ok_or_else(|| item.error())
}

fn set_tunnel(inside: &str) -> Option<SetField> {
    let mut set = SetTunnel::default();
    let mut mask = flow::Tunnel::default();
    for item in items(inside).ok()? {
        match item.name {
            "geneve" => set.geneve_options = geneve_options(item.inside?)?.0,
            _ => tunnel(item.text, &mut set.key, &mut mask)?,
        }
    }
    Some(SetField::Tunnel(Box::new(set)))
}

fn push_vlan(inside: &str) -> Option<DpAction> {
    let (mut tpid, mut tci) = (0x8100, VLAN_CFI);
    for item in items(inside).ok()? {
        let value = number::<u16>(item.value?)?;
        match item.name {
            "tpid" => tpid = value,
            "vid" if value <= 0xfff => tci |= value,
            "pcp" if value <= 7 => tci |= value << 13,
            "cfi" if value <= 1 => tci = tci & !VLAN_CFI | value << 12,
            _ => return None,
        }
    }
    Some(DpAction::PushVlan { tpid, tci })
}

/// The ethertype and the label stack entry of `push_mpls` and `add_mpls`.
fn mpls_argument(item: &Item<'_>) -> Result<(u16, u32), TextError> {
    mpls_fields(item.list()?).ok_or_else(|| item.error())
}

fn mpls_fields(inside: &str) -> Option<(u16, u32)> {
    let (mut ethertype, mut lse) = (0x8847, 0u32);
    for item in items(inside).ok()? {
        let value = number::<u32>(item.value?)?;
        match item.name {
            "label" if value <= 0xf_ffff => lse |= value << 12,
            "tc" if value <= 7 => lse |= value << 9,
            "ttl" if value <= 0xff => lse |= value,
            "bos" if value <= 1 => lse |= value << 8,
            "eth_type" => ethertype = u16::try_from(value).ok()?,
            _ => return None,
        }
    }
    Some((ethertype, lse))
}

fn pop_mpls(inside: &str) -> Option<DpAction> {
    let ethertype = number(inside.strip_prefix("eth_type=")?)?;
    Some(DpAction::PopMpls { ethertype })
}

fn push_eth(inside: &str) -> Option<DpAction> {
    let args = items(inside).ok()?;
    let mac = |name| args.iter().find(|a| a.name == name).and_then(|a| exact_mac(a.value?));
    Some(DpAction::PushEth { dst: mac("dst")?, src: mac("src")? })
}

fn hash(inside: &str) -> Option<DpAction> {
    let args = items(inside).ok()?;
    let arg = args.first()?;
    let alg = match arg.name {
        "l4" | "hash_l4" => HashAlg::L4,
        "sym_l4" => HashAlg::SymL4,
        _ => return None,
    };
    Some(DpAction::Hash { alg, basis: arg.argument().ok()? })
}

fn ct(inside: &str) -> Option<Ct> {
    let mut ct = Ct::default();
    for item in items(inside).ok()? {
        match item.name {
            "commit" => ct.commit = true,
            "force_commit" => (ct.commit, ct.force) = (true, true),
            "zone" => ct.zone = number(item.value?)?,
            "mark" => ct.mark = Some(masked(item.value?, u32::MAX)?),
            "label" => {
                let halves = |v: u128| [(v >> 64) as u64, v as u64];
                let (value, mask) = masked(item.value?, u128::MAX)?;
                ct.label = Some((halves(value), halves(mask)));
            }
            "helper" => ct.helper = Some(item.value?.to_owned()),
            "timeout" => ct.timeout = Some(CtTimeout { name: item.value?.to_owned(), id: 0 }),
            "nat" => ct.nat = Some(nat(item.inside.unwrap_or(""))?),
            _ => return None,
        }
    }
    Some(ct)
}

fn nat(inside: &str) -> Option<CtNat> {
    let mut nat = CtNat::default();
    for item in items(inside).ok()? {
        match item.name {
            "src" | "dst" if nat.snat.is_none() => {
                nat.snat = Some(item.name == "src");
                if let Some(range) = item.value {
                    (nat.addresses, nat.ports) = nat_range(range)?;
                }
            }
            "persistent" => nat.persistent = true,
            "hash" => nat.hash = true,
            "random" => nat.random = true,
            _ => return None,
        }
    }
    let options = nat.persistent || nat.hash || nat.random;
    (nat.snat.is_some() || !options).then_some(nat)
}

type NatRange = (Option<(IpAddr, IpAddr)>, Option<(u16, u16)>);

/// Parses `addr[-addr][:port[-port]]`; IPv6 addresses are in brackets if a port follows.
fn nat_range(text: &str) -> Option<NatRange> {
    let is_v6 = text.starts_with('[') || text.matches(':').count() > 1;
    let (addresses, ports) = match is_v6 {
        true if text.starts_with('[') => {
            let end = text.rfind(']')? + 1;
            let (addresses, ports) = text.split_at(end);
            (addresses, if ports.is_empty() { None } else { Some(ports.strip_prefix(':')?) })
        }
        true => (text, None),
        false => text.split_once(':').map_or((text, None), |(a, p)| (a, Some(p))),
    };
    let address = |s: &str| s.trim_matches(['[', ']']).parse::<IpAddr>().ok();
    let (min, max) = addresses.split_once('-').unwrap_or((addresses, addresses));
    let range = (address(min)?, address(max)?);
    let ports = match ports.map(|p| p.split_once('-').unwrap_or((p, p))) {
        Some((low, high)) => Some((number(low)?, number(high)?)),
        None => None,
    };
    let ordered = range.0 <= range.1 && ports.is_none_or(|(low, high)| low <= high);
    ordered.then_some((Some(range), ports))
}
