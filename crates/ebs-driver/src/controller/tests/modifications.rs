//! Tests changes of volumes: attributes classes, expansions, and both at the same time.

use csi_proto::modify::{GetCsiDriverModificationCapabilityRequest, ModifyVolumePropertiesRequest};
use ebs_ec2::{ErrorClass, Limit, Tags, VolumeId};
use ebs_sim::api::Call;
use ebs_sim::faults::{Effect, Rule};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::operation::Key;

const WINDOW: Duration = Duration::from_secs(2);
const MOMENT: Duration = Duration::from_millis(100);

/// Creates a volume of 10 GiB, which is large enough for a few thousand IOPS. Then waits, so that the volume is no
/// longer new.
async fn a_volume(world: &World, name: &str) -> String {
    let volume = world.create(of_gib(in_zone(named(name), HERE), 10)).await.expect("created").volume_id;
    sleep(Duration::from_secs(60)).await;
    volume
}

/// Makes this driver the leader: the only one that the resizer and the volume modifier have called for a while.
async fn lead(world: &World, volume: &str) {
    for by in [By::Csi, By::VolumeModifier] {
        modify_by(by, world, volume, &[]).await.expect("nothing to do");
    }
    sleep(Duration::from_secs(60)).await;
}

/// Waits until the driver sends ModifyVolume, and returns the time.
async fn sent_at(world: &World) -> Instant {
    let gate = world.ec2.hold(Action::ModifyVolume);
    gate.reached().await;
    gate.release();
    Instant::now()
}

/// The service that receives the request.
#[derive(Debug, Clone, Copy)]
enum By {
    Csi,
    VolumeModifier,
}

async fn modify_by(by: By, world: &World, volume: &str, class: &[(&str, &str)]) -> Result<(), Refused> {
    let (name, parameters) = (volume.to_owned(), map(class));
    match by {
        By::Csi => world.modify(volume, class).await,
        By::VolumeModifier => {
            let request = ModifyVolumePropertiesRequest { name, parameters, context: HashMap::new() };
            ask!(world, modify_volume_properties, request).map(drop)
        }
    }
}

/// Returns a world with a volume, in which this driver leads and EC2 takes a while to describe modifications.
async fn slow_world() -> (World, String) {
    let (world, volume) = leading_world().await;
    let slow = Rule::new(Effect::DelayReply { ms: 5_000, spread_ms: 0 }).on("DescribeVolumesModifications");
    world.ec2.faults().add(slow).expect("a rule");
    (world, volume)
}

async fn world_with_volume() -> (World, String) {
    let world = World::start().await;
    let volume = a_volume(&world, "pvc-1").await;
    (world, volume)
}

/// Returns a world with a volume, in which this driver leads.
async fn leading_world() -> (World, String) {
    let (world, volume) = world_with_volume().await;
    lead(&world, &volume).await;
    (world, volume)
}

/// Checks that the volume has grown and that no change of the abandoned class was applied.
async fn has_only_grown(world: &World) {
    assert_eq!(properties(world).await, (20, "gp3".to_owned(), Some(3000), Some(125)));
    assert_eq!(tags_of(world).await.get("tier"), None);
}

/// Returns the size, type, IOPS and throughput of the only volume.
async fn properties(world: &World) -> (u32, String, Option<u32>, Option<u32>) {
    let volume = world.volumes().await.remove(0);
    (volume.size_gib, volume.volume_type, volume.iops, volume.throughput)
}

async fn tags_of(world: &World) -> Tags {
    world.volumes().await.remove(0).tags
}

/// Returns the size, IOPS and throughput of each ModifyVolume call so far.
fn asked(world: &World) -> Vec<(Option<i64>, Option<i64>, Option<i64>)> {
    let of = |call: Call| match call {
        Call::ModifyVolume(request) => Some((request.size, request.iops, request.throughput)),
        _ => None,
    };
    world.ec2.calls().into_iter().filter_map(|call| of(call.request)).collect()
}

/// Tag values contain the names of the claim.
#[tokio::test(start_paused = true)]
async fn class_is_applied_through_csi_and_the_volume_modifier() {
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
    let request = GetCsiDriverModificationCapabilityRequest {};
    ask!(world, get_csi_driver_modification_capability, request).expect("the RPC exists");
}

/// A handle, parameters, the expected code, and a part of the message.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str, &'a str);

