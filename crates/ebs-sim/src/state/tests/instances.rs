//! Tests of RunInstances, StartInstances, StopInstances, TerminateInstances, and their effects on volumes.

use super::*;
use crate::api::{
    BlockDeviceMapping, DescribeInstances, RunInstances, SimInstance, SimStateChange, StartInstances, StopInstances,
    Tag, TagSpecification, TerminateInstances,
};

fn run() -> RunInstances {
    RunInstances {
        image_id: Some("ami-00000000000000000".into()),
        instance_type: Some("m5.large".into()),
        min_count: Some(1),
        max_count: Some(1),
        availability_zone: Some("us-west-2a".into()),
        ..Default::default()
    }
}

fn terminate(id: &str) -> Call {
    Call::TerminateInstances(TerminateInstances { instance_ids: vec![id.to_owned()], dry_run: false })
}

fn start(id: &str) -> Call {
    Call::StartInstances(StartInstances { instance_ids: vec![id.to_owned()], dry_run: false })
}

fn stop(id: &str) -> Call {
    Call::StopInstances(StopInstances { instance_ids: vec![id.to_owned()], dry_run: false })
}

impl World {
    fn launch(&mut self, call: RunInstances) -> Vec<SimInstance> {
        match self.call(Call::RunInstances(call)) {
            Ok(Reply::RunInstances(instances)) => instances,
            other => panic!("not launched: {other:?}"),
        }
    }

    fn described(&mut self, id: &str) -> Result<SimInstance, String> {
        let call = DescribeInstances { instance_ids: vec![id.to_owned()], ..Default::default() };
        match self.call(Call::DescribeInstances(call)) {
            Ok(Reply::DescribeInstances(mut listing)) => Ok(listing.items.remove(0)),
            Ok(other) => panic!("not described: {other:?}"),
            Err(fault) => Err(fault.code),
        }
    }

    fn state_of(&mut self, id: &str) -> (String, u16) {
        self.described(id).map(|i| (i.state, i.state_code)).unwrap()
    }
}

/// The phases are pending, running, shutting down and terminated.
#[test]
fn instance_passes_its_phases_and_is_listed_for_an_hour() {
    let mut world = World::realistic();
    let id = world.launch(run()).remove(0).id;
    let volume = world.gp3();
    assert_eq!(world.state_of(&id), ("pending".into(), 0));
    world.pass(Duration::from_secs(5));
    assert_eq!(world.refused(attach(&volume, &id, "/dev/xvdaa")), "IncorrectState", "it does not run yet");
    world.pass(Duration::from_secs(5));
    assert_eq!(world.state_of(&id), ("running".into(), 16));
    let Ok(Reply::TerminateInstances(changes)) = world.call(terminate(&id)) else { panic!() };
    let change = SimStateChange {
        instance_id: id.clone(),
        previous_state: "running".into(),
        previous_code: 16,
        current_state: "shutting-down".into(),
        current_code: 32,
    };
    assert_eq!(changes, [change]);
    assert_eq!(world.refused(attach(&volume, &id, "/dev/xvdaa")), "IncorrectState");
    world.pass(Duration::from_secs(30));
    assert_eq!(world.state_of(&id), ("terminated".into(), 48));
    assert!(world.call(terminate(&id)).is_ok(), "terminating twice is terminating once");
    world.pass(Duration::from_mins(59));
    assert_eq!(world.state_of(&id), ("terminated".into(), 48));
    world.pass(Duration::from_mins(2));
    assert_eq!(world.described(&id), Err("InvalidInstanceID.NotFound".into()));
    assert_eq!(world.refused(terminate(&id)), "InvalidInstanceID.NotFound");
}

/// A stopped instance accepts further volumes and detaches at once, even its root volume. Only a running one can be
/// stopped, all or none.
#[test]
fn stopped_instance_keeps_and_attaches_volumes() {
    let mut world = World::realistic();
    let id = world.launch(run()).remove(0).id;
    let (kept, other) = (world.gp3(), world.gp3());
    assert_eq!(world.refused(stop(&id)), "IncorrectInstanceState", "it does not run yet");
    world.pass(Duration::from_secs(10));
    world.call(attach(&kept, &id, "/dev/xvdaa")).unwrap();
    world.pass(Duration::from_secs(5));
    let Ok(Reply::StopInstances(changes)) = world.call(stop(&id)) else { panic!() };
    let states = (changes[0].previous_state.as_str(), changes[0].current_state.as_str(), changes[0].current_code);
    assert_eq!(states, ("running", "stopping", 64));
    assert_eq!(world.refused(attach(&other, &id, "/dev/xvdab")), "IncorrectState", "it is stopping");
    world.pass(Duration::from_secs(30));
    assert_eq!(world.state_of(&id), ("stopped".into(), 80));
    assert!(world.call(stop(&id)).is_ok(), "stopping twice is stopping once");
    world.call(attach(&other, &id, "/dev/xvdab")).unwrap();
    world.pass(Duration::from_secs(5));
    let states =
        |world: &mut World| world.described(&id).unwrap().devices.into_iter().map(|d| d.state).collect::<Vec<_>>();
    assert_eq!(states(&mut world), ["attached"; 3], "its root volume and both others");
    world.call(detach(&kept, &id)).unwrap();
    assert_eq!(world.volume(&kept).state, "available", "at once");
    assert_eq!(states(&mut world).len(), 2);
    world.call(terminate(&id)).unwrap();
    world.pass(Duration::from_secs(30));
    assert_eq!(world.volume(&other).state, "available");
    assert_eq!(world.refused(stop(&id)), "IncorrectInstanceState", "it has ended");
}

