use ebs_ec2::{ModificationState, Tags, VolumeId, VolumeType};

use super::*;
use crate::volume::plan::tests::volume as a_volume;

fn volume(tags: &[(&str, &str)]) -> Volume {
    let tags: Tags = tags.iter().map(|(k, v)| (format!("ebs.csi.aws.com/{k}"), (*v).to_owned())).collect();
    Volume { volume_type: VolumeType::Io2, size: Gib(10), iops: Some(500), tags, ..a_volume("us-west-2a", "usw2-az1") }
}

fn requested(spec: &ModifySpec, volume: &Volume) -> RequestedIops {
    requested_iops(spec, volume, &DriverName::default())
}

/// A ratio in the request does not need `AllowAutoIOPSIncreaseOnModify`.
#[test]
fn iops_or_ratio_in_request_wins_over_tagged_ratio() {
    let tagged = volume(&[("IOPSPerGb", "7"), ("AllowAutoIOPSIncreaseOnModify", "true")]);
    let asked = |iops| requested(&ModifySpec { iops, ..ModifySpec::default() }, &tagged);
    for request in [IopsRequest::explicit(900), IopsRequest::per_gib(3)] {
        assert_eq!(asked(request), RequestedIops { request, only_raises: false });
    }
    for nothing in [IopsRequest::Default, IopsRequest::explicit(0), IopsRequest::per_gib(0)] {
        assert_eq!(asked(nothing), RequestedIops { request: IopsRequest::per_gib(7), only_raises: true });
    }
}

/// `AllowAutoIOPSIncreaseOnModify` in the request wins over the tag of that name.
#[test]
fn tagged_ratio_applies_only_if_request_or_tag_allows_it() {
    for (tag, asked, counts) in [
        ("true", None, true),
        ("1", None, true),
        ("T", None, true),
        ("false", None, false),
        ("f", None, false),
        ("false", Some(true), true),
        ("true", Some(false), false),
    ] {
        let tagged = volume(&[("IOPSPerGb", "7"), ("AllowAutoIOPSIncreaseOnModify", tag)]);
        let requested = requested(&ModifySpec { auto_iops: asked, ..ModifySpec::default() }, &tagged);
        assert_eq!(requested.request == IopsRequest::per_gib(7), counts, "{tag} {asked:?}");
    }
}

#[test]
fn invalid_iops_tags_are_ignored() {
    for (ratio, allow) in [("many", "true"), ("-5", "true"), ("0", "true"), ("99999999999", "true"), ("7", "yes")] {
        let tagged = volume(&[("IOPSPerGb", ratio), ("AllowAutoIOPSIncreaseOnModify", allow)]);
        assert_eq!(requested(&ModifySpec::default(), &tagged).request, IopsRequest::Default, "{ratio} {allow}");
    }
}

#[test]
fn request_names_only_changed_properties() {
    let now = Volume { throughput: Some(125), ..volume(&[]) };
    let asked = |spec: &ModifySpec, iops| request(spec, &now, requested(spec, &now), iops);
    let same = ModifySpec {
        size: Some(Gib(10)),
        volume_type: Some(VolumeType::Io2),
        iops: IopsRequest::explicit(500),
        throughput: NonZeroU32::new(125),
        ..ModifySpec::default()
    };
    assert!(is_nothing(&asked(&same, Some(500))));
    let smaller = ModifySpec { size: Some(Gib(5)), throughput: NonZeroU32::new(0), ..ModifySpec::default() };
    assert!(is_nothing(&asked(&smaller, None)));
    let other = ModifySpec {
        size: Some(Gib(11)),
        volume_type: Some(VolumeType::Gp3),
        iops: IopsRequest::explicit(400),
        throughput: NonZeroU32::new(200),
        ..ModifySpec::default()
    };
    let all = asked(&other, Some(400));
    assert_eq!((all.size, all.volume_type.clone()), (Some(Gib(11)), Some(VolumeType::Gp3)));
    assert_eq!((all.iops, all.throughput), (Some(400), Some(200)), "a request may lower them");
}