/// `--warn-on-invalid-tag` does not apply to modifications.
#[tokio::test(start_paused = true)]
async fn invalid_attributes_class_is_refused_before_any_ec2_call() {
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
        (&volume, &[("iops", "3000"), ("iopsPerGB", "50")], "InvalidArgument", "mutually exclusive"),
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

/// For a missing volume, even an empty class fails.
#[tokio::test(start_paused = true)]
async fn empty_class_changes_nothing_and_detects_a_missing_volume() {
    let (world, volume) = world_with_volume().await;
    for class in [&[][..], &[("iops", "0"), ("type", "")]] {
        world.modify(&volume, class).await.expect("nothing to do");
    }
    assert_eq!(world.mutations(), [Action::CreateVolume]);
    for class in [&[][..], &[("throughput", "250")], &[("tagSpecification_1", "a=b")]] {
        refused(world.modify(NO_VOLUME, class).await, "NotFound", NO_VOLUME);
    }
}

/// Two tags record the IOPS ratio and `allowAutoIOPSIncreaseOnModify`. The second tag contains `true`, whatever the
/// spelling in the request.
#[tokio::test(start_paused = true)]
async fn iops_ratio_is_recorded_and_used_by_later_expansions() {
    let (world, volume) = world_with_volume().await;
    let class = [("iopsPerGB", "500"), ("allowAutoIOPSIncreaseOnModify", "T")];
    world.modify(&volume, &class).await.expect("changed");
    let tags = tags_of(&world).await;
    assert_eq!(tags["ebs.csi.aws.com/IOPSPerGb"], "500");
    assert_eq!(tags["ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify"], "true");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(world.grow(&volume, 20).await, Ok(20));
    assert_eq!(properties(&world).await.2, Some(10_000));
}

/// A class cannot change the tags of `--extra-tags`.
#[tokio::test(start_paused = true)]
async fn extra_tags_override_tags_of_an_attributes_class() {
    let mut world = World::start().await;
    let extra = Tags::from([("cost".to_owned(), "a".to_owned()), ("unit".to_owned(), "b".to_owned())]);
    let options =
        ControllerOptions { tags: TagPolicy { extra, ..TagPolicy::default() }, ..ControllerOptions::default() };
    world.service = ControllerService { options: Arc::new(options), ..world.service };
    let volume = a_volume(&world, "pvc-1").await;
    let class = [("tagSpecification_1", "cost=mine"), ("tagDeletion_1", "unit"), ("tagSpecification_2", "team=red")];
    world.modify(&volume, &class).await.expect("changed");
    let tags = tags_of(&world).await;
    assert_eq!((tags["cost"].as_str(), tags["unit"].as_str(), tags["team"].as_str()), ("a", "b", "red"));
}

/// The driver sends the call without waiting for the end of the window.
#[tokio::test(start_paused = true)]
async fn expansion_and_class_are_sent_together_before_the_window_ends() {
    let (world, volume) = leading_world().await;
    let began = Instant::now();
    let class = [("iops", "4000"), ("throughput", "250")];
    let (sent, grown, changed) = tokio::join!(sent_at(&world), world.grow(&volume, 20), world.modify(&volume, &class));
    assert_eq!((grown, changed), (Ok(20), Ok(())));
    assert_eq!(asked(&world), [(Some(20), Some(4000), Some(250))]);
    assert!(sent - began < WINDOW, "{:?}", sent - began);
}

/// A single request waits for others until the window ends. All requests within the window become one ModifyVolume
/// call.
#[tokio::test(start_paused = true)]
async fn class_changes_within_the_window_become_one_modification() {
    let (world, volume) = leading_world().await;
    let began = Instant::now();
    let (sent, first, second, again) = tokio::join!(
        sent_at(&world),
        world.modify(&volume, &[("iops", "4000")]),
        async {
            sleep(WINDOW - MOMENT).await;
            modify_by(By::VolumeModifier, &world, &volume, &[("throughput", "250")]).await
        },
        async {
            sleep(MOMENT).await;
            world.modify(&volume, &[("iops", "4000")]).await
        },
    );
    assert_eq!((first, second, again), (Ok(()), Ok(()), Ok(())));
    assert_eq!(asked(&world), [(None, Some(4000), Some(250))]);
    assert!((WINDOW..WINDOW * 2).contains(&(sent - began)), "{:?}", sent - began);
}

/// The result does not depend on the order of the two requests in the window.
#[tokio::test(start_paused = true)]
async fn iops_ratio_uses_the_size_of_another_request_in_the_window() {
    let (world, volume) = world_with_volume().await;
    let class = [("iopsPerGB", "400"), ("allowAutoIOPSIncreaseOnModify", "true")];
    let (grown, changed) = tokio::join!(world.grow(&volume, 20), world.modify(&volume, &class));
    assert_eq!((grown, changed), (Ok(20), Ok(())));
    assert_eq!(asked(&world), [(Some(20), Some(8000), None)]);
}

/// The other requests of the window succeed.
#[tokio::test(start_paused = true)]
async fn request_that_contradicts_others_in_its_window_is_aborted() {
    let (world, volume) = world_with_volume().await;
    let other = async |class: &[(&str, &str)]| {
        sleep(MOMENT).await;
        world.modify(&volume, class).await
    };
    let (first, iops, ratio, tag) = tokio::join!(
        world.modify(&volume, &[("iops", "4000"), ("tagSpecification_1", "a=1")]),
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

/// During the modification, a request for another change is Aborted, and an identical request joins the operation.
#[tokio::test(start_paused = true)]
async fn no_second_window_opens_during_a_modification() {
    let (world, volume) = world_with_volume().await;
    world.timing(TimingOverride { modify_ms: Some(60_000), ..Default::default() }).await;
    let (first, other, same) = tokio::join!(
        world.modify(&volume, &[("iops", "4000")]),
        async {
            sleep(WINDOW + MOMENT).await;
            world.grow(&volume, 20).await
        },
        async {
            sleep(WINDOW * 2).await;
            world.modify(&volume, &[("iops", "4000")]).await
        },
    );
    assert_eq!((first, same), (Ok(()), Ok(())));
    refused(other.map(drop), "Aborted", "still running");
    assert_eq!(asked(&world).len(), 1);
}

/// When EC2 rejects the merged requests, the driver tries them one by one. Each gets its own result and code.
#[tokio::test(start_paused = true)]
async fn invalid_value_of_one_request_does_not_fail_another() {
    let (world, volume) = world_with_volume().await;
    let (changed, grown) = tokio::join!(
        world.modify(&volume, &[("throughput", "90000"), ("tagSpecification_1", "a=1")]),
        world.grow(&volume, 20),
    );
    assert_eq!(grown, Ok(20));
    refused(changed, "InvalidArgument", "modify volume");
    assert_eq!(properties(&world).await, (20, "gp3".to_owned(), Some(3000), Some(125)));
    assert_eq!(tags_of(&world).await.get("a"), None, "a refused class changes no tag");
}

/// Only the class exceeds the quota.
#[tokio::test(start_paused = true)]
async fn class_that_exceeds_a_quota_does_not_fail_an_expansion() {
    let (world, volume) = world_with_volume().await;
    world.ec2.fail_next(Action::ModifyVolume, ErrorClass::LimitExceeded(Limit::Iops), false);
    let (grown, changed) = tokio::join!(world.grow(&volume, 20), world.modify(&volume, &[("iops", "4000")]));
    assert_eq!((grown, changed), (Ok(20), Ok(())));
    assert_eq!(asked(&world), [(Some(20), Some(4000), None), (Some(20), None, None), (None, Some(4000), None)]);
}

/// Before the optimization, an exceeded quota and an invalid value have codes of their own. During the optimization,
/// two simultaneous requests fail after a single ModifyVolume call.
#[tokio::test(start_paused = true)]
async fn changes_during_optimization_fail_after_one_ec2_call() {
    let (world, volume) = world_with_volume().await;
    world.timing(TimingOverride { optimize_ms: Some(3_600_000), ..Default::default() }).await;
    world.ec2.fail_next(Action::ModifyVolume, ErrorClass::LimitExceeded(Limit::Iops), false);
    refused(world.modify(&volume, &[("iops", "4000")]).await, "ResourceExhausted", &volume);
    refused(world.modify(&volume, &[("throughput", "90000")]).await, "InvalidArgument", &volume);
    world.modify(&volume, &[("iops", "4000")]).await.expect("changed");
    let calls = asked(&world).len();
    let both = tokio::join!(world.modify(&volume, &[("iops", "5000")]), world.grow(&volume, 20));
    refused(both.0, "FailedPrecondition", "still being optimized");
    refused(both.1.map(drop), "FailedPrecondition", "still being optimized");
    assert_eq!(asked(&world).len(), calls + 1, "asked once for both");
}

/// The abandoned operation also ends when another request for the volume arrives or the driver shuts down.
#[tokio::test(start_paused = true)]
async fn change_is_not_started_when_its_caller_has_left() {
    let (world, volume) = world_with_volume().await;
    let leave = async |iops: &str| {
        let left = timeout(MOMENT, world.modify(&volume, &[("iops", iops)])).await;
        assert!(left.is_err(), "the window is open");
    };
    leave("4000").await;
    sleep(WINDOW * 10).await;
    assert_eq!(asked(&world), []);
    world.modify(&volume, &[("iops", "5000")]).await.expect("takes over");
    assert_eq!(asked(&world), [(None, Some(5000), None)]);
    sleep(Duration::from_secs(60)).await;
    leave("6000").await;
    assert_eq!(world.operations.running(), [Key::Volume(VolumeId::parse(&volume).expect("an id"))]);
    world.delete(&volume).await.expect("takes over");
    let other = a_volume(&world, "pvc-2").await;
    let left = timeout(MOMENT, world.modify(&other, &[("iops", "6000")])).await;
    assert!(left.is_err(), "the window is open");
    assert!(world.operations.drain(Duration::from_secs(20)).await.is_empty());
    assert_eq!(asked(&world).len(), 1);
}

/// If this request opened a new window, a client whose deadline is shorter than a window would open one with each call.
#[tokio::test(start_paused = true)]
async fn repeated_request_after_the_window_continues_at_once() {
    let (world, volume) = world_with_volume().await;
    let left = timeout(MOMENT, world.modify(&volume, &[("iops", "4000")])).await;
    assert!(left.is_err(), "the window is open");
    sleep(Duration::from_secs(1800)).await;
    let began = Instant::now();
    let (sent, again) = tokio::join!(sent_at(&world), world.modify(&volume, &[("iops", "4000")]));
    again.expect("changed");
    assert!(sent - began < MOMENT, "{:?}", sent - began);
}

/// After the abandoned request, the user may have chosen another class through another driver.
#[tokio::test(start_paused = true)]
async fn retried_expansion_does_not_apply_an_abandoned_class() {
    let class = [("iops", "4000"), ("tagSpecification_1", "tier=old")];
    for has_begun in [false, true] {
        let (world, volume) = if has_begun { slow_world().await } else { leading_world().await };
        let patience = if has_begun { WINDOW * 2 } else { MOMENT };
        let growth = async {
            if has_begun {
                let left = timeout(patience, world.grow(&volume, 20)).await;
                assert!(left.is_err(), "the caller left, not {left:?}");
            }
        };
        let (class, ()) = tokio::join!(timeout(patience, world.modify(&volume, &class)), growth);
        assert!(class.is_err(), "the caller left");
        sleep(Duration::from_secs(1800)).await;
        assert_eq!(world.grow(&volume, 20).await, Ok(20), "{has_begun}");
        has_only_grown(&world).await;
    }
}

/// While the driver waits for an earlier modification, the client that requested the class leaves, and the client that
/// requested the expansion stays.
#[tokio::test(start_paused = true)]
async fn expansion_continues_without_an_abandoned_class() {
    let (world, volume) = slow_world().await;
    let class = [("iops", "4000"), ("tagSpecification_1", "tier=old")];
    let left = async {
        let class = timeout(WINDOW, world.modify(&volume, &class)).await;
        assert!(class.is_err(), "the caller left");
    };
    let (grown, ()) = tokio::join!(world.grow(&volume, 20), left);
    assert_eq!(grown, Ok(20));
    has_only_grown(&world).await;
}

/// If the changes were not merged, EC2 would accept the second ModifyVolume only hours later.
#[tokio::test(start_paused = true)]
async fn changes_are_merged_when_their_callers_retry_together() {
    let (world, volume) = slow_world().await;
    world.timing(TimingOverride { optimize_ms: Some(3_600_000), ..Default::default() }).await;
    let class = [("iops", "4000")];
    let left = tokio::join!(timeout(WINDOW, world.grow(&volume, 20)), timeout(WINDOW, world.modify(&volume, &class)));
    assert!(left.0.is_err() && left.1.is_err(), "both callers left");
    sleep(Duration::from_secs(60)).await;
    let (grown, changed) = tokio::join!(world.grow(&volume, 20), async {
        sleep(WINDOW / 4).await;
        world.modify(&volume, &class).await
    });
    assert_eq!((grown, changed), (Ok(20), Ok(())));
    assert_eq!(asked(&world), [(Some(20), Some(4000), None)]);
}

#[tokio::test(start_paused = true)]
async fn creation_and_modification_support_the_same_keys() {
    let world = World::start().await;
    for key in crate::parameters::MutableParameters::keys() {
        let value = match key {
            "type" | "volumeType" => "gp3",
            "allowAutoIOPSIncreaseOnModify" => "true",
            "iopsPerGB" => "500",
            "throughput" => "200",
            "iops" => "4000",
            _ => "name",
        };
        for spelling in [key.to_owned(), key.to_uppercase(), key.to_lowercase()] {
            let class = [(spelling.as_str(), value)];
            let request = of_gib(named(&format!("pvc-{spelling}")), 10);
            let request = CreateVolumeRequest { mutable_parameters: map(&class), ..request };
            let volume = world.create(request).await.expect("created").volume_id;
            world.modify(&volume, &class).await.expect("modified");
        }
    }
}
