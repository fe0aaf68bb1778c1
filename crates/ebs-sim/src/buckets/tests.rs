//! The buckets, on a clock made of numbers.

use std::time::Duration;

use super::*;
use crate::api::{AttachVolume, CreateTags, CreateVolume, DescribeVolumes, DetachVolume, Filter};

fn at(seconds: f64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs_f64(seconds)
}

fn create() -> Call {
    Call::CreateVolume(CreateVolume::default())
}

fn by_id() -> Call {
    Call::DescribeVolumes(DescribeVolumes { volume_ids: vec!["vol-1".into()], ..Default::default() })
}

fn filtered() -> Call {
    let filters = vec![Filter { name: "volume-id".into(), values: vec!["vol-1".into()] }];
    Call::DescribeVolumes(DescribeVolumes { filters, ..Default::default() })
}

fn paged() -> Call {
    Call::DescribeVolumes(DescribeVolumes { max_results: Some(5), ..Default::default() })
}

/// How many calls pass at one moment.
fn burst(buckets: &mut Buckets, now: SystemTime, call: &Call, share: f64) -> usize {
    (0..1000).take_while(|_| buckets.draw(now, call, share).is_ok()).count()
}

/// EC2 keeps one token bucket for each action, of the documented size and refill; a describe without filters and pages
/// has a smaller one of its own.
#[test]
fn every_action_has_its_documented_bucket() {
    let tags = Call::CreateTags(CreateTags::default());
    let attach = Call::AttachVolume(AttachVolume::default());
    let detach = Call::DetachVolume(DetachVolume::default());
    for (call, capacity, per_second) in [
        (create(), 100, 5),
        (tags, 100, 10),
        (attach, 50, 5),
        (detach, 50, 5),
        (filtered(), 100, 20),
        (by_id(), 50, 10),
        (Call::DescribeVolumes(DescribeVolumes::default()), 50, 10),
    ] {
        let mut buckets = Buckets::new(Limits::ec2());
        assert_eq!(burst(&mut buckets, at(0.0), &call, 1.0), capacity, "{call:?}");
        assert_eq!(burst(&mut buckets, at(1.0), &call, 1.0), per_second, "{call:?}");
        assert_eq!(burst(&mut buckets, at(1000.0), &call, 1.0), capacity, "{call:?}: full again, and no fuller");
    }
}

/// An empty bucket answers RequestLimitExceeded with HTTP 503, costs nothing and does nothing.
#[test]
fn an_empty_bucket_answers_as_ec2_does() {
    let mut buckets = Buckets::new(Limits::ec2());
    burst(&mut buckets, at(0.0), &create(), 1.0);
    let fault = buckets.draw(at(0.1), &create(), 1.0).unwrap_err();
    assert_eq!((fault.code.as_str(), fault.status), ("RequestLimitExceeded", 503));
    assert!(buckets.draw(at(0.2), &create(), 1.0).is_ok(), "a refused call costs nothing");
}

/// One action does not draw on another's bucket; filtered and paged describes share one.
#[test]
fn one_action_does_not_draw_on_the_bucket_of_another() {
    let mut buckets = Buckets::new(Limits::ec2());
    burst(&mut buckets, at(0.0), &by_id(), 1.0);
    assert!(buckets.draw(at(0.0), &create(), 1.0).is_ok());
    assert!(buckets.draw(at(0.0), &filtered(), 1.0).is_ok());
    let before = burst(&mut buckets, at(0.0), &paged(), 1.0);
    assert_eq!(before, 99, "filtered and paged calls share one");
}

/// Another client takes its fraction of size and refill of every bucket it draws on.
#[test]
fn another_client_takes_its_part_of_size_and_refill() {
    let mut buckets = Buckets::new(Limits::ec2());
    assert_eq!(burst(&mut buckets, at(0.0), &create(), 0.5), 50);
    assert_eq!(burst(&mut buckets, at(2.0), &create(), 0.5), 5);
    assert_eq!(burst(&mut buckets, at(4.0), &create(), 1.0), 10, "it has left");
}

#[test]
fn without_limits_nothing_is_throttled() {
    let mut buckets = Buckets::new(Limits::off());
    assert_eq!(burst(&mut buckets, at(0.0), &create(), 1.0), 1000);
    assert_eq!(buckets.levels(at(0.0), |_| 1.0), []);
}

/// Limits can be replaced by action or beginning of one; a name that means no action is refused.
#[test]
fn the_nearest_name_sets_the_rate() {
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

/// A bad limit is refused with its name.
#[test]
fn a_limit_for_no_action_is_refused_by_name() {
    for (name, word) in [("CreateVolum", "no action"), ("CreateVolume:unfiltered", "only describes"), ("", "no action")]
    {
        let limits = Limits { enabled: true, rates: [(name.to_owned(), Rate { capacity: 1, per_second: 1 })].into() };
        let message = limits.check().unwrap_err().to_string();
        assert!(message.contains(word) && message.contains(name), "{message}");
    }
}

#[test]
fn a_clock_that_goes_back_refills_nothing() {
    let mut buckets = Buckets::new(Limits::ec2());
    burst(&mut buckets, at(100.0), &create(), 1.0);
    assert_eq!(burst(&mut buckets, at(50.0), &create(), 1.0), 0);
    assert_eq!(burst(&mut buckets, at(101.0), &create(), 1.0), 5);
}
