//! A policy over a simulated EC2, and functions that the tests share.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use ebs_cloud::{
    Attached, CapacityRequest, Cloud, CloudConfig, CloudError, CloudErrorKind, ModifySpec, Sidecar, Snapshot,
    SnapshotFeatures, SnapshotSpec, Source, Term, Topology, Volume, VolumeSpec,
};
use ebs_ec2::{
    Action, AttachRequest, Attachments, ConnectionId, DeviceName, DriverName, ErrorClass, Gib, IopsRequest, NodeId,
    SnapshotId, Tags, VolumeId, VolumeType, Volumes, Waiter, Waiters, ZoneId, ZoneName,
};
use ebs_sim::api::{Call, CreateVolume, Reply, RunInstances, SimVolume, TerminateInstances};
use ebs_sim::engine::{EngineConfig, TimingOverride};
use ebs_sim::port::SimEc2;

use crate::ec2_override::Ec2Override;

pub(crate) struct Fixture {
    pub(crate) sim: SimEc2,
    pub(crate) ec2: Arc<Ec2Override>,
    pub(crate) cloud: Arc<Cloud<Ec2Override>>,
    /// The waiters of all operations. One of them waits as long as the fixture exists.
    pub(crate) waiters: Waiters,
    _waiter: Waiter,
}

impl Fixture {
    pub(crate) async fn new() -> Self {
        Self::with(EngineConfig::default()).await
    }

    /// Starts a driver over a simulated EC2 and lets some time pass.
    pub(crate) async fn with(config: EngineConfig) -> Self {
        let sim = SimEc2::start(config).await.expect("an engine in memory starts");
        sim.engine().least_rights().demand(ebs_sim::iam::Shipped::ManagedV2);
        let ec2 = Arc::new(Ec2Override::over(sim.clone()));
        let cloud = over(&ec2);
        let waiters = Waiters::default();
        let waiter = waiters.join();
        let fixture = Self { sim, ec2, cloud, waiters, _waiter: waiter };
        fixture.pass(20).await;
        fixture
    }

    /// Starts a process and creates a volume in the zone of the machine's own instance.
    pub(crate) async fn with_volume() -> (Self, VolumeId) {
        let fixture = Self::new().await;
        let volume = fixture.volume("pvc-1").await.id;
        (fixture, volume)
    }

    /// Starts a process and creates a volume in the zone of the machine's own instance, which is the returned node.
    pub(crate) async fn with_volume_and_node() -> (Self, VolumeId, NodeId) {
        let (fixture, volume) = Self::with_volume().await;
        let [node, _] = fixture.nodes().await;
        (fixture, volume, node)
    }

    /// Lets all sidecars call only this process for 15 s, each over one connection.
    pub(crate) async fn serve_alone(&self) {
        self.connect(ConnectionId::unique());
        self.pass(15).await;
    }

    pub(crate) fn connect(&self, connection: ConnectionId) {
        connect(&self.cloud, connection);
    }

