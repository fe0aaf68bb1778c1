//! The lifecycle of one volume with the calls of the sidecars. Every call is repeated until it succeeds.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use csi_proto::csi;
use ebs_testkit::csi_client::{Access, CsiClient, in_zone, new_volume};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::case::Phase;

/// The sidecars' first and longest pauses between attempts.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Time limit of a call, after which the bench fails.
const CALL_BOUND: Duration = Duration::from_mins(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Rpc {
    Create,
    Publish,
    Unpublish,
    Delete,
}

impl Rpc {
    pub(super) const ALL: [Self; 4] = [Self::Create, Self::Publish, Self::Unpublish, Self::Delete];

    pub(super) fn as_str(self) -> &'static str {
        super::RPCS[self as usize]
    }

    pub(super) fn action(self) -> &'static str {
        ["CreateVolume", "AttachVolume", "DetachVolume", "DeleteVolume"][self as usize]
    }

    /// Returns how long EC2's transition usually takes for a small volume, in milliseconds.
    pub(super) fn transition_ms(self) -> u64 {
        [2_000, 2_500, 4_000, 0][self as usize]
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) rpc: Rpc,
    /// The object of the EC2 action: the volume's CSI name for CreateVolume, otherwise its id.
    pub(super) key: String,
    /// Start of the first attempt, in seconds since the start of the case.
    pub(super) began: f64,
    /// Seconds from the start of the first attempt to the success.
    pub(super) took: f64,
    pub(super) tries: u32,
}

/// How many volumes the scheduler would assign to each node.
const ROOM: usize = 120;

/// A node, and how many more volumes the scheduler would assign to it.
#[derive(Debug, Clone)]
struct Node {
    id: String,
    zone: &'static str,
    room: Arc<Semaphore>,
}

#[derive(Debug, Clone)]
pub(super) struct Site {
    client: CsiClient,
    /// The beginning of the volumes' names. EC2 remembers the client token of a deleted volume's name for 12 hours.
    names: String,
    nodes: Vec<Node>,
    /// The workers of the sidecars, one semaphore for each [`Rpc`].
    workers: [Arc<Semaphore>; 4],
    began: Instant,
}

/// Volumes of which one is attached, when [`keep`] creates them.
const ATTACHED_ONE_IN: u32 = 4;

fn node_of(site: &Site, number: u32) -> &Node {
    &site.nodes[usize::try_from(number).unwrap_or(0) % site.nodes.len()]
}

fn access() -> Access {
    Access::Mount("ext4".to_owned())
}

async fn create(site: &Site, node: &Node, name: &str) -> anyhow::Result<(csi::Volume, Sample)> {
    let request = csi::CreateVolumeRequest {
        accessibility_requirements: Some(in_zone(node.zone)),
        ..new_volume(name, 1, &access())
    };
    site.call(Rpc::Create, name, || site.client.create_volume(request.clone())).await
}

async fn attach(site: &Site, node: &Node, volume: &csi::Volume) -> anyhow::Result<Sample> {
    let request = csi::ControllerPublishVolumeRequest {
        volume_id: volume.volume_id.clone(),
        node_id: node.id.clone(),
        volume_capability: Some(access().capability()),
        volume_context: volume.volume_context.clone(),
        ..Default::default()
    };
    let attempt = || async { site.client.controller().controller_publish_volume(request.clone()).await };
    Ok(site.call(Rpc::Publish, &volume.volume_id, attempt).await?.1)
}

async fn live(site: Site, number: u32) -> anyhow::Result<Vec<Sample>> {
    let node = node_of(&site, number);
    let (volume, created) = create(&site, node, &format!("{}-{number}", site.names)).await?;
    let id = volume.volume_id.clone();
    let room = node.room.acquire().await.context("wait for room on the node")?;
    let attached = attach(&site, node, &volume).await?;
    sleep(time_in_use(number)).await;
    let client = &site.client;
    let unpublish =
        csi::ControllerUnpublishVolumeRequest { volume_id: id.clone(), node_id: node.id.clone(), ..Default::default() };
    let detach = || async { client.controller().controller_unpublish_volume(unpublish.clone()).await };
    let (_, detached) = site.call(Rpc::Unpublish, &id, detach).await?;
    drop(room);
    let ((), deleted) = site.call(Rpc::Delete, &id, || client.delete_volume(&id)).await?;
    Ok(vec![created, attached, detached, deleted])
}

