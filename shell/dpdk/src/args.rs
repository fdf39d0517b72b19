//! The arguments of DPDK's environment abstraction layer ("the environment"), from `Open_vSwitch.other_config`.
//!
//! `dpdk-extra` comes first and has precedence: an option in it is not set again. Names, meaning and defaults are those
//! of Open vSwitch (ovs-vswitchd.conf.db(5)), with one addition: if the kernel has no free huge page and the user has
//! not chosen the kind of memory, the environment uses ordinary memory instead of failing.

use crate::log::{Level, Note};
use std::collections::BTreeMap;

/// Megabytes of ordinary memory if the user sets no amount. The kernel allocates them at first use.
const PLAIN_MEGABYTES: u64 = 1024;
/// Maximum number of lcores in DPDK (`RTE_MAX_LCORE`).
const LCORES_MAX: usize = 128;

/// Facts about the machine that the arguments depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Cores that are online, in ascending order.
    pub cores: Vec<u32>,
    /// Cores that this process may use, in ascending order.
    pub allowed: Vec<u32>,
    /// Whether the kernel has free huge pages.
    pub has_huge_pages: bool,
}

/// The arguments, beginning with the program's name, and messages about them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// The arguments.
    pub words: Vec<String>,
    /// Messages for the log, in order.
    pub notes: Vec<Note>,
}

impl Arguments {
    /// Builds the arguments from `config`. They begin with `program`.
    pub fn new(program: &str, config: &BTreeMap<String, String>, machine: &Machine) -> Arguments {
        let mut made = Arguments { words: vec![program.to_owned()], notes: Vec::new() };
        let get = |key: &str| config.get(key).map(String::as_str);
        made.words.extend(split_words(get("dpdk-extra").unwrap_or_default()));
        let plain = made.choose_memory(get, machine);
        made.add_cores(get("dpdk-lcore-mask"), machine);
        if !plain {
            made.add("dpdk-hugepage-dir", "--huge-dir", get("dpdk-hugepage-dir"));
            made.add("dpdk-socket-limit", "--socket-limit", get("dpdk-socket-limit"));
            made.add_huge_memory(get);
            if !made.has(&["--in-memory", "--legacy-mem"]) {
                made.words.push("--in-memory".to_owned());
            }
        }
        if !made.has(&["-c", "-l", "--lcores"]) {
            let core = machine.allowed.first().copied().unwrap_or_default();
            made.words.extend(["--lcores".to_owned(), format!("0@{core}")]);
        }
        made
    }

    fn note(&mut self, level: Level, text: String) {
        self.notes.push(Note { level, text });
    }

    /// Whether one of the options is present, either as a separate argument or with its value attached.
    fn has(&self, options: &[&str]) -> bool {
        self.words.iter().skip(1).any(|word| {
            options.iter().any(|option| match word.strip_prefix(option) {
                Some("") => true,
                Some(rest) => rest.starts_with('=') || !option.starts_with("--"),
                None => false,
            })
        })
    }

    fn ignored(&mut self, key: &str) {
        self.note(
            Level::Warning,
            format!("Ignoring database defined option '{key}' due to dpdk-extra config"),
        );
    }

    /// Adds an option from the database, unless `dpdk-extra` contains this option.
    fn add(&mut self, key: &str, option: &str, value: Option<&str>) {
        match value {
            None => {}
            Some(_) if self.has(&[option]) => self.ignored(key),
            Some(value) => self.words.extend([option.to_owned(), value.to_owned()]),
        }
    }

