//! The checks: the same table and packets for both switches, and comparison of the results.

use std::cell::Cell;
use std::io;
use std::time::{Duration, Instant};

use crate::expected;
use crate::normal::{self, Lookups};
use crate::packet::Packet;
use crate::pair::{Difference, Pair, Replies, SETTLE};
use crate::same_bucket;
use crate::sent;
use crate::switch::{PORTS, REPLY_TIMEOUT, Switch};
use crate::table::Table;
use crate::tunnels::UNDERLAY;
use crate::version10;

/// Number of traces that are requested before the first reply is read, so few that they cannot fill a socket buffer.
const AT_ONCE: usize = 6;

/// A check of a table.
#[derive(Debug, Clone)]
pub enum Check {
    /// Load the table only.
    Load,
    /// Trace one packet.
    Trace(Packet),
    /// Send the packets, one after the other.
    Forward(Vec<Packet>),
    /// Send one packet to Sluice only, whose trace differs from the stock switch's as expected.
    AsTraced(Packet),
    /// Send one packet several times: each switch must select the same bucket.
    SameBucket(Packet),
}

/// The result of traces.
#[derive(Debug, Default)]
pub struct Traced {
    /// The packets whose traces differ as expected.
    expected: Vec<Packet>,
    /// The packets that the datapath hashes: where they are sent differs, because the hash functions differ.
    hashed: Vec<Packet>,
    /// The stock switch executes no outputs and recirculation of a trace, except for lists nested in actions: in those it recirculates
    /// packets. These, and packets that it receives from a tunnel, are then counted and learned from.
    counted: bool,
}

impl Pair {
    /// Applies a bundle of flows and groups to br0 of both; returns whether they accepted it, and the client's
    /// output.
    fn bundle(&self, text: &str) -> io::Result<Replies> {
        self.ofctl(&["bundle", "br0", "-"], text)
    }

    /// Adds flows to br0 of both as a client of OpenFlow 1.0, which has no bundles.
    fn version10(&self, text: &str) -> io::Result<Replies> {
        self.ofctl(&["-OOpenFlow10", "add-flows", "br0", "-"], text)
    }

    /// Loads a table into both. Lines that the client or the stock switch refuses are removed from the table; Sluice
    /// must refuse them, too.
    pub fn load(&mut self, table: &mut Table) -> io::Result<Option<Difference>> {
        loop {
            let ((fine, stock), (_, ours)) = self.bundle(&table.bundle())?;
            if let Some(d) = Difference::of("load", normal::error(&stock), normal::error(&ours)) {
                return Ok(Some(d));
            }
            if fine {
                break;
            }
            if !table.remove(normal::unread(&stock)) {
                self.bundle(&Table::default().bundle())?;
                let mut differ = None;
                table.groups = self.accepted(&table.groups, Pair::bundle, &mut differ)?;
                table.flows = self.accepted(&table.flows, Pair::bundle, &mut differ)?;
                if differ.is_some() {
                    return Ok(differ);
                }
            }
        }
        if let Some(d) = self.load_version10(table)? {
            return Ok(Some(d));
        }
        // When megaflows of the previous case are revalidated, addresses could be learned from them.
        self.ctl("revalidator/purge", &[])?;
        ["br0", "br1"].iter().try_for_each(|bridge| self.ctl("fdb/flush", &[bridge]).map(drop))?;
        Ok(None)
    }

    /// Adds the flows of the table's client of OpenFlow 1.0, and compares how clients of several versions see them.
    fn load_version10(&self, table: &mut Table) -> io::Result<Option<Difference>> {
        let mut differ = None;
        table.version10 = self.accepted(&table.version10, Pair::version10, &mut differ)?;
        if differ.is_some() || table.version10.is_empty() {
            return Ok(differ);
        }
        for version in ["-OOpenFlow10", "-OOpenFlow13", "-OOpenFlow15"] {
            let mine = format!("{}/-1", version10::COOKIE);
            let ((_, stock), (_, ours)) = self.ofctl(&[version, "dump-flows", "br0", &mine], "")?;
            let (stock, ours) = (normal::flows(&stock), normal::flows(&ours));
            if let Some(d) = Difference::of("flows of a client of OpenFlow 1.0", stock, ours) {
                return Ok(Some(d));
            }
        }
        Ok(None)
    }