/// Creates the volumes with these numbers, all at once like a provisioner with many claims. Attaches one volume in
/// [`ATTACHED_ONE_IN`], and leaves all volumes in place.
pub(super) async fn keep(site: &Site, numbers: Range<u32>, bound: Duration) -> anyhow::Result<()> {
    let one = |number: u32| {
        let site = site.clone();
        async move {
            let node = node_of(&site, number / ATTACHED_ONE_IN);
            let (volume, _) = create(&site, node, &format!("{}-{number}", site.names)).await?;
            if number.is_multiple_of(ATTACHED_ONE_IN) {
                attach(&site, node, &volume).await?;
            }
            anyhow::Ok(())
        }
    };
    let mut running: tokio::task::JoinSet<_> = numbers.map(one).collect();
    let all = async {
        while let Some(ended) = running.join_next().await {
            ended.context("creation panicked")??;
        }
        anyhow::Ok(())
    };
    timeout(bound, all).await.with_context(|| format!("creations still running after {bound:?}"))?
}

/// Returns how long the lifecycle with this number uses its volume: 1 to 30 s, spread evenly over all lifecycles.
fn time_in_use(number: u32) -> Duration {
    Duration::from_secs(u64::from(number * 7 % 30) + 1)
}

impl Site {
    /// Creates a site with these nodes and their zones. The case begins at this moment. `names` is unique in the case.
    pub(super) fn new(
        client: &CsiClient,
        names: &str,
        nodes: Vec<(String, &'static str)>,
        workers: Option<usize>,
    ) -> Self {
        let node = |(id, zone)| Node { id, zone, room: Arc::new(Semaphore::new(ROOM)) };
        let workers = |_| Arc::new(Semaphore::new(workers.unwrap_or(Semaphore::MAX_PERMITS)));
        Self {
            client: client.clone(),
            names: names.to_owned(),
            nodes: nodes.into_iter().map(node).collect(),
            workers: Rpc::ALL.map(workers),
            began: Instant::now(),
        }
    }

    async fn call<T, F>(&self, rpc: Rpc, key: &str, mut attempt: impl FnMut() -> F) -> anyhow::Result<(T, Sample)>
    where
        F: Future<Output = Result<T, tonic::Status>>,
    {
        let worker = self.workers[rpc as usize].acquire().await.context("a worker")?;
        let began = Instant::now();
        let mut pause = FIRST_PAUSE;
        let mut tries = 1;
        let value = loop {
            let status = match attempt().await {
                Ok(value) => break value,
                Err(status) => status,
            };
            if began.elapsed() > CALL_BOUND {
                bail!("{} of {key} has not succeeded after {CALL_BOUND:?}: {status}", rpc.as_str());
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
            tries += 1;
        };
        drop(worker);
        let took = began.elapsed().as_secs_f64();
        let began = (began - self.began).as_secs_f64();
        Ok((value, Sample { rpc, key: key.to_owned(), began, took, tries }))
    }
}

/// Starts all volume lifecycles on time. Returns the samples of each lifecycle, with the number of its phase.
pub(super) async fn all(site: Site, phases: &[Phase], bound: Duration) -> anyhow::Result<Vec<(usize, Sample)>> {
    let mut running = tokio::task::JoinSet::new();
    let mut starts = site.began;
    let mut number = 0;
    for (index, phase) in phases.iter().enumerate() {
        for _ in 0..phase.lives {
            sleep_until(starts).await;
            starts += phase.every;
            let (site, own) = (site.clone(), number);
            running.spawn(async move { anyhow::Ok((index, live(site, own).await?)) });
            number += 1;
        }
    }
    let mut samples = Vec::new();
    let gather = async {
        while let Some(ended) = running.join_next().await {
            let (phase, of_life) = ended.context("lifecycle panicked")??;
            samples.extend(of_life.into_iter().map(|sample| (phase, sample)));
        }
        anyhow::Ok(())
    };
    timeout(bound, gather).await.with_context(|| format!("lifecycles still running after {bound:?}"))??;
    Ok(samples)
}
