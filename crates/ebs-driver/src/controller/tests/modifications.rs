//! Changes of volumes: classes, growth, and both at once.

use csi_proto::modify::{GetCsiDriverModificationCapabilityRequest, ModifyVolumePropertiesRequest};
use ebs_ec2::{ErrorClass, Limit};
use ebs_sim::api::Call;
use ebs_sim::engine::TimingOverride;
use ebs_sim::faults::{Effect, Rule};
use ebs_types::{Tags, VolumeId};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::operation::Key;

const WINDOW: Duration = Duration::from_secs(2);
const MOMENT: Duration = Duration::from_millis(100);
const MISSING: &str = "vol-0123456789abcdef0";

/// A new volume of 10 GiB, large enough for some IOPS, and a driver that has run for a while.
async fn a_volume(world: &World, name: &str) -> String {
    let capacity_range = Some(CapacityRange { required_bytes: 10 * GIB, limit_bytes: 0 });
    let request = CreateVolumeRequest { capacity_range, ..in_zone(named(name), "us-west-2a") };
    let volume = world.create(request).await.expect("created").volume_id;
    sleep(Duration::from_secs(60)).await;
    volume
}

/// The resizer and the volume modifier have asked this driver alone for a while.
async fn lead(world: &World, volume: &str) {
    for by in [By::Csi, By::VolumeModifier] {
        modify_by(by, world, volume, &[]).await.expect("nothing to do");
    }
    sleep(Duration::from_secs(60)).await;
}

/// When ModifyVolume is sent.
async fn sent_at(world: &World) -> Instant {
    let gate = world.ec2.hold(Action::ModifyVolume);
    gate.reached().await;
    gate.release();
    Instant::now()
}

/// Which of the two services is asked.
#[derive(Debug, Clone, Copy)]
enum By {
    Csi,
    VolumeModifier,
}

async fn modify_by(by: By, world: &World, volume: &str, class: &[(&str, &str)]) -> Result<(), Refused> {
    let (volume, parameters) = (volume.to_owned(), map(class));
    let answer = match by {
        By::Csi => {
            let request = ControllerModifyVolumeRequest {
                volume_id: volume,
                mutable_parameters: parameters,
                ..Default::default()
            };
            world.service.controller_modify_volume(world.over(request)).await.map(drop)
        }
        By::VolumeModifier => {
            let request = ModifyVolumePropertiesRequest { name: volume, parameters, context: HashMap::new() };
            world.service.modify_volume_properties(world.over(request)).await.map(drop)
        }
    };
    answer.map_err(Refused::from)
}

pub(super) async fn modify(world: &World, volume: &str, class: &[(&str, &str)]) -> Result<(), Refused> {
    modify_by(By::Csi, world, volume, class).await
}

pub(super) async fn grow(world: &World, volume: &str, gib: i64) -> Result<i64, Refused> {
    let request = ControllerExpandVolumeRequest {
        volume_id: volume.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
        ..Default::default()
    };
    let answer = world.service.controller_expand_volume(world.over(request)).await.map_err(Refused::from)?;
    Ok(answer.into_inner().capacity_bytes / GIB)
}

/// The only volume: its size, type, IOPS and throughput.
async fn properties(world: &World) -> (u32, String, Option<u32>, Option<u32>) {
    let volume = world.volumes().await.remove(0);
    (volume.size_gib, volume.volume_type, volume.iops, volume.throughput)
}

async fn tags_of(world: &World) -> Tags {
    world.volumes().await.remove(0).tags
}

/// Size, IOPS and throughput of each ModifyVolume so far.
fn asked(world: &World) -> Vec<(Option<i64>, Option<i64>, Option<i64>)> {
    let of = |call: Call| match call {
        Call::ModifyVolume(request) => Some((request.size, request.iops, request.throughput)),
        _ => None,
    };
    world.ec2.calls().into_iter().filter_map(|call| of(call.request)).collect()
}

