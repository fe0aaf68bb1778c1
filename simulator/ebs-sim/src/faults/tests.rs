//! Tests of rules with fixed times.

use std::time::{Duration, SystemTime};

use super::plan::{Attachment, Device};
use super::*;
use crate::api::Call;
use crate::chance::Chance;

fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(ms)
}

fn line(line: impl AsRef<str>) -> Call {
    Call::line(line.as_ref()).unwrap()
}

fn create(token: &str) -> Call {
    line(format!("CreateVolume ClientToken={token}"))
}

fn attach(volume: &str) -> Call {
    line(format!("AttachVolume VolumeId={volume} InstanceId=i-1 Device=x"))
}

fn detach(volume: &str) -> Call {
    line(format!("DetachVolume VolumeId={volume}"))
}

fn describe() -> Call {
    line("DescribeVolumes")
}

fn rule_set(rules: Vec<Rule>) -> RuleSet {
    seeded(1, rules)
}

fn seeded(seed: u64, rules: Vec<Rule>) -> RuleSet {
    let mut set = RuleSet::new(Chance::new(Some(seed), 1));
    set.add(at(0), rules).unwrap();
    set
}

fn lost() -> Rule {
    Rule::new(Effect::LoseReply { after_ms: 0 })
}

fn hits(rules: &mut RuleSet, call: &Call, calls: usize) -> Vec<usize> {
    (1..=calls).filter(|_| !rules.decide(at(0), call).kinds.is_empty()).collect()
}

#[test]
fn rule_affects_the_actions_that_it_names() {
    let mut rules = rule_set(vec![lost().on("AttachVolume").on("Describe*")]);
    assert!(!rules.decide(at(0), &attach("vol-1")).kinds.is_empty());
    assert!(!rules.decide(at(0), &describe()).kinds.is_empty());
    assert!(rules.decide(at(0), &create("a")).kinds.is_empty());
}

/// The resource is an id, token, filter value or tag value.
#[test]
fn rule_affects_only_calls_with_its_resource() {
    let of = "TagSpecification.1";
    let tagged = line(format!("CreateVolume {of}.Tag.1.Key=CSIVolumeName {of}.Tag.1.Value=pvc-7"));
    let filtered = line("DescribeVolumes Filter.1.Name=volume-id Filter.1.Value.1=vol-1");
    for (resource, call, hit) in [
        ("vol-1", attach("vol-1"), true),
        ("vol-1", attach("vol-12"), false),
        ("vol-1*", attach("vol-12"), true),
        ("i-1", attach("vol-2"), true),
        ("vol-1", filtered, true),
        ("vol-1", describe(), false),
        ("token", create("token"), true),
        ("pvc-7", tagged, true),
    ] {
        let plan = rule_set(vec![Rule { resource: Some(resource.into()), ..lost() }]).decide(at(0), &call);
        assert_eq!(!plan.kinds.is_empty(), hit, "{resource} {call:?}");
    }
}

#[test]
fn rule_affects_only_the_nth_call_or_a_limited_number() {
    assert_eq!(hits(&mut rule_set(vec![lost().nth(3)]), &describe(), 5), [3]);
    assert_eq!(hits(&mut rule_set(vec![lost().times(2)]), &describe(), 5), [1, 2]);
    let mut used = rule_set(vec![lost().times(2)]);
    hits(&mut used, &describe(), 5);
    assert_eq!((used.list()[0].seen, used.list()[0].hit), (5, 2));
}

#[test]
fn rule_is_active_between_its_times() {
    let mut rules = rule_set(vec![lost().during(Duration::from_millis(100), Duration::from_millis(200))]);
    let hit: Vec<u64> =
        [0, 99, 100, 199, 200].into_iter().filter(|ms| !rules.decide(at(*ms), &describe()).kinds.is_empty()).collect();
    assert_eq!(hit, [100, 199]);
}

#[test]
fn seed_determines_affected_calls() {
    let of = |seed| hits(&mut seeded(seed, vec![lost().chance(0.3)]), &describe(), 200);
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
    assert!((30..90).contains(&of(7).len()), "{}", of(7).len());
}

#[test]
fn delays_add_up_and_first_effect_that_ends_call_wins() {
    let rules = vec![
        Rule::new(Effect::DelayRequest { ms: 10, spread_ms: 0 }),
        Rule::new(Effect::DelayRequest { ms: 5, spread_ms: 0 }),
        Rule::new(Effect::DelayReply { ms: 7, spread_ms: 3 }),
        Rule::new(Effect::Throttle),
        Rule::new(Effect::LoseRequest { after_ms: 0 }),
    ];
    let plan = rule_set(rules).decide(at(0), &describe());
    assert_eq!(plan.before, Duration::from_millis(15));
    assert!((7..=10).contains(&plan.after.as_millis()), "{:?}", plan.after);
    assert!(matches!(plan.arrival, Arrival::Refused(_)));
    assert_eq!(plan.kinds, ["delay-request", "delay-request", "delay-reply", "throttle", "lose-request"]);
}

