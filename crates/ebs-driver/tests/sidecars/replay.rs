//! Replays a recording with this driver's services, an EC2 in memory, and sidecars that act as recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use csi_proto::csi::controller_server::Controller;
use csi_proto::csi::identity_server::Identity;
use ebs_cloud::{Cloud, CloudConfig};
use ebs_driver::config::Mode;
use ebs_driver::controller::{ControllerOptions, ControllerService};
use ebs_driver::identity::IdentityService;
use ebs_driver::operation::Operations;
use ebs_ec2::{ConnectionId, DriverName};
use ebs_sim::engine::{EngineConfig, Timing};
use ebs_sim::iam::Shipped;
use ebs_sim::port::SimEc2;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::{Request, Status};

use crate::messages;
use crate::recording::{End, Line, Recording};

/// An instance ID that EC2 does not know.
const UNKNOWN_INSTANCE: &str = "i-0123456789abcdef0";
/// How long a sidecar takes to restart, and how long it first pauses after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How many times a sidecar repeats a request before the test counts it as failed.
const PATIENCE: usize = 100;
/// Timeout of a replay, on paused time.
const BOUND: Duration = Duration::from_hours(6);

/// Kills the sidecar that makes the call at `place`, some time after it has sent the call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Death {
    pub(crate) place: usize,
    pub(crate) after: Duration,
}

#[derive(Debug)]
enum Outcome {
    Answered(Result<Value, String>),
    Deadline,
    Gone,
}

/// What an outcome means for the sidecar and the test.
enum Verdict {
    AsRecorded,
    /// The call has not finished, so the sidecar repeats it.
    Again,
    Wrong(String),
}

struct Stage<'a> {
    recording: &'a Recording,
    death: Option<Death>,
    ec2: SimEc2,
    controller: ControllerService<SimEc2>,
    identity: IdentityService,
    began: Instant,
    /// The positions of the calls that have ended.
    ended: watch::Sender<BTreeSet<usize>>,
    /// The IDs that replace the placeholders.
    names: Mutex<BTreeMap<String, String>>,
    /// The connections by sidecar, recorded connection number, and whether the sidecar has died in this replay.
    connections: Mutex<BTreeMap<(String, u32, bool), ConnectionId>>,
    has_died: Mutex<BTreeSet<String>>,
}

/// Replays the whole recording.
///
/// # Panics
/// At the first difference from the recording, or when an object remains or is duplicated.
pub(crate) async fn replay(recording: &Recording, death: Option<Death>) {
    let stage = Stage::set_up(recording, death).await;
    let calls = join_all((0..recording.lines.len()).map(|place| stage.play(place)));
    if tokio::time::timeout(BOUND, calls).await.is_err() {
        panic!("{}: it never ends", stage.what());
    }
    stage.nothing_is_left().await;
}

impl<'a> Stage<'a> {
    async fn set_up(recording: &'a Recording, death: Option<Death>) -> Self {
        let config = EngineConfig { timing: Timing::Realistic, seed: Some(1), ..EngineConfig::default() };
        let ec2 = SimEc2::start(config).await.expect("an engine in memory starts");
        ec2.engine().least_rights().demand(Shipped::ManagedV2);
        ec2.engine().set_timing(recording.timing).await;
        let [node, _] = ec2.instance_ids().await;
        let cloud = Cloud::new(Arc::new(ec2.clone()), CloudConfig::new(DriverName::default()));
        let controller = ControllerService::new(Arc::new(cloud), ControllerOptions::default(), Operations::new());
        Self {
            recording,
            death,
            ec2,
            controller,
            identity: IdentityService::new(Mode::All, "v0.1.0", watch::Sender::new(true).subscribe()),
            began: Instant::now(),
            ended: watch::Sender::default(),
            names: Mutex::new(BTreeMap::from([(recording.instance.clone(), node.to_string())])),
            connections: Mutex::default(),
            has_died: Mutex::default(),
        }
    }

    fn what(&self) -> String {
        match self.death {
            None => self.recording.name.clone(),
            Some(Death { place, after }) => {
                let Line { from, method, .. } = &self.recording.lines[place];
                format!("{}: {from} dies {after:?} after call {place}, {method}", self.recording.name)
            }
        }
    }

