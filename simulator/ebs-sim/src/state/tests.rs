//! Tests of the state with calls and their replies. The test acts as the data plane.

/// Makes a call that must succeed, and returns the content of its reply.
macro_rules! ok {
    ($world:expr, $action:ident $(, $($parameters:tt)+)?) => {
        match $world.call(&[stringify!($action).to_owned() $(, format!($($parameters)+))?].join(" ")) {
            Ok(Reply::$action(content)) => content,
            other => panic!("{} ended with {other:?}", stringify!($action)),
        }
    };
}

mod account;
mod attachments;
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

use crate::api::{Call, Fault, Reply, SimAttachment, SimVolume};
use crate::config::{AccountSettings, EngineConfig, Quotas, Timing, TimingOverride};
use crate::faults::FaultInjection;

use super::{Effect, Outcome, Sim};

/// Creates a gp3 volume of 4 GiB in the first instance's zone.
const GP3: &str = "CreateVolume AvailabilityZone=us-west-2a Size=4 VolumeType=gp3";

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A simulator, the time, and a data plane that completes effects immediately.
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
        // The tests depend on exact times, so the times have no random spread.
        world.sim.set_timing(TimingOverride { spread_percent: Some(0), ..TimingOverride::default() });
        world
    }

    fn with_account(account: AccountSettings) -> Self {
        Self::of(EngineConfig { account, ..EngineConfig::default() })
    }

    fn with_quotas(quotas: Quotas) -> Self {
        Self::with_account(AccountSettings { quotas, ..AccountSettings::default() })
    }

    fn of(config: EngineConfig) -> Self {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        Self { sim: Sim::new(&config, now), now, config }
    }

    fn apply(&mut self, call: &str) -> Result<Reply, Fault> {
        self.sim.apply(self.now, Call::line(call)?, &FaultInjection::default())
    }

    fn call(&mut self, call: &str) -> Result<Reply, Fault> {
        let reply = self.apply(call);
        self.settle();
        reply
    }

    fn done(&mut self, call: &str) {
        self.call(call).unwrap_or_else(|fault| panic!("{call}: {fault}"));
    }

    /// Executes a call that must fail without changing anything, and returns EC2's error code.
    #[track_caller]
    fn refused(&mut self, call: &str) -> String {
        let before = self.sim.save();
        let fault = self.call(call).expect_err(call);
        assert_eq!(self.sim.save(), before, "a refused call changed the state: {call}");
        fault.code
    }

    #[track_caller]
    fn refuses<S: AsRef<str>>(&mut self, calls: impl IntoIterator<Item = (S, &'static str)>) {
        for (call, code) in calls {
            assert_eq!(self.refused(call.as_ref()), code, "{}", call.as_ref());
        }
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

    fn fail_effects(&mut self, why: &str) {
        for effect in self.sim.take_effects() {
            self.sim.finish(self.now, &effect, &Outcome::Failed(why.into()));
        }
        self.settle();
    }

    /// Advances the time as the engine does: it stops whenever something is due to settle.
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

    fn create(&mut self, more: &str) -> SimVolume {
        ok!(self, CreateVolume, "{} {more}", GP3.trim_start_matches("CreateVolume "))
    }

    fn gp3(&mut self) -> String {
        self.create("").id
    }

    /// Returns an available volume and the machine's own instance.
    fn ready(&mut self) -> (String, String) {
        let volume = self.gp3();
        self.pass(secs(10));
        (volume, self.instance(0))
    }

    /// Returns a volume that is attached to the machine's own instance, and that instance.
    fn attached(&mut self) -> (String, String) {
        let (volume, instance) = self.ready();
        self.attach(&volume, "/dev/xvdaa");
        self.pass(secs(10));
        (volume, instance)
    }

    fn volume(&self, id: &str) -> SimVolume {
        self.sim.volumes[id].describe()
    }

    fn attachment(&self, volume: &str) -> SimAttachment {
        self.volume(volume).attachments.remove(0)
    }

    fn attach(&mut self, volume: &str, device: &str) -> SimAttachment {
        let instance = self.instance(0);
        ok!(self, AttachVolume, "VolumeId={volume} InstanceId={instance} Device={device}")
    }

    fn snapshot(&mut self, volume: &str) -> String {
        ok!(self, CreateSnapshot, "VolumeId={volume}").id
    }

    fn volumes_by(&mut self, filter: &str, values: &[&str]) -> Vec<String> {
        let values: String = (1..).zip(values).map(|(n, value)| format!(" Filter.1.Value.{n}={value}")).collect();
        let found = ok!(self, DescribeVolumes, "Filter.1.Name={filter}{values}");
        found.items.into_iter().map(|v| v.id).collect()
    }
}

fn load(saved: &[u8], config: &EngineConfig) -> Result<Sim, String> {
    let mut sim = Sim::read(saved)?;
    sim.adopt(config);
    Ok(sim)
}

fn attach(volume: &str, instance: &str, device: &str) -> String {
    format!("AttachVolume VolumeId={volume} InstanceId={instance} Device={device}")
}

fn detach(volume: &str, instance: &str) -> String {
    format!("DetachVolume VolumeId={volume} InstanceId={instance}")
}

fn by(name: &str, value: &str) -> String {
    format!("Filter.1.Name={name} Filter.1.Value.1={value}")
}
