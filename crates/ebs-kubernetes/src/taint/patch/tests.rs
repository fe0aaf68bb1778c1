use proptest::prelude::*;

use super::*;
use crate::fake::apply;

const KEY: &str = "ebs.csi.aws.com/agent-not-ready";

fn node(uid: &str, taints: &[Value]) -> Value {
    json!({ "metadata": { "uid": uid }, "spec": { "taints": taints, "podCIDR": "10.0.0.0/24" } })
}

fn taint() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just(KEY.to_owned()),
        Just("node.kubernetes.io/not-ready".to_owned()),
        Just("ebs.csi.aws.com/agent-not-ready-2".to_owned()),
        "[a-z]{1,6}",
    ];
    let effect = prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("PreferNoSchedule")];
    (key, effect, proptest::option::of("[a-z]{0,4}"), any::<bool>()).prop_map(|(key, effect, value, is_timed)| {
        let mut taint = json!({ "key": key, "effect": effect });
        if let Some(value) = value {
            taint["value"] = Value::String(value);
        }
        if is_timed {
            taint["timeAdded"] = Value::String("2026-01-01T00:00:00Z".to_owned());
            taint["aFieldOfLaterVersions"] = json!({ "x": [1] });
        }
        taint
    })
}

proptest! {
    #[test]
    fn start_up_taints_are_removed_and_others_keep_their_order(taints in proptest::collection::vec(taint(), 0..8)) {
        let others: Vec<Value> = taints.iter().filter(|taint| taint["key"] != KEY).cloned().collect();
        let removal = NodeTaints { uid: "u".to_owned(), taints: taints.clone() }.removal(KEY);
        prop_assert_eq!(removal.is_some(), others.len() < taints.len());
        if let Some(removal) = removal {
            let before = node("u", &taints);
            let after = apply(&removal.patch(), &before).expect("nothing has changed");
            let left = after["spec"]["taints"].as_array().cloned().unwrap_or_default();
            prop_assert_eq!(&left, &others);
            prop_assert_eq!(after["spec"]["taints"].is_null(), others.is_empty());
            prop_assert_eq!(&after["spec"]["podCIDR"], &before["spec"]["podCIDR"]);
            // Once the taint is removed, no second patch is needed.
            let again = NodeTaints { uid: "u".to_owned(), taints: left }.removal(KEY);
            prop_assert!(again.is_none());
        }
    }

    #[test]
    fn patch_fails_if_the_node_or_its_taints_have_changed(
        seen in proptest::collection::vec(taint(), 1..6),
        now in proptest::collection::vec(taint(), 0..6),
    ) {
        if let Some(removal) = (NodeTaints { uid: "u".to_owned(), taints: seen.clone() }).removal(KEY) {
            prop_assert_eq!(apply(&removal.patch(), &node("u", &now)).is_some(), now == seen);
            let on_another = apply(&removal.patch(), &node("later", &seen));
            prop_assert!(on_another.is_none());
        }
    }
}