    /// Plays one call: waits for its turn, sends it, and reacts as the sidecar would.
    async fn play(&self, place: usize) {
        let line = &self.recording.lines[place];
        let before: BTreeSet<usize> = self.recording.ended_before(place).collect();
        self.ended.subscribe().wait_for(|ended| before.is_subset(ended)).await.expect("the stage holds the sender");
        tokio::time::sleep_until(self.began + line.at()).await;
        if let Some(death) = self.death.filter(|death| death.place == place) {
            let _unheard = self.attempt(line, death.after, End::Gone).await;
            lock(&self.has_died).insert(line.from.clone());
            tokio::time::sleep(PAUSE).await;
        }
        let mut tries = 0;
        loop {
            let (limit, end) =
                if line.end == End::Gone { (line.took(), End::Gone) } else { (line.deadline(), End::Deadline) };
            let outcome = self.attempt(line, limit, end).await;
            self.nothing_is_there_twice().await;
            match self.verdict(line, &outcome) {
                Verdict::AsRecorded => break,
                Verdict::Again if tries < PATIENCE => tokio::time::sleep(PAUSE).await,
                Verdict::Again => panic!("{}: call {place}, {}: never met: {outcome:?}", self.what(), line.method),
                Verdict::Wrong(why) => panic!("{}: call {place}, {}: {why}: {outcome:?}", self.what(), line.method),
            }
            tries += 1;
        }
        self.ended.send_modify(|ended| ended.extend([place]));
    }

    async fn attempt(&self, line: &Line, limit: Duration, end: End) -> Outcome {
        match tokio::time::timeout(limit, self.call(line)).await {
            Ok(answer) => Outcome::Answered(answer.map_err(|status| format!("{:?}", status.code()))),
            Err(_elapsed) if end == End::Gone => Outcome::Gone,
            Err(_elapsed) => Outcome::Deadline,
        }
    }

    async fn call(&self, line: &Line) -> Result<Value, Status> {
        macro_rules! send {
            ($service:ident.$rpc:ident) => {{
                let request = messages::request(&line.method, self.with_names(&line.request));
                let reply = self.$service.$rpc(self.over(line, request)).await?.into_inner();
                Ok(messages::reply(&line.method, &reply))
            }};
        }
        match line.method.as_str() {
            "Probe" => send!(identity.probe),
            "GetPluginInfo" => send!(identity.get_plugin_info),
            "GetPluginCapabilities" => send!(identity.get_plugin_capabilities),
            "ControllerGetCapabilities" => send!(controller.controller_get_capabilities),
            // The driver does not offer this service. The gRPC server would reject the call, but the replay does not
            // include it.
            "GroupControllerGetCapabilities" => Err(Status::unimplemented("no such service")),
            "CreateVolume" => send!(controller.create_volume),
            "DeleteVolume" => send!(controller.delete_volume),
            "ControllerPublishVolume" => send!(controller.controller_publish_volume),
            "ControllerUnpublishVolume" => send!(controller.controller_unpublish_volume),
            "ControllerExpandVolume" => send!(controller.controller_expand_volume),
            "ControllerModifyVolume" => send!(controller.controller_modify_volume),
            "CreateSnapshot" => send!(controller.create_snapshot),
            "DeleteSnapshot" => send!(controller.delete_snapshot),
            other => panic!("{}: no sidecar calls {other}", self.what()),
        }
    }

    /// Returns the request with the sidecar's connection. A restarted sidecar has another connection.
    fn over<R>(&self, line: &Line, request: R) -> Request<R> {
        let lives_again = lock(&self.has_died).contains(&line.from);
        let key = (line.from.clone(), line.connection, lives_again);
        let connection = *lock(&self.connections).entry(key).or_insert_with(ConnectionId::unique);
        let mut request = Request::new(request);
        request.extensions_mut().insert(connection);
        request
    }

    /// Replaces the placeholders in the request by this replay's IDs.
    fn with_names(&self, request: &Value) -> Value {
        let mut text = request.to_string();
        for (placeholder, name) in lock(&self.names).iter() {
            text = text.replace(placeholder, name);
        }
        for unknown in ["{instance 1}", "{instance 2}"] {
            text = text.replace(unknown, UNKNOWN_INSTANCE);
        }
        assert!(!text.contains("{volume ") && !text.contains("{snapshot "), "{}: what is {text}", self.what());
        serde_json::from_str(&text).expect("still JSON")
    }

