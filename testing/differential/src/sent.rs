//! The output ports of lists of datapath actions and of sent frames.

use crate::normalize;
use crate::packet::Packet;

/// Returns the output ports of a list of datapath actions, sorted. `longer`: whether the packet takes the branch of
/// `check_pkt_len` for long packets; `None` includes both branches.
pub fn ports(list: &str, longer: Option<bool>) -> Vec<u32> {
    let mut out = Vec::new();
    add_ports(list, longer, &mut out);
    out.sort_unstable();
    out
}

/// Returns whether the datapath actions of trace `a` send to each port at most as often as those of trace `b`.
pub fn sends_no_more(a: &str, b: &str) -> bool {
    let lists = |text: &str| -> String {
        text.lines().filter_map(|l| l.strip_prefix(normalize::ACTIONS)).collect::<Vec<_>>().join(",")
    };
    let mut others = ports(&lists(b), None);
    ports(&lists(a), None)
        .iter()
        .all(|port| others.iter().position(|p| p == port).map(|at| others.swap_remove(at)).is_some())
}

fn add_ports(list: &str, longer: Option<bool>, out: &mut Vec<u32>) {
    for action in normalize::split(list) {
        let (name, inside) = action.split_once('(').unwrap_or((action, ""));
        let inside = inside.strip_suffix(')').unwrap_or(inside);
        match name {
            "clone" | "check_pkt_len" | "sample" | "actions" => add_ports(inside, longer, out),
            "gt" if longer != Some(false) => add_ports(inside, longer, out),
            "le" if longer != Some(true) => add_ports(inside, longer, out),
            _ => out.extend(name.parse::<u32>().ok().filter(|_| inside.is_empty())),
        }
    }
}

/// Returns the ports of sent frames (lines like `p1 0123...`), sorted.
pub fn ports_of_frames<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<u32> {
    let port = |line: &str| line.strip_prefix('p')?.split(' ').next()?.parse().ok();
    let mut out: Vec<u32> = lines.filter_map(port).collect();
    out.sort_unstable();
    out
}

/// The ports whose frames are recorded.
const RECORDED: std::ops::RangeInclusive<u32> = 1..=6;

/// Compares the sent frames with a trace. Returns what the trace predicts if they differ. Each port must send as many frames as
/// the trace has outputs to it. If the trace contains only outputs, the frames must be equal to the packet.
pub fn compare_with_trace(trace: &str, packet: &Packet, frames: &[String]) -> Option<String> {
    let lists: Vec<&str> = trace.lines().filter_map(|l| l.strip_prefix(normalize::ACTIONS)).collect();
    let list = lists.join(",");
    let recorded = |ports: Vec<u32>| ports.into_iter().filter(|p| RECORDED.contains(p)).collect::<Vec<u32>>();
    let got = recorded(ports_of_frames(frames.iter().map(String::as_str)));
    // The trace does not show the pass after a recirculation that removes an NSH header in a nested list.
    let continues = lists.len() == 1 && list.contains("recirc(");
    let is_uncertain = continues || ["sample(", "check_pkt_len(", "ct("].iter().any(|a| list.contains(a));
    let wanted = recorded(ports(&list, None));
    let is_correct = match is_uncertain {
        true => got.iter().all(|p| wanted.contains(p)),
        false => got == wanted,
    };
    let has_only_outputs = normalize::split(&list).iter().all(|a| a.parse::<u32>().is_ok());
    let hex = packet.hex();
    let unchanged = !has_only_outputs || frames.iter().all(|f| f.ends_with(&hex));
    (!is_correct || !unchanged).then(|| format!("ports {wanted:?} by {list}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_list_are_those_of_the_branch_taken() {
        let list = "1,push_vlan(vid=3,pcp=0),check_pkt_len(size=60,gt(2,clone(set(x),4)),le(3)),userspace(pid=0),100";
        assert_eq!(ports(list, Some(true)), [1, 2, 4, 100]);
        assert_eq!(ports(list, Some(false)), [1, 3, 100]);
        assert_eq!(ports(list, None), [1, 2, 3, 4, 100]);
        assert_eq!(ports_of_frames(["p3 00", "p1 01", "x"].into_iter()), [1, 3]);
    }

    #[test]
    fn frames_are_those_of_the_trace() {
        let packet = Packet { port: 1, bytes: vec![0xab, 0xcd] };
        let trace = |list: &str| format!("x\n{}{list}", normalize::ACTIONS);
        let frames = |lines: &[&str]| lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
        let fine =
            |list: &str, lines: &[&str]| compare_with_trace(&trace(list), &packet, &frames(lines)).is_none();
        assert!(fine("2,3,100", &["p2 abcd", "p3 abcd"]) && fine("drop", &[]));
        assert!(!fine("2,3", &["p2 abcd"]) && !fine("2,3", &["p2 abcd", "p3 abce"]));
        assert!(fine("set(x),2", &["p2 abce"]) && !fine("set(x),2", &["p3 abce"]));
        let branches = "check_pkt_len(size=60,gt(2),le(3))";
        assert!(fine(branches, &["p3 abcd"]) && !fine(branches, &["p4 abcd"]));
    }
}