/// A class changes type, IOPS, throughput and tags of a volume, with the claim's names in values of tags; the older
/// service does the same.
#[tokio::test(start_paused = true)]
async fn a_class_changes_properties_and_tags_through_both_services() {
    for by in [By::Csi, By::VolumeModifier] {
        let world = World::start().await;
        let volume = a_volume(&world, "pvc-1").await;
        let class = [
            ("Type", "gp3"),
            ("IOPS", "4000"),
            ("throughput", "250"),
            ("csi.storage.k8s.io/pvc/name", "data"),
            ("csi.storage.k8s.io/pvc/namespace", "shop"),
            ("csi.storage.k8s.io/pv/name", "pv-1"),
            ("tagSpecification_1", "claim={{ .PVCNamespace }}/{{ .PVCName }}/{{ .PVName }}"),
            ("tagSpecification_2", "team=red"),
        ];
        modify_by(by, &world, &volume, &class).await.expect("changed");
        assert_eq!(properties(&world).await, (10, "gp3".to_owned(), Some(4000), Some(250)), "{by:?}");
        let tags = tags_of(&world).await;
        assert_eq!((tags["claim"].as_str(), tags["team"].as_str()), ("shop/data/pv-1", "red"));
        sleep(Duration::from_secs(60)).await;
        modify_by(by, &world, &volume, &[("tagDeletion_1", "team")]).await.expect("deleted");
        assert_eq!((tags_of(&world).await.get("team"), asked(&world).len()), (None, 1));
    }
    let world = World::start().await;
    let asked = GetCsiDriverModificationCapabilityRequest {};
    world.service.get_csi_driver_modification_capability(Request::new(asked)).await.expect("it is there");
}

/// A handle, parameters, the code that they get, and a part of its message.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// What a class may not say is refused before EC2 is asked, and always: `--warn-on-invalid-tag` is not for
/// modifications.
#[tokio::test(start_paused = true)]
async fn what_a_class_may_not_say_is_refused_before_ec2_is_asked() {
    let mut world = World::start().await;
    let tags = TagPolicy { warn_on_invalid: true, ..TagPolicy::default() };
    let options = ControllerOptions { tags, ..ControllerOptions::default() };
    world.service = ControllerService { options: Arc::new(options), ..world.service };
    let volume = a_volume(&world, "pvc-1").await;
    world.ec2.clear_calls();
    let rows: [Row<'_>; 12] = [
        ("", &[], "InvalidArgument", "the request has no"),
        ("local-ebs://dev/x", &[], "InvalidArgument", "local-ebs"),
        ("disk-7", &[], "NotFound", "disk-7"),
        (&volume, &[("encrypted", "true")], "InvalidArgument", "encrypted"),
        (&volume, &[("iops", "many")], "InvalidArgument", "many"),
        (&volume, &[("iops", "3000"), ("IOPS", "3001")], "InvalidArgument", "differ only in case"),
        (&volume, &[("iops", "3000"), ("iopsPerGB", "50")], "InvalidArgument", "exclude each other"),
        (&volume, &[("allowAutoIOPSIncreaseOnModify", "yes")], "InvalidArgument", "yes"),
        (&volume, &[("tagSpecification_1", "team")], "InvalidArgument", "key=value"),
        (&volume, &[("tagSpecification_1", "CSIVolumeName=x")], "InvalidArgument", "reserved"),
        (&volume, &[("tagSpecification_1", "a={{ .Nothing }}")], "InvalidArgument", "not valid"),
        (&volume, &[("tagDeletion_1", "ebs.csi.aws.com/cluster")], "InvalidArgument", "reserved"),
    ];
    for (volume, class, code, says) in rows {
        for by in [By::Csi, By::VolumeModifier] {
            refused(modify_by(by, &world, volume, class).await, code, says);
        }
    }
    assert_eq!(world.ec2.calls(), []);
}

