//! AttachVolume and DetachVolume.

use super::*;
use crate::api::{ModifyVolume, TerminateInstances};

/// An attachment is attached only when its device is really connected.
#[test]
fn an_attachment_is_attached_when_its_time_has_passed_and_its_device_is_connected() {
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
fn a_device_that_cannot_be_connected_is_tried_again() {
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
fn an_instance_of_another_machine_gets_no_device() {
    let mut world = World::instant();
    let volume = world.create(CreateVolume { availability_zone: Some("us-west-2b".into()), ..gp3() }).id;
    let second = world.instance(1);
    world.apply(attach(&volume, &second, "/dev/xvdaa")).unwrap();
    world.sim.advance(world.now);
    assert_eq!(world.sim.take_effects(), []);
    assert_eq!(world.volume(&volume).attachments[0].state, "attached");
}

#[test]
fn attaching_what_is_attached_is_refused() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.attach(&volume, "/dev/xvdaa");
    let instance = world.instance(0);
    assert_eq!(world.refused(attach(&volume, &instance, "/dev/xvdab")), "VolumeInUse");
}

/// A device name is taken while any attachment has it, detaching ones included.
#[test]
fn a_device_name_is_taken_while_any_attachment_has_it() {
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

/// Only EC2's device names are accepted.
#[test]
fn only_ec2s_device_names_are_taken() {
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

/// An instance takes as many volumes as its type allows, the root included.
#[test]
fn an_instance_takes_as_many_volumes_as_its_type_allows_the_root_included() {
    let mut world = World::of(EngineConfig { instance_type: "inf1.24xlarge".into(), ..EngineConfig::default() });
    let instance = world.instance(0);
    for n in b'b'..b'b' + 10 {
        let volume = world.gp3();
        world.attach(&volume, &format!("/dev/xvd{}", char::from(n)));
    }
    let one_more = world.gp3();
    assert_eq!(world.refused(attach(&one_more, &instance, "/dev/xvdz")), "AttachmentLimitExceeded");
}

/// A volume of another zone cannot be attached.
#[test]
fn a_volume_of_another_zone_cannot_be_attached() {
    let mut world = World::instant();
    let volume = world.gp3();
    let second = world.instance(1);
    assert_eq!(world.refused(attach(&volume, &second, "/dev/xvdaa")), "InvalidVolume.ZoneMismatch");
}

#[test]
fn what_is_not_there_cannot_be_attached() {
    let mut world = World::realistic();
    let (volume, instance) = (world.gp3(), world.instance(0));
    assert_eq!(world.refused(attach(&volume, &instance, "/dev/xvdaa")), "IncorrectState", "it is being created");
    assert_eq!(world.refused(attach("vol-00000000", &instance, "/dev/xvdaa")), "InvalidVolume.NotFound");
    assert_eq!(world.refused(attach(&volume, "i-00000000", "/dev/xvdaa")), "InvalidInstanceID.NotFound");
    assert_eq!(world.refused(attach(&volume, "node-1", "/dev/xvdaa")), "InvalidInstanceID.Malformed");
}

/// Only io1 and io2 volumes with Multi-Attach are shared, by different instances.
#[test]
fn only_a_multi_attach_volume_is_shared_and_only_by_different_instances() {
    let config = EngineConfig::default();
    let mut world = World::of(config);
    let shared =
        CreateVolume { volume_type: Some("io2".into()), iops: Some(100), multi_attach_enabled: Some(true), ..gp3() };
    let volume = world.create(shared).id;
    // Both instances in one zone, which a configuration cannot ask for.
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

/// Detaching what is not attached is IncorrectState or InvalidAttachment.NotFound.
#[test]
fn detaching_what_is_not_attached_is_refused() {
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
fn a_detaching_volume_cannot_be_detached_again_and_is_no_free_volume() {
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
fn the_root_volume_of_a_running_instance_cannot_be_detached() {
    let mut world = World::instant();
    let (root, instance) = (world.sim.instances[0].root_volume.clone(), world.instance(0));
    assert_eq!(world.refused(detach(&root, &instance)), "IncorrectState");
}

/// An instance that shuts down lets no volume go: its attachments end with it.
#[test]
fn an_instance_that_shuts_down_lets_no_volume_go() {
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

/// A volume is not attached while it is modified, and is from `optimizing` on.
#[test]
fn a_volume_is_not_attached_while_it_is_modified() {
    let mut world = World::realistic();
    let (volume, instance) = (world.gp3(), world.instance(0));
    world.pass(Duration::from_secs(10));
    let grow = ModifyVolume { volume_id: volume.clone(), size: Some(9), ..Default::default() };
    world.call(Call::ModifyVolume(grow)).unwrap();
    assert_eq!(world.refused(attach(&volume, &instance, "/dev/xvdaa")), "OperationNotPermitted");
    world.pass(Duration::from_secs(5));
    world.attach(&volume, "/dev/xvdaa");
}

/// `/dev/sdb` and `/dev/xvdb` are one name.
#[test]
fn a_name_is_taken_in_both_its_forms() {
    let mut world = World::instant();
    let (first, second, instance) = (world.gp3(), world.gp3(), world.instance(0));
    world.attach(&first, "/dev/sdb");
    assert_eq!(world.refused(attach(&second, &instance, "/dev/xvdb")), "InvalidParameterValue");
    assert_eq!(world.refused(attach(&second, &instance, "/dev/sda")), "InvalidParameterValue", "the root's name");
    world.attach(&second, "/dev/xvdc");
}

/// A detach is `busy` while the device is used.
#[test]
fn a_detach_is_busy_while_the_device_is_used_and_ends_when_it_is_not() {
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
fn an_attachment_on_its_way_in_can_be_detached_and_its_device_goes_when_it_has_come() {
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
fn a_card_is_chosen_only_on_types_that_have_several() {
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
