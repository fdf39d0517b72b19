//! The dependencies between crates are exactly those of `arch.toml`.

use arch::{root, rust_files};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use toml::Table;

fn arch() -> Table {
    std::fs::read_to_string(root().join("arch.toml")).unwrap().parse().unwrap()
}

fn list(table: &Table, key: &str) -> BTreeSet<String> {
    let items = table.get(key).and_then(|v| v.as_array()).unwrap_or_else(|| panic!("arch.toml: no '{key}'"));
    items.iter().map(|v| v.as_str().unwrap().to_owned()).collect()
}

fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(out.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Returns the layer of a crate, which is its folder: "core/flow/Cargo.toml" -> "core".
fn folder(package: &Value) -> String {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let inside = manifest.strip_prefix(root()).unwrap();
    inside.iter().next().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn arrows_are_those_of_arch_toml() {
    let (arch, metadata) = (arch(), metadata());
    let folders = arch["folders"].as_table().unwrap();
    let crates = arch["crate"].as_table().unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let layer: BTreeMap<&str, String> =
        packages.iter().map(|p| (p["name"].as_str().unwrap(), folder(p))).collect();

    let mut wrong = Vec::new();
    let mut libraries = list(&arch, "core_may_use");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let here = &layer[name];
        if !crates.contains_key(name) {
            wrong.push(format!("{here}/{name} is not in arch.toml"));
            continue;
        }
        let allowed = list(crates, name);
        let mut unused = allowed.clone();
        let dependencies = package["dependencies"].as_array().unwrap();
        for d in dependencies.iter().filter(|d| d["kind"].as_str() != Some("dev")) {
            let to = d["name"].as_str().unwrap();
            unused.remove(to);
            if here == "core" {
                libraries.remove(to);
            }
            match layer.get(to) {
                Some(there) if !list(folders, here).contains(there) => {
                    wrong.push(format!("{here}/{name} -> {there}/{to}: {here}/ may not use {there}/"));
                }
                Some(there) if !allowed.contains(to) => {
                    wrong.push(format!("{here}/{name} -> {there}/{to}: no such arrow in arch.toml"));
                }
                None if here == "core" && !list(&arch, "core_may_use").contains(to) => {
                    wrong.push(format!("core/{name} -> {to}: not in core_may_use"));
                }
                _ => {}
            }
        }
        wrong.extend(unused.iter().map(|to| format!("{here}/{name} -> {to}: in arch.toml, but not used")));
    }
    let packages: BTreeSet<&str> = layer.into_keys().collect();
    let gone = crates.keys().filter(|name| !packages.contains(name.as_str()));
    wrong.extend(gone.map(|name| format!("{name}: in arch.toml, but no crate")));
    wrong.extend(libraries.iter().map(|library| format!("core_may_use {library}: no crate of core uses it")));
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn only_named_crates_may_be_unsafe() {
    let unsafe_ok = list(&arch(), "may_be_unsafe");
    let mut wrong = Vec::new();
    for package in metadata()["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let manifest = std::fs::read_to_string(package["manifest_path"].as_str().unwrap()).unwrap();
        let forbids = ["[lints]\nworkspace = true", "[lints.rust]\nunsafe_code = \"forbid\""]
            .iter()
            .any(|l| manifest.contains(l));
        if forbids == unsafe_ok.contains(name) {
            wrong.push(format!("{name}: its lints and may_be_unsafe of arch.toml differ"));
        }
        let uses = || {
            let mut files = Vec::new();
            rust_files(Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap(), &mut files);
            files.iter().any(|file| std::fs::read_to_string(file).unwrap().contains("unsafe "))
        };
        if unsafe_ok.contains(name) && !uses() {
            wrong.push(format!("{name}: in may_be_unsafe, but without unsafe code"));
        }
        // All of `dpdk-sys` is generated.
        let explains = manifest.contains("undocumented_unsafe_blocks = \"deny\"") || name == "dpdk-sys";
        if unsafe_ok.contains(name) && !explains {
            wrong.push(format!("{name}: its lints allow an unsafe block without a SAFETY comment"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}
