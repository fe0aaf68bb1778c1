//! AttachVolume and DetachVolume.

use super::*;
use crate::api::{ModifyVolume, TerminateInstances};

#[test]
fn attachment_needs_elapsed_time_and_connected_device() {
    let mut world = World::realistic();
    let volume = world.gp3();
    world.pass(Duration::from_secs(10));
    let instance = world.instance(0);
    let Ok(Reply::AttachVolume(reply)) = world.apply(attach(&volume, &instance, "/dev/xvdaa")) else { panic!() };
    assert_eq!((reply.state.as_str(), reply.device.as_str()), ("attaching", "/dev/xvdaa"));
    assert_eq!(world.volume(&volume).state, "in-use");
    world.now += Duration::from_secs(10);
    world.sim.advance(world.now);
    let effects = world.sim.take_effects();
    assert_eq!(effects, [Effect::Connect { volume: volume.clone(), instance, linked: true, breakable: false }]);
    assert_eq!(world.volume(&volume).attachments[0].state, "attaching", "no device yet");
    world.sim.finish(world.now, &effects[0], &Outcome::Done(Some("/dev/loop3".into())));
    world.settle();
    let attachment = world.volume(&volume).attachments.remove(0);
    assert_eq!((attachment.state.as_str(), attachment.loop_device.as_deref()), ("attached", Some("/dev/loop3")));
}

#[test]
fn failed_device_connection_is_retried() {
    let mut world = World::instant();
    let volume = world.gp3();
    let instance = world.instance(0);
    world.apply(attach(&volume, &instance, "/dev/xvdaa")).unwrap();
    world.sim.advance(world.now);
    let effects = world.sim.take_effects();
    world.sim.finish(world.now, &effects[0], &Outcome::Failed("no free loop device".into()));
    world.settle();
    assert_eq!(world.volume(&volume).attachments[0].state, "attaching");
    world.now = world.sim.next_due(world.now).expect("another try");
    world.settle();
    assert_eq!(world.volume(&volume).attachments[0].state, "attached");
}

#[test]
fn instance_of_other_machine_gets_no_device() {
    let mut world = World::instant();
    let volume = world.create(CreateVolume { availability_zone: Some("us-west-2b".into()), ..gp3() }).id;
    let second = world.instance(1);
    world.apply(attach(&volume, &second, "/dev/xvdaa")).unwrap();
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), []);
    assert_eq!(world.volume(&volume).attachments[0].state, "attached");
}

#[test]
fn attaching_attached_volume_is_rejected() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.attach(&volume, "/dev/xvdaa");
    let instance = world.instance(0);
    assert_eq!(world.refused(attach(&volume, &instance, "/dev/xvdab")), "VolumeInUse");
}

/// Detaching attachments count, too.
#[test]
fn device_name_is_in_use_while_any_attachment_has_it() {
    let mut world = World::realistic();
    let (first, second) = (world.gp3(), world.gp3());
    world.pass(Duration::from_secs(10));
    let instance = world.instance(0);
    world.attach(&first, "/dev/xvdaa");
    let taken = |world: &mut World| {
        let fault = world.call(attach(&second, &instance, "/dev/xvdaa")).unwrap_err();
        assert_eq!(fault.code, "InvalidParameterValue");
        assert!(fault.message.contains("is already in use"), "{}", fault.message);
    };
    taken(&mut world);
    world.pass(Duration::from_secs(10));
    world.call(detach(&first, &instance)).unwrap();
    assert_eq!(world.volume(&first).attachments[0].state, "detaching");
    taken(&mut world);
    world.pass(Duration::from_secs(10));
    world.attach(&second, "/dev/xvdaa");
    let third = world.gp3();
    world.pass(Duration::from_secs(10));
    assert_eq!(world.refused(attach(&third, &instance, "/dev/xvda")), "InvalidParameterValue", "the root's name");
}

#[test]
fn only_device_names_of_ec2_are_accepted() {
    let mut world = World::instant();
    let volume = world.gp3();
    let instance = world.instance(0);
    for bad in [
        "/dev/loop0",
        "xvdaa",
        "/dev/xvd",
        "/dev/xvddy",
        "/dev/xvdea",
        "/dev/xvdAA",
        "/dev/sd",
        "/dev/sdb100",
        "/dev/xvdaaa",
    ] {
        assert_eq!(world.refused(attach(&volume, &instance, bad)), "InvalidParameterValue", "{bad}");
    }
    assert_eq!(world.refused(attach(&volume, &instance, "")), "MissingParameter");
    for good in ["/dev/xvdaa", "/dev/xvdaz", "/dev/xvdba", "/dev/xvddx", "/dev/xvdb", "/dev/sdz", "/dev/sda2"] {
        world.attach(&volume, good);
        world.call(detach(&volume, &instance)).unwrap();
    }
}

