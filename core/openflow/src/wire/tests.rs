//! Messages survive encoding and decoding, and no input makes the decoder panic.

use super::*;
use crate::action::*;
use crate::error::OfError;
use crate::flow_mod::{FlowCommand, FlowMod};
use crate::group::{Bucket, GroupDesc, GroupMod, GroupType, Selection};
use crate::message::{Body, Message, Xid};
use crate::meter::{MeterBand, MeterConfig};
use crate::stats::{FlowStats, PortStats};
use crate::version::Version;
use flow::{FieldId as F, Match, Subfield};
use proptest::prelude::*;
use units::OfPort;

fn round(m: &Message) -> Message {
    let frames = encode(m, Dialect::default()).unwrap();
    assert_eq!(frames.len(), 1);
    decode(&frames[0], Dialect::default()).unwrap_or_else(|e| panic!("{e}: {m:?} {:02x?}", frames[0]))
}

#[test]
fn simple_messages_come_back() {
    for v in Version::ALL {
        let bodies = [
            Body::FeaturesRequest,
            Body::BarrierRequest,
            Body::BarrierReply,
            Body::DescRequest,
            Body::TableStatsRequest,
            Body::PortStatsRequest(OfPort::NONE),
            Body::PortStatsReply(vec![PortStats {
                port: OfPort(3),
                rx_packets: 5,
                duration: Default::default(),
                ..PortStats::default()
            }]),
            Body::EchoRequest(vec![1, 2, 3]),
        ];
        for body in bodies {
            let m = Message::new(v, Xid(7), body);
            let mut back = round(&m);
            if let Body::PortStatsReply(l) = &mut back.body {
                l[0].duration = Default::default();
            }
            assert_eq!(back, m);
        }
    }
}

#[test]
fn groups_and_meters_come_back() {
    for v in [Version::V11, Version::V13, Version::V15] {
        let bucket =
            |id| Bucket { id, weight: 1, actions: vec![Action::output(OfPort(2))], ..Bucket::default() };
        let gm = GroupMod {
            kind: GroupType::Select,
            group: 9,
            buckets: vec![bucket(0), bucket(1)],
            command_bucket: crate::group::BUCKET_ALL,
            ..GroupMod::default()
        };
        let desc = GroupDesc {
            group: 9,
            kind: GroupType::Select,
            buckets: gm.buckets.clone(),
            ..GroupDesc::default()
        };
        for body in [Body::GroupMod(gm), Body::GroupDescReply(vec![desc])] {
            let m = Message::new(v, Xid(1), body);
            assert_eq!(round(&m), m);
        }
    }
    let config =
        MeterConfig { meter: 1, flags: 1, bands: vec![MeterBand { dscp_remark: None, rate: 10, burst: 2 }] };
    let m = Message::new(Version::V13, Xid(1), Body::MeterConfigReply(vec![config]));
    assert_eq!(round(&m), m);
}

fn flow_stats(matching: Match) -> FlowStats {
    FlowStats {
        table: 0,
        matching,
        cookie: 1,
        priority: 1,
        idle_timeout: 0,
        hard_timeout: 0,
        importance: 0,
        flags: Default::default(),
        duration: Default::default(),
        idle_age: None,
        hard_age: None,
        packets: 0,
        bytes: 0,
        actions: vec![Action::output(OfPort(1))],
    }
}

#[test]
fn a_long_reply_is_split() {
    let flow = |n: u16| FlowStats { priority: n, ..flow_stats(Match::CATCHALL) };
    let m = Message::new(Version::V13, Xid(2), Body::FlowStatsReply((0..3000).map(flow).collect()));
    let frames = encode(&m, Dialect::default()).unwrap();
    assert!(frames.len() > 1);
    let mut n = 0;
    for (i, frame) in frames.iter().enumerate() {
        let part = decode(frame, Dialect::default()).unwrap();
        assert_eq!(part.more, i + 1 < frames.len());
        let Body::FlowStatsReply(l) = part.body else { panic!() };
        n += l.len();
    }
    assert_eq!(n, 3000);
}