/// It cannot start while it stops or without its root volume.
#[test]
fn stopped_instance_restarts_with_volumes_and_address() {
    let mut world = World::realistic();
    let id = world.launch(run()).remove(0).id;
    let volume = world.gp3();
    world.pass(Duration::from_secs(10));
    world.call(attach(&volume, &id, "/dev/xvdaa")).unwrap();
    let before = world.described(&id).unwrap();
    world.call(stop(&id)).unwrap();
    assert_eq!(world.refused(start(&id)), "IncorrectInstanceState", "it is still stopping");
    world.pass(Duration::from_secs(30));
    let Ok(Reply::StartInstances(changes)) = world.call(start(&id)) else { panic!() };
    let change = SimStateChange {
        instance_id: id.clone(),
        previous_state: "stopped".into(),
        previous_code: 80,
        current_state: "pending".into(),
        current_code: 0,
    };
    assert_eq!(changes, [change]);
    let launched = world.now;
    world.pass(Duration::from_secs(10));
    assert!(world.call(start(&id)).is_ok(), "starting what runs changes nothing");
    let after = world.described(&id).unwrap();
    assert_eq!((after.state.as_str(), after.state_code, after.launch_time), ("running", 16, launched));
    assert_eq!(after.network_interfaces, before.network_interfaces);
    let names = |i: &SimInstance| i.devices.iter().map(|d| d.device.clone()).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    let asked = StartInstances { instance_ids: vec![id.clone()], dry_run: true };
    assert_eq!(world.refused(Call::StartInstances(asked)), "DryRunOperation");
    world.call(terminate(&id)).unwrap();
    assert_eq!(world.refused(start(&id)), "IncorrectInstanceState");
    assert_eq!(world.refused(start("i-00000000000000000")), "InvalidInstanceID.NotFound");
    assert_eq!(world.refused(Call::StartInstances(StartInstances::default())), "MissingParameter");
}

#[test]
fn stopped_instance_needs_its_root_volume_to_start() {
    let mut world = World::instant();
    let instance = world.launch(run()).remove(0);
    let root = world.described(&instance.id).unwrap().devices[0].volume_id.clone();
    assert_eq!(world.refused(detach(&root, &instance.id)), "IncorrectState");
    world.call(stop(&instance.id)).unwrap();
    world.call(detach(&root, &instance.id)).unwrap();
    assert_eq!(world.volume(&root).state, "available");
    assert_eq!(world.refused(start(&instance.id)), "InvalidParameterValue", "it cannot start without");
    world.call(attach(&root, &instance.id, "/dev/xvda")).unwrap();
    world.call(start(&instance.id)).unwrap();
    assert_eq!(world.state_of(&instance.id), ("running".into(), 16));
}

#[test]
fn instances_are_stopped_atomically() {
    let mut world = World::instant();
    let free = world.launch(run()).remove(0).id;
    let protected = world.launch(RunInstances { disable_api_stop: true, ..run() }).remove(0).id;
    let of = |ids: &[&String], dry_run| {
        let instance_ids = ids.iter().map(|id| (*id).clone()).collect();
        Call::StopInstances(StopInstances { instance_ids, dry_run })
    };
    assert_eq!(world.refused(of(&[&free, &protected], false)), "OperationNotPermitted");
    assert_eq!(world.refused(of(&[&free, &"i-00000000000000000".to_owned()], false)), "InvalidInstanceID.NotFound");
    assert_eq!(world.refused(of(&[], false)), "MissingParameter");
    assert_eq!(world.refused(of(&[&free], true)), "DryRunOperation");
    assert_eq!(world.state_of(&free), ("running".into(), 16));
}

