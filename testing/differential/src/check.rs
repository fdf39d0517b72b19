//! The checks: the same table and packets into both switches, the answers side by side.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use crate::expected;
use crate::normal::{self, Lookups};
use crate::packet::Packet;
use crate::sent;
use crate::switch::{PATIENCE, PORTS, Switch};
use crate::table::Table;

/// How long answers that come about at a switch's own pace may differ.
const SETTLE: Duration = Duration::from_millis(400);

/// How many traces are asked for before the first answer is read: none of them may fill a socket.
const AT_ONCE: usize = 6;

/// The two switches.
pub struct Pair {
    /// The oracle.
    pub stock: Switch,
    /// The switch under test.
    pub ours: Switch,
    /// Whether the words of a trace and the width of megaflows stay out of the comparison: the oracle is of another version.
    pub loose: bool,
    /// How many answers differed as expected, by the name of the expectation.
    pub expected: BTreeMap<&'static str, usize>,
}

/// What is done with a table.
#[derive(Debug, Clone)]
pub enum Check {
    /// The table is loaded, no more.
    Load,
    /// One packet is traced.
    Trace(Packet),
    /// The packets enter, one after the other.
    Forward(Vec<Packet>),
    /// One packet enters ours alone, whose trace differs from the stock switch's as expected.
    AsTraced(Packet),
}

/// What traces of packets left.
#[derive(Debug, Default)]
pub struct Traced {
    /// Packets whose traces differ as expected.
    expected: Vec<Packet>,
    /// The stock switch does what it traces, but for what it would send and set aside; in lists inside of actions it does that,
    /// too, and packets that were set aside there have been counted, and have taught.
    counted: bool,
}

/// Two answers that are not alike.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Which answer.
    pub what: &'static str,
    /// The stock switch's.
    pub stock: String,
    /// Ours.
    pub ours: String,
}

impl Difference {
    /// None when the answers are alike.
    fn of(what: &'static str, stock: String, ours: String) -> Option<Difference> {
        (stock != ours).then_some(Difference { what, stock, ours })
    }
}

impl Pair {
    fn both<T>(&mut self, mut f: impl FnMut(&mut Switch) -> io::Result<T>) -> io::Result<(T, T)> {
        Ok((f(&mut self.stock)?, f(&mut self.ours)?))
    }

    /// The answers of both to an appctl command: both work at the same time.
    fn ctl(&mut self, command: &str, args: &[&str]) -> io::Result<(String, String)> {
        self.both(|s| s.ask(command, args))?;
        self.both(Switch::answer)
    }

    fn count(&mut self, name: &'static str) {
        *self.expected.entry(name).or_default() += 1;
    }

    /// The same for `ovs-ofctl`.
    fn ofctl(&self, args: &[&str], input: &str) -> io::Result<((bool, String), (bool, String))> {
        let (stock, ours) = (self.stock.ofctl(args, input)?, self.ours.ofctl(args, input)?);
        Ok((self.stock.ofctl_answer(stock)?, self.ours.ofctl_answer(ours)?))
    }

    /// Gives br0 of both the flows and groups of a bundle: whether they took it, and what the client said.
    fn bundle(&self, text: &str) -> io::Result<((bool, String), (bool, String))> {
        self.ofctl(&["bundle", "br0", "-"], text)
    }

