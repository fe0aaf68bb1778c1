//! One pass over the nodes that are due: describes their instances and writes the labels that are wrong.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use ebs_cloud::{RateLimited, pages};
use ebs_ec2::{Ec2, Ec2Error, Instance, InstanceId, Instances, MAX_FILTER_VALUES};
use futures_util::StreamExt;
use futures_util::stream;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::Labeler;
use super::count::Described;
use super::roster::{Change, Due};
use crate::Failure;
use crate::failure::chain;
use crate::node_metadata::LabelKeys;
use crate::object::NodeObject;

/// The maximum number of concurrent writes to Nodes.
const WRITERS: usize = 10;
/// The time limit for describing one group of instances, including the wait for EC2's rate limit.
const DESCRIBE_WITHIN: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
enum DescribeError {
    #[error("DescribeInstances failed")]
    Refused(#[source] Ec2Error),
    #[error("DescribeInstances did not return within {DESCRIBE_WITHIN:?}")]
    NoAnswer,
}

/// How many nodes a pass handled, by result.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) changed: usize,
    pub(super) unchanged: usize,
    /// Nodes whose instance is terminated or not listed by EC2.
    pub(super) without_instance: usize,
    pub(super) failed: usize,
}

impl<E: Ec2> Labeler<E> {
    /// Checks all nodes that are due. Nodes that fail are retried later.
    pub(super) async fn pass(&self) -> Passed {
        let mut passed = Passed::default();
        let due = self.watched.roster().due();
        for chunk in due.chunks(MAX_FILTER_VALUES) {
            match describe(&self.ec2, chunk).await {
                Ok(instances) => self.write(self.wanted(chunk, &instances, &mut passed), &mut passed).await,
                Err(error) => {
                    let (reason, nodes) = (chain(&error), chunk.len());
                    tracing::warn!(reason, nodes, "failed to describe the instances of nodes, retrying later");
                    passed.failed += nodes;
                    let mut roster = self.watched.roster();
                    chunk.iter().for_each(|due| roster.failed(&due.node));
                }
            }
        }
        passed
    }

    /// Returns the labels that must change. Call it after EC2 has answered: then the roster has each attached volume.
    fn wanted(&self, chunk: &[Due], instances: &HashMap<InstanceId, Instance>, passed: &mut Passed) -> Vec<Change> {
        let mut roster = self.watched.roster();
        let persistent = roster.persistent();
        let mut changes = Vec::new();
        for due in chunk {
            let Some(described) = instances.get(&due.instance).and_then(Described::of) else {
                let Due { node, instance } = due;
                tracing::debug!(node, %instance, "skipping a node: its instance was not found or is terminated");
                passed.without_instance += 1;
                roster.failed(&due.node);
                continue;
            };
            match roster.described(due, &described, &persistent) {
                Some(change) => changes.push(change),
                None => passed.unchanged += 1,
            }
        }
        changes
    }

    async fn write(&self, changes: Vec<Change>, passed: &mut Passed) {
        let keys = self.watched.roster().keys().clone();
        let written = stream::iter(changes).map(|change| {
            let (nodes, keys) = (self.nodes.clone(), keys.clone());
            async move {
                let result = patch(&nodes, &keys, &change).await;
                (change, result)
            }
        });
        let mut written = std::pin::pin!(written.buffer_unordered(WRITERS));
        while let Some((change, result)) = written.next().await {
            let mut roster = self.watched.roster();
            match result {
                Ok(()) => {
                    tracing::debug!(node = change.node, values = ?change.values, "labelled");
                    passed.changed += 1;
                    roster.labelled(&change);
                }
                Err(failure) => {
                    tracing::warn!(node = change.node, reason = %failure, "failed to label a node, retrying later");
                    passed.failed += 1;
                    roster.failed(&change.node);
                }
            }
        }
    }
}

async fn describe<E: Ec2>(
    ec2: &Arc<RateLimited<E>>,
    chunk: &[Due],
) -> Result<HashMap<InstanceId, Instance>, DescribeError> {
    let ids: BTreeSet<&InstanceId> = chunk.iter().map(|due| &due.instance).collect();
    let ids: &[InstanceId] = &ids.into_iter().cloned().collect::<Vec<_>>();
    let handle = &ec2.for_background_read();
    let all = pages::all(|page| async move { handle.describe_instances(ids, &page).await });
    let listed = tokio::time::timeout(DESCRIBE_WITHIN, all).await.map_err(|_| DescribeError::NoAnswer)?;
    let listed = listed.map_err(DescribeError::Refused)?;
    Ok(listed.into_iter().map(|instance| (instance.id.clone(), instance)).collect())
}

/// Patches the labels of a Node. The patch includes the uid, so it cannot change a newer Node with the same name.
async fn patch(nodes: &Api<NodeObject>, keys: &LabelKeys, change: &Change) -> Result<(), Failure> {
    let labels = json!({ &keys.interfaces: change.values.interfaces, &keys.volumes: change.values.volumes });
    let patch = Patch::Merge(json!({ "metadata": { "uid": change.uid, "labels": labels } }));
    nodes.patch(&change.node, &PatchParams::default(), &patch).await?;
    Ok(())
}