/// A class that asks for nothing changes nothing, and a volume that does not exist is NotFound all the same.
#[tokio::test(start_paused = true)]
async fn an_empty_class_changes_nothing_and_a_missing_volume_is_not_found() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    for class in [&[][..], &[("iops", "0"), ("type", "")]] {
        modify(&world, &volume, class).await.expect("nothing to do");
    }
    assert_eq!(world.mutations(), [Action::CreateVolume]);
    for class in [&[][..], &[("throughput", "250")], &[("tagSpecification_1", "a=b")]] {
        refused(modify(&world, MISSING, class).await, "NotFound", MISSING);
    }
}

/// The ratio of IOPS and the flag are kept in tags, the flag normalised, and count at later expansions.
#[tokio::test(start_paused = true)]
async fn the_ratio_of_iops_is_kept_and_counts_at_later_expansions() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    let class = [("iopsPerGB", "500"), ("allowAutoIOPSIncreaseOnModify", "T")];
    modify(&world, &volume, &class).await.expect("changed");
    let tags = tags_of(&world).await;
    assert_eq!(tags["ebs.csi.aws.com/IOPSPerGb"], "500");
    assert_eq!(tags["ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify"], "true");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(grow(&world, &volume, 20).await, Ok(20));
    assert_eq!(properties(&world).await.2, Some(10_000));
}

/// Tags of `--extra-tags` stay as they are, whatever a class says.
#[tokio::test(start_paused = true)]
async fn extra_tags_are_stronger_than_a_class() {
    let mut world = World::start().await;
    let extra = Tags::from([("cost".to_owned(), "a".to_owned()), ("unit".to_owned(), "b".to_owned())]);
    let options =
        ControllerOptions { tags: TagPolicy { extra, ..TagPolicy::default() }, ..ControllerOptions::default() };
    world.service = ControllerService { options: Arc::new(options), ..world.service };
    let volume = a_volume(&world, "pvc-1").await;
    let class = [("tagSpecification_1", "cost=mine"), ("tagDeletion_1", "unit"), ("tagSpecification_2", "team=red")];
    modify(&world, &volume, &class).await.expect("changed");
    let tags = tags_of(&world).await;
    assert_eq!((tags["cost"].as_str(), tags["unit"].as_str(), tags["team"].as_str()), ("a", "b", "red"));
}

/// Growth and a class that come together become one ModifyVolume, without waiting for the end of the window.
#[tokio::test(start_paused = true)]
async fn growth_and_a_class_become_one_modification_at_once() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    lead(&world, &volume).await;
    let began = Instant::now();
    let class = [("iops", "4000"), ("throughput", "250")];
    let (sent, grown, changed) =
        tokio::join!(sent_at(&world), grow(&world, &volume, 20), modify(&world, &volume, &class));
    assert_eq!((grown, changed), (Ok(20), Ok(())));
    assert_eq!(asked(&world), [(Some(20), Some(4000), Some(250))]);
    assert!(sent - began < WINDOW, "{:?}", sent - began);
}

/// A request alone waits for others for the length of the window; all that come within it are one ModifyVolume.
#[tokio::test(start_paused = true)]
async fn classes_within_the_window_become_one_modification_at_its_end() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    lead(&world, &volume).await;
    let began = Instant::now();
    let (sent, first, second, again) = tokio::join!(
        sent_at(&world),
        modify(&world, &volume, &[("iops", "4000")]),
        async {
            sleep(WINDOW - MOMENT).await;
            modify_by(By::VolumeModifier, &world, &volume, &[("throughput", "250")]).await
        },
        async {
            sleep(MOMENT).await;
            modify(&world, &volume, &[("iops", "4000")]).await
        },
    );
    assert_eq!((first, second, again), (Ok(()), Ok(()), Ok(())));
    assert_eq!(asked(&world), [(None, Some(4000), Some(250))]);
    assert!((WINDOW..WINDOW * 2).contains(&(sent - began)), "{:?}", sent - began);
}

