//! Checks the settings of PMD threads with the parsers that the switch uses, and reports values that are clamped or
//! ignored.

use crate::doctor::facts::Facts;
use crate::doctor::finding::{Finding, Level};
use pmd::assign::Algorithm;
use pmd::sleep::SleepMax;
use settings::Setting;
use settings::interface::PMD_RXQ_AFFINITY;
use settings::root::{PMD_LATENCY_TARGET, PMD_MAXSLEEP, PMD_RXQ_ASSIGN, PMD_SLEEP_MAX};

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    let mut wrong = |table: &str, row: &str, setting: &Setting, value: &str, why: &str| {
        let label = if row == "." { String::new() } else { format!("{table} {row}: ") };
        found.push(Finding::new(
            Level::Warning,
            "setting",
            format!("{label}{}={value}: {why}", setting.name()),
            format!("sluice vsctl remove {table} {row} {} {}", setting.column, setting.key),
        ));
    };
    for setting in [&PMD_SLEEP_MAX, &PMD_MAXSLEEP, &PMD_LATENCY_TARGET] {
        let Some(text) = setting.get(&facts.other_config) else { continue };
        let _ = SleepMax::parse_with_warnings(text, |why| wrong("Open_vSwitch", ".", setting, text, &why));
    }
    let assign = PMD_RXQ_ASSIGN.word(&facts.other_config);
    if Algorithm::parse(assign).is_none() {
        let why = format!("must be {}; {} is used", PMD_RXQ_ASSIGN.range(), PMD_RXQ_ASSIGN.default_text());
        wrong("Open_vSwitch", ".", &PMD_RXQ_ASSIGN, assign, &why);
    }
    for interface in &facts.interfaces {
        let Some(text) = PMD_RXQ_AFFINITY.get(&interface.other_config) else { continue };
        if pmd::affinity::parse(text).is_none() {
            let why = format!("must be {}; it is treated as not set", PMD_RXQ_AFFINITY.range());
            wrong("Interface", &interface.name, &PMD_RXQ_AFFINITY, text, &why);
        }
    }
}