    /// Loads a table into both; what the client or the stock switch refuses leaves the table, after ours had to refuse it, too.
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
                table.groups = self.accepted(&table.groups, &mut differ)?;
                table.flows = self.accepted(&table.flows, &mut differ)?;
                if differ.is_some() {
                    return Ok(differ);
                }
            }
        }
        // Megaflows of the case before would teach addresses when they are looked after.
        for (command, args) in
            [("revalidator/purge", &[][..]), ("fdb/flush", &["br0"]), ("fdb/flush", &["br1"])]
        {
            self.ctl(command, args)?;
        }
        Ok(None)
    }

    /// Gives br0 of both these lines besides what it has; those that are not refused. `differ`: the first that ours answers otherwise.
    /// Halves, as a client for each line would be most of the work.
    fn accepted(&self, lines: &[String], differ: &mut Option<Difference>) -> io::Result<Vec<String>> {
        if lines.is_empty() {
            return Ok(Vec::new());
        }
        let text = lines.join("\n");
        let ((fine, stock), (_, ours)) = self.bundle(&text)?;
        if differ.is_none() {
            let with = |answer: &str| format!("{text}\n{}", normal::error(answer));
            *differ = Difference::of("load", with(&stock), with(&ours));
        }
        match lines {
            _ if fine => Ok(lines.to_vec()),
            [_] => Ok(Vec::new()),
            _ => {
                let (one, other) = lines.split_at(lines.len() / 2);
                Ok([self.accepted(one, differ)?, self.accepted(other, differ)?].concat())
            }
        }
    }

    /// Traces packets in both; the first of them that differs, or what the traces left. That our megaflows are sound needs no
    /// other check: they are as wide as the oracle's.
    pub fn trace(
        &mut self,
        packets: &[Packet],
        table: &mut Table,
    ) -> io::Result<Result<Traced, (Packet, Difference)>> {
        let (mut differ, mut traced) = (Vec::new(), Traced::default());
        for some in packets.chunks(AT_ONCE) {
            for packet in some {
                self.ask_trace(packet)?;
            }
            for packet in some {
                let (stock, ours) = self.both(Switch::answer)?;
                traced.counted |= normal::recirculates_inside(&stock);
                if self.differ(&stock, &ours).is_none() {
                    continue;
                }
                match expected::trace(&stock, &ours, self.loose) {
                    Some(name) => {
                        self.count(name);
                        traced.expected.push(packet.clone());
                    }
                    None => differ.push(packet),
                }
            }
        }
        // Rules of the table before stay in the prefix trees of the stock switch for a while, and narrow its megaflows.
        for packet in differ {
            let deadline = Instant::now() + SETTLE;
            loop {
                if traced.counted {
                    self.load(table)?;
                }
                self.ask_trace(packet)?;
                let (stock, ours) = self.both(Switch::answer)?;
                match self.differ(&stock, &ours) {
                    None => break,
                    Some(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(10)),
                    Some(difference) => return Ok(Err((packet.clone(), difference))),
                }
            }
        }
        Ok(Ok(traced))
    }

    fn ask_trace(&mut self, packet: &Packet) -> io::Result<()> {
        let (port, hex) = (format!("in_port={}", packet.port), packet.hex());
        self.both(|s| s.ask("ofproto/trace", &["br0", &port, &hex])).map(drop)
    }

    fn differ(&self, stock: &str, ours: &str) -> Option<Difference> {
        let (stock, ours) = (normal::trace(stock), normal::trace(ours));
        for what in ["Final flow:", "Megaflow:", "Datapath actions:"] {
            let (a, b) = (normal::line(&stock, what), normal::line(&ours, what));
            if a != b && !(self.loose && what == "Megaflow:") {
                return Some(Difference { what, stock, ours });
            }
        }
        if self.loose { None } else { Difference::of("trace text", stock, ours) }
    }

    /// How many lookups the datapaths have made.
    fn lookups(&mut self) -> io::Result<(Lookups, Lookups)> {
        let (stock, ours) = self.ctl("dpctl/show", &[])?;
        Ok((Lookups::of(&stock), Lookups::of(&ours)))
    }

    /// Lets a packet enter both, and waits until they have done with it; `before` is how many lookups there were.
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

    /// Waits until both have looked at all megaflows after this. The stock switch looks at them when it finds the time: a pause
    /// ends the look that is under way, and what ends the pause begins another. (What a packet taught gets there by two turns of
    /// its main loop, and there are more of them here.)
    fn sweep(&mut self) -> io::Result<()> {
        self.ours.ask("revalidator/wait", &[])?;
        self.stock.ctl("revalidator/pause", &[])?;
        self.stock.ask_late("revalidator/wait", &[])?;
        // Each turn reads the older connection first: once this is answered the wait is known.
        self.stock.ctl("version", &[])?;
        self.stock.ctl("revalidator/resume", &[])?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Nothing but a command makes the main loop look whether the wait is over.
            self.stock.ctl("version", &[])?;
            if self.stock.answered()? || Instant::now() > deadline {
                break;
            }
        }
        self.ours.answer().map(drop)
    }

    /// Sends the packets through both: each with no megaflow at first, then all with the megaflows of those before. What
    /// the table learns from a packet that meets a megaflow is known after a sweep.
    pub fn forward(&mut self, packets: &[Packet], table: &Table) -> io::Result<Option<Difference>> {
        let learns = table.learns();
        self.ctl("revalidator/purge", &[])?;
        // Connections of packets that the stock switch has traced.
        self.ctl("dpctl/flush-conntrack", &[])?;
        self.both(Switch::outputs)?;
        let mut lookups = self.lookups()?;
        for packet in packets {
            lookups = self.receive(packet, lookups)?;
            if let Some(d) = self.sent(packet, table)? {
                return Ok(Some(d));
            }
            self.ctl("revalidator/purge", &[])?;
        }
        // Most of what there is to learn has been learned: sweeps, which take long, are few.
        let (mut learned, mut moved) = (self.learned()?, false);
        for packet in packets {
            let before = lookups;
            lookups = self.receive(packet, before)?;
            let now = self.learned()?;
            let missed = (lookups.0.missed > before.0.missed, lookups.1.missed > before.1.missed);
            if let Some(d) = self.sent(packet, table)? {
                // Of its removed megaflow the stock switch makes a new one, that knows where this packet's sender is now; ours is
                // told afterwards, as any switch is that finds the megaflow.
                if !(moved && missed == (true, false)) {
                    return Ok(Some(d));
                }
                self.count("megaflow made anew");
            }
            moved |= now != learned;
            learned = now;
            if moved || learns && lookups.0.hit > before.0.hit {
                self.sweep()?;
                let taught = self.learned()?;
                if taught != learned {
                    // What the sweep found out is for the next one to apply.
                    self.sweep()?;
                    learned = taught;
                }
            }
        }
        self.afterwards(packets, moved || learns)
    }

    /// Compares what left since the last look, as `packet` entered; expected differences are counted.
    fn sent(&mut self, packet: &Packet, table: &Table) -> io::Result<Option<Difference>> {
        let outputs = |pair: &mut Pair| {
            let (stock, ours) = pair.both(Switch::outputs)?;
            Ok((normal::outputs(&stock), normal::outputs(&ours)))
        };
        let Some(d) = self.settle("outputs", outputs, true)? else { return Ok(None) };
        self.ask_trace(packet)?;
        let (_, ours) = self.both(Switch::answer)?;
        // What lists inside of actions send, the stock switch sends for a trace, too.
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

    /// Whether the frames that ours sends for a packet are those of its trace. For packets of which the stock switch does
    /// something else, as expected.
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

    /// How much the stock switch's bridges have learned: addresses that came, moved and went.
    fn learned(&mut self) -> io::Result<[String; 2]> {
        let bridges = ["br0", "br1"];
        bridges.iter().try_for_each(|b| self.stock.ask("fdb/stats-show", &[b]))?;
        Ok([self.stock.answer()?, self.stock.answer()?])
    }

    /// What the packets left behind in both; `again`: the stock switch translated megaflows again meanwhile.
    fn afterwards(&mut self, packets: &[Packet], again: bool) -> io::Result<Option<Difference>> {
        let verified = self.ours.ctl("revalidator/verify", &[])?;
        if !normal::is_verified(&verified) {
            let stock = "every megaflow as the tables say".to_owned();
            return Ok(Some(Difference { what: "revalidation", stock, ours: verified }));
        }
        for bridge in ["br0", "br1"] {
            let look = |pair: &mut Pair| Ok(each(&pair.ctl("fdb/show", &[bridge])?, normal::fdb));
            let d = self.settle("fdb", look, false)?;
            match d {
                Some(d) if expected::learned::alike(&d.stock, &d.ours, packets) => {
                    self.count("learned from part of a tag")
                }
                Some(d) => return Ok(Some(d)),
                None => {}
            }
        }
        let types = packets.iter().any(|p| p.bytes.get(12..14) == Some(&[0x88, 0xa8]));
        let told = |raw: &(String, String), failed: bool| {
            each(raw, |text| normal::datapath_flows(text, types, failed))
        };
        let mut raw = Default::default();
        let look = |pair: &mut Pair| {
            raw = pair.ctl("dpctl/dump-flows", &[])?;
            let (stock, ours) = told(&raw, false);
            let alike = again && expected::megaflows::alike(&stock, &ours, &[]);
            Ok(if alike { Default::default() } else { (stock, ours) })
        };
        let megaflows = self.settle("datapath flows", look, false)?;
        self.ctl("revalidator/purge", &[])?;
        let look = |pair: &mut Pair| {
            let ((_, stock), (_, ours)) = pair.ofctl(&["dump-flows", "br0"], "")?;
            Ok(each(&(stock, ours), normal::flows))
        };
        let counters = self.settle("counters", look, false)?;
        let Some(d) = megaflows.filter(|_| !self.loose) else { return Ok(counters) };
        // What is asked from here on teaches: all the rest has been looked at.
        let (stock, ours) = told(&raw, self.translation_fails(packets)?);
        let forgotten = self.forgotten(packets)?;
        let alike = stock == ours || again && expected::megaflows::alike(&stock, &ours, &forgotten);
        Ok(if alike { counters } else { Some(d) })
    }

    /// The packets whose megaflows the stock switch may remove when it looks at them: a header is put around them, or taken off, or
    /// they meet a flow that learns up to a limit.
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

    /// Whether one of the packets cannot be translated, as both have said when they were traced.
    fn translation_fails(&mut self, packets: &[Packet]) -> io::Result<bool> {
        for packet in packets {
            if self.trace_in_ours(packet)?.contains("Translation failed") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn trace_in_ours(&mut self, packet: &Packet) -> io::Result<String> {
        self.ours.ctl("ofproto/trace", &["br0", &format!("in_port={}", packet.port), &packet.hex()])
    }

    /// Asks both until they agree, for a while. Where `adds` is set an answer is what came since the last.
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

    /// Loads the table and does the check.
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
        }
    }

    /// A case: a table, packets traced, then sent; the first difference and the check that shows it.
    pub fn case(&mut self, table: &mut Table, packets: &[Packet]) -> io::Result<Option<(Check, Difference)>> {
        if let Some(d) = self.load(table)? {
            return Ok(Some((Check::Load, d)));
        }
        let Traced { expected, counted } = match self.trace(packets, table)? {
            Ok(traced) => traced,
            Err((packet, d)) => return Ok(Some((Check::Trace(packet), d))),
        };
        if counted {
            self.load(table)?;
        }
        // Our datapath neither translates addresses nor reads protocols: what it would forward is known from the trace alone.
        if table.flows.iter().any(|l| l.contains("nat(") || l.contains("alg=")) {
            return Ok(None);
        }
        // The stock switch gives packets without the label that their type tells of a megaflow whose key it cannot read: it removes
        // that whenever it looks, and what it counted is lost.
        let forwarded = |p: &&Packet| !expected.contains(p) && !p.lacks_label();
        let packets: Vec<Packet> = packets.iter().filter(forwarded).cloned().collect();
        if let Some(d) = self.forward(&packets, table)? {
            return Ok(Some((Check::Forward(packets), d)));
        }
        for packet in expected {
            if let Some(d) = self.ours_as_traced(&packet)? {
                return Ok(Some((Check::AsTraced(packet), d)));
            }
        }
        Ok(None)
    }
}

fn each(texts: &(String, String), f: impl Fn(&str) -> String) -> (String, String) {
    (f(&texts.0), f(&texts.1))
}

/// The ports that random packets enter by.
pub fn entries() -> &'static [u16] {
    &PORTS
}
