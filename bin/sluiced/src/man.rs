//! Generates the manual page from the text of `--help`.

use runtime::Dirs;

/// `--man`: the page sluiced(8) as roff. It contains the default paths, regardless of environment variables.
pub fn page(usage: &str) -> String {
    let mut out = format!(
        ".TH SLUICED 8 \"\" \"Sluice {}\" \"Sluice Manual\"\n.SH NAME\nsluiced \\- userspace virtual switch\n\
         .SH SYNOPSIS\n.B sluiced\n[OPTION...]\n.SH DESCRIPTION\n",
        env!("CARGO_PKG_VERSION")
    );
    let lines: Vec<&str> = usage.lines().collect();
    // The first line has the name, the second line the synopsis.
    for line in lines.iter().skip(2) {
        out += &match (line.strip_suffix(':'), line.starts_with("  "), line.trim().starts_with('-')) {
            (Some(heading), false, _) => format!(".SH {}\n", roff(&heading.to_uppercase())),
            (_, true, true) => option(line.trim()),
            _ if line.trim().is_empty() => String::new(),
            _ => format!("{}\n", roff(line.trim())),
        };
    }
    out + ".SH FILES\n"
        + &files()
        + ".SH SIGNALS\nSIGTERM, SIGINT and SIGHUP end the switch; what it has stored stays. sluice appctl vlog/reopen opens the \
           log file again.\n.SH SEE ALSO\n.BR sluice (8),\n.BR sluice\\-vsctl (8),\n.BR sluice\\-appctl (8)\n"
}

/// Formats a line that has an option, two or more blanks, and the description of the option.
fn option(line: &str) -> String {
    let (name, text) = line.split_once("  ").unwrap_or((line, ""));
    format!(".TP\n\\fB{}\\fR\n{}\n", roff(name), roff(text.trim()))
}

fn files() -> String {
    let entries = [
        ("db.sock", "socket of the database that the switch serves"),
        ("sluiced.pid, sluiced.PID.ctl", "process ID, and control socket for sluice appctl"),
        (
            "ovs-vswitchd.pid, ovs-vswitchd.PID.ctl",
            "links to them, for ovs-appctl and scripts, unless an ovs-vswitchd runs",
        ),
        ("BRIDGE.mgmt", "OpenFlow socket of a bridge"),
    ];
    let dirs = Dirs::defaults("sluiced");
    let line = |(name, text): &(&str, &str)| format!(".TP\n{}\n{}\n", roff(name), roff(text));
    let below: String = entries.iter().map(line).collect();
    let database = dirs.db.join("conf.db").display().to_string();
    let log = dirs.logfile().display().to_string();
    line(&(&database, "the database"))
        + &line(&(&log, "the log, with --log-file"))
        + &format!("Below {}:\n", roff(&dirs.run.display().to_string()))
        + &below
}

/// Escapes a text for roff.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq").replace('"', "\\(dq");
    if text.starts_with('.') { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_entries() {
        let page = page(
            "x: y\nusage: x\nServes it\n\nDaemon options:\n  --detach   runs alone\n             and stays\n",
        );
        assert!(
            page.contains(".SH DAEMON OPTIONS\n.TP\n\\fB\\-\\-detach\\fR\nruns alone\nand stays\n"),
            "{page}"
        );
        assert!(page.contains("Serves it\n"));
    }
}
