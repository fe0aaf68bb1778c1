//! Tests of RunInstances, StartInstances, StopInstances, TerminateInstances, and their effects on volumes.

use super::*;
use crate::api::{SimInstance, SimStateChange};

const RUN: &str = "ImageId=ami-00000000000000000 InstanceType=m5.large MinCount=1 MaxCount=1 \
                   Placement.AvailabilityZone=us-west-2a";

fn terminate(id: &str) -> String {
    format!("TerminateInstances InstanceId.1={id}")
}

fn start(id: &str) -> String {
    format!("StartInstances InstanceId.1={id}")
}

fn stop(id: &str) -> String {
    format!("StopInstances InstanceId.1={id}")
}

fn states(changes: &[SimStateChange]) -> (&str, u16, &str, u16) {
    let [c] = changes else { panic!("{changes:?}") };
    (&c.previous_state, c.previous_code, &c.current_state, c.current_code)
}

impl World {
    fn launch(&mut self, more: &str) -> Vec<SimInstance> {
        ok!(self, RunInstances, "{RUN} {more}")
    }

    fn running(&mut self) -> String {
        let id = self.launch("").remove(0).id;
        self.pass(secs(10));
        id
    }

    fn described(&mut self, id: &str) -> SimInstance {
        ok!(self, DescribeInstances, "InstanceId.1={id}").items.remove(0)
    }

    fn state_of(&mut self, id: &str) -> (String, u16) {
        let instance = self.described(id);
        (instance.state, instance.state_code)
    }
}

/// The instance passes through the states pending, running, shutting down and terminated.
#[test]
fn terminated_instance_stays_listed_for_an_hour() {
    let mut world = World::realistic();
    let id = world.launch("").remove(0).id;
    let volume = world.gp3();
    assert_eq!(world.state_of(&id), ("pending".into(), 0));
    world.pass(secs(5));
    assert_eq!(world.refused(&attach(&volume, &id, "/dev/xvdaa")), "IncorrectState", "it does not run yet");
    world.pass(secs(5));
    assert_eq!(world.state_of(&id), ("running".into(), 16));
    let changes = ok!(world, TerminateInstances, "InstanceId.1={id}");
    assert_eq!(states(&changes), ("running", 16, "shutting-down", 32));
    assert_eq!(world.refused(&attach(&volume, &id, "/dev/xvdaa")), "IncorrectState");
    world.pass(secs(30));
    assert_eq!(world.state_of(&id), ("terminated".into(), 48));
    world.done(&terminate(&id));
    world.pass(HOUR - secs(60));
    assert_eq!(world.state_of(&id), ("terminated".into(), 48));
    world.pass(secs(120));
    world.refuses([
        (format!("DescribeInstances InstanceId.1={id}"), "InvalidInstanceID.NotFound"),
        (terminate(&id), "InvalidInstanceID.NotFound"),
    ]);
}

/// Volumes can be attached to a stopped instance, and detach immediately. Only a running instance can be stopped.
#[test]
fn stopped_instance_keeps_its_volumes_and_accepts_new_ones() {
    let mut world = World::realistic();
    let id = world.launch("").remove(0).id;
    let (kept, other) = (world.gp3(), world.gp3());
    assert_eq!(world.refused(&stop(&id)), "IncorrectInstanceState", "it does not run yet");
    world.pass(secs(10));
    world.done(&attach(&kept, &id, "/dev/xvdaa"));
    world.pass(secs(5));
    let changes = ok!(world, StopInstances, "InstanceId.1={id}");
    assert_eq!(states(&changes), ("running", 16, "stopping", 64));
    assert_eq!(world.refused(&attach(&other, &id, "/dev/xvdab")), "IncorrectState", "it is stopping");
    world.pass(secs(30));
    assert_eq!(world.state_of(&id), ("stopped".into(), 80));
    world.done(&stop(&id));
    world.done(&attach(&other, &id, "/dev/xvdab"));
    world.pass(secs(5));
    let states = |world: &mut World| world.described(&id).devices.into_iter().map(|d| d.state).collect::<Vec<_>>();
    assert_eq!(states(&mut world), ["attached"; 3], "its root volume and both others");
    world.done(&detach(&kept, &id));
    assert_eq!((world.volume(&kept).state.as_str(), states(&mut world).len()), ("available", 2), "at once");
    world.done(&terminate(&id));
    world.pass(secs(30));
    assert_eq!(world.volume(&other).state, "available");
    assert_eq!(world.refused(&stop(&id)), "IncorrectInstanceState", "it has ended");
}

/// The instance cannot start while it is stopping.
#[test]
fn stopped_instance_restarts_with_volumes_and_address() {
    let mut world = World::realistic();
    let (id, volume) = (world.running(), world.gp3());
    world.pass(secs(10));
    world.done(&attach(&volume, &id, "/dev/xvdaa"));
    let before = world.described(&id);
    world.done(&stop(&id));
    assert_eq!(world.refused(&start(&id)), "IncorrectInstanceState", "it is still stopping");
    world.pass(secs(30));
    let changes = ok!(world, StartInstances, "InstanceId.1={id}");
    assert_eq!(states(&changes), ("stopped", 80, "pending", 0));
    let launched = world.now;
    world.pass(secs(10));
    world.done(&start(&id));
    let after = world.described(&id);
    assert_eq!((after.state.as_str(), after.state_code, after.launch_time), ("running", 16, launched));
    assert_eq!(after.network_interfaces, before.network_interfaces);
    let names = |i: &SimInstance| i.devices.iter().map(|d| d.device.clone()).collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before));
    world.done(&terminate(&id));
    world.refuses([(start(&id), "IncorrectInstanceState"), (start("i-00000000"), "InvalidInstanceID.NotFound")]);
}

