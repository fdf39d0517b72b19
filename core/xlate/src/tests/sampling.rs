//! Samples of sFlow and IPFIX, and the statistics targets of NetFlow.

use super::*;
use dpif::text::{NoNames, actions_text};
use exporter::netflow::output;
use openflow::action::{NumberOrField, Sample, SampleDirection};

const ALL: u32 = u32::MAX;
const NONE: &str = "4294967295";

fn sampled(sampling: Sampling, actions: Vec<Action>) -> Snapshot {
    let mut b = TestBridge::with_ports(BR0, 4, 0);
    b.ports.get_mut(&OfPort(2)).unwrap().ifindex = 1002;
    b.sampling = Some(Arc::new(sampling));
    b.flow(0, 1, &[], actions);
    switch(&mut [b])
}

fn text(snapshot: &Snapshot, flow: &Flow) -> String {
    actions_text(&run(snapshot, flow).actions, &NoNames)
}

fn sflow(probability: u32) -> Sampling {
    Sampling { sflow: probability, ..Sampling::default() }
}

fn ipfix(input: bool, output: bool) -> Sampling {
    let ipfix = BridgeIpfix { probability: ALL, input, output, tunnels: true };
    Sampling { ipfix: Some(ipfix), sets: Some(BTreeMap::new()), ..Sampling::default() }
}

#[test]
fn sflow_names_the_output() {
    for (actions, word) in [
        (vec![out(2)], "1002".to_owned()),
        (vec![out(3)], (0x8000_0001_u32).to_string()),
        (vec![out(2), out(3), out(4)], (0x8000_0003_u32).to_string()),
        (vec![], (0x4000_0100_u32).to_string()),
    ] {
        let s = sampled(sflow(ALL), actions);
        let seen = text(&s, &tcp(1));
        let wanted = format!("userspace(pid=0,sFlow(vid=0,pcp=0,output={word}),actions)");
        assert!(seen.starts_with(&wanted), "{seen}");
    }
    let tagged = sampled(
        sflow(ALL),
        vec![Action::PushVlan(0x8100), Action::SetVlanVid { vid: 7, push: false }, out(2)],
    );
    assert!(text(&tagged, &tcp(1)).contains("sFlow(vid=7,pcp=0,output=1002)"), "{}", text(&tagged, &tcp(1)));
    // A share of the packets is sampled.
    let seen = text(&sampled(sflow(ALL / 4), vec![out(2)]), &tcp(1));
    assert_eq!(
        seen,
        "sample(sample=25.0%,actions(userspace(pid=0,sFlow(vid=0,pcp=0,output=1002),actions))),2"
    );
    assert_eq!(text(&sampled(sflow(0), vec![out(2)]), &tcp(1)), "2");
    // A packet that no port received is not sampled.
    assert_eq!(text(&sampled(sflow(ALL), vec![out(2)]), &tcp(u32::from(OfPort::NONE.0))), "2");
}

#[test]
fn ipfix_samples_before_the_tables_and_before_outputs() {
    let input = format!("userspace(pid=0,ipfix(output_port={NONE}))");
    let both = sampled(ipfix(true, true), vec![out(2), out(3)]);
    let wanted =
        format!("{input},userspace(pid=0,ipfix(output_port=2)),2,userspace(pid=0,ipfix(output_port=3)),3");
    assert_eq!(text(&both, &tcp(1)), wanted);
    assert_eq!(text(&sampled(ipfix(true, false), vec![out(2)]), &tcp(1)), format!("{input},2"));
    let output = sampled(ipfix(false, true), vec![out(2)]);
    assert_eq!(text(&output, &tcp(1)), "userspace(pid=0,ipfix(output_port=2)),2");
}

