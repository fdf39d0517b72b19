//! The checks: the same table and packets into both switches, the answers side by side.

use std::io;
use std::time::{Duration, Instant};

use crate::normal;
use crate::packet::Packet;
use crate::switch::{PORTS, Switch};
use crate::table::Table;

/// How long answers that come about at a switch's own pace may differ.
const SETTLE: Duration = Duration::from_millis(400);

/// The two switches.
#[derive(Debug)]
pub struct Pair {
    /// The oracle.
    pub stock: Switch,
    /// The switch under test.
    pub ours: Switch,
    /// Whether the words of a trace and the width of megaflows stay out of the comparison: the oracle is of another version.
    pub loose: bool,
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

    /// Loads a table into both; each flow that the stock switch refuses leaves the table, after ours had to refuse it, too.
    pub fn load(&mut self, table: &mut Table) -> io::Result<Option<Difference>> {
        let text = table.bundle();
        let ((fine, stock), (_, ours)) = self.both(|s| s.bundle(&text))?;
        // Megaflows of the case before would teach addresses when they are looked after.
        for (command, args) in
            [("revalidator/purge", &[][..]), ("fdb/flush", &["br0"]), ("fdb/flush", &["br1"])]
        {
            self.both(|s| s.ctl(command, args))?;
        }
        if let Some(d) = Difference::of("load", normal::error(&stock), normal::error(&ours)) {
            return Ok(Some(d));
        }
        if !fine {
            let nothing = Table::default().bundle();
            self.both(|s| s.bundle(&nothing))?;
            let mut refused = None;
            table.groups.retain(|line| self.accepts(line, &mut refused));
            table.flows.retain(|line| self.accepts(line, &mut refused));
            if refused.is_some() {
                return Ok(refused);
            }
            let text = table.bundle();
            self.both(|s| s.bundle(&text))?;
        }
        Ok(None)
    }

    fn accepts(&mut self, line: &str, refused: &mut Option<Difference>) -> bool {
        let Ok(((fine, stock), (_, ours))) = self.both(|s| s.bundle(line)) else { return false };
        if refused.is_none() {
            let with = |text: &str| format!("{line}\n{}", normal::error(text));
            *refused = Difference::of("load", with(&stock), with(&ours));
        }
        fine
    }

    /// Traces a packet in both. That our megaflows are sound needs no other check: they are as wide as the oracle's.
    pub fn trace(&mut self, packet: &Packet) -> io::Result<Option<Difference>> {
        let (port, hex) = (format!("in_port={}", packet.port), packet.hex());
        let (stock, ours) = self.both(|s| s.ctl("ofproto/trace", &["br0", &port, &hex]))?;
        let (stock, ours) = (normal::trace(&stock), normal::trace(&ours));
        for what in ["Final flow:", "Megaflow:", "Datapath actions:"] {
            let (a, b) = (normal::line(&stock, what), normal::line(&ours, what));
            if a != b && !(self.loose && what == "Megaflow:") {
                return Ok(Some(Difference { what, stock, ours }));
            }
        }
        Ok(if self.loose { None } else { Difference::of("trace text", stock, ours) })
    }

    /// Sends the packets through both.
    pub fn forward(&mut self, packets: &[Packet]) -> io::Result<Option<Difference>> {
        self.both(|s| s.ctl("revalidator/purge", &[]).and_then(|_| s.outputs()))?;
        for packet in packets {
            let (device, hex) = (format!("p{}", packet.port), packet.hex());
            let before = self.both(Switch::lookups)?;
            self.both(|s| s.ctl("netdev-dummy/receive", &[&device, &hex]))?;
            let deadline = Instant::now() + SETTLE / 4;
            loop {
                let now = self.both(Switch::lookups)?;
                if now.0 > before.0 && now.1 > before.1 || Instant::now() > deadline {
                    break;
                }
            }
            let d = self.settle("outputs", |s| s.outputs().map(|lines| normal::outputs(&lines)), true)?;
            if let Some(mut d) = d {
                let head = format!("{device} <- {hex}\n");
                (d.stock, d.ours) = (head.clone() + &d.stock, head + &d.ours);
                return Ok(Some(d));
            }
            self.both(|s| s.ctl("revalidator/wait", &[]))?;
        }
        let d = self.settle(
            "fdb",
            |s| Ok(normal::fdb(&(s.ctl("fdb/show", &["br0"])? + &s.ctl("fdb/show", &["br1"])?))),
            false,
        )?;
        if d.is_some() {
            return Ok(d);
        }
        let types = packets.iter().any(|p| p.bytes.get(12..14) == Some(&[0x88, 0xa8]));
        let d = self.settle(
            "datapath flows",
            |s| Ok(normal::datapath_flows(&s.ctl("dpctl/dump-flows", &[])?, types)),
            false,
        )?;
        if d.is_some() && !self.loose {
            return Ok(d);
        }
        self.both(|s| s.ctl("revalidator/purge", &[]))?;
        self.settle("counters", |s| Ok(normal::flows(&s.dump_flows()?)), false)
    }

    /// Asks both until they agree, for a while. Where `adds` is set an answer is what came since the last.
    fn settle(
        &mut self,
        what: &'static str,
        mut ask: impl FnMut(&mut Switch) -> io::Result<String>,
        adds: bool,
    ) -> io::Result<Option<Difference>> {
        let deadline = Instant::now() + SETTLE;
        let (mut stock, mut ours) = self.both(&mut ask)?;
        while stock != ours && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
            let (more_stock, more_ours) = self.both(&mut ask)?;
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
            Check::Trace(packet) => self.trace(packet),
            Check::Forward(packets) => self.forward(packets),
        }
    }

    /// A case: a table, packets traced, then sent; the first difference and the check that shows it.
    pub fn case(&mut self, table: &mut Table, packets: &[Packet]) -> io::Result<Option<(Check, Difference)>> {
        if let Some(d) = self.load(table)? {
            return Ok(Some((Check::Load, d)));
        }
        for packet in packets {
            if let Some(d) = self.trace(packet)? {
                return Ok(Some((Check::Trace(packet.clone()), d)));
            }
        }
        Ok(self.forward(packets)?.map(|d| (Check::Forward(packets.to_vec()), d)))
    }
}

/// The ports that random packets enter by.
pub fn entries() -> &'static [u16] {
    &PORTS
}