    /// Adds options for ordinary memory if the user or the machine requires it. Returns whether ordinary memory is used.
    fn choose_memory<'a>(&mut self, get: impl Fn(&str) -> Option<&'a str>, machine: &Machine) -> bool {
        let asked = self.has(&["--no-huge"]);
        if !asked && (machine.has_huge_pages || self.has(&["-m", "--socket-mem", "--huge-dir"])) {
            return false;
        }
        if !asked {
            self.words.push("--no-huge".to_owned());
        }
        // The environment refuses `--in-memory` together with `--no-huge`.
        if self.has(&["--in-memory"]) {
            self.words.retain(|word| word != "--in-memory");
            self.note(
                Level::Warning,
                "--in-memory is ignored, because DPDK does not allow it together with --no-huge".to_owned(),
            );
        }
        if !self.has(&["-m"]) {
            let megabytes = plain_megabytes(get);
            self.words.extend(["-m".to_owned(), megabytes.to_string()]);
        }
        // Allows several processes at the same time, as `--in-memory` would.
        if !self.has(&["--no-shconf", "--file-prefix", "--proc-type"]) {
            self.words.push("--no-shconf".to_owned());
        }
        if !asked {
            let text = "there are no free huge pages: DPDK uses ordinary memory, which is slower (set dpdk-extra to \
                        choose by yourself)";
            self.note(Level::Warning, text.to_owned());
        }
        true
    }

    fn add_cores(&mut self, mask: Option<&str>, machine: &Machine) {
        let Some(mask) = mask else { return };
        if self.has(&["-c", "-l", "--lcores"]) {
            return self.ignored("dpdk-lcore-mask");
        }
        let mut cores = cores_of_mask(mask).unwrap_or_default();
        cores.retain(|core| machine.cores.contains(core));
        if cores.is_empty() {
            let text =
                format!("Ignoring database defined option 'dpdk-lcore-mask' due to invalid value '{mask}'");
            return self.note(Level::Warning, text);
        }
        if cores.len() > LCORES_MAX {
            let text = format!("Truncating DPDK lcore list as dpdk-lcore-mask has > {LCORES_MAX} lcores");
            self.note(Level::Info, text);
            cores.truncate(LCORES_MAX);
        }
        let list: Vec<String> = cores.iter().enumerate().map(|(i, core)| format!("{i}@{core}")).collect();
        self.words.extend(["--lcores".to_owned(), list.join(",")]);
    }

    /// Adds `dpdk-alloc-mem` or `dpdk-socket-mem`. If both are set, `dpdk-socket-mem` is used.
    fn add_huge_memory<'a>(&mut self, get: impl Fn(&str) -> Option<&'a str>) {
        let given = |key| get(key).filter(|v| !v.is_empty());
        let (all, by_node) = (given("dpdk-alloc-mem"), given("dpdk-socket-mem"));
        if all.is_some() && by_node.is_some() {
            let text = "Multiple defined options for memory type. Please check your database settings and \
                        reconfigure if necessary.";
            self.note(Level::Error, text.to_owned());
        }
        if self.has(&["-m", "--socket-mem"]) {
            let keys = [("dpdk-alloc-mem", all), ("dpdk-socket-mem", by_node)];
            keys.iter().filter(|(_, v)| v.is_some()).for_each(|(key, _)| self.ignored(key));
        } else if by_node.is_some() {
            self.add("dpdk-socket-mem", "--socket-mem", by_node);
        } else {
            self.add("dpdk-alloc-mem", "-m", all);
        }
    }
}

/// Whether these arguments start a secondary process of DPDK. Such a process would wait for its primary process for ever, and no thread
/// could be registered in it.
pub(crate) fn is_secondary(words: &[String]) -> bool {
    values(words, "--proc-type").any(|value| value != "primary")
}

/// The values of an option that needs one, in order: the next argument, or the text attached to the option.
pub(crate) fn values<'a>(words: &'a [String], option: &'a str) -> impl Iterator<Item = &'a str> {
    let with_next = words.iter().zip(words.iter().skip(1).map(String::as_str).chain([""]));
    with_next.filter_map(move |(word, next)| match word.strip_prefix(option)? {
        "" => Some(next),
        attached => attached.strip_prefix('='),
    })
}

/// Megabytes of ordinary memory: as many as the database requests in huge pages.
fn plain_megabytes<'a>(get: impl Fn(&str) -> Option<&'a str>) -> u64 {
    let sum = |key| {
        let numbers = get(key)?.split(',').map(|n| n.trim().parse::<u32>());
        numbers.map(|n| n.map(u64::from)).sum::<Result<u64, _>>().ok().filter(|n| *n > 0)
    };
    sum("dpdk-socket-mem").or_else(|| sum("dpdk-alloc-mem")).unwrap_or(PLAIN_MEGABYTES)
}

/// The cores in a hexadecimal mask, in ascending order; `None` if the text is not a mask.
fn cores_of_mask(mask: &str) -> Option<Vec<u32>> {
    let digits = mask.strip_prefix("0x").or_else(|| mask.strip_prefix("0X")).unwrap_or(mask);
    let mut cores = Vec::new();
    for (i, digit) in digits.chars().rev().enumerate() {
        let digit = digit.to_digit(16)?;
        cores.extend((0..4).filter(|bit| digit & 1 << bit != 0).map(|bit| i as u32 * 4 + bit));
    }
    Some(cores)
}