/// The ratio of IOPS counts whichever request of the window came first, with the size of the other.
#[tokio::test(start_paused = true)]
async fn the_ratio_of_a_later_request_counts_for_the_size_of_an_earlier_one() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    let class = [("iopsPerGB", "400"), ("allowAutoIOPSIncreaseOnModify", "true")];
    let (grown, changed) = tokio::join!(grow(&world, &volume, 20), modify(&world, &volume, &class));
    assert_eq!((grown, changed), (Ok(20), Ok(())));
    assert_eq!(asked(&world), [(Some(20), Some(8000), None)]);
}

/// What contradicts a request of the window is Aborted, and disturbs nobody.
#[tokio::test(start_paused = true)]
async fn what_contradicts_is_aborted_and_disturbs_nobody() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    let other = async |class: &[(&str, &str)]| {
        sleep(MOMENT).await;
        modify(&world, &volume, class).await
    };
    let (first, iops, ratio, tag) = tokio::join!(
        modify(&world, &volume, &[("iops", "4000"), ("tagSpecification_1", "a=1")]),
        other(&[("iops", "5000")]),
        other(&[("iopsPerGB", "500")]),
        other(&[("tagSpecification_1", "a=2")]),
    );
    first.expect("undisturbed");
    for aborted in [iops, ratio, tag] {
        refused(aborted, "Aborted", &volume);
    }
    assert_eq!(asked(&world), [(None, Some(4000), None)]);
}

/// While a modification runs, no second window opens: another request is Aborted, the same one joins.
#[tokio::test(start_paused = true)]
async fn no_second_window_opens_while_one_modification_runs() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    let timing = TimingOverride { modify_ms: Some(60_000), ..TimingOverride::default() };
    world.ec2.engine().set_timing(timing).await;
    let (first, other, same) = tokio::join!(
        modify(&world, &volume, &[("iops", "4000")]),
        async {
            sleep(WINDOW + MOMENT).await;
            grow(&world, &volume, 20).await
        },
        async {
            sleep(WINDOW * 2).await;
            modify(&world, &volume, &[("iops", "4000")]).await
        },
    );
    assert_eq!((first, same), (Ok(()), Ok(())));
    refused(other.map(drop), "Aborted", "still running");
    assert_eq!(asked(&world).len(), 1);
}

/// What EC2 refuses of several requests together is tried one by one: each gets its own result, with its own code.
#[tokio::test(start_paused = true)]
async fn a_bad_value_of_one_request_does_not_refuse_another() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    let (changed, grown) = tokio::join!(
        modify(&world, &volume, &[("throughput", "90000"), ("tagSpecification_1", "a=1")]),
        grow(&world, &volume, 20),
    );
    assert_eq!(grown, Ok(20));
    refused(changed, "InvalidArgument", "modify volume");
    assert_eq!(properties(&world).await, (20, "gp3".to_owned(), Some(3000), Some(125)));
    assert_eq!(tags_of(&world).await.get("a"), None, "a refused class changes no tag");
}

/// A quota that the class exceeds is no reason to refuse the growth.
#[tokio::test(start_paused = true)]
async fn a_quota_that_a_class_exceeds_does_not_refuse_growth() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    world.ec2.fail_next(Action::ModifyVolume, ErrorClass::LimitExceeded(Limit::Iops), false);
    let (grown, changed) = tokio::join!(grow(&world, &volume, 20), modify(&world, &volume, &[("iops", "4000")]));
    assert_eq!((grown, changed), (Ok(20), Ok(())));
    assert_eq!(asked(&world), [(Some(20), Some(4000), None), (Some(20), None, None), (None, Some(4000), None)]);
}

