//! Six volumes are created, attached, detached and deleted by sidecars with short deadlines while the driver is killed
//! twice. Everything is attached in the end, and then deleted, at whatever point the driver was killed.
//!
//! EC2 is as slow as the real one, and its reads lag. Calls are made as the sidecars make them: one deadline for all, a
//! pause that doubles with each failure of a call, and a sidecar that loses the driver starts again once the driver is
//! ready.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use csi_proto::csi;
use csi_proto::csi::controller_client::ControllerClient;
use ebs_testkit::control::{SimVolume, State};
use ebs_testkit::csi_client::{Access, CsiClient, new_volume};
use ebs_testkit::world::World;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tonic::transport::Channel;
use tonic::{Code, Response, Status};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const VOLUMES: usize = 6;
/// The default `--timeout` of external-provisioner; external-attacher's is 15 s.
const DEADLINE: Duration = Duration::from_secs(10);
/// The sidecars' `--retry-interval-start`.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum age of EC2's reads.
const MAX_LAG: Duration = Duration::from_secs(15);
/// From a kill until all calls have succeeded.
const CONVERGED: Duration = Duration::from_secs(90);
/// Timeout of the wait for the moment of a kill.
const MOMENT_BOUND: Duration = Duration::from_secs(120);

/// A moment at which the driver is killed.
struct Moment {
    what: &'static str,
    reached: fn(&State) -> bool,
}

/// Returns the volumes that the driver created and that are not being deleted.
fn ours(state: &State) -> Vec<&SimVolume> {
    state.live_volumes().into_iter().filter(|volume| volume.tags.contains_key("CSIVolumeName")).collect()
}

/// Returns how many of them are in a state of attachment.
fn attachments(state: &State, wanted: &str) -> usize {
    ours(state).into_iter().flat_map(|volume| &volume.attachments).filter(|a| a.state == wanted).count()
}

/// The sidecars of one volume: external-provisioner and external-attacher with one worker each.
#[derive(Clone)]
struct Sidecars {
    name: String,
    node: String,
    /// Client of the ready driver, or `None` while it is down.
    driver: watch::Receiver<Option<CsiClient>>,
    told: Arc<Mutex<Vec<String>>>,
    began: Instant,
}

impl Sidecars {
    /// Repeats a call until it succeeds.
    async fn call<T, F>(
        &mut self,
        rpc: &'static str,
        mut attempt: impl FnMut(ControllerClient<Channel>) -> F,
    ) -> anyhow::Result<T>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        let mut pause = FIRST_PAUSE;
        loop {
            let ready = self.driver.wait_for(Option::is_some).await.context("the driver comes back")?.clone();
            let client = ready.context("a driver that is ready")?.controller();
            let sent = Instant::now();
            let status = match attempt(client).await {
                Ok(answer) => {
                    self.tell(rpc, sent, "OK");
                    return Ok(answer.into_inner());
                }
                Err(status) => status,
            };
            if self.driver.has_changed().context("the driver comes back")? {
                self.tell(rpc, sent, "the driver has gone");
                pause = FIRST_PAUSE;
                continue;
            }
            self.tell(rpc, sent, &format!("{:?}: {}", status.code(), status.message()));
            if rpc == "CreateVolume" && is_final(status.code()) {
                bail!("{}: the provisioner forgets the volume after {status:?}", self.name);
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause *= 2,
                _ = self.driver.changed() => pause = FIRST_PAUSE,
            }
        }
    }

    fn tell(&self, rpc: &str, sent: Instant, answer: &str) {
        let at = (sent - self.began).as_secs_f64();
        let line = format!("{at:6.1} s {} {rpc} after {:.1} s: {answer}", self.name, sent.elapsed().as_secs_f64());
        self.told.lock().expect("no holder panics").push(line);
    }

    /// Calls CreateVolume and ControllerPublishVolume. Returns the volume's id.
    async fn comes(mut self) -> anyhow::Result<String> {
        let access = Access::Mount("ext4".to_owned());
        let create = new_volume(&self.name, 4, &access);
        let make = |mut client: ControllerClient<Channel>| {
            let request = CsiClient::within(create.clone(), DEADLINE);
            async move { client.create_volume(request).await }
        };
        let volume = self.call("CreateVolume", make).await?.volume.context("CreateVolume answers with a volume")?;
        let id = volume.volume_id.clone();
        let publish = csi::ControllerPublishVolumeRequest {
            volume_id: volume.volume_id,
            node_id: self.node.clone(),
            volume_capability: Some(access.capability()),
            volume_context: volume.volume_context,
            ..Default::default()
        };
        let attach = |mut client: ControllerClient<Channel>| {
            let request = CsiClient::within(publish.clone(), DEADLINE);
            async move { client.controller_publish_volume(request).await }
        };
        self.call("ControllerPublishVolume", attach).await?;
        Ok(id)
    }

    /// Calls ControllerUnpublishVolume and DeleteVolume.
    async fn goes(mut self, volume_id: String) -> anyhow::Result<()> {
        let unpublish = csi::ControllerUnpublishVolumeRequest {
            volume_id: volume_id.clone(),
            node_id: self.node.clone(),
            ..Default::default()
        };
        let detach = |mut client: ControllerClient<Channel>| {
            let request = CsiClient::within(unpublish.clone(), DEADLINE);
            async move { client.controller_unpublish_volume(request).await }
        };
        self.call("ControllerUnpublishVolume", detach).await?;
        let delete = csi::DeleteVolumeRequest { volume_id, ..Default::default() };
        let remove = |mut client: ControllerClient<Channel>| {
            let request = CsiClient::within(delete.clone(), DEADLINE);
            async move { client.delete_volume(request).await }
        };
        self.call("DeleteVolume", remove).await.map(drop)
    }
}

