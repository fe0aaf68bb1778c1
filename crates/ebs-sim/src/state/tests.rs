//! Tests of the state as a table of calls and replies. The test acts as the data plane.

mod account;
mod attachments;
mod cluster_nodes;
mod creation;
mod fast_restores;
mod fault_injection;
mod instances;
mod invariants;
mod listings;
mod locks;
mod modifications;
mod restarts;
mod snapshots;
mod tags;
mod tokens;

use std::time::{Duration, SystemTime};

use crate::api::{
    AttachVolume, Call, CreateSnapshot, CreateVolume, DescribeVolumes, DetachVolume, Fault, Filter, Reply,
    SimAttachment, SimVolume,
};
use crate::config::{EngineConfig, Timing, TimingOverride};

use super::{Effect, Outcome, Sim};

/// A simulator, the time, and a data plane that completes effects at once.
struct World {
    sim: Sim,
    now: SystemTime,
    config: EngineConfig,
}

impl World {
    fn instant() -> Self {
        Self::of(EngineConfig::default())
    }

    fn realistic() -> Self {
        let mut world = Self::of(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() });
        // Tests here depend on exact times.
        world.sim.set_timing(TimingOverride { spread_percent: Some(0), ..TimingOverride::default() });
        world
    }

    fn of(config: EngineConfig) -> Self {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        Self { sim: Sim::new(&config, now), now, config }
    }

    /// Executes only the call.
    fn apply(&mut self, call: Call) -> Result<Reply, Fault> {
        self.sim.apply(self.now, call)
    }

    /// Executes the call and its immediate effects.
    fn call(&mut self, call: Call) -> Result<Reply, Fault> {
        let reply = self.apply(call);
        self.settle();
        reply
    }

    /// Returns EC2's error code for a call that must not change anything.
    fn refused(&mut self, call: Call) -> String {
        let before = self.sim.save();
        let fault = self.call(call.clone()).expect_err("should have been refused");
        assert_eq!(self.sim.save(), before, "a refused {} changed the state", call.action());
        fault.code
    }

    fn settle(&mut self) {
        loop {
            self.sim.advance(self.now);
            let effects = self.sim.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                let device = matches!(effect, Effect::Connect { .. }).then(|| "/dev/loop9".to_owned());
                self.sim.finish(self.now, &effect, &Outcome::Done(device));
            }
        }
    }

    /// Advances the time like the engine: with a stop at each moment at which something settles.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.sim.next_due(self.now).filter(|due| *due <= end) {
            self.now = due;
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn instance(&self, at: usize) -> String {
        self.sim.instances[at].id.clone()
    }

    fn create(&mut self, call: CreateVolume) -> SimVolume {
        match self.call(Call::CreateVolume(call)) {
            Ok(Reply::CreateVolume(volume)) => volume,
            other => panic!("not created: {other:?}"),
        }
    }

    fn gp3(&mut self) -> String {
        self.create(gp3()).id
    }

    fn volume(&self, id: &str) -> SimVolume {
        self.sim.volumes[id].describe()
    }

    fn attach(&mut self, volume: &str, device: &str) -> SimAttachment {
        let call = attach(volume, &self.instance(0), device);
        match self.call(call) {
            Ok(Reply::AttachVolume(attachment)) => attachment,
            other => panic!("not attached: {other:?}"),
        }
    }

    fn snapshot(&mut self, volume: &str) -> String {
        match self.call(Call::CreateSnapshot(CreateSnapshot { volume_id: volume.to_owned(), ..Default::default() })) {
            Ok(Reply::CreateSnapshot(snapshot)) => snapshot.id,
            other => panic!("no snapshot: {other:?}"),
        }
    }

    fn volumes_by(&mut self, filter: &str, values: &[&str]) -> Vec<String> {
        let filters = vec![filter_of(filter, values)];
        match self.call(Call::DescribeVolumes(DescribeVolumes { filters, ..Default::default() })) {
            Ok(Reply::DescribeVolumes(listing)) => listing.items.into_iter().map(|v| v.id).collect(),
            other => panic!("not described: {other:?}"),
        }
    }
}

/// Requests 4 GiB of gp3 in the first instance's zone.
fn gp3() -> CreateVolume {
    CreateVolume {
        availability_zone: Some("us-west-2a".to_owned()),
        size: Some(4),
        volume_type: Some("gp3".to_owned()),
        ..Default::default()
    }
}

fn attach(volume: &str, instance: &str, device: &str) -> Call {
    Call::AttachVolume(AttachVolume {
        volume_id: volume.to_owned(),
        instance_id: instance.to_owned(),
        device: Some(device.to_owned()),
        ..Default::default()
    })
}

fn detach(volume: &str, instance: &str) -> Call {
    Call::DetachVolume(DetachVolume {
        volume_id: volume.to_owned(),
        instance_id: Some(instance.to_owned()),
        ..Default::default()
    })
}

fn filter_of(name: &str, values: &[&str]) -> Filter {
    Filter { name: name.to_owned(), values: values.iter().map(|v| (*v).to_owned()).collect() }
}