/// A limit of EC2 says when it ends and is not asked again; a quota is ResourceExhausted, a value InvalidArgument.
#[tokio::test(start_paused = true)]
async fn a_limit_says_when_it_ends() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    let timing = TimingOverride { optimize_ms: Some(3_600_000), ..TimingOverride::default() };
    world.ec2.engine().set_timing(timing).await;
    world.ec2.fail_next(Action::ModifyVolume, ErrorClass::LimitExceeded(Limit::Iops), false);
    refused(modify(&world, &volume, &[("iops", "4000")]).await, "ResourceExhausted", &volume);
    refused(modify(&world, &volume, &[("throughput", "90000")]).await, "InvalidArgument", &volume);
    modify(&world, &volume, &[("iops", "4000")]).await.expect("changed");
    let calls = asked(&world).len();
    let both = tokio::join!(modify(&world, &volume, &[("iops", "5000")]), grow(&world, &volume, 20));
    refused(both.0, "FailedPrecondition", "still being optimized");
    refused(both.1.map(drop), "FailedPrecondition", "still being optimized");
    assert_eq!(asked(&world).len(), calls + 1, "asked once for both");
}

/// A change that nobody waits for any more is not begun, and gives way to another one and to a shutdown.
#[tokio::test(start_paused = true)]
async fn a_change_that_nobody_waits_for_is_not_begun_and_gives_way() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    let leave = async |iops: &str| {
        let left = timeout(MOMENT, modify(&world, &volume, &[("iops", iops)])).await;
        assert!(left.is_err(), "the window is open");
    };
    leave("4000").await;
    sleep(WINDOW * 10).await;
    assert_eq!(asked(&world), []);
    modify(&world, &volume, &[("iops", "5000")]).await.expect("takes over");
    assert_eq!(asked(&world), [(None, Some(5000), None)]);
    sleep(Duration::from_secs(60)).await;
    leave("6000").await;
    assert_eq!(world.operations.running(), [Key::Volume(VolumeId::parse(&volume).expect("an id"))]);
    world.delete(&volume).await.expect("takes over");
    let other = a_volume(&world, "pvc-2").await;
    let left = timeout(MOMENT, modify(&world, &other, &[("iops", "6000")])).await;
    assert!(left.is_err(), "the window is open");
    assert!(world.operations.drain(Duration::from_secs(20)).await.is_empty());
    assert_eq!(asked(&world).len(), 1);
}

/// A request that comes again after the window goes on at once: a client that waits for less than a window opens none
/// anew.
#[tokio::test(start_paused = true)]
async fn a_request_that_comes_again_after_the_window_goes_on_at_once() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    let left = timeout(MOMENT, modify(&world, &volume, &[("iops", "4000")])).await;
    assert!(left.is_err(), "the window is open");
    sleep(Duration::from_secs(1800)).await;
    let began = Instant::now();
    let (sent, again) = tokio::join!(sent_at(&world), modify(&world, &volume, &[("iops", "4000")]));
    again.expect("changed");
    assert!(sent - began < MOMENT, "{:?}", sent - began);
}

/// A class that was left by its caller is not carried out with the growth that comes back: the user may have chosen another
/// class meanwhile, through another driver.
#[tokio::test(start_paused = true)]
async fn growth_does_not_bring_back_an_abandoned_class() {
    for has_begun in [false, true] {
        let world = World::start().await;
        let volume = a_volume(&world, "pvc-1").await;
        lead(&world, &volume).await;
        let patience = if has_begun { WINDOW * 2 } else { MOMENT };
        if has_begun {
            let slow = Rule::new(Effect::DelayReply { ms: 5_000, spread_ms: 0 }).on("DescribeVolumesModifications");
            world.ec2.faults().add(slow).expect("a rule");
        }
        let class = [("iops", "4000"), ("tagSpecification_1", "tier=old")];
        let growth = async {
            if has_begun {
                let left = timeout(patience, grow(&world, &volume, 20)).await;
                assert!(left.is_err(), "the caller left, not {left:?}");
            }
        };
        let (class, ()) = tokio::join!(timeout(patience, modify(&world, &volume, &class)), growth);
        assert!(class.is_err(), "the caller left");
        sleep(Duration::from_secs(1800)).await;
        assert_eq!(grow(&world, &volume, 20).await, Ok(20), "{has_begun}");
        assert_eq!(properties(&world).await, (20, "gp3".to_owned(), Some(3000), Some(125)), "{has_begun}");
        assert_eq!(tags_of(&world).await.get("tier"), None, "{has_begun}");
    }
}