#[test]
fn errors_are_those_of_the_standard() {
    let d = Dialect::default();
    assert_eq!(decode(&[9, 5, 0, 8, 0, 0, 0, 1], d), Err(OfError::BrcBadVersion));
    assert_eq!(decode(&[1, 99, 0, 8, 0, 0, 0, 1], d), Err(OfError::BrcBadType));
    assert_eq!(decode(&[1, 5, 0, 9, 0, 0, 0, 1, 0], d), Err(OfError::BrcBadLen));
    assert_eq!(decode(&[4, 18, 0, 16, 0, 0, 0, 1, 0, 99, 0, 0, 0, 0, 0, 0], d), Err(OfError::BrcBadStat));
    assert_eq!(decode(&[1, 4, 0, 16, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0], d), Err(OfError::BrcBadVendor));
    assert_eq!(message_len(&[1, 0, 0, 7, 0, 0, 0, 0]), Err(OfError::BrcBadLen));
    assert_eq!(message_len(&[1, 0, 0]), Ok(None));
}

fn subfield() -> impl Strategy<Value = Subfield> {
    let field = prop::sample::select(vec![
        F::Reg0,
        F::Reg7,
        F::Reg20,
        F::Xreg1,
        F::Metadata,
        F::EthSrc,
        F::Xxreg0,
        F::TunMetadata5,
    ]);
    (field, any::<u16>(), any::<u16>()).prop_map(|(f, ofs, n)| {
        let bits = f.info().n_bits.min(64);
        let ofs = ofs % bits;
        Subfield::new(f, ofs, 1 + n % (bits - ofs)).unwrap()
    })
}

/// Actions that all versions preserve.
fn action() -> impl Strategy<Value = Action> {
    let port = (1u16..0xff00).prop_map(OfPort);
    prop_oneof![
        (port.clone(), any::<u16>()).prop_map(|(port, max_len)| Action::Output { port, max_len }),
        (subfield(), any::<u16>()).prop_map(|(src, max_len)| Action::OutputReg { src, max_len }),
        (port.clone(), 14u32..9000).prop_map(|(port, max_len)| Action::OutputTrunc { port, max_len }),
        any::<u32>().prop_map(Action::Group),
        any::<u32>().prop_map(Action::SetQueue),
        Just(Action::PopQueue),
        Just(Action::StripVlan { pop: true }),
        Just(Action::Exit),
        Just(Action::CtClear),
        Just(Action::DecMplsTtl),
        (0u32..1 << 20).prop_map(|v| Action::PopMpls(v as u16)),
        Just(Action::DecTtl { ids: vec![0], nicira: false }),
        prop::collection::vec(any::<u16>(), 2..9).prop_map(|ids| Action::DecTtl { ids, nicira: true }),
        (port, prop::option::of(0u8..255)).prop_map(|(p, table)| Action::Resubmit {
            port: Some(p),
            table,
            with_ct: false
        }),
        subfield().prop_map(Action::StackPush),
        subfield().prop_map(Action::StackPop),
        subfield().prop_map(|sf| Action::DeleteField(Subfield::whole(sf.field))),
        set_tlv(),
        (any::<u16>(), any::<u16>()).prop_map(|(idle, hard)| Action::FinTimeout { idle, hard }),
        any::<u64>().prop_map(|id| Action::SetTunnel { id, wide: true }),
        (any::<u16>(), any::<u32>())
            .prop_map(|(len, _)| Action::CheckPktLarger { len, dst: Subfield::new(F::Reg1, 3, 1).unwrap() }),
        controller(),
        learn(),
        ct(),
    ]
}

fn set_tlv() -> impl Strategy<Value = Action> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    (0..64usize, bytes(), prop::option::of(bytes())).prop_map(|(n, value, mask)| {
        let field = F::tun_metadata(n).unwrap();
        Action::SetTlv(Box::new(crate::tlv::set_field(field, value, mask)))
    })
}

fn controller() -> impl Strategy<Value = Action> {
    (any::<u16>(), any::<u16>(), 0u8..3, prop::collection::vec(any::<u8>(), 0..20), any::<bool>()).prop_map(
        |(max_len, controller_id, reason, userdata, pause)| {
            Action::Controller(Box::new(Controller {
                max_len,
                controller_id,
                reason,
                userdata,
                pause,
                meter: 0,
            }))
        },
    )
}