#[test]
fn attachment_limit_of_type_includes_root_volume() {
    let mut world = World::of(EngineConfig { instance_type: "inf1.24xlarge".into(), ..EngineConfig::default() });
    let instance = world.instance(0);
    for n in b'b'..b'b' + 10 {
        let volume = world.gp3();
        world.attach(&volume, &format!("/dev/xvd{}", char::from(n)));
    }
    let one_more = world.gp3();
    assert_eq!(world.refused(attach(&one_more, &instance, "/dev/xvdz")), "AttachmentLimitExceeded");
}

#[test]
fn volume_of_other_zone_cannot_be_attached() {
    let mut world = World::instant();
    let volume = world.gp3();
    let second = world.instance(1);
    assert_eq!(world.refused(attach(&volume, &second, "/dev/xvdaa")), "InvalidVolume.ZoneMismatch");
}

#[test]
fn missing_volume_or_instance_cannot_be_attached() {
    let mut world = World::realistic();
    let (volume, instance) = (world.gp3(), world.instance(0));
    assert_eq!(world.refused(attach(&volume, &instance, "/dev/xvdaa")), "IncorrectState", "it is being created");
    assert_eq!(world.refused(attach("vol-00000000", &instance, "/dev/xvdaa")), "InvalidVolume.NotFound");
    assert_eq!(world.refused(attach(&volume, "i-00000000", "/dev/xvdaa")), "InvalidInstanceID.NotFound");
    assert_eq!(world.refused(attach(&volume, "node-1", "/dev/xvdaa")), "InvalidInstanceID.Malformed");
}

/// The volume must be io1 or io2.
#[test]
fn only_multi_attach_volume_is_shared_by_instances() {
    let config = EngineConfig::default();
    let mut world = World::of(config);
    let shared =
        CreateVolume { volume_type: Some("io2".into()), iops: Some(100), multi_attach_enabled: Some(true), ..gp3() };
    let volume = world.create(shared).id;
    // Both instances are in one zone, which the configuration does not allow.
    world.sim.instances[1].zone = "us-west-2a".into();
    let (first, second) = (world.instance(0), world.instance(1));
    world.attach(&volume, "/dev/xvdaa");
    assert_eq!(world.refused(attach(&volume, &first, "/dev/xvdab")), "VolumeInUse");
    world.call(attach(&volume, &second, "/dev/xvdaa")).unwrap();
    assert_eq!(world.volume(&volume).attachments.len(), 2);
    let everywhere = DetachVolume { volume_id: volume.clone(), ..Default::default() };
    assert_eq!(world.refused(Call::DetachVolume(everywhere)), "MissingParameter", "which instance?");
    world.call(detach(&volume, &first)).unwrap();
    assert_eq!(world.volume(&volume).attachments[0].instance_id, second);
    assert_eq!(world.volume(&volume).state, "in-use");
}