/// EC2 keeps IOPS and throughput only if the type stays the same.
#[test]
fn request_with_another_type_names_all_properties() {
    let now = Volume { throughput: Some(200), ..volume(&[]) };
    let spec = ModifySpec {
        volume_type: Some(VolumeType::Gp3),
        iops: IopsRequest::explicit(500),
        throughput: NonZeroU32::new(200),
        ..ModifySpec::default()
    };
    let asked = request(&spec, &now, requested(&spec, &now), Some(500));
    assert_eq!((asked.volume_type, asked.iops, asked.throughput), (Some(VolumeType::Gp3), Some(500), Some(200)));
}

#[test]
fn tags_never_lower_iops() {
    let now = volume(&[("IOPSPerGb", "7"), ("AllowAutoIOPSIncreaseOnModify", "true")]);
    let grow = ModifySpec::size(Gib(20));
    assert_eq!(request(&grow, &now, requested(&grow, &now), Some(140)).iops, None);
    assert_eq!(request(&grow, &now, requested(&grow, &now), Some(600)).iops, Some(600));
}

#[test]
fn result_is_checked_against_all_requested_properties() {
    let ask = ModifyVolume {
        volume: VolumeId::parse("vol-1").unwrap(),
        size: Some(Gib(20)),
        volume_type: Some(VolumeType::Gp3),
        iops: Some(4000),
        throughput: Some(200),
    };
    let there =
        Volume { size: Gib(21), volume_type: VolumeType::Gp3, iops: Some(4000), throughput: Some(200), ..volume(&[]) };
    assert!(is_met(&ask, &there));
    assert!(!is_met(&ask, &Volume { size: Gib(19), ..there.clone() }));
    assert!(!is_met(&ask, &Volume { volume_type: VolumeType::Io2, ..there.clone() }));
    assert!(!is_met(&ask, &Volume { iops: Some(4001), ..there.clone() }));
    assert!(!is_met(&ask, &Volume { throughput: None, ..there }));
    let modification = Modification {
        volume: ask.volume.clone(),
        state: ModificationState::Modifying,
        status_message: None,
        target_size: Some(Gib(20)),
        target_type: Some(VolumeType::Gp3),
        target_iops: Some(4000),
        target_throughput: Some(200),
        started: None,
    };
    assert!(leads_to(&ask, &modification));
    assert!(!leads_to(&ask, &Modification { target_size: Some(Gib(19)), ..modification.clone() }));
    assert!(!leads_to(&ask, &Modification { target_type: None, ..modification.clone() }));
    assert!(!leads_to(&ask, &Modification { target_iops: Some(3000), ..modification.clone() }));
    assert!(!leads_to(&ask, &Modification { target_throughput: None, ..modification }));
}

#[test]
fn iops_maximum_never_cuts_below_the_current_iops() {
    let gp3 = VolumeType::Gp3.iops_limits();
    let limited = |max| gp3.map(|limits| limits.with_max(max));
    let within = |asked, max, now| iops_within(IopsRequest::explicit(asked), Gib(500), limited(max), now);
    assert_eq!(within(60_000, None, Some(60_000)), Some(60_000), "no maximum is known");
    assert_eq!(within(60_000, Some(16_000), Some(60_000)), Some(60_000));
    assert_eq!(within(60_000, Some(16_000), Some(20_000)), Some(20_000));
    assert_eq!(within(60_000, Some(16_000), None), Some(16_000));
    assert_eq!(within(4000, Some(16_000), Some(60_000)), Some(4000), "the request is for fewer");
    assert_eq!(within(1000, Some(16_000), Some(3000)), Some(3000), "lifted to the minimum");
    assert_eq!(iops_within(IopsRequest::Default, Gib(500), gp3, Some(4000)), None);
}