/// While the driver waits for an earlier modification, the caller of the class leaves and the caller of growth stays.
#[tokio::test(start_paused = true)]
async fn growth_goes_on_without_a_class_that_was_left() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    lead(&world, &volume).await;
    let slow = Rule::new(Effect::DelayReply { ms: 5_000, spread_ms: 0 }).on("DescribeVolumesModifications");
    world.ec2.faults().add(slow).expect("a rule");
    let class = [("iops", "4000"), ("tagSpecification_1", "tier=old")];
    let left = async {
        let class = timeout(WINDOW, modify(&world, &volume, &class)).await;
        assert!(class.is_err(), "the caller left");
    };
    let (grown, ()) = tokio::join!(grow(&world, &volume, 20), left);
    assert_eq!(grown, Ok(20));
    assert_eq!(properties(&world).await, (20, "gp3".to_owned(), Some(3000), Some(125)));
    assert_eq!(tags_of(&world).await.get("tier"), None);
}

/// Callers that come back one after the other still get one ModifyVolume: EC2 takes the next one hours later.
#[tokio::test(start_paused = true)]
async fn callers_that_return_within_a_window_are_served_together() {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    lead(&world, &volume).await;
    let timing = TimingOverride { optimize_ms: Some(3_600_000), ..TimingOverride::default() };
    world.ec2.engine().set_timing(timing).await;
    let slow = Rule::new(Effect::DelayReply { ms: 5_000, spread_ms: 0 }).on("DescribeVolumesModifications");
    world.ec2.faults().add(slow).expect("a rule");
    let class = [("iops", "4000")];
    let left =
        tokio::join!(timeout(WINDOW, grow(&world, &volume, 20)), timeout(WINDOW, modify(&world, &volume, &class)));
    assert!(left.0.is_err() && left.1.is_err(), "both callers left");
    sleep(Duration::from_secs(60)).await;
    let (grown, changed) = tokio::join!(grow(&world, &volume, 20), async {
        sleep(WINDOW / 4).await;
        modify(&world, &volume, &class).await
    });
    assert_eq!((grown, changed), (Ok(20), Ok(())));
    assert_eq!(asked(&world), [(Some(20), Some(4000), None)]);
}

/// Both services know the same keys at creation and at modification, in any case.
#[tokio::test(start_paused = true)]
async fn creation_and_modification_know_the_same_keys_in_any_case() {
    let world = World::start().await;
    for key in crate::parameters::MutableParameters::described() {
        let value = match key.key {
            "type" | "volumeType" => "gp3",
            "allowAutoIOPSIncreaseOnModify" => "true",
            "iopsPerGB" => "500",
            "throughput" => "200",
            "iops" => "4000",
            _ => "name",
        };
        for spelling in [key.key.to_owned(), key.key.to_uppercase(), key.key.to_lowercase()] {
            let class = [(spelling.as_str(), value)];
            let capacity_range = Some(CapacityRange { required_bytes: 10 * GIB, limit_bytes: 0 });
            let name = format!("pvc-{spelling}");
            let request = CreateVolumeRequest { mutable_parameters: map(&class), capacity_range, ..named(&name) };
            let volume = world.create(request).await.expect("created").volume_id;
            modify(&world, &volume, &class).await.expect("modified");
        }
    }
}
