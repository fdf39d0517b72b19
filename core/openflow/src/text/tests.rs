use super::*;
use crate::action::Action;
use crate::flow_mod::FlowCommand;
use proptest::prelude::*;
use units::OfPort;

/// Parses a text and prints the result.
fn written(text: &str) -> String {
    match parse_actions(text, &NoNames) {
        Ok(actions) => actions_text(&actions, &NoNames),
        Err(e) => format!("error: {e}"),
    }
}

#[test]
fn actions_survive_parsing_and_printing() {
    for text in [
        "drop",
        "output:1",
        "NORMAL",
        "CONTROLLER:128",
        "controller(reason=no_match,max_len=64,id=5)",
        "output:NXM_NX_REG1[5..10]",
        "output(port=2,max_len=100)",
        "group:5",
        "enqueue:1:2",
        "bundle(eth_src,0,hrw,ofport,members:4,8)",
        "bundle_load(symmetric_l4,60,hrw,ofport,NXM_NX_REG0[],members:2,3)",
        "resubmit:5",
        "resubmit(,1)",
        "resubmit(3,7,ct)",
        "learn(table=1,packet_type=packet_type=(1,2))",
        "learn(table=1,packet_type=eth)",
        "learn(table=1,NXM_OF_VLAN_TCI[0..11]=0,load:0->NXM_OF_VLAN_TCI[])",
        "learn(table=1,idle_timeout=10,NXM_OF_VLAN_TCI[0..11],NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[])",
        "conjunction(1,1/2)",
        "multipath(eth_src,50,modulo_n,1,0,NXM_NX_REG0[])",
        "note:11.e9.9a",
        "exit",
        "sample(probability=12345,collector_set_id=23456,obs_domain_id=34567,obs_point_id=45678)",
        "ct(commit,zone=5,nat(src=10.0.0.1-10.0.0.9:80-90,random),exec(set_field:0x1->ct_mark))",
        "ct(table=2,zone=NXM_NX_REG0[0..15])",
        "ct_clear",
        "clone(set_field:1.2.3.4->ip_src,output:2)",
        "check_pkt_larger(100)->NXM_NX_REG0[0]",
        "load:0x5->NXM_NX_REG0[0..3]",
        "move:NXM_OF_IN_PORT[]->NXM_OF_VLAN_TCI[]",
        "push:NXM_NX_REG2[1..5]",
        "mod_vlan_vid:9,mod_vlan_pcp:3,strip_vlan,push_vlan:0x8100",
        "mod_dl_src:aa:bb:cc:dd:ee:ff,mod_nw_dst:1.2.3.4,mod_nw_tos:16,mod_tp_dst:80",
        "dec_ttl",
        "dec_ttl(1,2)",
        "push_mpls:0x8847,set_mpls_label(10),pop_mpls:0x0800",
        "set_tunnel:0x5,set_queue:2,pop_queue",
        "fin_timeout(idle_timeout=10,hard_timeout=20)",
        "meter:3,clear_actions,write_actions(output:1),write_metadata:0xff/0xf0f,goto_table:3",
    ] {
        assert_eq!(written(text), text);
    }
}

#[test]
fn other_spellings() {
    for (text, same) in [
        ("1,2", "output:1,output:2"),
        ("all", "ALL"),
        ("controller", "CONTROLLER:65535"),
        ("controller:42", "CONTROLLER:42"),
        ("resubmit(1)", "resubmit:1"),
        ("output:4294967294", "LOCAL"),
    ] {
        assert_eq!(written(text), same, "{text}");
    }
}

#[test]
fn errors_name_the_wrong_part() {
    for (text, message) in [
        ("bad", "unknown action bad"),
        ("drop,output:1", "\"drop\" must not be accompanied by any other action or instruction"),
        ("mod_vlan_vid:4096", "4096: not a valid VLAN VID"),
        ("conjunction(1,3/2)", "clause index must be less than or equal to number of clauses"),
        ("resubmit:asdf", "asdf: resubmit to unknown port"),
        ("resubmit:IN_PORT", "at least one \"in_port\" or \"table\" must be specified on resubmit"),
    ] {
        assert_eq!(written(text), format!("error: {message}"));
    }
}

