//! Tests of AttachVolume and DetachVolume.

use super::*;

#[test]
fn attachment_completes_after_its_time_and_device_connection() {
    let mut world = World::realistic();
    let (volume, instance) = world.ready();
    let Ok(Reply::AttachVolume(reply)) = world.apply(&attach(&volume, &instance, "/dev/xvdaa")) else { panic!() };
    assert_eq!((reply.state.as_str(), reply.device.as_str()), ("attaching", "/dev/xvdaa"));
    assert_eq!(world.volume(&volume).state, "in-use");
    world.now += secs(10);
    world.sim.advance(world.now);
    let effects = world.sim.take_effects();
    assert_eq!(effects, [Effect::Connect { volume: volume.clone(), instance, linked: true, breakable: false }]);
    assert_eq!(world.attachment(&volume).state, "attaching", "no device yet");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(Some("/dev/loop3".into())));
    world.settle();
    let attachment = world.attachment(&volume);
    assert_eq!((attachment.state.as_str(), attachment.loop_device.as_deref()), ("attached", Some("/dev/loop3")));
}

#[test]
fn failed_device_connection_is_retried() {
    let mut world = World::instant();
    let (volume, instance) = world.ready();
    world.apply(&attach(&volume, &instance, "/dev/xvdaa")).unwrap();
    world.sim.advance(world.now);
    world.fail_effects("no free loop device");
    assert_eq!(world.attachment(&volume).state, "attaching");
    world.now = world.sim.next_due(world.now).expect("another try");
    world.settle();
    assert_eq!(world.attachment(&volume).state, "attached");
}

#[test]
fn instance_on_another_machine_gets_no_device() {
    let mut world = World::instant();
    let volume = world.create("AvailabilityZone=us-west-2b").id;
    let second = world.instance(1);
    world.apply(&attach(&volume, &second, "/dev/xvdaa")).unwrap();
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), []);
    assert_eq!(world.attachment(&volume).state, "attached");
}

#[test]
fn only_device_names_that_ec2_allows_are_accepted() {
    let mut world = World::instant();
    let (volume, instance) = world.ready();
    for bad in "/dev/loop0 xvdaa /dev/xvd /dev/xvddy /dev/xvdea /dev/xvdAA /dev/sd /dev/sdb100 /dev/xvdaaa".split(' ') {
        assert_eq!(world.refused(&attach(&volume, &instance, bad)), "InvalidParameterValue", "{bad}");
    }
    for root in ["/dev/xvda", "/dev/sda"] {
        assert_eq!(world.refused(&attach(&volume, &instance, root)), "InvalidParameterValue", "the root's name");
    }
    world.refuses([
        (attach(&volume, &instance, ""), "MissingParameter"),
        (attach("vol-00000000", &instance, "/dev/xvdaa"), "InvalidVolume.NotFound"),
    ]);
    for good in "/dev/xvdaa /dev/xvdaz /dev/xvdba /dev/xvddx /dev/xvdb /dev/sdz /dev/sda2".split(' ') {
        world.attach(&volume, good);
        world.done(&detach(&volume, &instance));
    }
}

/// From `optimizing` on, the volume can be attached.
#[test]
fn modifying_volume_cannot_be_attached() {
    let mut world = World::realistic();
    let (volume, instance) = world.ready();
    world.done(&format!("ModifyVolume VolumeId={volume} Size=9"));
    assert_eq!(world.refused(&attach(&volume, &instance, "/dev/xvdaa")), "OperationNotPermitted");
    world.pass(secs(5));
    world.attach(&volume, "/dev/xvdaa");
}

#[test]
fn detach_is_busy_while_device_is_in_use() {
    let mut world = World::instant();
    let (volume, instance) = world.attached();
    world.apply(&detach(&volume, &instance)).unwrap();
    for _ in 0..3 {
        let effects = world.sim.take_effects();
        assert_eq!(effects, [Effect::Disconnect { volume: volume.clone(), instance: instance.clone(), force: false }]);
        world.sim.finish(world.now, &effects[0], &Outcome::Busy);
        world.sim.advance(world.now);
        assert_eq!(world.attachment(&volume).state, "busy");
        world.now = world.sim.next_due(world.now).expect("another try");
        world.sim.advance(world.now);
    }
    assert_eq!(world.attachment(&volume).state, "busy", "the last try has not ended");
    world.settle();
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn attaching_volume_can_be_detached_before_device_appears() {
    let mut world = World::instant();
    let (volume, instance) = world.ready();
    world.apply(&attach(&volume, &instance, "/dev/xvdaa")).unwrap();
    world.sim.advance(world.now);
    let connect = world.sim.take_effects();
    world.apply(&detach(&volume, &instance)).unwrap();
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), [], "the device is not there yet");
    assert_eq!(world.volume(&volume).state, "in-use", "and may still come");
    world.sim.finish(world.now, &connect[0], &Outcome::Done(Some("/dev/loop3".into())));
    let disconnect = world.sim.take_effects();
    assert_eq!(disconnect, [Effect::Disconnect { volume: volume.clone(), instance, force: false }]);
    world.sim.finish(world.now, &disconnect[0], &Outcome::Done(None));
    world.settle();
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn ebs_card_index_must_exist_on_the_instance_type() {
    for (instance_type, bad, default) in [("m5.large", "1", None), ("r8gb.48xlarge", "2", Some(0))] {
        let mut world = World::of(EngineConfig { instance_type: instance_type.into(), ..EngineConfig::default() });
        let (volume, instance) = world.ready();
        for bad in ["-1", bad] {
            let call = attach(&volume, &instance, "/dev/xvdaa") + " EbsCardIndex=" + bad;
            assert_eq!(world.refused(&call), "InvalidParameterValue", "{bad} of {instance_type}");
        }
        assert_eq!(world.attach(&volume, "/dev/xvdaa").ebs_card_index, default);
    }
    let mut world = World::of(EngineConfig { instance_type: "r8gb.48xlarge".into(), ..EngineConfig::default() });
    let (volume, instance) = world.ready();
    let attach = format!("VolumeId={volume} InstanceId={instance} Device=/dev/xvdaa EbsCardIndex=1");
    assert_eq!(ok!(world, AttachVolume, "{attach}").ebs_card_index, Some(1));
}
