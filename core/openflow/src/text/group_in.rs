//! Parses groups in the syntax of `ovs-ofctl add-group` and related commands.

use super::action_in::parse_actions;
use super::arguments::{command_of, error, u16_value, u32_value, u64_value};
use super::protocol::Protocols;
use crate::flow_mod::GROUP_ANY;
use crate::group::*;
use flow::FieldId;
use flow::text::{NameMap, TextError, next_key_value, port_from_text};
use units::OfPort;

/// Maximum length of a selection method's name in bytes.
const METHOD_MAX: usize = 15;

/// Formats with bucket numbers and properties: Nicira's form over OpenFlow 1.0, and 1.5.
const WITH_PROPERTIES: Protocols = Protocols(0x10f);

/// Parses a line of a file of groups. The line may begin with a command; the default is to add the group.
pub fn parse_group_line(line: &str, names: &dyn NameMap) -> Result<(GroupMod, Protocols), TextError> {
    const COMMANDS: [(&str, GroupCommand); 6] = [
        ("add", GroupCommand::Add),
        ("delete", GroupCommand::Delete),
        ("modify", GroupCommand::Modify),
        ("add_or_mod", GroupCommand::AddOrModify),
        ("insert_bucket", GroupCommand::InsertBucket),
        ("remove_bucket", GroupCommand::RemoveBucket),
    ];
    let (command, group) = command_of(line, &COMMANDS);
    parse_group_mod(group, command.unwrap_or(GroupCommand::Add), names)
}

struct Parser {
    m: GroupMod,
    usable: Protocols,
    had_type: bool,
    had_command_bucket: bool,
}

/// Parses a group mod; also returns the formats that can encode it.
pub fn parse_group_mod(
    text: &str,
    command: GroupCommand,
    names: &dyn NameMap,
) -> Result<(GroupMod, Protocols), TextError> {
    use GroupCommand::{Add, AddOrModify, Delete, InsertBucket, Modify, RemoveBucket};
    let about_buckets = matches!(command, InsertBucket | RemoveBucket);
    let m = GroupMod { command, group: GROUP_ANY, command_bucket: BUCKET_ALL, ..GroupMod::default() };
    let usable = if about_buckets { WITH_PROPERTIES } else { Protocols::ANY };
    let mut p = Parser { m, usable, had_type: false, had_command_bucket: false };
    if command == Delete && text.is_empty() {
        p.m.group = GROUP_ALL;
        return Ok((p.m, p.usable));
    }
    let buckets = text.find("bucket=").filter(|&at| !text[..at].ends_with("command_"));
    let (mut head, buckets) = buckets.map_or((text, ""), |at| text.split_at(at));
    if !buckets.is_empty() && !matches!(command, Add | Modify | AddOrModify | InsertBucket) {
        return error("bucket is not needed");
    }
    while let Some((key, value)) = next_key_value(&mut head) {
        p.setting(key, value, names)?;
    }
    p.check()?;
    for bucket in buckets.split("bucket=").skip(1) {
        let bucket = p.bucket(bucket, names)?;
        p.m.buckets.push(bucket);
        if command != InsertBucket
            && p.m.kind != GroupType::Select
            && p.m.buckets.iter().any(|b| b.weight != 0)
        {
            return error("Only select groups can have bucket weights.");
        }
    }
    if p.m.kind == GroupType::Indirect && p.m.buckets.len() > 1 {
        return error("Indirect groups can have at most one bucket.");
    }
    assign_bucket_ids(&mut p.m.buckets);
    Ok((p.m, p.usable))
}

/// Assigns the lowest free numbers to buckets without a number.
fn assign_bucket_ids(buckets: &mut [Bucket]) {
    let mut used: std::collections::BTreeSet<u32> = buckets.iter().map(|b| b.id).collect();
    let mut next = 0;
    for b in buckets.iter_mut().filter(|b| b.id == BUCKET_ALL) {
        while !used.insert(next) {
            next += 1;
        }
        b.id = next;
    }
}

impl Parser {
    fn takes_type(&self) -> bool {
        matches!(self.m.command, GroupCommand::Add | GroupCommand::Modify | GroupCommand::AddOrModify)
    }

    fn setting(&mut self, key: &str, value: &str, names: &dyn NameMap) -> Result<(), TextError> {
        let unwanted = |what: &str| error(format!("{what} not needed"));
        match key {
            "command_bucket_id" => return self.command_bucket(value),
            "group_id" if value == "all" => self.m.group = GROUP_ALL,
            "group_id" => {
                self.m.group = u32_value(value)?;
                if self.m.group != GROUP_ALL && self.m.group > GROUP_MAX {
                    return error(format!("invalid group id {}", self.m.group));
                }
            }
            "type" if !self.takes_type() => return unwanted("type is"),
            "type" => {
                self.m.kind = match value {
                    "all" => GroupType::All,
                    "select" => GroupType::Select,
                    "indirect" => GroupType::Indirect,
                    "ff" | "fast_failover" => GroupType::FastFailover,
                    _ => return error(format!("invalid group type {value}")),
                };
                self.had_type = true;
            }
            "selection_method" if !self.takes_type() => return unwanted("selection method is"),
            "selection_method" => {
                if value.len() > METHOD_MAX {
                    return error(format!("selection method is longer than {METHOD_MAX} bytes long"));
                }
                self.m.selection.method = value.to_owned();
                self.usable &= WITH_PROPERTIES;
            }
            "selection_method_param" if !self.takes_type() => return unwanted("selection method param is"),
            "selection_method_param" => {
                self.m.selection.param = u64_value(value)?;
                self.usable &= WITH_PROPERTIES;
            }
            "fields" if !self.takes_type() => return unwanted("fields are"),
            "fields" => {
                self.fields(value, names)?;
                self.usable &= WITH_PROPERTIES;
            }
            _ => return error(format!("unknown keyword {key}")),
        }
        Ok(())
    }