    fn verdict(&self, line: &Line, outcome: &Outcome) -> Verdict {
        // A sidecar's death shifts later calls: one that had reached its deadline may now be answered, and vice versa.
        let shifted = self.death.is_some();
        match (line.end, outcome) {
            (End::Answered, Outcome::Answered(Ok(reply))) => match (&line.code, &line.reply) {
                (Some(code), Some(recorded)) if code == "OK" => self.compare(recorded, reply),
                _ => Verdict::Wrong(format!("was refused as {:?}", line.code)),
            },
            (End::Answered, Outcome::Answered(Err(code))) if line.code.as_ref() == Some(code) => Verdict::AsRecorded,
            (End::Answered, Outcome::Deadline) if shifted => Verdict::Again,
            (End::Answered | End::Deadline, Outcome::Answered(Err(code))) if shifted && !is_final(code) => {
                Verdict::Again
            }
            (End::Deadline, Outcome::Answered(Ok(_))) if shifted => Verdict::AsRecorded,
            (End::Deadline, Outcome::Deadline) | (End::Gone, Outcome::Gone | Outcome::Answered(Ok(_))) => {
                Verdict::AsRecorded
            }
            (end, _) => Verdict::Wrong(format!("was {end:?} {:?}", line.code)),
        }
    }

    /// Compares a response with the recorded one. Repeats the call if a snapshot is not yet ready, and accepts one that
    /// is ready sooner.
    fn compare(&self, recorded: &Value, reply: &Value) -> Verdict {
        let ready = |value: &Value| value.pointer("/snapshot/ready_to_use").is_some();
        let mut reply = reply.clone();
        match (ready(recorded), ready(&reply)) {
            (true, false) => return Verdict::Again,
            (false, true) => drop(reply["snapshot"].as_object_mut().and_then(|fields| fields.remove("ready_to_use"))),
            _ => {}
        }
        match self.agree(recorded, &reply) {
            Ok(()) => Verdict::AsRecorded,
            Err(why) => Verdict::Wrong(why),
        }
    }

    /// Compares everything except IDs and times. Assigns an ID to a placeholder at its first occurrence.
    fn agree(&self, recorded: &Value, got: &Value) -> Result<(), String> {
        let differ = || Err(format!("was {recorded}, is {got}"));
        match (recorded, got) {
            (Value::String(recorded), Value::String(got)) => match recorded.as_str() {
                "{time}" | "{version}" if !got.is_empty() => Ok(()),
                placeholder if placeholder.starts_with('{') => {
                    let mut names = lock(&self.names);
                    let known = names.entry(placeholder.to_owned()).or_insert_with(|| got.clone());
                    if known == got { Ok(()) } else { Err(format!("{placeholder} was {known}, is {got}")) }
                }
                plain if plain == got => Ok(()),
                _ => differ(),
            },
            (Value::Array(recorded), Value::Array(got)) if recorded.len() == got.len() => {
                recorded.iter().zip(got).try_for_each(|(recorded, got)| self.agree(recorded, got))
            }
            (Value::Object(recorded), Value::Object(fields)) if recorded.keys().eq(fields.keys()) => {
                recorded.iter().try_for_each(|(name, recorded)| self.agree(recorded, &fields[name]))
            }
            _ if recorded == got => Ok(()),
            _ => differ(),
        }
    }

    async fn nothing_is_there_twice(&self) {
        let state = self.ec2.engine().snapshot_of_state().await;
        let live = state.volumes.iter().filter(|volume| !volume.state.starts_with("delet"));
        let volumes = live.filter_map(|volume| volume.tags.get("CSIVolumeName"));
        let snapshots = state.snapshots.iter().filter_map(|snapshot| snapshot.tags.get("CSIVolumeSnapshotName"));
        let mut seen = BTreeSet::new();
        for name in volumes.chain(snapshots) {
            assert!(seen.insert(name.clone()), "{}: {name} exists twice", self.what());
        }
    }

    async fn nothing_is_left(&self) {
        // The last call may have left background work.
        tokio::time::sleep(Duration::from_mins(1)).await;
        let state = self.ec2.engine().snapshot_of_state().await;
        let volumes = state.volumes.iter().filter(|volume| volume.tags.contains_key("CSIVolumeName"));
        let left: Vec<_> = volumes.filter(|v| !v.state.starts_with("delet")).map(|v| (&v.id, &v.state)).collect();
        assert!(left.is_empty(), "{}: EC2 still has {left:?}", self.what());
        let left: Vec<_> = state.snapshots.iter().map(|snapshot| &snapshot.id).collect();
        assert!(left.is_empty(), "{}: EC2 still has {left:?}", self.what());
        self.ec2.engine().least_rights().check().unwrap_or_else(|told| panic!("{}: {told}", self.what()));
    }
}

/// Returns true for codes that mean to a sidecar that no operation is running any more.
fn is_final(code: &str) -> bool {
    !["Cancelled", "DeadlineExceeded", "Unavailable", "Aborted"].contains(&code)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
