//! Parsed text is printed unchanged, with examples from `tests/odp.at` of Open vSwitch.

use super::*;
use crate::DpAction;
use flow::{Flow, Mac};
use proptest::prelude::*;
use units::PortNo;

#[test]
fn actions_are_written_as_they_were_read() {
    for text in [
        "1,2,3",
        "drop",
        "userspace(pid=9,sFlow(vid=9,pcp=7,output=10))",
        "userspace(pid=0,slow_path(cfm,match))",
        "userspace(pid=9,slow_path(0),actions,tunnel_out_port=10)",
        "userspace(pid=0,controller(reason=1,dont_send=1,continuation=0,recirc_id=1,rule_cookie=0,\
         controller_id=0,max_len=65535))",
        "userspace(pid=6633,flow_sample(probability=123,collector_set_id=1234,obs_domain_id=2345,\
         obs_point_id=3456,output_port=10,ingress))",
        "userspace(pid=6633,ipfix(output_port=10))",
        "set(eth(src=00:01:02:03:04:05,dst=00:01:02:03:04:06))",
        "set(eth(src=00:01:02:03:04:05/ff:ff:00:00:00:00))",
        "set(eth()),set(ipv6()),set(nd()),set(skb_priority(0/0))",
        "set(ipv4(src=35.8.2.41,ttl=63))",
        "set(ipv4(tos=0x20/0xfc))",
        "set(ipv6(label=0x14,hlimit=4))",
        "set(tcp(src=80,dst=8080))",
        "set(tcp(src=10/0xff))",
        "set(skb_mark(0x1/0xff))",
        "set(mpls(label=10,tc=3,ttl=64,bos=1))",
        "set(tunnel(tun_id=0xabcdef1234567890,src=1.1.1.1,dst=2.2.2.2,ttl=64,flags(df|csum|key)))",
        "set(tunnel(tun_id=0x1,dst=2.2.2.2,ttl=64,geneve({class=0xffff,type=0x80,len=4,0xa}),flags(key)))",
        "push_vlan(vid=12,pcp=0)",
        "push_vlan(tpid=0x88a8,vid=12,pcp=5)",
        "pop_vlan",
        "push_mpls(label=10,tc=3,ttl=64,bos=1,eth_type=0x8847)",
        "pop_mpls(eth_type=0x800)",
        "add_mpls(label=10,tc=3,ttl=64,bos=1,eth_type=0x8847)",
        "push_nsh(flags=0,ttl=63,mdtype=1,np=3,spi=0x1234,si=255,c1=0x11223344,c2=0x0,c3=0x0,c4=0x0),pop_nsh()",
        "push_nsh(flags=2,ttl=1,mdtype=2,np=1,spi=0x0,si=0,md2=0x10000a0412345678)",
        "push_nsh(flags=0,ttl=63,mdtype=2,np=3,spi=0x1234,si=255,md2=0)",
        "push_nsh(flags=0,ttl=63,mdtype=2,np=3,spi=0x0,si=255,md2=0x1000400000005)",
        "set(nsh(flags=2,ttl=63,spi=0x123456,si=254,c1=0x44332211,c3=0x7700/0x0000ff00))",
        "set(nsh(flags=2,ttl=63,mdtype=1,np=3,spi=0x1,si=254,c1=0x1,c2=0x2,c3=0x3,c4=0x0))",
        "push_eth(src=00:01:02:03:04:05,dst=00:01:02:03:04:06),pop_eth",
        "sample(sample=9.7%,actions(1,2,3,push_vlan(vid=1,pcp=2)))",
        "recirc(0x2710),hash(l4(0)),hash(sym_l4(5))",
        "ct",
        "ct(commit,zone=5)",
        "ct(force_commit,mark=0xa0a0a0a0/0xfefefefe)",
        "ct(commit,label=0x1234567890abcdef1234567890abcdef/0xf1f2f3f4f5f6f7f8f9f0fafbfcfdfeff,helper=ftp)",
        "ct(nat)",
        "ct(commit,nat(src))",
        "ct(commit,nat(dst=10.0.0.240-10.0.0.254:32768-65535,random))",
        "ct(commit,helper=ftp,nat(src=[fe80::20c:29ff:fe88:a18b]:255-4096,random))",
        "ct(commit,nat(src=fe80::20c:29ff:fe88:1-fe80::20c:29ff:fe88:a18b))",
        "ct_clear,trunc(100),clone(1),clone(clone(push_vlan(vid=12,pcp=0),2),1)",
        "check_pkt_len(size=200,gt(4),le(drop))",
        "meter(3),tnl_pop(4),lb_output(1)",
    ] {
        let actions = parse_actions(text, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(actions_text(&actions, &NoNames), text);
    }
}

#[test]
fn what_is_no_action_is_an_error() {
    for text in [
        "foo",
        "set(eth(foo=1))",
        "set()",
        "push_vlan(vid=5000)",
        "clone(1",
        "ct(zone=70000)",
        "1)",
        "push_nsh(mdtype=3)",
        "push_nsh(spi=0x1000000)",
        "push_nsh(mdtype=2,md2=0x12g)",
        "push_nsh(flags=4)",
    ] {
        assert!(parse_actions(text, &NoNames).is_err(), "{text}");
    }
    let deep = "clone(".repeat(50) + "1" + &")".repeat(50);
    assert_eq!(parse_actions(&deep, &NoNames), Err(TextError::Depth));
}

fn again(text: &str, verbose: bool) -> String {
    let (key, mask) = parse_key(text, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}"));
    key_text(&key, Some(&mask), verbose, &NoNames)
}

#[test]
fn keys_are_written_as_they_were_read() {
    for text in [
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth(src=50:54:00:00:00:01,dst=50:54:00:00:00:02),\
         eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0)",
        "recirc_id(0x1),in_port(1),ct_state(-new+est),ct_zone(0x5),packet_type(ns=0,id=0),eth_type(0x86dd),\
         ipv6(src=::/::1,label=0x5,frag=no)",
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x8100),vlan(vid=9,pcp=0),\
         encap(eth_type(0x0800),ipv4(frag=no))",
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x88a8),vlan(vid=9,pcp=0),\
         encap(eth_type(0x8100),vlan(vid=1/0x1,pcp=0),encap(eth_type(0x0806),arp(sip=1.2.3.4,op=1)))",
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x8100),vlan(vid=0,pcp=0,cfi=0),encap()",
        "recirc_id(0),tunnel(tun_id=0x1,src=1.1.1.1,dst=2.2.2.2,flags(-df-csum+key)),in_port(1),\
         packet_type(ns=0,id=0),eth_type(0x0800),ipv4(proto=6,frag=no),tcp(dst=80),tcp_flags(-fin+syn)",
        "tunnel(src=1.1.1.1,dst=2.2.2.2,ttl=64,geneve({class=0,type=0,len=4,0xa/0xff}{class=0xffff,type=0x1,len=4,0xffffffff}),flags(-df+csum+key)),in_port(1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no)",
        "tunnel(dst=2.2.2.2,geneve({class=0xffff,type=0x80,len=4}{class=0x102/0xf00,len=20,0x123456789abcdef0123456789abcdef012345678}),flags(-df-csum)),in_port(1),packet_type(ns=0,id=0),eth_type(0/0xffff)",
        "recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x8847),mpls(label=100,tc=3,ttl=64,bos=1)",
        "recirc_id(0x3),in_port(1),packet_type(ns=1,id=0x894f),eth_type(0x894f),\
         nsh(mdtype=1,np=3,spi=0x1234,c1=0x11223344)",
        "in_port(1),packet_type(ns=0,id=0),eth_type(0x894f),nsh(flags=0x02/0x02,ttl=5,si=255,c4=0x1/0x000000ff)",
        "in_port(1),packet_type(ns=0,id=0),eth(dst=01:00:00:00:00:00/01:00:00:00:00:00),eth_type(0/0xffff)",
        "in_port(1),packet_type(ns=0,id=0),eth_type(0x86dd),ipv6(proto=58,frag=no),icmpv6(type=136),nd(target=2001::1)",
    ] {
        assert_eq!(again(text, false), text);
    }
}