fn learn() -> impl Strategy<Value = Action> {
    (any::<u16>(), 0u8..254, any::<u64>(), any::<u32>(), any::<u16>()).prop_map(
        |(priority, table, cookie, limit, v)| {
            let specs = vec![
                LearnSpec {
                    n_bits: 16,
                    src: LearnSource::Value(u128::from(v)),
                    dst: LearnTarget::Match(Subfield::whole(F::EthType)),
                },
                LearnSpec {
                    n_bits: 48,
                    src: LearnSource::Field(Subfield::whole(F::EthSrc)),
                    dst: LearnTarget::Match(Subfield::whole(F::EthDst)),
                },
                LearnSpec {
                    n_bits: 16,
                    src: LearnSource::Field(Subfield::whole(F::InPort)),
                    dst: LearnTarget::Output,
                },
            ];
            Action::Learn(Box::new(Learn { priority, table, cookie, limit, specs, ..Learn::default() }))
        },
    )
}

fn ct() -> impl Strategy<Value = Action> {
    (any::<u16>(), prop::option::of(0u8..255), any::<u32>(), 1u32..9, any::<u16>()).prop_map(
        |(zone, recirc_table, mark, ip, port)| {
            let nat = Nat {
                src: true,
                range: NatRange::V4(ip.into(), (ip + 5).into()),
                ports: (port.max(1), 0),
                ..Nat::default()
            };
            let mark = Action::RegLoad { dst: Subfield::whole(F::CtMark), value: u128::from(mark) };
            let actions = vec![Action::Nat(Box::new(nat)), mark];
            Action::Ct(Box::new(Ct {
                commit: true,
                zone: NumberOrField::Number(u32::from(zone)),
                recirc_table,
                actions,
                ..Ct::default()
            }))
        },
    )
}

fn matching() -> impl Strategy<Value = Match> {
    (any::<[u64; 4]>(), any::<[u32; 4]>(), 0u8..6, any::<u16>()).prop_map(|(w, n, kind, port)| {
        let mut m = Match::CATCHALL;
        if n[0] & 1 != 0 {
            m.set(F::InPort, u128::from(port % 0xff00));
        }
        m.set_masked(F::Reg3, w[0].into(), n[1].into());
        m.set_masked(F::Metadata, w[0].into(), w[1].into());
        if n[0] & 2 != 0 {
            m.set(F::VlanTci, u128::from(0x1000 | port));
        }
        if n[0] & 4 != 0 {
            m.set_masked(F::EthDst, w[2].into(), (w[3] & 0xffff_ffff_ffff).into());
        }
        let (ethertype, proto, low) = [
            (0x0800, 6, F::TcpDst),
            (0x0800, 17, F::UdpSrc),
            (0x86dd, 58, F::Icmpv6Type),
            (0x0800, 1, F::Icmpv4Code),
            (0x0806, 1, F::ArpSpa),
            (0x86dd, 6, F::TcpSrc),
        ][usize::from(kind)];
        m.set(F::EthType, ethertype);
        m.set(if ethertype == 0x0806 { F::ArpOp } else { F::IpProto }, proto);
        let value = u128::from(w[2]) & low.ones();
        m.set(low, value);
        match ethertype {
            0x0800 => m.set_masked(F::Ipv4Dst, n[2].into(), u128::from(u32::MAX << (n[3] % 32))),
            0x86dd => m.set_masked(F::Ipv6Src, u128::from(w[0]) << 64, u128::MAX << (n[3] % 128)),
            _ => {}
        }
        if n[0] & 8 != 0 {
            let (value, mask) = (n[2].to_be_bytes(), n[3].to_be_bytes());
            m.allocate_tlv(usize::from(port % 64), &value, (n[0] & 16 != 0).then_some(&mask)).unwrap();
        }
        wire::need(&mut m);
        m
    })
}

mod wire {
    pub(super) fn need(m: &mut flow::Match) {
        super::nxm::need_ethernet(m);
    }
}

fn flow_mod() -> impl Strategy<Value = FlowMod> {
    (matching(), prop::collection::vec(action(), 0..6), any::<u64>(), any::<u16>(), 0u8..254).prop_map(
        |(matching, actions, new_cookie, priority, table)| FlowMod {
            command: FlowCommand::Add,
            table,
            new_cookie,
            priority,
            matching,
            actions,
            ..FlowMod::default()
        },
    )
}