    /// Replaces the process with a new one over the same EC2.
    pub(crate) fn restart(&mut self) {
        self.cloud = over(&self.ec2);
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    pub(crate) async fn timing(&self, timing: TimingOverride) {
        self.sim.engine().set_timing(timing).await;
    }

    /// Returns all volumes except the root volumes of instances.
    pub(crate) async fn volumes(&self) -> Vec<SimVolume> {
        let all = self.sim.engine().snapshot_of_state().await.volumes;
        all.into_iter().filter(|v| v.tags.contains_key("CSIVolumeName")).collect()
    }

    pub(crate) fn mutations(&self) -> usize {
        self.sim.calls().iter().filter(|c| c.action.mutates() && !c.dry_run).count()
    }

    pub(crate) fn count(&self, action: Action) -> usize {
        self.sim.count(action)
    }

    pub(crate) async fn called(&self, action: Action, times: usize) {
        let made = async {
            while self.count(action) < times {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(600), made).await.expect("so many calls are made");
    }

    /// Returns how many calls of the action EC2 carried out, even if their answer was lost.
    pub(crate) fn accepted(&self, action: Action) -> usize {
        let accepted = |error| matches!(error, None | Some(ErrorClass::Ambiguous));
        self.sim.calls().iter().filter(|c| c.action == action && accepted(c.error)).count()
    }

    /// Returns the CreateVolume requests so far, without dry runs.
    pub(crate) fn creations(&self) -> Vec<CreateVolume> {
        self.creations_that(|c| !c.dry_run)
    }

    pub(crate) fn probes(&self) -> Vec<CreateVolume> {
        self.creations_that(|c| c.dry_run)
    }

    fn creations_that(&self, wanted: impl Fn(&CreateVolume) -> bool) -> Vec<CreateVolume> {
        let calls = self.sim.calls().into_iter();
        let requests =
            calls.filter_map(|c| if let Call::CreateVolume(request) = c.request { Some(request) } else { None });
        requests.filter(wanted).collect()
    }

    pub(crate) async fn create(&self, spec: &VolumeSpec) -> Result<Volume, CloudError> {
        self.cloud.volumes.create(spec, &self.waiters).await
    }

    pub(crate) async fn delete(&self, volume: &VolumeId) -> Result<(), CloudError> {
        self.cloud.volumes.delete(volume, &self.waiters).await
    }

    pub(crate) async fn abandon_expand(&self, volume: &VolumeId, size: Gib) {
        let grow = async |waiters: &Waiters| expand(&self.cloud, volume, size, waiters).await.map(drop);
        Box::pin(self.supersede(Action::ModifyVolume, grow)).await;
    }

    /// Expands the volume for the resizer and returns its size.
    pub(crate) async fn expand(&self, volume: &VolumeId, size: Gib) -> Result<Gib, CloudError> {
        expand(&self.cloud, volume, size, &self.waiters).await
    }

    pub(crate) async fn modify(&self, volume: &VolumeId, spec: &ModifySpec) -> Result<Volume, CloudError> {
        self.cloud.volumes.modify(&[Sidecar::Resizer], volume, spec, &self.waiters).await
    }

    pub(crate) async fn await_initialized(&self, volume: &VolumeId) -> Result<(), CloudError> {
        self.cloud.volumes.await_initialized(volume, &self.waiters).await
    }

    pub(crate) async fn attach(&self, volume: &VolumeId, node: &NodeId) -> Result<Attached, CloudError> {
        self.cloud.attachments.attach(volume, node, &self.waiters).await
    }

    /// Attaches the volume directly in the simulator, without the policy.
    pub(crate) async fn attach_by_hand(&self, volume: &VolumeId, node: &NodeId, device: &str) {
        let (volume, instance, device) = (volume.clone(), node.instance().clone(), DeviceName::new(device));
        let request = AttachRequest { volume, instance, device, card: None };
        self.sim.by_test().attach_volume(&request).await.expect("the attachment is possible");
    }

    pub(crate) async fn detach(&self, volume: &VolumeId, node: &NodeId) -> Result<(), CloudError> {
        self.cloud.attachments.detach(volume, node, &self.waiters).await
    }

    pub(crate) async fn snapshot(&self, spec: &SnapshotSpec) -> Result<Snapshot, CloudError> {
        self.ensure(spec, &SnapshotFeatures::default()).await
    }

    pub(crate) async fn ensure(&self, spec: &SnapshotSpec, with: &SnapshotFeatures) -> Result<Snapshot, CloudError> {
        self.cloud.snapshots.ensure(spec, with, &self.waiters).await
    }

    pub(crate) async fn delete_snapshot(&self, snapshot: &SnapshotId) -> Result<(), CloudError> {
        self.cloud.snapshots.delete(snapshot, &self.waiters).await
    }

    pub(crate) async fn snapshots(&self) -> usize {
        self.sim.engine().snapshot_of_state().await.snapshots.len()
    }

    /// Begins an attach. Another operation supersedes it when EC2 has received AttachVolume and has not answered yet.
    pub(crate) async fn abandon_attach(&self, volume: &VolumeId, node: &NodeId) {
        let attach = async |waiters: &Waiters| self.cloud.attachments.attach(volume, node, waiters).await.map(drop);
        self.supersede(Action::AttachVolume, attach).await;
    }

    /// Begins a detach. Another operation supersedes it when EC2 has received DetachVolume and has not answered yet.
    pub(crate) async fn abandon_detach(&self, volume: &VolumeId, node: &NodeId) {
        let detach = async |waiters: &Waiters| self.cloud.attachments.detach(volume, node, waiters).await;
        self.supersede(Action::DetachVolume, detach).await;
    }

    async fn supersede(&self, action: Action, operation: impl AsyncFnOnce(&Waiters) -> Result<(), CloudError>) {
        let waiters = Waiters::default();
        let waiter = waiters.join();
        let gate = self.sim.hold(action);
        let (ended, _successor) = tokio::join!(operation(&waiters), async {
            gate.reached().await;
            drop(waiter);
            let successor = waiters.supersede();
            gate.release();
            successor
        });
        assert_error(ended, CloudErrorKind::Abandoned);
    }

    pub(crate) async fn volume(&self, name: &str) -> Volume {
        self.create(&in_zone(spec(name), "us-west-2a")).await.expect("a plain volume can be created")
    }

    pub(crate) async fn nodes(&self) -> [NodeId; 2] {
        self.sim.instance_ids().await.map(NodeId::Instance)
    }

    /// Creates another process with the same EC2.
    pub(crate) fn twin(&self) -> Arc<Cloud<Ec2Override>> {
        over(&self.ec2)
    }

    /// Creates another process over the same EC2. All sidecars have called it for a while, over one connection each.
    pub(crate) async fn old_leader(&self) -> Arc<Cloud<Ec2Override>> {
        let cloud = self.twin();
        connect(&cloud, ConnectionId::unique());
        self.pass(60).await;
        cloud
    }

    /// Creates another process over the same EC2. It has been the only leader for a while, and its clock is wrong by
    /// `wrong` seconds.
    pub(crate) async fn process(&self, wrong: i64, observer: Arc<dyn ebs_ec2::Observer>) -> Arc<Cloud<Ec2Override>> {
        let (now, off) = (self.sim.engine().now(), Duration::from_secs(wrong.unsigned_abs()));
        let time_of_day = Some(if wrong < 0 { now - off } else { now + off });
        let config = CloudConfig { time_of_day, ..CloudConfig::new(DriverName::default()) };
        let cloud = Arc::new(Cloud::observed(Arc::clone(&self.ec2), config, observer));
        connect(&cloud, ConnectionId::unique());
        self.pass(20).await;
        cloud
    }

    /// Returns the actions since the last [`SimEc2::clear_calls`].
    pub(crate) fn actions(&self) -> Vec<Action> {
        self.sim.calls().iter().map(|c| c.action).collect()
    }

    pub(crate) async fn neighbour(&self) -> NodeId {
        let call = RunInstances {
            image_id: Some("ami-12345678".to_owned()),
            min_count: Some(1),
            max_count: Some(1),
            availability_zone: Some("us-west-2a".to_owned()),
            ..RunInstances::default()
        };
        let reply = self.sim.engine().call(Call::RunInstances(call)).await.expect("an instance can be started");
        let Reply::RunInstances(started) = reply else { panic!("{reply:?}") };
        self.pass(120).await;
        NodeId::parse(&started[0].id).expect("the simulator makes valid ids")
    }

    pub(crate) async fn terminate(&self, node: &NodeId) {
        let instance_ids = vec![node.instance().to_string()];
        let call = Call::TerminateInstances(TerminateInstances { instance_ids, dry_run: false });
        self.sim.engine().call(call).await.expect("the instance can be terminated");
    }

    /// Creates a volume directly in the simulator, without the policy.
    pub(crate) async fn stranger(&self, request: ebs_ec2::CreateVolume) -> VolumeId {
        self.sim.by_test().create_volume(&request).await.expect("a plain volume can be created").id
    }
}

fn over(ec2: &Arc<Ec2Override>) -> Arc<Cloud<Ec2Override>> {
    let now = Some(ec2.sim.engine().now());
    let config = CloudConfig { time_of_day: now, ..CloudConfig::new(DriverName::default()) };
    Arc::new(Cloud::new(Arc::clone(ec2), config))
}

pub(crate) fn tags(name_tag: &str, name: &str) -> Tags {
    [(name_tag, name), ("ebs.csi.aws.com/cluster", "true"), ("kubernetes.io/cluster/blue", "owned"), ("Name", "user")]
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

pub(crate) fn spec(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.to_owned(),
        capacity: CapacityRequest { required: Some(Gib(4)), fallback: Gib(100), limit: None },
        volume_type: VolumeType::Gp3,
        iops: IopsRequest::Default,
        raise_iops_to_min: false,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        source: Source::Blank,
        topology: Topology::default(),
        multi_attach: false,
        initialization_rate: None,
        tags: tags("CSIVolumeName", name),
    }
}

pub(crate) fn snapshot_spec(name: &str, volume: &VolumeId) -> SnapshotSpec {
    SnapshotSpec {
        name: name.to_owned(),
        volume: volume.clone(),
        outpost_arn: None,
        tags: tags("CSIVolumeSnapshotName", name),
    }
}

pub(crate) fn zone(name: &str) -> ZoneName {
    ZoneName::parse(name).expect("tests name zones correctly")
}

pub(crate) fn in_zone(spec: VolumeSpec, name: &str) -> VolumeSpec {
    let terms = vec![Term { zone: Some(zone(name)), zone_id: None, outpost_arn: None }];
    VolumeSpec { topology: Topology { preferred: terms.clone(), requisite: terms }, ..spec }
}

pub(crate) fn in_zone_with_id(spec: VolumeSpec, id: &str) -> VolumeSpec {
    let terms = vec![Term {
        zone: None,
        zone_id: Some(ZoneId::parse(id).expect("tests name zones correctly")),
        outpost_arn: None,
    }];
    VolumeSpec { topology: Topology { preferred: terms.clone(), requisite: terms }, ..spec }
}

/// Returns the request that the policy would send for the specification, with another token.
pub(crate) fn request(spec: &VolumeSpec, token: &str) -> ebs_ec2::CreateVolume {
    let size = spec.capacity.required.unwrap_or(spec.capacity.fallback);
    let place = ebs_ec2::Place::Zone(zone("us-west-2a"));
    ebs_ec2::CreateVolume {
        encrypted: spec.encrypted,
        kms_key_id: spec.kms_key_id.clone(),
        multi_attach: spec.multi_attach,
        tags: spec.tags.clone(),
        ..ebs_ec2::CreateVolume::plain(token, place, size, spec.volume_type.clone())
    }
}

/// Expands the volume for the resizer and returns its size.
pub(crate) async fn expand(
    cloud: &Cloud<Ec2Override>,
    volume: &VolumeId,
    size: Gib,
    waiters: &Waiters,
) -> Result<Gib, CloudError> {
    Ok(cloud.volumes.modify(&[Sidecar::Resizer], volume, &ModifySpec::size(size), waiters).await?.size)
}

#[track_caller]
pub(crate) fn assert_error<T: Debug>(outcome: Result<T, CloudError>, kind: CloudErrorKind) -> CloudError {
    let error = outcome.expect_err("the call fails");
    assert_eq!(error.kind, kind, "{error:?}");
    error
}

#[track_caller]
pub(crate) fn assert_mentions(error: &CloudError, texts: &[&str]) {
    let message = message_of(error);
    assert!(texts.iter().all(|text| message.contains(text)), "{message}");
}

/// Returns the error with all its causes, as in the log.
pub(crate) fn message_of(error: &CloudError) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn connect(cloud: &Cloud<Ec2Override>, connection: ConnectionId) {
    let all =
        [Sidecar::Provisioner, Sidecar::Attacher, Sidecar::Snapshotter, Sidecar::Resizer, Sidecar::VolumeModifier];
    for sidecar in all {
        cloud.record_request(sidecar, Some(connection));
    }
}