#[test]
fn missing_nsh_contexts_are_printed_as_zeros() {
    let text =
        |nsh: &str| again(&format!("in_port(1),packet_type(ns=0,id=0),eth_type(0x894f),nsh({nsh})"), false);
    assert!(text("mdtype=2,np=3").ends_with("nsh(mdtype=2,np=3,c1=0x0,c2=0x0,c3=0x0,c4=0x0)"));
    assert!(text("mdtype=0,c1=0x0").ends_with("nsh(mdtype=0,c1=0x0,c2=0x0,c3=0x0,c4=0x0)"));
    assert!(text("mdtype=1,c1=0x0").ends_with("nsh(mdtype=1,c1=0x0)"));
}

#[test]
fn verbose_keys_show_what_is_not_matched() {
    let text = again("recirc_id(0),in_port(1),packet_type(ns=0,id=0),eth_type(0x0800),ipv4(frag=no)", true);
    assert_eq!(
        text,
        "recirc_id(0),dp_hash(0/0),skb_priority(0/0),in_port(1),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),\
         ct_mark(0/0),ct_label(0/0),packet_type(ns=0,id=0),\
         eth(src=00:00:00:00:00:00/00:00:00:00:00:00,dst=00:00:00:00:00:00/00:00:00:00:00:00),\
         eth_type(0x0800),ipv4(src=0.0.0.0/0.0.0.0,dst=0.0.0.0/0.0.0.0,proto=0/0,tos=0/0,ttl=0/0,frag=no)"
    );
}