#[test]
fn a_tag_is_pushed_once_where_setting_a_vlan_pushes() {
    let actions = vec![Action::SetVlanVid { vid: 30, push: true }, Action::SetVlanPcp { pcp: 3, push: true }];
    let pushed = |matching: Match| {
        let fm = FlowMod { actions: actions.clone(), matching, ..FlowMod::default() };
        match round(&Message::new(Version::V13, Xid(1), Body::FlowMod(Box::new(fm)))).body {
            Body::FlowMod(fm) => fm.actions.iter().filter(|a| matches!(a, Action::PushVlan(_))).count(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(pushed(Match::CATCHALL), 1);
    let mut tagged = Match::CATCHALL;
    tagged.set(F::VlanVid, 0x1000 | 9);
    assert_eq!(pushed(tagged), 0);
}

/// OpenFlow 1.1.0 A.2.3: VLAN 0xfffe is any VLAN, with or without a priority; there is no priority 8.
#[test]
fn a_priority_of_any_vlan_comes_back_in_1_1() {
    let mut matching = Match::CATCHALL;
    matching.set_masked(F::VlanTci, 0x7000, 0xf000);
    let mut written = Vec::new();
    matching::put(&mut written, &matching, Version::V11);
    let read = |bytes: &[u8]| {
        let mut m = Match::CATCHALL;
        matching::pull(&mut buf::Reader::new(bytes, OfError::BmcBadLen), Version::V11, &mut m).map(|()| m)
    };
    let back = read(&written).unwrap();
    assert_eq!(back.get(F::VlanTci), (0x7000, 0xf000));
    let priority = 36 + 2;
    assert_eq!(written[priority], 3);
    written[priority] = 8;
    assert_eq!(read(&written), Err(OfError::BmcBadValue));
}

/// The bits of the type of service are at their position in the packet, as in Open vSwitch and its tools. This version has no IPv6.
#[test]
fn type_of_service_in_1_1() {
    let (tos, tos_wild) = (36 + 6, 8 + 3);
    let read = |bytes: &[u8]| {
        let mut m = Match::CATCHALL;
        matching::pull(&mut buf::Reader::new(bytes, OfError::BmcBadLen), Version::V11, &mut m).map(|()| m)
    };
    let mut matching = Match::CATCHALL;
    matching.set(F::EthType, 0x0800);
    matching.set(F::IpDscp, 32);
    let mut written = Vec::new();
    matching::put(&mut written, &matching, Version::V11);
    assert_eq!((written[tos], written[tos_wild] & 1 << 4), (32, 0));
    assert_eq!(read(&written).unwrap().get(F::IpDscp), (32, 0xfc));
    written[tos] = 1;
    assert_eq!(read(&written), Err(OfError::BmcBadValue));
    let dl_type = 36 + 4;
    written[dl_type..dl_type + 2].copy_from_slice(&[0x86, 0xdd]);
    assert_eq!(read(&written).unwrap().get(F::IpDscp), (0, 0));
}

/// The bytes are those of Open vSwitch: `ip_frag` with both bits is an entry without a mask, tunnel flags always have a mask.
#[test]
fn fields_with_fewer_bits_than_their_bytes() {
    let entries = |m: &Match| {
        let mut out = Vec::new();
        nxm::put_raw(&mut out, m, 0, (0, 0));
        out
    };
    let mut m = Match::CATCHALL;
    m.set(F::EthType, 0x0800);
    let ip = entries(&m);
    m.set_masked(F::IpFrag, 3, 3);
    assert_eq!(entries(&m)[ip.len()..], [0, 1, 0x34, 1, 3]);
    m.set_masked(F::IpFrag, 1, 1);
    assert_eq!(entries(&m)[ip.len()..], [0, 1, 0x35, 2, 1, 1]);
    let mut m = Match::CATCHALL;
    m.set(F::TunFlags, 1);
    assert_eq!(entries(&m), [0, 1, 0xd1, 4, 0, 1, 0, 1]);
}

#[test]
fn malformed_matches() {
    let read = |version, bytes: &[u8]| {
        let mut m = Match::CATCHALL;
        matching::pull(&mut buf::Reader::new(bytes, OfError::BmcBadLen), version, &mut m)
    };
    let mut source =
        vec![0, 1, 0, 22, 0x80, 0, 0x0a, 2, 8, 0, 0x80, 0, 0x17, 8, 10, 0, 0, 0, 255, 0, 0, 0, 0, 0];
    assert_eq!(read(Version::V13, &source), Ok(()));
    // The sum of the lengths of value and mask is odd, which is an error.
    (source[3], source[13]) = (23, 9);
    assert_eq!(read(Version::V13, &source), Err(OfError::BmcBadField));
    source[1] = 7;
    for version in [Version::V11, Version::V12, Version::V15] {
        assert_eq!(read(version, &source), Err(OfError::BmcBadType));
        assert_eq!(read(version, &[0]), Err(OfError::BmcBadLen));
    }
}

#[test]
fn only_commands_about_buckets_name_one() {
    let sent = |command, command_bucket| {
        let gm = GroupMod { command, command_bucket, group: 9, ..GroupMod::default() };
        let frames =
            encode(&Message::new(Version::V15, Xid(1), Body::GroupMod(gm)), Dialect::default()).unwrap();
        decode(&frames[0], Dialect::default()).map(|_| ())
    };
    use crate::group::{BUCKET_ALL, BUCKET_FIRST, GroupCommand::*};
    for (command, bucket) in
        [(Add, BUCKET_ALL), (InsertBucket, 5), (RemoveBucket, BUCKET_FIRST), (RemoveBucket, BUCKET_ALL)]
    {
        assert_eq!(sent(command, bucket), Ok(()), "{command:?} {bucket:#x}");
    }
    for (command, bucket) in
        [(Add, 5), (Delete, BUCKET_FIRST), (InsertBucket, BUCKET_ALL), (RemoveBucket, 0xffff_ff01)]
    {
        assert_eq!(sent(command, bucket), Err(OfError::GmfcBadBucket), "{command:?} {bucket:#x}");
    }
}

/// An unknown selection method is refused: if it were stored, the list of groups would contain it, and clients would refuse the list.
#[test]
fn selection_methods_and_numbers_of_buckets() {
    let sent = |kind, method: &str, fields: &[F], ids: &[u32]| {
        let fields = fields.iter().map(|f| (*f, f.ones())).collect();
        let selection = Selection { method: method.to_owned(), param: 0, fields };
        let buckets = ids.iter().map(|id| Bucket { id: *id, ..Bucket::default() }).collect();
        let command_bucket = crate::group::BUCKET_ALL;
        let gm = GroupMod { group: 9, kind, selection, buckets, command_bucket, ..GroupMod::default() };
        let frames =
            encode(&Message::new(Version::V15, Xid(1), Body::GroupMod(gm)), Dialect::default()).unwrap();
        decode(&frames[0], Dialect::default()).map(|_| ())
    };
    let select = GroupType::Select;
    assert_eq!(sent(select, "hash", &[F::TcpDst], &[0, 1]), Ok(()));
    assert_eq!(sent(select, "dp_hash", &[], &[0]), Ok(()));
    assert_eq!(sent(select, "dp_hash", &[F::TcpDst], &[0]), Err(OfError::BpcBadValue));
    assert_eq!(sent(select, "bogus", &[], &[0]), Err(OfError::BpcBadValue));
    assert_eq!(sent(GroupType::All, "hash", &[], &[0]), Err(OfError::BpcBadValue));
    assert_eq!(sent(select, "", &[], &[5, 1, 5]), Err(OfError::GmfcBadBucket));
    assert_eq!(sent(select, "", &[], &[0xffff_ff01]), Err(OfError::GmfcBadBucket));
}

#[test]
fn enqueue_since_1_1() {
    let actions = vec![Action::Enqueue { port: OfPort(2), queue: 7 }];
    let fm = FlowMod { actions, ..FlowMod::default() };
    match round(&Message::new(Version::V13, Xid(1), Body::FlowMod(Box::new(fm)))).body {
        Body::FlowMod(fm) => {
            let output = Action::Output { port: OfPort(2), max_len: u16::MAX };
            assert_eq!(fm.actions, [Action::SetQueue(7), output, Action::PopQueue]);
        }
        other => panic!("{other:?}"),
    }
}

/// The match of 1.1 has no registers and no IPv6, so flow statistics in 1.1 use the match of 1.2.
#[test]
fn flow_statistics_of_1_1_have_all_fields() {
    let mut matching = Match::CATCHALL;
    for (field, value) in [(F::EthType, 0x86dd), (F::IpProto, 58), (F::Icmpv6Type, 136), (F::Reg3, 7)] {
        matching.set(field, value);
    }
    wire::need(&mut matching);
    let m = Message::new(Version::V11, Xid(1), Body::FlowStatsReply(vec![flow_stats(matching)]));
    match round(&m).body {
        Body::FlowStatsReply(back) => assert_eq!(back[0].matching, matching),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_tunnel_key_is_a_set_field_since_1_2() {
    let sent = vec![Action::SetTunnel { id: 5, wide: false }];
    for version in [Version::V11, Version::V12, Version::V15] {
        let fm = FlowMod { actions: sent.clone(), ..FlowMod::default() };
        let back = match round(&Message::new(version, Xid(1), Body::FlowMod(Box::new(fm)))).body {
            Body::FlowMod(fm) => fm.actions,
            other => panic!("{other:?}"),
        };
        let field = vec![Action::SetField { field: F::TunId, value: 5, mask: F::TunId.ones() }];
        assert_eq!(back, if version == Version::V11 { sent.clone() } else { field }, "{version:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flow_mods_come_back(fm in flow_mod(), version in prop::sample::select(Version::ALL.to_vec())) {
        let dialect = Dialect { flow_mod_table_id: true, debug_actions: false };
        let mut fm = fm;
        if version == Version::V11 {
            // The match of this version has a fixed size, without registers and IPv6.
            fm.matching.wildcard(F::Reg3);
            if fm.matching.flow.dl_type == 0x86dd {
                [F::Ipv6Src, F::TcpSrc, F::IpProto].into_iter().for_each(|f| fm.matching.wildcard(f));
            }
            (0..64).filter_map(F::tun_metadata).for_each(|f| fm.matching.wildcard(f));
        }
        if version == Version::V10 {
            // 1.0 has only one form of this action.
            let strip = |a: &mut Action| if let Action::StripVlan { pop } = a { *pop = false };
            fm.actions.iter_mut().for_each(strip);
        }
        if version >= Version::V12 {
            let key = |a: &mut Action| if let Action::SetTunnel { id, .. } = *a {
                *a = Action::SetField { field: F::TunId, value: id.into(), mask: F::TunId.ones() };
            };
            fm.actions.iter_mut().for_each(key);
        }
        if version == Version::V15 {
            // In 1.5 loads are encoded as set-field.
            fm.actions.retain(|a| !matches!(a, Action::Ct(_)));
        }
        let extended = version == Version::V10;
        fm.modify_cookie = extended && fm.new_cookie != u64::MAX;
        fm.flags.reset_counts = version <= Version::V11;
        let m = Message { extended, ..Message::new(version, Xid(3), Body::FlowMod(Box::new(fm))) };
        let frames = encode(&m, dialect).unwrap();
        let back = decode(&frames[0], dialect);
        prop_assert_eq!(back.as_ref(), Ok(&m));
    }

    #[test]
    fn garbage_is_no_panic(version in 0u8..8, kind in 0u8..40, body in prop::collection::vec(any::<u8>(), 0..300)) {
        let len = (body.len() + 8) as u16;
        let bytes = [&[version, kind][..], &len.to_be_bytes(), &[0; 4], &body].concat();
        let _ = decode(&bytes, Dialect::default());
        let _ = message_len(&bytes);
    }

    #[test]
    fn mutated_flow_mods_are_no_panic(
        fm in flow_mod(),
        version in prop::sample::select(Version::ALL.to_vec()),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let m = Message { extended: version == Version::V10, ..Message::new(version, Xid(3), Body::FlowMod(Box::new(fm))) };
        let mut bytes = encode(&m, Dialect::default()).unwrap().remove(0);
        for (at, to) in changes {
            let at = at.index(bytes.len());
            if !(2..4).contains(&at) {
                bytes[at] = to;
            }
        }
        if let Ok(m) = decode(&bytes, Dialect::default()) {
            let _ = encode(&m, Dialect::default());
        }
    }
}