#[test]
fn samples_tell_whether_the_packet_is_sent() {
    let forwarded = |actions| {
        let o = run(&sampled(ipfix(true, false), actions), &tcp(1));
        let Some(DpAction::Userspace(userspace)) = o.actions.first() else { panic!("{:?}", o.actions) };
        let sample_data = userspace.sample_data.clone().unwrap();
        assert_eq!(sample_data.bridge, BR0.0);
        sample_data.egress.is_sent
    };
    assert!(forwarded(vec![out(2)]));
    assert!(!forwarded(vec![]));
}

fn sample(probability: u16) -> Sample {
    Sample {
        probability,
        collector_set_id: 1,
        obs_domain: NumberOrField::Number(2),
        obs_point: NumberOrField::Field(flow::Subfield::whole(FieldId::IpDscp)),
        sampling_port: OfPort::NONE,
        direction: SampleDirection::Egress,
    }
}

#[test]
fn a_sample_action_stands_where_it_is() {
    let action = |sample| Action::Sample(Box::new(sample));
    let actions = vec![set(FieldId::Ipv4Dst, 9), action(sample(0xffff)), out(2)];
    let s = sampled(ipfix(false, false), actions.clone());
    let o = run(&s, &Flow { nw_tos: 0xb8, ..tcp(1) });
    let wanted = format!(
        "set(ipv4(dst=0.0.0.9)),userspace(pid=0,flow_sample(probability=65535,collector_set_id=1,obs_domain_id=2,\
         obs_point_id=184,output_port={NONE},egress)),2"
    );
    assert_eq!(actions_text(&o.actions, &NoNames), wanted);
    // The field is in the mask.
    assert_eq!(o.mask.nw_tos, 0xfc);
    // Without IPFIX in the bridge, `sample` does nothing.
    assert_eq!(text(&sampled(sflow(0), actions), &tcp(1)), "set(ipv4(dst=0.0.0.9)),2");
    let port = Sample { sampling_port: OfPort(3), ..sample(0x7fff) };
    let s = sampled(ipfix(false, false), vec![action(port), out(3)]);
    assert!(text(&s, &tcp(1)).starts_with("sample(sample=50.0%,actions(userspace(pid=0,flow_sample("));
    assert!(text(&s, &tcp(1)).contains("output_port=3,egress"));
    let unknown = Sample { sampling_port: OfPort(77), ..sample(1) };
    assert_eq!(text(&sampled(ipfix(false, false), vec![action(unknown), out(3)]), &tcp(1)), "3");
}

#[test]
fn netflow_consults_what_it_reports() {
    let netflow = Sampling { netflow: true, ..Sampling::default() };
    let output_of = |actions| {
        let o = run(&sampled(netflow.clone(), actions), &tcp(1));
        let m = &o.mask;
        assert_eq!((m.nw_src, m.nw_dst, m.nw_proto, m.nw_tos), (u32::MAX, u32::MAX, u8::MAX, 0xfc));
        assert_eq!((m.tp_src, m.tp_dst), (u16::MAX, u16::MAX));
        let reported = o.stats_targets.iter().find_map(|target| match target {
            StatsTarget::NetFlow { key, output, .. } => Some((key.in_port, key.tp_dst, *output)),
            _ => None,
        });
        assert_eq!(reported.map(|(port, dst, _)| (port, dst)), Some((1, 80)));
        reported.unwrap().2
    };
    assert_eq!(output_of(vec![out(2)]), 2);
    assert_eq!(output_of(vec![]), output::DROP);
    assert_eq!(output_of(vec![out(2), out(3)]), output::MULTI);
    assert_eq!(output_of(vec![normal()]), output::FLOOD);
    assert_eq!(output_of(vec![normal(), out(3)]), output::FLOOD);
}

#[test]
fn a_sample_may_be_followed_by_an_explicit_drop() {
    let mut s = sampled(ipfix(true, false), vec![]);
    assert_eq!(run(&s, &tcp(1)).actions.len(), 1);
    s.explicit_sampled_drops = true;
    assert!(text(&s, &tcp(1)).ends_with(",drop"));
}
