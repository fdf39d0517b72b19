use super::*;
use crate::types::{AtomicType, Type};
use proptest::prelude::*;
use serde_json::Value as Json;
use serde_json::json;

fn ty(json: Json) -> Type {
    Type::from_json(&json).unwrap()
}

fn strings() -> Type {
    ty(json!({"key": "string", "min": 0, "max": "unlimited"}))
}

fn string_map() -> Type {
    ty(json!({"key": "string", "value": "string", "min": 0, "max": "unlimited"}))
}

#[test]
fn a_set_of_one_is_written_bare() {
    let datum = Datum::from_json(&json!(["set", ["a"]]), &strings(), None).unwrap();
    assert_eq!(datum.to_json(), json!("a"));
}

#[test]
fn doubles_are_refused() {
    let error = Datum::from_json(&json!(["set", ["a", "a"]]), &strings(), None).unwrap_err();
    assert_eq!(error.to_json(), json!({"error": "ovsdb error", "details": "set contains duplicate"}));
    let error = Datum::from_json(&json!(["map", [["a", "1"], ["a", "2"]]]), &string_map(), None).unwrap_err();
    assert_eq!(error.details.as_deref(), Some("map contains duplicate key"));
}

#[test]
fn constraint_texts() {
    let tag =
        ty(json!({"key": {"type": "integer", "minInteger": 0, "maxInteger": 4095}, "min": 0, "max": 1}));
    let error = Datum::from_json(&json!(4096), &tag, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "constraint violation: 4096 is not in the valid range 0 to 4095 (inclusive)"
    );
    let mode =
        ty(json!({"key": {"type": "string", "enum": ["set", ["secure", "standalone"]]}, "min": 0, "max": 1}));
    let error = Datum::from_json(&json!("x"), &mode, None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "constraint violation: x is not one of the allowed values ([secure, standalone])"
    );
}

#[test]
fn named_uuids_resolve_to_one_uuid() {
    let mut next = 0u128;
    let mut fresh = || {
        next += 1;
        uuid::Uuid::from_u128(next)
    };
    let mut symbols = Symbols::new(&mut fresh);
    let uuid = Type::scalar(AtomicType::Uuid);
    let a = Datum::from_json(&json!(["named-uuid", "x"]), &uuid, Some(&mut symbols)).unwrap();
    let b = Datum::from_json(&json!(["named-uuid", "x"]), &uuid, Some(&mut symbols)).unwrap();
    assert_eq!(a, b);
    assert!(Datum::from_json(&json!(["named-uuid", "x"]), &uuid, None).is_err());
}

#[test]
fn reals_print_like_percent_g() {
    let cases =
        [(0.5, "0.5"), (1e100, "1e+100"), (0.1 + 0.2, "0.3"), (-3.0, "-3"), (1e-7, "1e-07"), (0.0, "0")];
    for (value, text) in cases {
        assert_eq!(format_real(value), text);
    }
}

fn any_set() -> impl Strategy<Value = Datum> {
    proptest::collection::vec("[a-d]{0,2}", 0..8).prop_map(Datum::set)
}

fn any_map() -> impl Strategy<Value = Datum> {
    proptest::collection::vec(("[a-d]{0,2}", "[ab]"), 0..8).prop_map(Datum::map)
}

proptest! {
    #[test]
    fn json_round_trip(set in any_set(), map in any_map()) {
        prop_assert_eq!(&Datum::from_json(&set.to_json(), &strings(), None).unwrap(), &set);
        prop_assert_eq!(&Datum::from_json(&map.to_json(), &string_map(), None).unwrap(), &map);
    }

    #[test]
    fn a_difference_leads_from_old_to_new(a in any_set(), b in any_set(), m in any_map(), n in any_map()) {
        prop_assert_eq!(a.apply_diff(&b.diff_from(&a, &strings()), &strings()).unwrap(), b);
        prop_assert_eq!(m.apply_diff(&n.diff_from(&m, &string_map()), &string_map()).unwrap(), n);
    }

    #[test]
    fn union_then_subtraction(a in any_set(), b in any_set()) {
        let mut both = a.clone();
        both.insert_all(&b);
        prop_assert!(a.is_subset_of(&both) && b.is_subset_of(&both));
        both.remove_all(&b);
        prop_assert!(both.is_disjoint_from(&b) && both.is_subset_of(&a));
    }
}

proptest! {
    #[test]
    fn text_says_what_the_json_says(strings in proptest::collection::vec(".{0,9}", 0..4), n in any::<i64>(), real in any::<f64>()) {
        let atoms = strings.iter().map(|s| Atom::from(s.as_str()));
        let pairs = strings.iter().map(|s| (s.as_str(), uuid::Uuid::from_u128(n as u128)));
        let number = Real::new(real).map_or(Atom::Integer(n), Atom::Real);
        for datum in [Datum::set(atoms), Datum::map(pairs), Datum::scalar(n), Datum::scalar(n > 0), Datum::scalar(number)] {
            let mut text = String::new();
            datum.push_text(&mut text);
            prop_assert_eq!(text, datum.to_json().to_string());
        }
    }
}

#[test]
fn memory_of_a_datum_is_that_of_its_json() {
    let uuid = uuid::Uuid::from_u128(7);
    for datum in [
        Datum::scalar(1),
        Datum::scalar("abc"),
        Datum::scalar(uuid),
        Datum::set(["a", "bc"]),
        Datum::set([uuid, uuid::Uuid::nil()]),
        Datum::set(Vec::<i64>::new()),
        Datum::map([("k", uuid), ("other", uuid)]),
        Datum::map([(1, "v")]),
    ] {
        let memory = size_of::<Json>() + datum.json_heap_memory();
        assert_eq!(memory, crate::json::memory(&datum.to_json()), "{datum}");
    }
}