#[test]
fn verbose_keys_show_values_that_are_not_matched() {
    for text in [
        "recirc_id(0),dp_hash(0/0),skb_priority(0/0),in_port(1),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),\
         ct_mark(0/0),ct_label(0/0),packet_type(ns=0,id=0),\
         eth(src=50:54:00:00:00:01/00:00:00:00:00:00,dst=50:54:00:00:00:02/00:00:00:00:00:00),\
         eth_type(0x0800),ipv4(src=10.0.0.1/255.0.0.0,dst=10.0.0.2/0.0.0.0,proto=6,tos=0/0,ttl=64/0,frag=no),\
         tcp(src=8/0,dst=9/0),tcp_flags(+syn)",
        "recirc_id(0),dp_hash(0/0),skb_priority(0/0),in_port(1),skb_mark(0/0),ct_state(0/0),ct_zone(0/0),\
         ct_mark(0/0),ct_label(0/0),packet_type(ns=0,id=0),\
         eth(src=50:54:00:00:00:01/00:00:00:00:00:00,dst=50:54:00:00:00:02/00:00:00:00:00:00),\
         eth_type(0x8847),mpls(label=5/0xfffff,tc=0/0,ttl=64/0x0,bos=1/0)",
    ] {
        assert_eq!(again(text, true), text);
    }
}

#[test]
fn errors_name_the_rest_of_the_text() {
    let error = parse_key("in_port(1),eth(foo),eth_type(0x800)", &NoNames).unwrap_err();
    assert_eq!(error.to_string(), "syntax error at eth(foo),eth_type(0x800)");
}

#[test]
fn a_tunnel_header() {
    let mut header = Flow { dl_dst: Mac([2; 6]), dl_src: Mac([4; 6]), dl_type: 0x0800, ..Flow::ZERO };
    (header.nw_src, header.nw_dst, header.nw_proto, header.nw_ttl) = (0x0101_0101, 0x0202_0202, 17, 64);
    header.tp_dst = 6081;
    let bytes = flow::compose::compose(&header, &[0, 0, 0x65, 0x58, 0, 0, 5, 0]);
    let push = crate::TunnelPush {
        tunnel_port: PortNo(4789),
        out_port: PortNo(100),
        tunnel_type: 5,
        header: crate::TunnelHeader(bytes),
    };
    let text = actions_text(&[DpAction::TunnelPush(Box::new(push))], &NoNames);
    assert!(text.starts_with(
        "tnl_push(tnl_port(4789),header(size=50,type=5,eth(dst=02:02:02:02:02:02,src=04:04:04:04:04:04,\
         dl_type=0x0800),ipv4(src=1.1.1.1,dst=2.2.2.2,proto=17,tos=0,ttl=64,frag=0x0),udp(src=0,dst=6081,csum="
    ));
    assert!(text.ends_with("),geneve(vni=0x5)),out_port(100))"), "{text}");
}

proptest! {
    #[test]
    fn parsers_never_panic(name in "[a-z_]{0,8}", inside in "[-a-z0-9=(){}/,.:%\\PC]{0,40}") {
        let text = format!("{name}({inside})");
        for text in [&text, &inside] {
            let _ = parse_actions(text, &NoNames);
            let _ = parse_key(text, &NoNames);
        }
    }

    #[test]
    fn any_key_can_be_written(words in prop::collection::vec(any::<u64>(), flow::FLOW_WORDS),
                              masks in prop::collection::vec(any::<u64>(), flow::FLOW_WORDS), verbose: bool,
                              dl_type in prop::sample::select(vec![0x0800u16, 0x86dd, 0x0806, 0x8847, 0x894f])) {
        let (mut key, mut mask) = (Flow::ZERO, Flow::ZERO);
        key.words_mut().copy_from_slice(&words);
        mask.words_mut().copy_from_slice(&masks);
        (key.dl_type, key.packet_type) = (dl_type, 0);
        let _ = key_text(&key.masked(&mask), Some(&mask), verbose, &NoNames);
        let _ = key_text(&key, None, verbose, &NoNames);
    }
}