#[test]
fn stopped_instance_needs_its_root_volume_to_start() {
    let mut world = World::instant();
    let id = world.running();
    let root = world.described(&id).devices[0].volume_id.clone();
    assert_eq!(world.refused(&detach(&root, &id)), "IncorrectState");
    world.done(&stop(&id));
    world.done(&detach(&root, &id));
    assert_eq!(world.volume(&root).state, "available");
    assert_eq!(world.refused(&start(&id)), "InvalidParameterValue", "it cannot start without");
    world.done(&attach(&root, &id, "/dev/xvda"));
    world.done(&start(&id));
    assert_eq!(world.state_of(&id), ("running".into(), 16));
}

#[test]
fn stop_or_terminate_changes_all_instances_or_none() {
    let mut world = World::instant();
    let free = world.running();
    let locked = world.launch("DisableApiStop=true DisableApiTermination=true").remove(0).id;
    for action in ["Stop", "Terminate"] {
        world.refuses([
            (format!("{action}Instances InstanceId.1={free} InstanceId.2={locked}"), "OperationNotPermitted"),
            (format!("{action}Instances InstanceId.1={free} InstanceId.2=i-00000000"), "InvalidInstanceID.NotFound"),
            (format!("{action}Instances"), "MissingParameter"),
            (format!("{action}Instances InstanceId.1={free} DryRun=true"), "DryRunOperation"),
        ]);
    }
    assert_eq!(world.state_of(&free), ("running".into(), 16));
}

#[test]
fn termination_ends_stuck_attachments() {
    let mut world = World::instant();
    let (id, volume) = (world.running(), world.gp3());
    let attachment = Some(crate::faults::Attachment::StuckAttaching);
    let injection = crate::faults::FaultInjection { attachment, ..Default::default() };
    let attach = Call::line(&attach(&volume, &id, "/dev/xvdaa")).unwrap();
    world.sim.apply(world.now, attach, &injection).unwrap();
    world.done(&terminate(&id));
    assert_eq!(world.volume(&volume).state, "available");
}

#[test]
fn launch_is_idempotent_and_tags_instances_and_volumes() {
    let mut world = World::instant();
    let tag = |n: u8, kind: &str| {
        let of = format!("TagSpecification.{n}");
        format!("{of}.ResourceType={kind} {of}.Tag.1.Key=of {of}.Tag.1.Value={kind}")
    };
    let interfaces = "NetworkInterface.1.DeviceIndex=0 NetworkInterface.2.DeviceIndex=1";
    let call = format!("ClientToken=launch MaxCount=3 {interfaces} {} {}", tag(1, "instance"), tag(2, "volume"));
    let started = world.launch(&call);
    assert_eq!(started.len(), 3);
    let ids = |all: &[SimInstance]| all.iter().map(|i| i.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&world.launch(&call)), ids(&started));
    assert_eq!(world.refused(&format!("RunInstances {RUN} {call} MaxCount=2")), "IdempotentParameterMismatch");
    assert!(started.iter().all(|i| i.reservation_id == started[0].reservation_id && i.tags["of"] == "instance"));
    assert_eq!(started[0].network_interfaces.len(), 2);
    let root = world.described(&started[0].id).devices[0].volume_id.clone();
    assert_eq!(world.volume(&root).tags["of"], "volume");
}

#[test]
fn network_interfaces_use_shared_attachment_slots() {
    let mut world = World::instant();
    for (instance_type, interfaces, slots) in [("m5.large", 1, 27), ("m5.large", 3, 25), ("m7i.48xlarge", 3, 128)] {
        let interfaces: String = (1..=interfaces).map(|n| format!(" NetworkInterface.{n}.DeviceIndex={n}")).collect();
        let id = world.launch(&format!("InstanceType={instance_type}{interfaces}")).remove(0).id;
        let mut attached = 1;
        let code = loop {
            let n = u8::try_from(attached).unwrap();
            let name = format!("/dev/sd{}{}", char::from(b'b' + n % 24), n / 24 + 1);
            let volume = world.gp3();
            match world.call(&attach(&volume, &id, &name)) {
                Ok(_) => attached += 1,
                Err(fault) => break fault.code,
            }
        };
        assert_eq!((attached, code.as_str()), (slots, "AttachmentLimitExceeded"), "{instance_type}{interfaces}");
    }
}

#[test]
fn invalid_launch_is_rejected_with_the_ec2_code() {
    let many: String = (1..=99).map(|n| format!(" NetworkInterface.{n}.DeviceIndex={n}")).collect();
    World::instant().refuses(
        [
            ("!ImageId", "MissingParameter"),
            ("!MinCount", "MissingParameter"),
            ("MinCount=2", "InvalidParameterValue"),
            ("MinCount=0", "InvalidParameterValue"),
            ("InstanceType=M5", "InvalidParameterValue"),
            ("Placement.AvailabilityZone=us-west-2z", "InvalidParameterValue"),
            ("Placement.AvailabilityZoneId=usw2-az1", "InvalidParameterCombination"),
            (&many, "AttachmentLimitExceeded"),
            ("DryRun=true", "DryRunOperation"),
        ]
        .map(|(more, code)| (format!("RunInstances {RUN} {more}"), code)),
    );
}
