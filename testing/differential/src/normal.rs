//! What no two runs share, taken out of the answers.

/// Text with every number after `key` replaced by `<n>`.
fn hide(text: &str, key: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(key) {
        let (head, tail) = rest.split_at(at + key.len());
        out.push_str(head);
        let end = tail.find(|c: char| !(c.is_ascii_hexdigit() || c == 'x' || c == '.')).unwrap_or(tail.len());
        // Recirculation 0 is no recirculation: that is no name for something.
        out.push_str(if tail[..end].is_empty() || &tail[..end] == "0" { &tail[..end] } else { "<n>" });
        rest = &tail[end..];
    }
    out + rest
}

/// The lines in order.
pub fn sorted_lines(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().filter(|l| !l.is_empty()).collect();
    lines.sort_unstable();
    lines.join("\n")
}

/// An error of a client: the answers of two daemons differ in the transaction's number and the bytes that are quoted.
pub fn error(text: &str) -> String {
    hide(text, "xid=")
}

/// The text of a trace.
pub fn trace(text: &str) -> String {
    let text = ["recirc_id=", "recirc_id(", "recirc(", "ct_id="]
        .iter()
        .fold(text.to_owned(), |t, key| hide(&t, key));
    let lines: Vec<String> = text
        .lines()
        .map(|l| if l.starts_with("Datapath actions:") { sort_outputs(l) } else { l.to_owned() })
        .collect();
    lines.join("\n")
}

/// Runs of plain output ports in a list of datapath actions, each in the order of the numbers: a flood has no order.
fn sort_outputs(line: &str) -> String {
    let (head, list) = line.split_once(": ").map_or(("", line), |(h, l)| (h, l));
    let mut out: Vec<&str> = Vec::new();
    let mut run: Vec<&str> = Vec::new();
    for word in list.split(',') {
        if word.parse::<u32>().is_ok() {
            run.push(word);
            continue;
        }
        run.sort_unstable_by_key(|w| w.parse::<u32>().unwrap_or(0));
        out.append(&mut run);
        out.push(word);
    }
    run.sort_unstable_by_key(|w| w.parse::<u32>().unwrap_or(0));
    out.append(&mut run);
    if head.is_empty() { out.join(",") } else { format!("{head}: {}", out.join(",")) }
}

/// The line of a text that begins with `what`; empty when there is none.
pub fn line<'a>(text: &'a str, what: &str) -> &'a str {
    text.lines().rfind(|l| l.starts_with(what)).unwrap_or_default()
}

/// The learning table without ages, in order.
pub fn fdb(text: &str) -> String {
    let lines: Vec<&str> =
        text.lines().map(|l| l.trim_end().rsplit_once(' ').map_or(l, |(head, _)| head.trim_end())).collect();
    sorted_lines(&lines.join("\n"))
}

/// The megaflows with their packets and bytes, in order.
pub fn datapath_flows(text: &str) -> String {
    let text =
        ["used:", "recirc_id=", "recirc_id(", "recirc("].iter().fold(text.to_owned(), |t, key| hide(&t, key));
    let lines: Vec<String> = text
        .lines()
        .map(|l| {
            l.split_once("actions:")
                .map_or(l.to_owned(), |(head, list)| format!("{head}actions:{}", sort_outputs(list)))
        })
        .map(|l| l.replace("used:never", "used:<n>s"))
        .collect();
    sorted_lines(&lines.join("\n"))
}

/// OpenFlow flows with counters, in order.
pub fn flows(text: &str) -> String {
    let text =
        ["duration=", "idle_age=", "hard_age=", "xid="].iter().fold(text.to_owned(), |t, key| hide(&t, key));
    let text = text
        .replace(" idle_age=<n>,", "")
        .replace(" idle_age=0,", "")
        .replace(" hard_age=<n>,", "")
        .replace(" hard_age=0,", "");
    sorted_lines(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_run_go_and_the_rest_stays() {
        assert_eq!(
            trace("Datapath actions: 3,1,2,push_vlan(vid=1,pcp=0),5,4,recirc(0x1f)"),
            "Datapath actions: 1,2,3,push_vlan(vid=1,pcp=0),4,5,recirc(<n>)"
        );
        assert_eq!(hide("recirc_id(0),x", "recirc_id("), "recirc_id(0),x");
        assert_eq!(
            fdb(" port  VLAN  MAC                Age\n    1     0  50:54:00:00:00:01   12\n"),
            "    1     0  50:54:00:00:00:01\n port  VLAN  MAC"
        );
        assert_eq!(line("a\nMegaflow: b\n", "Megaflow:"), "Megaflow: b");
    }
}
