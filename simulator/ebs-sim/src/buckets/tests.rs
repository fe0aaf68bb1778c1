//! Tests of the buckets with fixed times.

use std::time::Duration;

use super::*;

fn at(seconds: f64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
}

fn line(line: &str) -> Call {
    Call::line(line).unwrap()
}

fn create() -> Call {
    line("CreateVolume")
}

fn by_id() -> Call {
    line("DescribeVolumes VolumeId.1=vol-1")
}

fn filtered() -> Call {
    line("DescribeVolumes Filter.1.Name=volume-id Filter.1.Value.1=vol-1")
}

fn burst(buckets: &mut Buckets, now: SystemTime, call: &Call, share: f64) -> usize {
    (0..1000).take_while(|_| buckets.draw(now, call, share).is_ok()).count()
}

/// Each action has the documented bucket. Describes without filters or paging have a smaller one.
#[test]
fn each_action_has_its_documented_bucket() {
    for (call, capacity, per_second) in [
        (create(), 100, 5),
        (line("CreateTags ResourceId.1=v Tag.1.Key=k"), 100, 10),
        (line("AttachVolume VolumeId=v InstanceId=i Device=d"), 50, 5),
        (line("DetachVolume VolumeId=v"), 50, 5),
        (filtered(), 100, 20),
        (by_id(), 50, 10),
        (line("DescribeVolumes"), 50, 10),
    ] {
        let mut buckets = Buckets::new(Limits::ec2());
        assert_eq!(burst(&mut buckets, at(0.0), &call, 1.0), capacity, "{call:?}");
        assert_eq!(burst(&mut buckets, at(1.0), &call, 1.0), per_second, "{call:?}");
        assert_eq!(burst(&mut buckets, at(1000.0), &call, 1.0), capacity, "{call:?}: full again, and no fuller");
    }
}

/// The error is RequestLimitExceeded with HTTP 503. The call takes no token and is not executed.
#[test]
fn empty_bucket_returns_the_ec2_throttling_error() {
    let mut buckets = Buckets::new(Limits::ec2());
    burst(&mut buckets, at(0.0), &create(), 1.0);
    let fault = buckets.draw(at(0.1), &create(), 1.0).unwrap_err();
    assert_eq!((fault.code.as_str(), fault.status), ("RequestLimitExceeded", 503));
    assert!(buckets.draw(at(0.2), &create(), 1.0).is_ok(), "a refused call costs nothing");
}

/// Describe calls with a filter and describe calls with a page length share one bucket.
#[test]
fn actions_have_separate_buckets() {
    let mut buckets = Buckets::new(Limits::ec2());
    burst(&mut buckets, at(0.0), &by_id(), 1.0);
    assert!(buckets.draw(at(0.0), &create(), 1.0).is_ok());
    assert!(buckets.draw(at(0.0), &filtered(), 1.0).is_ok());
    let before = burst(&mut buckets, at(0.0), &line("DescribeVolumes MaxResults=5"), 1.0);
    assert_eq!(before, 99, "filtered and paged calls share one");
}

#[test]
fn another_client_reduces_bucket_capacity_and_refill() {
    let mut buckets = Buckets::new(Limits::ec2());
    assert_eq!(burst(&mut buckets, at(0.0), &create(), 0.5), 50);
    assert_eq!(burst(&mut buckets, at(2.0), &create(), 0.5), 5);
    assert_eq!(burst(&mut buckets, at(4.0), &create(), 1.0), 10, "it has left");
}

#[test]
fn disabled_limits_throttle_nothing() {
    let mut buckets = Buckets::new(Limits::off());
    assert_eq!(burst(&mut buckets, at(0.0), &create(), 1.0), 1000);
    assert_eq!(buckets.levels(at(0.0), |_| 1.0), []);
}

/// Limits apply by action or by prefix. A name that matches no action is rejected.
#[test]
fn most_specific_limit_name_sets_the_rate() {
    let rate = |capacity| Rate { capacity, per_second: 1 };
    let rates =
        [("*", rate(1)), ("Describe*", rate(2)), ("DescribeVolumes", rate(3)), ("Describe*:unfiltered", rate(4))];
    let limits = Limits { enabled: true, rates: rates.map(|(n, r)| (n.to_owned(), r)).into() };
    limits.check().unwrap();
    let mut buckets = Buckets::new(limits);
    assert_eq!(burst(&mut buckets, at(0.0), &create(), 1.0), 1);
    assert_eq!(burst(&mut buckets, at(0.0), &filtered(), 1.0), 3);
    assert_eq!(burst(&mut buckets, at(0.0), &by_id(), 1.0), 4);
    let levels = buckets.levels(at(1.0), |_| 1.0);
    let shown: Vec<_> = levels.iter().map(|l| (l.bucket.as_str(), l.tokens)).collect();
    assert_eq!(shown, [("CreateVolume", 1.0), ("DescribeVolumes", 1.0), ("DescribeVolumes:unfiltered", 1.0)]);
}

#[test]
fn limit_for_unknown_action_is_rejected_by_name() {
    for (name, word) in
        [("CreateVolum", "no such action"), ("CreateVolume:unfiltered", "only valid"), ("", "no such action")]
    {
        let limits = Limits { enabled: true, rates: [(name.to_owned(), Rate { capacity: 1, per_second: 1 })].into() };
        let message = limits.check().unwrap_err().to_string();
        assert!(message.contains(word) && message.contains(name), "{message}");
    }
}

#[test]
fn clock_that_is_set_back_refills_nothing() {
    let mut buckets = Buckets::new(Limits::ec2());
    burst(&mut buckets, at(100.0), &create(), 1.0);
    assert_eq!(burst(&mut buckets, at(50.0), &create(), 1.0), 0);
    assert_eq!(burst(&mut buckets, at(101.0), &create(), 1.0), 5);
}