    fn command_bucket(&mut self, value: &str) -> Result<(), TextError> {
        if !matches!(self.m.command, GroupCommand::InsertBucket | GroupCommand::RemoveBucket) {
            return error("command bucket id is not needed");
        }
        self.m.command_bucket = match value {
            "all" => BUCKET_ALL,
            "first" => BUCKET_FIRST,
            "last" => BUCKET_LAST,
            _ => u32_value(value)?,
        };
        let id = self.m.command_bucket;
        if id > BUCKET_MAX && ![BUCKET_ALL, BUCKET_FIRST, BUCKET_LAST].contains(&id) {
            return error(format!("invalid command bucket id {id}"));
        }
        if id == BUCKET_ALL && self.m.command == GroupCommand::InsertBucket {
            return error("command_bucket_id=all is not permitted");
        }
        self.had_command_bucket = true;
        Ok(())
    }

    fn fields(&mut self, value: &str, names: &dyn NameMap) -> Result<(), TextError> {
        let mut rest = value;
        while let Some((key, value)) = next_key_value(&mut rest) {
            let Some(field) = FieldId::from_name(key) else {
                return error(format!("{rest}: unknown field {key}"));
            };
            let fields = &mut self.m.selection.fields;
            if fields.iter().any(|(f, _)| *f == field) {
                return error(format!("{key}: duplicate field"));
            }
            let mask = if value.is_empty() { field.ones() } else { field.parse_exact(value, names)? };
            if mask == 0 {
                return error(format!("{rest}: values are wildcards here and must not be all-zeros"));
            }
            fields.push((field, mask));
            self.usable &= Protocols::of_usable(field.info().usable[0]);
        }
        self.m.selection.fields.sort_by_key(|(f, _)| f.index());
        Ok(())
    }

    /// Checks that the settings before the buckets are consistent.
    fn check(&self) -> Result<(), TextError> {
        let m = &self.m;
        if m.group == GROUP_ANY {
            return error("must specify a group_id");
        }
        if self.takes_type() && !self.had_type {
            return error("must specify a type");
        }
        if m.selection.method != "hash" && !m.selection.fields.is_empty() {
            return error("fields may only be specified with \"selection_method=hash\"");
        }
        if m.selection.method.is_empty() && m.selection.param != 0 {
            return error("selection_method_param is only allowed with \"selection_method\"");
        }
        if m.command == GroupCommand::InsertBucket && !self.had_command_bucket {
            return error("must specify a command bucket id");
        }
        Ok(())
    }

    fn bucket(&mut self, text: &str, names: &dyn NameMap) -> Result<Bucket, TextError> {
        let mut b = Bucket { weight: u16::from(self.m.kind == GroupType::Select), ..Bucket::default() };
        let mut actions = Vec::new();
        let mut rest = text;
        while let Some((key, value)) = next_key_value(&mut rest) {
            match key.to_ascii_lowercase().as_str() {
                "weight" => b.weight = u16_value(value, "weight")?,
                "watch_port" => b.watch_port = watch_port(value, names)?,
                "watch_group" => {
                    b.watch_group = u32_value(value)?;
                    if b.watch_group > GROUP_MAX {
                        return error(format!("invalid watch_group id {}", b.watch_group));
                    }
                }
                "bucket_id" => {
                    b.id = u32_value(value)?;
                    if b.id > BUCKET_MAX {
                        return error(format!("invalid bucket_id id {}", b.id));
                    }
                    self.usable &= WITH_PROPERTIES;
                }
                "action" | "actions" => actions.push(value.to_owned()),
                _ => actions.push(format!("{key}({value})")),
            }
        }
        if actions.is_empty() {
            return error("bucket must specify actions");
        }
        let live = b.watch_port != OfPort::NONE || b.watch_group != GROUP_ANY;
        if self.m.kind == GroupType::FastFailover && !live {
            return error("fast failover bucket requires watch_port or watch_group");
        }
        b.actions = parse_actions(&actions.join(","), names)?;
        self.usable &= Protocols::of_actions(&b.actions);
        Ok(b)
    }
}

fn watch_port(value: &str, names: &dyn NameMap) -> Result<OfPort, TextError> {
    let port = port_from_text(value, names);
    let port = port.filter(|p| *p < OfPort::MAX || *p == OfPort::NONE || *p == OfPort::CONTROLLER);
    port.map_or_else(|| error(format!("{value}: invalid watch_port")), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::text::NoNames;

    #[test]
    fn groups() {
        let parse =
            |text| parse_group_mod(text, GroupCommand::Add, &NoNames).map(|(m, _)| m).map_err(|e| e.0);
        let m = parse("group_id=1,type=select,bucket=weight:5,output:1,bucket=actions=output:2").unwrap();
        assert_eq!((m.group, m.kind, m.buckets.len()), (1, GroupType::Select, 2));
        assert_eq!((m.buckets[0].weight, m.buckets[1].weight), (5, 1));
        for (text, message) in [
            ("type=all", "must specify a group_id"),
            ("group_id=1", "must specify a type"),
            ("group_id=1,type=odd", "invalid group type odd"),
            ("group_id=1,type=ff,bucket=output:1", "fast failover bucket requires watch_port or watch_group"),
            ("group_id=1,type=indirect,bucket=1,bucket=2", "Indirect groups can have at most one bucket."),
            ("group_id=1,type=all,bucket=", "bucket must specify actions"),
        ] {
            assert_eq!(parse(text), Err(message.to_owned()), "{text}");
        }
        assert_eq!(parse_group_mod("", GroupCommand::Delete, &NoNames).unwrap().0.group, GROUP_ALL);
    }
}
