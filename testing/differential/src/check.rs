//! The checks: give both switches the same table and packets, and compare the results.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use crate::expected;
use crate::expected::outputs::EXIT_OF_A_BUCKET;
use crate::inner;
use crate::normalize::{self, Lookups};
use crate::packet::Packet;
use crate::pair::{Difference, Pair, SETTLE_TIME};
use crate::same_bucket;
use crate::sent;
use crate::switch::{PORTS, REPLY_TIMEOUT, Switch};
use crate::table::Table;
use crate::tunnels::UNDERLAY;

/// Number of traces that are requested before the first reply is read. They are few enough not to fill a socket buffer.
const TRACES_AT_ONCE: usize = 6;

/// The name of a difference between the counters of flows.
const COUNTERS: &str = "counters";

/// A check of a table.
#[derive(Debug, Clone)]
pub enum Check {
    /// Load the table.
    Load,
    /// Trace one packet.
    Trace(Packet),
    /// Send the packets, one after the other.
    Forward(Vec<Packet>),
    /// Send one packet to Sluice only, because the traces of the two switches differ as expected.
    AsTraced(Packet),
    /// Send one packet several times: each switch must select the same bucket each time.
    SameBucket(Packet),
}

/// The result of traces that show no unexpected difference.
#[derive(Debug, Default)]
pub struct Traced {
    /// The packets whose traces differ as expected, and which the two switches may send differently.
    expected: Vec<Packet>,
    /// The packets that the datapath hashes. The two switches may send them to different ports, because their hash functions
    /// differ.
    hashed: Vec<Packet>,
    /// Whether the stock switch updated counters and learned addresses because of a trace. It does so if a list of actions
    /// within another action recirculates a packet, or if the packet is received from a tunnel.
    has_side_effects: bool,
}

/// The arguments of the traces of a packet: one for the packet, and for a packet in a tunnel another one for the inner packet. The
/// first trace of such a packet ends where its outer header is removed.
fn trace_arguments(packet: &Packet) -> Vec<Vec<String>> {
    let port = format!("in_port={}", packet.port);
    let mut out = vec![vec![packet.bridge().to_owned(), port, packet.hex()]];
    out.extend(inner::inner(packet).map(|i| vec!["ovs-dummy".to_owned(), i.key, i.packet.hex()]));
    out
}

/// The inner packet of a packet in a tunnel, or the packet.
fn innermost(packet: &Packet) -> Packet {
    inner::inner(packet).map_or_else(|| packet.clone(), |inner| inner.packet)
}

/// Returns whether only the text of two traces differs, so that both switches send the same frames.
fn has_same_actions(stock: &str, ours: &str) -> bool {
    let lists = |text: &str| {
        let text = normalize::trace(text);
        text.lines().filter(|l| l.starts_with(normalize::ACTIONS)).map(str::to_owned).collect::<Vec<_>>()
    };
    lists(stock) == lists(ours)
}