/// Only volumes that are marked for it are deleted.
#[test]
fn termination_detaches_volumes_and_deletes_marked_ones() {
    let mut world = World::instant();
    let data = BlockDeviceMapping {
        device_name: "/dev/xvdb".into(),
        volume_size: Some(10),
        delete_on_termination: Some(false),
        ..Default::default()
    };
    let scratch =
        BlockDeviceMapping { device_name: "/dev/xvdc".into(), delete_on_termination: Some(true), ..data.clone() };
    let instance = world.launch(RunInstances { block_device_mappings: vec![data, scratch], ..run() }).remove(0);
    let volume = world.gp3();
    world.call(attach(&volume, &instance.id, "/dev/xvdaa")).unwrap();
    let devices = world.described(&instance.id).unwrap().devices;
    let names: Vec<&str> = devices.iter().map(|d| d.device.as_str()).collect();
    assert_eq!(names.len(), 4, "{names:?}");
    world.call(terminate(&instance.id)).unwrap();
    assert_eq!(world.described(&instance.id).unwrap().devices, []);
    assert_eq!(world.volume(&volume).state, "available");
    let left = |world: &World, name: &str| {
        let device = devices.iter().find(|d| d.device == name).unwrap();
        world.sim.volumes.contains_key(&device.volume_id)
    };
    assert_eq!(["/dev/xvda", "/dev/xvdb", "/dev/xvdc"].map(|name| left(&world, name)), [false, true, false]);
}

#[test]
fn termination_ends_stuck_attachments() {
    let mut world = World::instant();
    let id = world.launch(run()).remove(0).id;
    let volume = world.gp3();
    let attachment = Some(crate::faults::Attachment::StuckAttaching);
    let injection = crate::faults::FaultInjection { attachment, ..Default::default() };
    world.sim.apply_with(world.now, attach(&volume, &id, "/dev/xvdaa"), &injection).unwrap();
    world.call(terminate(&id)).unwrap();
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn launch_is_idempotent_and_tags_instances_and_volumes() {
    let mut world = World::instant();
    let tags = |resource: &str| TagSpecification {
        resource_type: resource.into(),
        tags: vec![Tag { key: "of".into(), value: resource.into() }],
    };
    let call = RunInstances {
        client_token: Some("launch".into()),
        max_count: Some(3),
        tag_specifications: vec![tags("instance"), tags("volume")],
        network_interfaces: 2,
        ..run()
    };
    let started = world.launch(call.clone());
    assert_eq!(started.len(), 3);
    let ids = |all: &[SimInstance]| all.iter().map(|i| i.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&world.launch(call.clone())), ids(&started));
    let other = RunInstances { max_count: Some(2), ..call };
    assert_eq!(world.refused(Call::RunInstances(other)), "IdempotentParameterMismatch");
    assert!(started.iter().all(|i| i.reservation_id == started[0].reservation_id && i.tags["of"] == "instance"));
    assert_eq!(started[0].network_interfaces.len(), 2);
    let root = &world.described(&started[0].id).unwrap().devices[0];
    assert_eq!(world.volume(&root.volume_id).tags["of"], "volume");
}

#[test]
fn network_interfaces_use_shared_slots() {
    let mut world = World::instant();
    for (instance_type, interfaces, slots) in [("m5.large", 1, 27), ("m5.large", 3, 25), ("m7i.48xlarge", 3, 128)] {
        let launch =
            RunInstances { instance_type: Some(instance_type.into()), network_interfaces: interfaces, ..run() };
        let id = world.launch(launch).remove(0).id;
        let mut attached = 1;
        let code = loop {
            let n = u8::try_from(attached).unwrap();
            let name = format!("/dev/sd{}{}", char::from(b'b' + n % 24), n / 24 + 1);
            let volume = world.gp3();
            match world.call(attach(&volume, &id, &name)) {
                Ok(_) => attached += 1,
                Err(fault) => break fault.code,
            }
        };
        assert_eq!((attached, code.as_str()), (slots, "AttachmentLimitExceeded"), "{instance_type} {interfaces}");
    }
}

#[test]
fn invalid_launch_or_termination_is_rejected_as_a_whole() {
    let mut world = World::instant();
    for (call, code) in [
        (RunInstances { image_id: None, ..run() }, "MissingParameter"),
        (RunInstances { min_count: None, ..run() }, "MissingParameter"),
        (RunInstances { min_count: Some(2), ..run() }, "InvalidParameterValue"),
        (RunInstances { min_count: Some(0), ..run() }, "InvalidParameterValue"),
        (RunInstances { instance_type: Some("M5".into()), ..run() }, "InvalidParameterValue"),
        (RunInstances { availability_zone: Some("us-west-2z".into()), ..run() }, "InvalidParameterValue"),
        (RunInstances { availability_zone_id: Some("usw2-az1".into()), ..run() }, "InvalidParameterCombination"),
        (RunInstances { network_interfaces: 99, ..run() }, "AttachmentLimitExceeded"),
        (RunInstances { dry_run: true, ..run() }, "DryRunOperation"),
    ] {
        assert_eq!(world.refused(Call::RunInstances(call.clone())), code, "{call:?}");
    }
    let free = world.launch(run()).remove(0).id;
    let protected = world.launch(RunInstances { disable_api_termination: true, ..run() }).remove(0).id;
    let both = TerminateInstances { instance_ids: vec![free.clone(), protected], dry_run: false };
    assert_eq!(world.refused(Call::TerminateInstances(both)), "OperationNotPermitted");
    assert_eq!(world.state_of(&free), ("running".into(), 16));
}