/// The error is IncorrectState or InvalidAttachment.NotFound.
#[test]
fn detaching_unattached_volume_is_rejected() {
    let mut world = World::instant();
    let (volume, instance, second) = (world.gp3(), world.instance(0), world.instance(1));
    assert_eq!(world.refused(detach(&volume, &instance)), "IncorrectState");
    assert_eq!(world.refused(detach("vol-00000000", &instance)), "InvalidVolume.NotFound");
    world.attach(&volume, "/dev/xvdaa");
    assert_eq!(world.refused(detach(&volume, &second)), "InvalidAttachment.NotFound");
    let as_other = DetachVolume {
        volume_id: volume.clone(),
        instance_id: Some(instance.clone()),
        device: Some("/dev/xvdab".into()),
        ..Default::default()
    };
    assert_eq!(world.refused(Call::DetachVolume(as_other)), "InvalidAttachment.NotFound");
    world.call(detach(&volume, &instance)).unwrap();
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn detaching_volume_cannot_be_detached_or_attached() {
    let mut world = World::realistic();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.pass(Duration::from_secs(10));
    world.attach(&volume, "/dev/xvdaa");
    world.pass(Duration::from_secs(10));
    world.call(detach(&volume, &instance)).unwrap();
    assert_eq!(world.refused(detach(&volume, &instance)), "IncorrectState");
    assert_eq!(world.refused(attach(&volume, &instance, "/dev/xvdab")), "VolumeInUse");
    world.pass(Duration::from_secs(10));
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn root_volume_of_running_instance_cannot_be_detached() {
    let mut world = World::instant();
    let (root, instance) = (world.sim.instances[0].root_volume.clone(), world.instance(0));
    assert_eq!(world.refused(detach(&root, &instance)), "IncorrectState");
}

/// The attachments end with the instance.
#[test]
fn instance_that_shuts_down_rejects_detach() {
    let mut world = World::realistic();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.pass(Duration::from_secs(10));
    world.attach(&volume, "/dev/xvdaa");
    world.pass(Duration::from_secs(10));
    world
        .call(Call::TerminateInstances(TerminateInstances { instance_ids: vec![instance.clone()], dry_run: false }))
        .unwrap();
    assert_eq!(world.refused(detach(&volume, &instance)), "IncorrectInstanceState");
    world.pass(Duration::from_mins(1));
    assert_eq!(world.volume(&volume).state, "available");
}

/// It can be attached from `optimizing` on.
#[test]
fn modifying_volume_cannot_be_attached() {
    let mut world = World::realistic();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.pass(Duration::from_secs(10));
    let grow = ModifyVolume { volume_id: volume.clone(), size: Some(9), ..Default::default() };
    world.call(Call::ModifyVolume(grow)).unwrap();
    assert_eq!(world.refused(attach(&volume, &instance, "/dev/xvdaa")), "OperationNotPermitted");
    world.pass(Duration::from_secs(5));
    world.attach(&volume, "/dev/xvdaa");
}

/// The names `/dev/sdb` and `/dev/xvdb` are equal.
#[test]
fn both_forms_of_device_name_are_in_use() {
    let mut world = World::instant();
    let (first, second, instance) = (world.gp3(), world.gp3(), world.instance(0));
    world.attach(&first, "/dev/sdb");
    assert_eq!(world.refused(attach(&second, &instance, "/dev/xvdb")), "InvalidParameterValue");
    assert_eq!(world.refused(attach(&second, &instance, "/dev/sda")), "InvalidParameterValue", "the root's name");
    world.attach(&second, "/dev/xvdc");
}

#[test]
fn detach_is_busy_while_device_is_in_use() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.attach(&volume, "/dev/xvdaa");
    world.apply(detach(&volume, &instance)).unwrap();
    for _ in 0..3 {
        let effects = world.sim.take_effects();
        assert_eq!(effects, [Effect::Disconnect { volume: volume.clone(), instance: instance.clone(), force: false }]);
        world.sim.finish(world.now, &effects[0], &Outcome::Busy);
        world.sim.advance(world.now);
        assert_eq!(world.volume(&volume).attachments[0].state, "busy");
        world.now = world.sim.next_due(world.now).expect("another try");
        world.sim.advance(world.now);
    }
    assert_eq!(world.volume(&volume).attachments[0].state, "busy", "the last try has not ended");
    world.settle();
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn attaching_volume_can_be_detached_with_its_late_device() {
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.apply(attach(&volume, &instance, "/dev/xvdaa")).unwrap();
    world.sim.advance(world.now);
    let connect = world.sim.take_effects();
    world.apply(detach(&volume, &instance)).unwrap();
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
fn ebs_card_needs_type_with_several_cards() {
    let with_card = |volume: &str, instance: &str, card| {
        Call::AttachVolume(AttachVolume {
            volume_id: volume.to_owned(),
            instance_id: instance.to_owned(),
            device: Some("/dev/xvdaa".into()),
            ebs_card_index: Some(card),
            dry_run: false,
        })
    };
    let mut world = World::instant();
    let (volume, instance) = (world.gp3(), world.instance(0));
    assert_eq!(world.refused(with_card(&volume, &instance, 1)), "InvalidParameterValue");
    assert_eq!(world.attach(&volume, "/dev/xvdaa").ebs_card_index, None);

    let mut world = World::of(EngineConfig { instance_type: "r8gb.48xlarge".into(), ..EngineConfig::default() });
    let (volume, instance) = (world.gp3(), world.instance(0));
    for bad in [-1, 2] {
        assert_eq!(world.refused(with_card(&volume, &instance, bad)), "InvalidParameterValue");
    }
    let Ok(Reply::AttachVolume(attachment)) = world.call(with_card(&volume, &instance, 1)) else { panic!() };
    assert_eq!(attachment.ebs_card_index, Some(1));
}