impl Pair {
    /// Traces packets in both switches. Returns the first unexpected difference, or the result of the traces. This also checks
    /// that Sluice's megaflows are as wide as those of the stock switch.
    pub fn trace(
        &mut self,
        packets: &[Packet],
        table: &mut Table,
    ) -> io::Result<Result<Traced, (Packet, Difference)>> {
        let (mut differ, mut traced) = (Vec::new(), Traced::default());
        // For a trace, the stock switch executes all datapath actions except outputs. So it receives a packet in a tunnel from
        // that tunnel, and learns addresses. Such packets come last; then the table is loaded again.
        let mut packets: Vec<_> = packets.iter().collect();
        packets.sort_by_key(|packet| packet.port == UNDERLAY);
        let traces: Vec<_> = packets
            .into_iter()
            .flat_map(|p| trace_arguments(p).into_iter().map(move |args| (p, args)))
            .collect();
        for some in traces.chunks(TRACES_AT_ONCE) {
            for (_, args) in some {
                self.request_trace(args)?;
            }
            for (packet, args) in some {
                let (stock, ours) = self.both(Switch::reply)?;
                traced.has_side_effects |= normalize::translates_again(&stock);
                // Even if an action set that is executed again sends nothing, the flows are counted again.
                let again = self.is_other_version && expected::action_set_again(&stock, &ours);
                if !again && self.trace_difference(&stock, &ours).is_none() {
                    if same_bucket::is_hashed(&stock) {
                        traced.hashed.push((*packet).clone());
                    }
                    continue;
                }
                match expected::trace(&stock, &ours, self.is_other_version) {
                    Some(name) => {
                        self.add_expected(&mut traced, packet, name, (&stock, &ours));
                    }
                    None => differ.push((*packet, args)),
                }
            }
        }
        // For a while, the prefix tries of the stock switch still contain flows of the previous table, which narrow its
        // megaflows. So the traces that differ are repeated until they are equal.
        for (packet, args) in differ {
            let deadline = Instant::now() + SETTLE_TIME;
            loop {
                if traced.has_side_effects {
                    self.load(table)?;
                }
                self.request_trace(args)?;
                let (stock, ours) = self.both(Switch::reply)?;
                let Some(difference) = self.trace_difference(&stock, &ours) else { break };
                if let Some(name) = expected::trace(&stock, &ours, self.is_other_version) {
                    self.add_expected(&mut traced, packet, name, (&stock, &ours));
                    break;
                }
                if Instant::now() > deadline {
                    return Ok(Err((packet.clone(), difference)));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(Ok(traced))
    }

    /// Counts an expected difference of two traces, and notes the packet unless only their text differs.
    fn add_expected(
        &mut self,
        traced: &mut Traced,
        packet: &Packet,
        name: &'static str,
        (stock, ours): (&str, &str),
    ) {
        self.count(name);
        if !(self.tunnels && has_same_actions(stock, ours)) {
            traced.expected.push(packet.clone());
        }
    }

    fn request_trace(&mut self, args: &[String]) -> io::Result<()> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        self.both(|s| s.request("ofproto/trace", &args)).map(drop)
    }

    fn trace_difference(&self, stock: &str, ours: &str) -> Option<Difference> {
        let (stock, mut ours) = (normalize::trace(stock), normalize::trace(ours));
        // Where outputs lead into tunnels, the bits that the megaflow matches when a header is written depend on the order of a
        // flood: an output to a tunnel matches ECN.
        if self.tunnels {
            ours = expected::masks::with_masks_of(&stock, &ours, normalize::ACTIONS);
        }
        for what in ["Final flow:", "Megaflow:", "Datapath actions:"] {
            let (a, b) = (normalize::line(&stock, what), normalize::line(&ours, what));
            let is_expected =
                self.is_other_version && (what == "Megaflow:" || expected::masks::is_expected(a, b));
            if a != b && !is_expected {
                return Some(Difference { what, stock, ours });
            }
        }
        if self.is_other_version { None } else { Difference::of("trace text", stock, ours) }
    }

    /// Sends a packet to both switches, and waits until they have processed it. `before`: the numbers of lookups before.
    fn receive(&mut self, packet: &Packet, before: (Lookups, Lookups)) -> io::Result<(Lookups, Lookups)> {
        self.ctl("netdev-dummy/receive", &[&format!("p{}", packet.port), &packet.hex()])?;
        let deadline = Instant::now() + SETTLE_TIME / 4;
        loop {
            let now = self.lookups()?;
            if now.0.all() > before.0.all() && now.1.all() > before.1.all() || Instant::now() > deadline {
                return Ok(now);
            }
        }
    }

    /// Waits until both switches have revalidated all megaflows after this call. A pause ends the current round of the stock
    /// switch, and the end of the pause starts another one. (What the stock switch has learned takes effect after two
    /// iterations of its main loop; more pass here.)
    fn revalidate(&mut self) -> io::Result<()> {
        self.ours.request("revalidator/wait", &[])?;
        self.stock.ctl("revalidator/pause", &[])?;
        self.stock.request_slow("revalidator/wait", &[])?;
        // Each turn of the main loop reads the older connection first, so after this reply the wait has begun.
        self.stock.ctl("version", &[])?;
        self.stock.ctl("revalidator/resume", &[])?;
        let deadline = Instant::now() + REPLY_TIMEOUT;
        loop {
            // Only a command makes the main loop check whether the wait is over.
            self.stock.ctl("version", &[])?;
            if self.stock.has_slow_reply()? || Instant::now() > deadline {
                break;
            }
        }
        self.ours.reply().map(drop)
    }

    /// Sends the packets to both switches: first each without megaflows, then all with the megaflows of the previous ones.
    /// If a packet hits a megaflow, the switch learns from it only in the next revalidation round.
    pub fn forward(&mut self, packets: &[Packet], table: &Table) -> io::Result<Option<Difference>> {
        let (learns, exits) = (table.learns(), self.times(EXIT_OF_A_BUCKET));
        self.ctl("revalidator/purge", &[])?;
        // Removes connections of packets that the stock switch has traced.
        self.ctl("dpctl/flush-conntrack", &[])?;
        self.both(Switch::outputs)?;
        let (mut lookups, learned_before) = (self.lookups()?, self.learned()?);
        for packet in packets {
            lookups = self.receive(packet, lookups)?;
            if let Some(d) = self.compare_sent(packet, table)? {
                return Ok(Some(d));
            }
            self.ctl("revalidator/purge", &[])?;
        }
        // Most addresses are learned already, so few of the slow revalidation rounds are needed.
        let (mut learned, mut moved) = (self.learned()?, false);
        // If anything was learned until now, the stock switch will revalidate its megaflows at some time.
        let has_learned = learned != learned_before;
        for packet in packets {
            let before = lookups;
            lookups = self.receive(packet, before)?;
            let now = self.learned()?;
            let missed = (lookups.0.missed > before.0.missed, lookups.1.missed > before.1.missed);
            if let Some(d) = self.compare_sent(packet, table)? {
                // The stock switch has deleted its megaflow, and the new one reflects the sender's new port. In Sluice the
                // packet hit the old megaflow, and Sluice learns the new port afterwards.
                if !(moved && missed == (true, false)) {
                    return Ok(Some(d));
                }
                self.count("megaflow translated again");
            }
            moved |= now != learned;
            learned = now;
            if moved || learns && lookups.0.hit > before.0.hit {
                self.revalidate()?;
                let learned_now = self.learned()?;
                if learned_now != learned {
                    // What is learned in a round takes effect in the next one.
                    self.revalidate()?;
                    learned = learned_now;
                }
            }
        }
        let d = self.compare_state(packets, has_learned || moved || learns)?;
        Ok(d.filter(|d| d.what != COUNTERS || self.times(EXIT_OF_A_BUCKET) == exits))
    }

    /// Sends the packets whose frames can be compared. Returns the first difference, and these packets.
    fn forward_traced(
        &mut self,
        packets: &[Packet],
        traced: &Traced,
        table: &mut Table,
    ) -> io::Result<Option<(Vec<Packet>, Difference)>> {
        let Traced { expected, hashed, has_side_effects } = traced;
        // The switches learn addresses from traces. If the traces of a packet differ as expected, the addresses may also differ.
        // Megaflows of traced packets are removed first. Otherwise the stock switch would count packets that hit them for the
        // new flows.
        if *has_side_effects || !expected.is_empty() {
            self.ctl("revalidator/purge", &[])?;
            self.load(table)?;
        }
        // Connection tracking with these options is compared by traces only.
        if table.flows.iter().any(|l| l.contains("nat(") || l.contains("alg=")) {
            return Ok(None);
        }
        // For a packet that ends before its MPLS label, the stock switch installs a megaflow whose key it cannot parse. It
        // deletes that megaflow in each revalidation round, and its counters are lost.
        let forwarded = |p: &&Packet| {
            ![expected, hashed].iter().any(|all| all.contains(p)) && !innermost(p).lacks_label()
        };
        let mut packets: Vec<Packet> = packets.iter().filter(forwarded).cloned().collect();
        loop {
            let Some(d) = self.forward(&packets, table)? else { return Ok(None) };
            let Some((at, name)) = self.first_expected(&packets, table)? else {
                return Ok(Some((packets, d)));
            };
            self.count(name);
            packets.remove(at);
            self.load(table)?;
        }
    }

    /// Returns the position of the first packet whose traces differ as expected if all packets before it were sent, and the name of
    /// the difference. What a packet's traces show depends on learned addresses, and these on the packets before it. All packets are
    /// sent twice, as by [`Pair::forward`].
    fn first_expected(
        &mut self,
        packets: &[Packet],
        table: &mut Table,
    ) -> io::Result<Option<(usize, &'static str)>> {
        self.load(table)?;
        let mut lookups = self.lookups()?;
        for (at, packet) in packets.iter().enumerate().chain(packets.iter().enumerate()) {
            // Only the innermost packet: for the trace of the outer one, the stock switch would learn from the inner one.
            let Some(args) = trace_arguments(packet).pop() else { continue };
            self.request_trace(&args)?;
            let (stock, ours) = self.both(Switch::reply)?;
            if self.trace_difference(&stock, &ours).is_some()
                && let Some(name) = expected::trace(&stock, &ours, self.is_other_version)
            {
                return Ok(Some((at, name)));
            }
            lookups = self.receive(packet, lookups)?;
            self.ctl("revalidator/purge", &[])?;
        }
        Ok(None)
    }

    /// Compares the frames sent since the last call, which result from `packet`. Counts expected differences.
    fn compare_sent(&mut self, packet: &Packet, table: &Table) -> io::Result<Option<Difference>> {
        let outputs = |pair: &mut Pair| {
            let (stock, ours) = pair.both(Switch::outputs)?;
            Ok((normalize::outputs(&stock), normalize::outputs(&ours)))
        };
        let Some(d) = self.query_until_equal("outputs", outputs, true)? else { return Ok(None) };
        let ours = self.trace_in_ours(packet)?;
        // For a trace, the stock switch also sends packets whose output is in a list within another action.
        self.both(Switch::outputs)?;
        let actions = normalize::line(&ours, normalize::ACTIONS);
        let actions = actions.strip_prefix(normalize::ACTIONS).unwrap_or_default();
        if let Some(name) = expected::outputs::expected_difference(&d, table, &innermost(packet), actions) {
            self.count(name);
            return Ok(None);
        }
        let head = format!("p{} <- {}\n", packet.port, packet.hex());
        Ok(Some(Difference { stock: head.clone() + &d.stock, ours: head + &d.ours, ..d }))
    }

    /// Checks that Sluice sends the frames that its trace predicts, for a packet that the stock switch handles differently as
    /// expected.
    fn ours_as_traced(&mut self, packet: &Packet) -> io::Result<Option<Difference>> {
        let (port, hex) = (format!("p{}", packet.port), packet.hex());
        self.ours.ctl("revalidator/purge", &[])?;
        let traced = self.trace_in_ours(packet)?;
        self.ours.outputs()?;
        self.ours.ctl("netdev-dummy/receive", &[&port, &hex])?;
        let deadline = Instant::now() + SETTLE_TIME;
        let (mut frames, mut wrong) = (Vec::new(), None);
        while Instant::now() < deadline {
            frames.extend(self.ours.outputs()?);
            wrong = sent::compare_with_trace(&traced, &innermost(packet), &frames);
            if wrong.is_none() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let ours = format!("{port} <- {hex}\n{}", frames.join("\n"));
        Ok(wrong.map(|wanted| Difference { what: "frames of the trace", stock: wanted, ours }))
    }

    /// The counters of learned, moved and removed addresses of the stock switch's bridges.
    fn learned(&mut self) -> io::Result<[String; 2]> {
        let bridges = ["br0", "br1"];
        bridges.iter().try_for_each(|b| self.stock.request("fdb/stats-show", &[b]))?;
        Ok([self.stock.reply()?, self.stock.reply()?])
    }

    /// Compares the remaining state of both switches. `again`: the stock switch may have revalidated megaflows since the packets
    /// were sent.
    fn compare_state(&mut self, packets: &[Packet], again: bool) -> io::Result<Option<Difference>> {
        let verified = self.ours.ctl("revalidator/verify", &[])?;
        if !normalize::is_verified(&verified) {
            let stock = "all megaflows correct".to_owned();
            return Ok(Some(Difference { what: "revalidation", stock, ours: verified }));
        }
        for bridge in ["br0", "br1"] {
            let query = |pair: &mut Pair| Ok(map_both(&pair.ctl("fdb/show", &[bridge])?, normalize::fdb));
            let d = self.query_until_equal("fdb", query, false)?;
            match d {
                Some(d) if expected::learned::is_expected(&d.stock, &d.ours, packets) => {
                    self.count("learned from a partial tag")
                }
                Some(d) => return Ok(Some(d)),
                None => {}
            }
        }
        let types = packets.iter().any(|p| p.bytes.get(12..14) == Some(&[0x88, 0xa8]));
        let (dropped, tunnels) = (Cell::new(false), self.tunnels);
        let normalized = |raw: &(String, String), failed: bool| {
            let (stock, mut ours) = map_both(raw, |text| normalize::datapath_flows(text, types, failed));
            if tunnels {
                ours = expected::masks::with_masks_of(&stock, &ours, "actions:");
            }
            let without_drops_of_unknown_tunnels =
                expected::megaflows::without_drops_of_unknown_tunnels(&stock, &ours);
            if without_drops_of_unknown_tunnels == ours.trim_end() {
                return (stock, ours);
            }
            dropped.set(true);
            (stock, without_drops_of_unknown_tunnels)
        };
        let mut raw = Default::default();
        let query = |pair: &mut Pair| {
            raw = pair.ctl("dpctl/dump-flows", &[])?;
            let (stock, ours) = normalized(&raw, false);
            let is_expected = again && expected::megaflows::is_expected(&stock, &ours, &[]);
            Ok(if is_expected { Default::default() } else { (stock, ours) })
        };
        let megaflows = self.query_until_equal("datapath flows", query, false)?;
        if dropped.get() && !self.is_other_version {
            self.count("megaflow: drops packets of no tunnel port");
        }
        self.ctl("revalidator/purge", &[])?;
        let query = |pair: &mut Pair| {
            let ((_, stock), (_, ours)) = pair.ofctl(&["dump-flows", "br0"], "")?;
            Ok(map_both(&(stock, ours), normalize::flows))
        };
        let mut counters = self.query_until_equal(COUNTERS, query, false)?;
        if self.tunnels
            && counters.as_ref().is_some_and(|d| expected::counters::is_expected(&d.stock, &d.ours))
        {
            self.count("counters: bytes of outer headers");
            counters = None;
        }
        let Some(d) = megaflows.filter(|_| !self.is_other_version) else { return Ok(counters) };
        // The following commands make the switches learn, so everything else is compared before.
        let (stock, ours) = normalized(&raw, self.translation_fails(packets)?);
        let deletable = self.deletable(packets)?;
        let is_expected =
            stock == ours || again && expected::megaflows::is_expected(&stock, &ours, &deletable);
        if !is_expected && self.tunnels && expected::megaflows::has_separate_ids(&stock, &ours) {
            self.count("megaflow: separate recirculation ids");
            return Ok(counters);
        }
        if !is_expected && expected::megaflows::recirculates_again(&stock, &ours) {
            self.count("megaflow: remaining actions of the other branch");
            // The flows that the packet matches again have counted it again.
            return Ok(None);
        }
        Ok(if is_expected { counters } else { Some(d) })
    }

    /// Returns the packets whose megaflows the stock switch may delete when it revalidates: those to which a header is added or
    /// from which one is removed, and those that match a flow which learns up to a limit.
    fn deletable(&mut self, packets: &[Packet]) -> io::Result<Vec<Packet>> {
        let mut out = Vec::new();
        for packet in packets {
            let trace = self.trace_in_ours(packet)?;
            if trace.contains("cap(") || trace.contains("limit=") {
                out.push(innermost(packet));
            }
        }
        Ok(out)
    }

    /// Returns whether one of the packets cannot be translated, according to Sluice's traces.
    fn translation_fails(&mut self, packets: &[Packet]) -> io::Result<bool> {
        for packet in packets {
            if self.trace_in_ours(packet)?.contains("Translation failed") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns Sluice's trace of a packet, or of the inner packet if the packet is in a tunnel.
    fn trace_in_ours(&mut self, packet: &Packet) -> io::Result<String> {
        let args = trace_arguments(packet).pop().unwrap_or_default();
        self.ours.ctl("ofproto/trace", &args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Repeats a query to both switches until the replies are equal, for a limited time. If `is_incremental` is set,
    /// each reply contains only the lines that are new since the last one.
    fn query_until_equal(
        &mut self,
        what: &'static str,
        mut ask: impl FnMut(&mut Pair) -> io::Result<(String, String)>,
        is_incremental: bool,
    ) -> io::Result<Option<Difference>> {
        let deadline = Instant::now() + SETTLE_TIME;
        let (mut stock, mut ours) = ask(self)?;
        while stock != ours && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            let (more_stock, more_ours) = ask(self)?;
            if is_incremental {
                for (text, more) in [(&mut stock, more_stock), (&mut ours, more_ours)] {
                    *text = normalize::sorted_lines(&format!("{text}\n{more}"));
                }
            } else {
                (stock, ours) = (more_stock, more_ours);
            }
        }
        Ok(Difference::of(what, stock, ours))
    }

    /// Loads the table and makes the check.
    pub fn run(&mut self, table: &mut Table, check: &Check) -> io::Result<Option<Difference>> {
        let refused = self.load(table)?;
        match check {
            Check::Load => Ok(refused),
            _ if refused.is_some() => Ok(refused),
            Check::Trace(packet) => {
                Ok(self.trace(std::slice::from_ref(packet), table)?.err().map(|(_, d)| d))
            }
            // In a smaller table, the traces of a packet may differ as expected.
            Check::Forward(packets) => match self.trace(packets, table)? {
                Ok(traced) => Ok(self.forward_traced(packets, &traced, table)?.map(|(_, d)| d)),
                Err(_) => Ok(None),
            },
            Check::AsTraced(packet) => self.ours_as_traced(packet),
            Check::SameBucket(packet) => same_bucket::differs(self, packet),
        }
    }

    /// Runs a case: loads the table, traces the packets, and sends them. Returns the first unexpected difference and the check
    /// that found it.
    pub fn case(&mut self, table: &mut Table, packets: &[Packet]) -> io::Result<Option<(Check, Difference)>> {
        if let Some(d) = self.load(table)? {
            return Ok(Some((Check::Load, d)));
        }
        let traced = match self.trace(packets, table)? {
            Ok(traced) => traced,
            Err((packet, d)) => return Ok(Some((Check::Trace(packet), d))),
        };
        if let Some((packets, d)) = self.forward_traced(packets, &traced, table)? {
            return Ok(Some((Check::Forward(packets), d)));
        }
        let Traced { expected, hashed, .. } = traced;
        for packet in expected {
            if let Some(d) = self.ours_as_traced(&packet)? {
                return Ok(Some((Check::AsTraced(packet), d)));
            }
        }
        for packet in hashed {
            if let Some(d) = same_bucket::differs(self, &packet)? {
                return Ok(Some((Check::SameBucket(packet), d)));
            }
        }
        Ok(None)
    }
}

fn map_both(texts: &(String, String), f: impl Fn(&str) -> String) -> (String, String) {
    (f(&texts.0), f(&texts.1))
}

/// The ports of br0 on which random packets are received.
pub fn ingress_ports() -> &'static [u16] {
    &PORTS
}