/// Splits text into words as a shell does: at white space, except in quotes or after a backslash.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (_, Some(q)) if c == q => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(chars.next()),
            (_, None) if c.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(has_huge_pages: bool) -> Machine {
        Machine { cores: vec![0, 1, 2, 3], allowed: vec![1, 3], has_huge_pages }
    }

    fn made(pairs: &[(&str, &str)], huge: bool) -> Arguments {
        let config = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Arguments::new("ovs-vswitchd", &config, &machine(huge))
    }

    fn line(pairs: &[(&str, &str)]) -> String {
        made(pairs, true).words.join(" ")
    }

    #[test]
    fn defaults_without_settings() {
        assert_eq!(line(&[]), "ovs-vswitchd --in-memory --lcores 0@1");
        assert!(made(&[], true).notes.is_empty());
    }

    #[test]
    fn each_setting_has_its_option() {
        let text = line(&[
            ("dpdk-lcore-mask", "0x5"),
            ("dpdk-hugepage-dir", "/huge"),
            ("dpdk-socket-limit", "10,20"),
            ("dpdk-socket-mem", "256,0"),
        ]);
        let end = "--huge-dir /huge --socket-limit 10,20 --socket-mem 256,0 --in-memory";
        assert_eq!(text, format!("ovs-vswitchd --lcores 0@0,1@2 {end}"));
        assert!(line(&[("dpdk-alloc-mem", "512")]).contains(" -m 512 "));
    }

    #[test]
    fn socket_mem_overrides_alloc_mem_with_a_note() {
        let made = made(&[("dpdk-alloc-mem", "512"), ("dpdk-socket-mem", "256")], true);
        assert!(made.words.join(" ").contains("--socket-mem 256") && !made.words.contains(&"-m".to_owned()));
        assert!(made.notes.iter().any(|n| n.level == Level::Error && n.text.contains("memory type")));
    }

    #[test]
    fn dpdk_extra_takes_precedence() {
        let extra = ("dpdk-extra", "--no-pci -l 2 -m 128 --legacy-mem");
        let made = made(&[extra, ("dpdk-lcore-mask", "1"), ("dpdk-socket-mem", "256")], true);
        assert_eq!(made.words.join(" "), "ovs-vswitchd --no-pci -l 2 -m 128 --legacy-mem");
        assert_eq!(made.notes.len(), 2);
        assert!(line(&[("dpdk-extra", "--lcores=0@2")]).ends_with("--lcores=0@2 --in-memory"));
        assert!(line(&[("dpdk-extra", "-l2")]).ends_with("-l2 --in-memory"));
    }

    #[test]
    fn bad_masks_are_reported() {
        for mask in ["", "0x", "zz", "0xf0"] {
            let made = made(&[("dpdk-lcore-mask", mask)], true);
            assert!(made.words.join(" ").ends_with("--lcores 0@1"), "{mask}");
            assert!(made.notes[0].text.ends_with(&format!("invalid value '{mask}'")));
        }
    }

    #[test]
    fn without_huge_pages() {
        let text = |pairs: &[_], huge| made(pairs, huge).words.join(" ");
        assert_eq!(text(&[], false), "ovs-vswitchd --no-huge -m 1024 --no-shconf --lcores 0@1");
        let lab = ("dpdk-extra", "--no-pci --in-memory");
        let made_lab = made(&[lab, ("dpdk-socket-mem", "128,64")], false);
        assert_eq!(
            made_lab.words.join(" "),
            "ovs-vswitchd --no-pci --no-huge -m 192 --no-shconf --lcores 0@1"
        );
        assert_eq!(made_lab.notes.len(), 2);
        // The user chose ordinary memory.
        let chosen = ("dpdk-extra", "--no-huge -m 64");
        assert_eq!(text(&[chosen], true), "ovs-vswitchd --no-huge -m 64 --no-shconf --lcores 0@1");
        assert!(text(&[("dpdk-extra", "--socket-mem 64")], false).ends_with("--in-memory --lcores 0@1"));
    }

    #[test]
    fn only_a_primary_process_is_accepted() {
        let secondary = |extra| is_secondary(&made(&[("dpdk-extra", extra)], true).words);
        assert!(secondary("--proc-type=secondary") && secondary("--proc-type auto"));
        assert!(!secondary("--proc-type=primary") && !secondary("--no-pci"));
    }

    #[test]
    fn words_as_a_shell_splits_them() {
        assert_eq!(split_words("  a 'b c'  \"d \\\" e\"f \\ g ''"), ["a", "b c", "d \" ef", " g", ""]);
        assert!(split_words(" ").is_empty());
        assert_eq!(split_words("'open"), ["open"]);
    }
}