#[test]
fn a_flow_mod() {
    let text = "table=3, priority=7, tcp, in_port=1 actions=output:2";
    let m = parse_flow_mod(text, FlowCommand::Add, &NoNames).unwrap().flow;
    assert_eq!((m.table, m.priority), (3, 7));
    assert_eq!(m.actions, [Action::output(OfPort(2))]);
    assert_eq!(m.matching.text(&NoNames), "tcp,in_port=1");
    let slip = parse_flow_mod("priority=9,nw_src=10.0.0.1,actions=drop", FlowCommand::Add, &NoNames).unwrap();
    let texts = (slip.flow.matching.text(&NoNames), slip.written.unwrap().text(&NoNames));
    assert_eq!(texts, (String::new(), "nw_src=10.0.0.1".to_owned()));
    let e = parse_flow_mod("in_port=1", FlowCommand::Add, &NoNames).unwrap_err();
    assert_eq!(e.0, "must specify an action");
    assert!(parse_flow_mod("nonsense=5,actions=drop", FlowCommand::Add, &NoNames).is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in "[a-z_:=(),0-9\\[\\]./>\\-]{0,80}") {
        let _ = parse_actions(&text, &NoNames);
        let _ = parse_flow_mod(&text, FlowCommand::Add, &NoNames);
    }

    #[test]
    fn nesting_is_bounded(depth in 0usize..200) {
        let text = format!("{}output:1{}", "clone(".repeat(depth), ")".repeat(depth));
        prop_assert_eq!(parse_actions(&text, &NoNames).is_ok(), depth <= DEPTH_MAX);
    }
}

#[test]
fn requests_have_names_also_if_they_are_cut_short() {
    let name = |bytes: &[u8]| message_type_name(bytes);
    assert_eq!(name(&[4, 14, 0, 8, 0, 0, 0, 1]).as_deref(), Some("OFPT_FLOW_MOD"));
    assert_eq!(
        name(&[1, 4, 0, 16, 0, 0, 0, 1, 0, 0, 0x23, 0x20, 0, 0, 0, 13]).as_deref(),
        Some("NXT_FLOW_MOD")
    );
    assert_eq!(name(&[4, 18, 0, 16, 0, 0, 0, 1, 0, 1]).as_deref(), Some("OFPST_FLOW request"));
    assert_eq!(name(&[4, 18, 0, 16, 0, 0, 0, 1]), None);
    assert_eq!(name(&[9, 14]), None);
    assert_eq!(name(&[]), None);
}

#[test]
fn flow_messages_of_nicira_keep_their_name_in_all_versions() {
    let text = |version: u8, subtype: u8, body: &str| {
        let len = 16 + body.len() / 2;
        let hex = format!("{version:02x}04{len:04x}00000005000023200000{subtype:04x}{body}");
        let bytes: Vec<u8> =
            (0..len).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()).collect();
        message_text(&bytes, &NoNames, 0)
    };
    let flow_mod = "00000000000000000000000000000064ffffffffffff00000000000000000000";
    let removed = "000000000000000000640000000000010000000200030000000000000000000a0000000000000014";
    for (version, name) in [(1, ""), (2, " (OF1.1)"), (4, " (OF1.3)"), (6, " (OF1.5)")] {
        let flow_mod = text(version, 13, flow_mod);
        assert_eq!(flow_mod, format!("NXT_FLOW_MOD{name} (xid=0x5): ADD priority=100 actions=drop\n"));
        let removed = text(version, 14, removed);
        assert!(
            removed.starts_with(&format!("NXT_FLOW_REMOVED{name} (xid=0x5): priority=100 reason=idle")),
            "{removed}"
        );
    }
}