    /// Adds these lines to br0 of both by `send`; returns those that are accepted. `differ`: the first line for which
    /// Sluice's answer differs. Halves the list, because starting a client for each line would take most of the time.
    fn accepted(
        &self,
        lines: &[String],
        send: fn(&Pair, &str) -> io::Result<Replies>,
        differ: &mut Option<Difference>,
    ) -> io::Result<Vec<String>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let text = lines.join("\n");
        let ((fine, stock), (_, ours)) = send(self, &text)?;
        if differ.is_none() {
            let with = |answer: &str| format!("{text}\n{}", normal::error(answer));
            *differ = Difference::of("load", with(&stock), with(&ours));
        }
        match lines {
            _ if fine => Ok(lines.to_vec()),
            [_] => Ok(Vec::new()),
            _ => {
                let (one, other) = lines.split_at(lines.len() / 2);
                Ok([self.accepted(one, send, differ)?, self.accepted(other, send, differ)?].concat())
            }
        }
    }

    /// Traces packets in both; returns the first difference, or the result of the traces. Sluice's megaflows need no
    /// other check, because they are as wide as those of the reference.
    pub fn trace(
        &mut self,
        packets: &[Packet],
        table: &mut Table,
    ) -> io::Result<Result<Traced, (Packet, Difference)>> {
        let (mut differ, mut traced) = (Vec::new(), Traced::default());
        // To trace a packet the stock switch executes all of its actions but outputs. So a packet that arrives in a tunnel is received
        // from that tunnel, and teaches addresses. Such packets are the last ones; then the table is loaded again.
        let mut packets: Vec<_> = packets.iter().collect();
        packets.sort_by_key(|packet| packet.port == UNDERLAY);
        for some in packets.chunks(AT_ONCE) {
            for packet in some {
                self.ask_trace(packet)?;
            }
            for packet in some {
                let (stock, ours) = self.both(Switch::answer)?;
                traced.counted |= normal::translates_again(&stock);
                // A set that is executed again may send nothing, but its flows are counted.
                let again = self.loose && expected::action_set_again(&stock, &ours);
                if !again && self.differ(&stock, &ours).is_none() {
                    if same_bucket::is_hashed(&stock) {
                        traced.hashed.push((*packet).clone());
                    }
                    continue;
                }
                match expected::trace(&stock, &ours, self.loose) {
                    Some(name) => {
                        self.count(name);
                        traced.expected.push((*packet).clone());
                    }
                    None => differ.push(*packet),
                }
            }
        }
        // Rules of the previous table stay in the prefix tries of the stock switch for a while and narrow its
        // megaflows.
        for packet in differ {
            let deadline = Instant::now() + SETTLE;
            loop {
                if traced.counted {
                    self.load(table)?;
                }
                self.ask_trace(packet)?;
                let (stock, ours) = self.both(Switch::answer)?;
                let Some(difference) = self.differ(&stock, &ours) else { break };
                if let Some(name) = expected::trace(&stock, &ours, self.loose) {
                    self.count(name);
                    traced.expected.push(packet.clone());
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

    fn ask_trace(&mut self, packet: &Packet) -> io::Result<()> {
        let (port, hex) = (format!("in_port={}", packet.port), packet.hex());
        self.both(|s| s.ask("ofproto/trace", &[packet.bridge(), &port, &hex])).map(drop)
    }

    fn differ(&self, stock: &str, ours: &str) -> Option<Difference> {
        let (stock, ours) = (normal::trace(stock), normal::trace(ours));
        for what in ["Final flow:", "Megaflow:", "Datapath actions:"] {
            let (a, b) = (normal::line(&stock, what), normal::line(&ours, what));
            let alike = self.loose && (what == "Megaflow:" || expected::masks::alike(a, b));
            if a != b && !alike {
                return Some(Difference { what, stock, ours });
            }
        }
        if self.loose { None } else { Difference::of("trace text", stock, ours) }
    }

    /// Sends a packet to both and waits until they have processed it; `before`: number of look-ups before.
    fn receive(&mut self, packet: &Packet, before: (Lookups, Lookups)) -> io::Result<(Lookups, Lookups)> {
        self.ctl("netdev-dummy/receive", &[&format!("p{}", packet.port), &packet.hex()])?;
        let deadline = Instant::now() + SETTLE / 4;
        loop {
            let now = self.lookups()?;
            if now.0.all() > before.0.all() && now.1.all() > before.1.all() || Instant::now() > deadline {
                return Ok(now);
            }
        }
    }

    /// Waits until both have revalidated all megaflows after this. The stock switch sweeps at its own pace: a pause
    /// ends the present sweep, and the end of the pause starts another one. (What a packet taught is applied after
    /// two iterations of its main loop; more pass here.)
    fn sweep(&mut self) -> io::Result<()> {
        self.ours.ask("revalidator/wait", &[])?;
        self.stock.ctl("revalidator/pause", &[])?;
        self.stock.ask_late("revalidator/wait", &[])?;
        // Each iteration reads the older connection first, so after this reply the wait is registered.
        self.stock.ctl("version", &[])?;
        self.stock.ctl("revalidator/resume", &[])?;
        let deadline = Instant::now() + REPLY_TIMEOUT;
        loop {
            // Only a command makes the main loop check whether the wait is over.
            self.stock.ctl("version", &[])?;
            if self.stock.answered()? || Instant::now() > deadline {
                break;
            }
        }
        self.ours.answer().map(drop)
    }

    /// Sends the packets to both: each without megaflows at first, then all with the megaflows of the previous ones.
    /// What the table learns from a packet that hits a megaflow is applied by a sweep.
    pub fn forward(&mut self, packets: &[Packet], table: &Table) -> io::Result<Option<Difference>> {
        let learns = table.learns();
        self.ctl("revalidator/purge", &[])?;
        // Removes connections of packets that the stock switch has traced.
        self.ctl("dpctl/flush-conntrack", &[])?;
        self.both(Switch::outputs)?;
        let (mut lookups, untaught) = (self.lookups()?, self.learned()?);
        for packet in packets {
            lookups = self.receive(packet, lookups)?;
            if let Some(d) = self.sent(packet, table)? {
                return Ok(Some(d));
            }
            self.ctl("revalidator/purge", &[])?;
        }
        // Most learning has happened already, so few of the slow sweeps are needed.
        let (mut learned, mut moved) = (self.learned()?, false);
        // What was learned until now makes the stock switch revalidate when it gets to it.
        let has_learned = learned != untaught;
        for packet in packets {
            let before = lookups;
            lookups = self.receive(packet, before)?;
            let now = self.learned()?;
            let missed = (lookups.0.missed > before.0.missed, lookups.1.missed > before.1.missed);
            if let Some(d) = self.sent(packet, table)? {
                // The stock switch replaces its deleted megaflow by a new one that reflects the sender's new port.
                // Sluice learns afterwards, like any switch whose packet hits the megaflow.
                if !(moved && missed == (true, false)) {
                    return Ok(Some(d));
                }
                self.count("megaflow translated again");
            }
            moved |= now != learned;
            learned = now;
            if moved || learns && lookups.0.hit > before.0.hit {
                self.sweep()?;
                let taught = self.learned()?;
                if taught != learned {
                    // Changes found by a sweep are applied by the next one.
                    self.sweep()?;
                    learned = taught;
                }
            }
        }
        self.afterwards(packets, has_learned || moved || learns)
    }

    /// Compares what was sent since the last call, when `packet` entered; counts expected differences.
    fn sent(&mut self, packet: &Packet, table: &Table) -> io::Result<Option<Difference>> {
        let outputs = |pair: &mut Pair| {
            let (stock, ours) = pair.both(Switch::outputs)?;
            Ok((normal::outputs(&stock), normal::outputs(&ours)))
        };
        let Some(d) = self.settle("outputs", outputs, true)? else { return Ok(None) };
        self.ask_trace(packet)?;
        let (_, ours) = self.both(Switch::answer)?;
        // Packets sent from lists nested in actions are sent by the stock switch also for a trace.
        self.both(Switch::outputs)?;
        let actions = normal::line(&ours, normal::ACTIONS);
        let actions = actions.strip_prefix(normal::ACTIONS).unwrap_or_default();
        if let Some(name) = expected::outputs::alike(&d, table, packet, actions) {
            self.count(name);
            return Ok(None);
        }
        let head = format!("p{} <- {}\n", packet.port, packet.hex());
        Ok(Some(Difference { stock: head.clone() + &d.stock, ours: head + &d.ours, ..d }))
    }

    /// Checks that the frames that Sluice sends for a packet are those of its trace, for packets that the stock
    /// switch handles differently as expected.
    fn ours_as_traced(&mut self, packet: &Packet) -> io::Result<Option<Difference>> {
        let (port, hex) = (format!("p{}", packet.port), packet.hex());
        self.ours.ctl("revalidator/purge", &[])?;
        let traced = self.trace_in_ours(packet)?;
        self.ours.outputs()?;
        self.ours.ctl("netdev-dummy/receive", &[&port, &hex])?;
        let deadline = Instant::now() + SETTLE;
        let (mut frames, mut wrong) = (Vec::new(), None);
        while Instant::now() < deadline {
            frames.extend(self.ours.outputs()?);
            wrong = sent::against_trace(&traced, packet, &frames);
            if wrong.is_none() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let ours = format!("{port} <- {hex}\n{}", frames.join("\n"));
        Ok(wrong.map(|wanted| Difference { what: "frames of the trace", stock: wanted, ours }))
    }

    /// Learning counters of the stock switch's bridges: addresses learned, moved and removed.
    fn learned(&mut self) -> io::Result<[String; 2]> {
        let bridges = ["br0", "br1"];
        bridges.iter().try_for_each(|b| self.stock.ask("fdb/stats-show", &[b]))?;
        Ok([self.stock.answer()?, self.stock.answer()?])
    }

    /// Compares the remaining state of both. `again`: the stock switch has revalidated megaflows meanwhile.
    fn afterwards(&mut self, packets: &[Packet], again: bool) -> io::Result<Option<Difference>> {
        let verified = self.ours.ctl("revalidator/verify", &[])?;
        if !normal::is_verified(&verified) {
            let stock = "all megaflows correct".to_owned();
            return Ok(Some(Difference { what: "revalidation", stock, ours: verified }));
        }
        for bridge in ["br0", "br1"] {
            let look = |pair: &mut Pair| Ok(each(&pair.ctl("fdb/show", &[bridge])?, normal::fdb));
            let d = self.settle("fdb", look, false)?;
            match d {
                Some(d) if expected::learned::alike(&d.stock, &d.ours, packets) => {
                    self.count("learned from a partial tag")
                }
                Some(d) => return Ok(Some(d)),
                None => {}
            }
        }
        let types = packets.iter().any(|p| p.bytes.get(12..14) == Some(&[0x88, 0xa8]));
        let dropped = Cell::new(false);
        let told = |raw: &(String, String), failed: bool| {
            let (stock, ours) = each(raw, |text| normal::datapath_flows(text, types, failed));
            let of_ports = expected::megaflows::of_ports(&stock, &ours);
            if of_ports == ours.trim_end() {
                return (stock, ours);
            }
            dropped.set(true);
            (stock, of_ports)
        };
        let mut raw = Default::default();
        let look = |pair: &mut Pair| {
            raw = pair.ctl("dpctl/dump-flows", &[])?;
            let (stock, ours) = told(&raw, false);
            let alike = again && expected::megaflows::alike(&stock, &ours, &[]);
            Ok(if alike { Default::default() } else { (stock, ours) })
        };
        let megaflows = self.settle("datapath flows", look, false)?;
        if dropped.get() && !self.loose {
            self.count("megaflow: drops packets of no tunnel port");
        }
        self.ctl("revalidator/purge", &[])?;
        let look = |pair: &mut Pair| {
            let ((_, stock), (_, ours)) = pair.ofctl(&["dump-flows", "br0"], "")?;
            Ok(each(&(stock, ours), normal::flows))
        };
        let mut counters = self.settle("counters", look, false)?;
        if self.tunnels && counters.as_ref().is_some_and(|d| expected::counters::alike(&d.stock, &d.ours)) {
            self.count("counters: bytes of outer headers");
            counters = None;
        }
        let Some(d) = megaflows.filter(|_| !self.loose) else { return Ok(counters) };
        // The following commands cause learning, so everything else is compared before.
        let (stock, ours) = told(&raw, self.translation_fails(packets)?);
        let forgotten = self.forgotten(packets)?;
        let alike = stock == ours || again && expected::megaflows::alike(&stock, &ours, &forgotten);
        Ok(if alike { counters } else { Some(d) })
    }

    /// The packets whose megaflows the stock switch may delete when it revalidates: a header is added or removed, or
    /// they match a flow that learns up to a limit.
    fn forgotten(&mut self, packets: &[Packet]) -> io::Result<Vec<Packet>> {
        let mut out = Vec::new();
        for packet in packets {
            let trace = self.trace_in_ours(packet)?;
            if trace.contains("cap(") || trace.contains("limit=") {
                out.push(packet.clone());
            }
        }
        Ok(out)
    }

    /// Returns whether one of the packets cannot be translated, according to the traces of both.
    fn translation_fails(&mut self, packets: &[Packet]) -> io::Result<bool> {
        for packet in packets {
            if self.trace_in_ours(packet)?.contains("Translation failed") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn trace_in_ours(&mut self, packet: &Packet) -> io::Result<String> {
        self.ours.ctl("ofproto/trace", &[packet.bridge(), &format!("in_port={}", packet.port), &packet.hex()])
    }

    /// Queries both until they agree, for a limited time. If `adds` is set, each reply contains only what is new.
    fn settle(
        &mut self,
        what: &'static str,
        mut ask: impl FnMut(&mut Pair) -> io::Result<(String, String)>,
        adds: bool,
    ) -> io::Result<Option<Difference>> {
        let deadline = Instant::now() + SETTLE;
        let (mut stock, mut ours) = ask(self)?;
        while stock != ours && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            let (more_stock, more_ours) = ask(self)?;
            if adds {
                for (text, more) in [(&mut stock, more_stock), (&mut ours, more_ours)] {
                    *text = normal::sorted_lines(&format!("{text}\n{more}"));
                }
            } else {
                (stock, ours) = (more_stock, more_ours);
            }
        }
        Ok(Difference::of(what, stock, ours))
    }

    /// Loads the table and runs the check.
    pub fn run(&mut self, table: &mut Table, check: &Check) -> io::Result<Option<Difference>> {
        let refused = self.load(table)?;
        match check {
            Check::Load => Ok(refused),
            _ if refused.is_some() => Ok(refused),
            Check::Trace(packet) => {
                Ok(self.trace(std::slice::from_ref(packet), table)?.err().map(|(_, d)| d))
            }
            Check::Forward(packets) => self.forward(packets, table),
            Check::AsTraced(packet) => self.ours_as_traced(packet),
            Check::SameBucket(packet) => same_bucket::differs(self, packet),
        }
    }

    /// Runs a case: a table, packets traced, then sent. Returns the first difference and the check that shows it.
    pub fn case(&mut self, table: &mut Table, packets: &[Packet]) -> io::Result<Option<(Check, Difference)>> {
        if let Some(d) = self.load(table)? {
            return Ok(Some((Check::Load, d)));
        }
        let Traced { expected, hashed, counted } = match self.trace(packets, table)? {
            Ok(traced) => traced,
            Err((packet, d)) => return Ok(Some((Check::Trace(packet), d))),
        };
        // A trace teaches addresses. If the traces of a packet differ as expected, so may the addresses.
        if counted || !expected.is_empty() {
            self.load(table)?;
        }
        // Connection tracking with these options is compared by traces only.
        if table.flows.iter().any(|l| l.contains("nat(") || l.contains("alg=")) {
            return Ok(None);
        }
        // For packets without the label that their type announces, the stock switch installs a megaflow whose key it
        // cannot parse. It deletes that megaflow in each sweep, and the counts are lost.
        let forwarded =
            |p: &&Packet| ![&expected, &hashed].iter().any(|all| all.contains(p)) && !p.lacks_label();
        let packets: Vec<Packet> = packets.iter().filter(forwarded).cloned().collect();
        if let Some(d) = self.forward(&packets, table)? {
            return Ok(Some((Check::Forward(packets), d)));
        }
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

fn each(texts: &(String, String), f: impl Fn(&str) -> String) -> (String, String) {
    (f(&texts.0), f(&texts.1))
}

/// The ports on which random packets are received.
pub fn entries() -> &'static [u16] {
    &PORTS
}