#[test]
fn injected_faults_affect_only_applicable_calls() {
    let second = Duration::from_secs(1);
    let attachment = |how| FaultInjection { attachment: Some(how), ..FaultInjection::default() };
    let device = |how| FaultInjection { device: Some(how), ..FaultInjection::default() };
    let lag = FaultInjection { lag: Some(second), ..FaultInjection::default() };
    for (effect, call, injection) in [
        (Effect::Stale { lag_ms: 1000 }, describe(), lag),
        (Effect::StuckAttaching, attach("vol-1"), attachment(Attachment::StuckAttaching)),
        (Effect::StuckDetaching, detach("vol-1"), attachment(Attachment::StuckDetaching)),
        (Effect::Busy, detach("vol-1"), attachment(Attachment::Busy)),
        (Effect::DeviceLate { ms: 1000 }, attach("vol-1"), device(Device::Late(second))),
        (Effect::DeviceOtherName, attach("vol-1"), device(Device::OtherName)),
        (Effect::DeviceVanish { after_ms: 1000 }, attach("vol-1"), device(Device::Vanish(second))),
        (Effect::DeviceIoError { after_ms: 1000 }, attach("vol-1"), device(Device::IoError(second))),
    ] {
        let mut rules = rule_set(vec![Rule::new(effect.clone())]);
        assert_eq!(rules.decide(at(0), &call).injection, injection, "{effect:?}");
        assert_eq!(rules.decide(at(0), &create("a")), Plan::default(), "{effect:?} hit CreateVolume");
    }
}

#[test]
fn eat_effect_reduces_buckets_of_its_actions() {
    let eat = |fraction| Rule::new(Effect::Eat { fraction });
    let mut rules = rule_set(vec![
        eat(0.5),
        eat(0.5).on("CreateVolume"),
        eat(0.9).during(Duration::from_secs(1), Duration::from_secs(2)),
    ]);
    assert_eq!((rules.share(at(0), "CreateVolume"), rules.share(at(0), "DeleteVolume")), (0.25, 0.5));
    assert!(rules.share(at(1500), "DeleteVolume") < 0.06);
    assert_eq!(rules.decide(at(0), &create("a")), Plan::default(), "it hits nobody's call");
}

#[test]
fn every_rule_round_trips_through_json() {
    let effects = [
        Effect::LoseRequest { after_ms: 1 },
        Effect::LoseReply { after_ms: 1 },
        Effect::DelayRequest { ms: 1, spread_ms: 2 },
        Effect::DelayReply { ms: 1, spread_ms: 2 },
        Effect::Throttle,
        Effect::error("InternalError", 500, true),
        Effect::Garbage,
        Effect::Truncate,
        Effect::Oversize { bytes: 1 },
        Effect::Stale { lag_ms: 1 },
        Effect::StuckAttaching,
        Effect::StuckDetaching,
        Effect::Busy,
        Effect::DeviceLate { ms: 1 },
        Effect::DeviceOtherName,
        Effect::DeviceVanish { after_ms: 1 },
        Effect::DeviceIoError { after_ms: 1 },
        Effect::Eat { fraction: 0.5 },
    ];
    let mut rules: Vec<Rule> = effects.into_iter().map(Rule::new).collect();
    let second = Duration::from_secs(1);
    rules.push(Rule {
        name: Some("n".into()),
        resource: Some("vol-*".into()),
        ..lost().on("Attach*").chance(0.5).times(3).nth(2).during(second, 2 * second)
    });
    let json = serde_json::to_vec(&rules).unwrap();
    assert_eq!(rules_from_json(&json).unwrap(), rules);
    let one = br#"{"actions":["CreateVolume"],"effect":{"kind":"lose-reply"}}"#;
    assert_eq!(rules_from_json(one).unwrap(), [lost().on("CreateVolume")]);
}

#[test]
fn invalid_rule_is_rejected_with_index_and_field() {
    let effect = r#""effect":{"kind":"throttle"}"#;
    for (rule, words) in [
        (r#"{"chance":0.5}"#.to_owned(), ["rule 2", "effect"]),
        (format!(r#"{{"chance":1.5,{effect}}}"#), ["rule 2", "chance"]),
        (format!(r#"{{"chanse":1,{effect}}}"#), ["rule 2", "chanse"]),
        (format!(r#"{{"name":"n","actions":["CreateVolum"],{effect}}}"#), ["rule 2 (n): actions", "CreateVolum"]),
        (format!(r#"{{"nth":0,{effect}}}"#), ["rule 2", "nth"]),
        (format!(r#"{{"times":-1,{effect}}}"#), ["rule 2", "-1"]),
        (format!(r#"{{"from_ms":5,"until_ms":5,{effect}}}"#), ["rule 2", "until_ms"]),
        (format!(r#"{{"resource":"",{effect}}}"#), ["rule 2", "resource"]),
        (r#"{"effect":{"kind":"explode"}}"#.to_owned(), ["effect", "explode"]),
        (r#"{"effect":{"kind":"stale"}}"#.to_owned(), ["effect", "lag_ms"]),
        (r#"{"effect":{"kind":"stale","lag_ms":20000}}"#.to_owned(), ["effect.lag_ms", "15000"]),
        (r#"{"effect":{"kind":"stale","lag_ms":1,"more":1}}"#.to_owned(), ["effect", "more"]),
        (r#"{"effect":{"kind":"error","code":"X","status":200}}"#.to_owned(), ["effect.status", "200"]),
        (r#"{"effect":{"kind":"eat","fraction":2}}"#.to_owned(), ["effect.fraction", "2"]),
        (r#"{"times":3,"effect":{"kind":"eat","fraction":0.5}}"#.to_owned(), ["effect", "times"]),
        (r#"{"actions":["CreateVolume"],"effect":{"kind":"busy"}}"#.to_owned(), ["actions", "DetachVolume"]),
        ("7".to_owned(), ["rule 2", "7"]),
    ] {
        let good = format!("{{{effect}}}");
        let message = rules_from_json(format!("[{good},{rule}]").as_bytes()).unwrap_err();
        assert!(words.iter().all(|word| message.contains(word)), "{rule}: {message}");
    }
    assert!(rules_from_json(b"[{]").unwrap_err().contains("not JSON"));
    assert!(rules_from_json(b"3").unwrap_err().contains("neither"));
}
