//! Traces that differ because the order of a flood is not defined.

use super::masks;
use crate::normalize;

/// If an output fails with `Not tunneling to our own address`, the fields of its tunnel stay in the flow. After a flood they are
/// those of the last such port, and the order of a flood is not defined. So it is also undefined whether they are equal to those
/// of the initial flow, and thus whether the final flow is printed as `unchanged`. Of these ports, only that for GRE has checksums,
/// so the flags of the tunnel may differ. Everything else is equal.
pub fn tunnel_fields_after_flood(stock: &str, ours: &str) -> bool {
    let ends = |text: &str| {
        let is_end =
            |l: &&str| ["Final flow:", "Megaflow:", normalize::ACTIONS].iter().any(|end| l.starts_with(end));
        normalize::trace(&without_leftover_fields(text))
            .lines()
            .filter(is_end)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let (theirs, mine) = (ends(stock).join("\n"), ends(ours).join("\n"));
    refuses_twice(stock)
        && refuses_twice(ours)
        && theirs == masks::with_masks_of(&theirs, &mine, normalize::ACTIONS)
}

/// Returns whether at least two outputs to tunnels failed, so that their order determines the fields that stay in the flow.
fn refuses_twice(text: &str) -> bool {
    text.matches("Not tunneling to our own address").count() > 1
}

/// Returns a trace without the parts of the final flow that depend on the order of a flood: the flags of the
/// tunnel, and whether the flow is printed as `unchanged`. A trace in which at most one output to a tunnel
/// failed is returned unchanged.
pub fn without_leftover_fields(text: &str) -> String {
    if !refuses_twice(text) {
        return text.to_owned();
    }
    let flows = text.lines().filter_map(|l| l.strip_prefix("Flow: "));
    let text = flows.fold(text.to_owned(), |text, first| {
        text.replace(&format!("Final flow: {first}\n"), "Final flow: unchanged\n")
    });
    let without_flags = |line: &str| {
        let is_kept = |field: &&str| !(line.starts_with("Final flow:") && field.starts_with("tun_flags="));
        line.split(',').filter(is_kept).collect::<Vec<_>>().join(",")
    };
    text.split('\n').map(without_flags).collect::<Vec<_>>().join("\n")
}

/// A flood sends to several ports, and each output adds lines to the trace. The order of a flood is not defined, so the lines are
/// compared without their order. The final flow, the megaflow and the datapath actions are equal.
pub fn order_of_flood(stock: &str, ours: &str) -> bool {
    const FLOODS: [&str; 4] = ["FLOOD", "ALL", "NORMAL", "flooding"];
    let (stock, ours) = (normalize::trace(stock), normalize::trace(ours));
    let ours = masks::with_masks_of(&stock, &ours, normalize::ACTIONS);
    let flow_lines = |text: &'_ str| -> Vec<String> {
        let is_one = |l: &&str| !l.starts_with([' ', '-']) && !l.is_empty() && !l.starts_with("bridge(");
        text.lines().filter(is_one).map(str::to_owned).collect()
    };
    let floods = stock.lines().any(|l| FLOODS.iter().any(|word| l.trim_start().ends_with(word)));
    let lines = |text: &str| {
        normalize::sorted_lines(&text.lines().map(|l| format!("{}\n", l.trim())).collect::<String>())
    };
    floods && flow_lines(&stock) == flow_lines(&ours) && lines(&stock) == lines(&ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outputs_of_a_flood_have_any_order() {
        let text = |outputs: &str, flow: &str| {
            format!(
                "Flow: in_port=1\n\nbridge(\"br0\")\n    FLOOD\n{outputs}\nFinal flow: {flow}\nMegaflow: eth\n"
            )
        };
        let (stock, ours) =
            (text("     -> a\n     -> b", "unchanged"), text("     -> b\n     -> a", "unchanged"));
        assert!(order_of_flood(&stock, &ours));
        assert!(!order_of_flood(&stock, &text("     -> b\n     -> c", "unchanged")));
        assert!(!order_of_flood(&stock, &text("     -> b\n     -> a\n     -> a", "unchanged")));
        assert!(!order_of_flood(&stock, &text("     -> b\n     -> a", "in_port=2")));
        assert!(!order_of_flood(&stock.replace("FLOOD", "output:2"), &ours.replace("FLOOD", "output:2")));
    }

    #[test]
    fn tunnel_fields_are_expected_to_stay_after_a_flood_only() {
        let text = |last: &str, list: &str| {
            let head = "Flow: in_port=1\n    >>>> Not tunneling to our own address <<<<\n".repeat(2);
            format!("{head}\nFinal flow: {last}\nMegaflow: m\n{}{list}", normalize::ACTIONS)
        };
        let ours = text("unchanged", "6");
        assert!(tunnel_fields_after_flood(&text("in_port=1", "6"), &ours));
        assert!(tunnel_fields_after_flood(&ours, &text("in_port=1", "6")));
        assert!(!tunnel_fields_after_flood(&text("in_port=2", "6"), &ours));
        let flags = |flags: &str| text(&format!("in_port=2,tun_flags={flags},ip"), "6");
        assert!(tunnel_fields_after_flood(&flags("df|key"), &flags("df|csum|key")));
        let megaflow = |text: &str| text.replace("Megaflow: m", "Megaflow: m,tun_flags=+key");
        assert!(!tunnel_fields_after_flood(&megaflow(&ours), &ours));
        assert!(!tunnel_fields_after_flood(&text("in_port=1", "7"), &ours));
        assert!(!tunnel_fields_after_flood(&text("in_port=1", "6").replacen("Not tunneling", "", 1), &ours));
        assert!(!tunnel_fields_after_flood(
            &text("in_port=1", "6").replace("Megaflow: m", "Megaflow: n"),
            &ours
        ));
    }
}