/// Returns whether the code is final. After any other code, the provisioner calls again even for an unwanted volume.
fn is_final(code: Code) -> bool {
    !matches!(code, Code::Cancelled | Code::DeadlineExceeded | Code::Unavailable | Code::Aborted)
}

/// Kills the driver at the moment and starts it again, as the kubelet does. Returns the time of the kill.
async fn kill_at(
    world: &mut World,
    driver: &watch::Sender<Option<CsiClient>>,
    moment: &Moment,
) -> anyhow::Result<Instant> {
    let control = world.control().clone();
    control.until(MOMENT_BOUND, moment.what, moment.reached).await?;
    driver.send_replace(None);
    world.kill_driver()?;
    let killed = Instant::now();
    world.start_driver().await?;
    driver.send_replace(Some(world.client().clone()));
    Ok(killed)
}

/// Waits until all sidecars have finished.
async fn all_by<T: 'static>(mut tasks: JoinSet<anyhow::Result<T>>, deadline: Instant) -> anyhow::Result<Vec<T>> {
    let mut ended = Vec::new();
    let all = async {
        while let Some(task) = tasks.join_next().await {
            ended.push(task.context("a sidecar panicked")??);
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout_at(deadline, all).await {
        Ok(outcome) => outcome.map(|()| ended),
        Err(_) => bail!("only {} of {VOLUMES} volumes within {CONVERGED:?} after the kill", ended.len()),
    }
}

async fn lives_with_two_kills(
    world: &mut World,
    told: &Arc<Mutex<Vec<String>>>,
    (coming, going): (Moment, Moment),
) -> anyhow::Result<()> {
    let node = world.client().node_info().await.context("NodeGetInfo")?.node_id;
    let (driver, seen) = watch::channel(Some(world.client().clone()));
    let began = Instant::now();
    let sidecars: Vec<Sidecars> = (0..VOLUMES)
        .map(|n| Sidecars {
            name: format!("pvc-crash-{n}"),
            node: node.clone(),
            driver: seen.clone(),
            told: Arc::clone(told),
            began,
        })
        .collect();

    let tasks = sidecars.iter().cloned().map(|s| async move { Ok((s.clone(), s.comes().await?)) }).collect();
    let killed = kill_at(world, &driver, &coming).await?;
    let attached = all_by(tasks, killed + CONVERGED).await.context("the volumes are to be attached")?;
    let state = world.control().state().await?;
    let here: BTreeSet<&str> = ours(&state).into_iter().map(|volume| volume.id.as_str()).collect();
    let answered: BTreeSet<&str> = attached.iter().map(|(_, id)| id.as_str()).collect();
    ensure!(here == answered && here.len() == VOLUMES, "EC2 holds {here:?}, the answers were {answered:?}");
    for volume in ours(&state) {
        let [one] = volume.attachments.as_slice() else { bail!("{volume:?} has not one attachment") };
        ensure!(one.instance == node && one.state == "attached", "{volume:?}");
    }

    let tasks = attached.into_iter().map(|(s, id)| s.goes(id)).collect();
    let killed = kill_at(world, &driver, &going).await?;
    all_by(tasks, killed + CONVERGED).await.context("the volumes are to be gone")?;
    let state = world.control().state().await?;
    ensure!(ours(&state).is_empty(), "left in EC2: {:?}", ours(&state));
    let stuck: Vec<&SimVolume> = state.volumes.iter().filter(|v| v.tags.contains_key("CSIVolumeName")).collect();
    ensure!(stuck.iter().all(|volume| volume.attachments.is_empty()), "still attached: {stuck:?}");
    Ok(())
}

async fn killed_at(coming: Moment, going: Moment) -> anyhow::Result<()> {
    let mut world = World::builder(DRIVER).realistic(MAX_LAG).start().await?;
    let told = Arc::default();
    if let Err(error) = lives_with_two_kills(&mut world, &told, (coming, going)).await {
        let told = told.lock().expect("no holder panics").join("\n");
        return Err(error.context(format!("the calls and their answers:\n{told}")));
    }
    world.finish().await
}

/// The driver is killed while it creates or attaches volumes, and again while it detaches or deletes them. The clients
/// have deadlines of 10 s and back-off. All six volumes are attached, then deleted, each within 90 s after the kill.
#[tokio::test]
async fn kill_during_attach_and_detach_leaves_nothing_stuck() -> anyhow::Result<()> {
    let coming = Moment { what: "three volumes are attaching", reached: |state| attachments(state, "attaching") >= 3 };
    let going = Moment { what: "three volumes are detaching", reached: |state| attachments(state, "detaching") >= 3 };
    killed_at(coming, going).await
}

#[tokio::test]
async fn kill_during_create_and_delete_leaves_nothing_stuck() -> anyhow::Result<()> {
    let coming = Moment { what: "three volumes are being created", reached: |state| ours(state).len() >= 3 };
    let going = Moment { what: "a volume is being deleted", reached: |state| ours(state).len() < VOLUMES };
    killed_at(coming, going).await
}

#[tokio::test]
async fn kill_just_after_attach_and_detach_leaves_nothing_stuck() -> anyhow::Result<()> {
    let coming = Moment { what: "a volume is attached", reached: |state| attachments(state, "attached") >= 1 };
    let going = Moment {
        what: "a volume is detached",
        reached: |state| ours(state).iter().any(|volume| volume.attachments.is_empty()) || ours(state).len() < VOLUMES,
    };
    killed_at(coming, going).await
}
