//! Caches instance descriptions, which show the device names in use, and the number of EBS cards by instance type. If a
//! description is stale, EC2 refuses the chosen name.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Ec2, Instance, InstanceId, Instances as _, VolumeId};

use crate::Result;
use crate::context::Context;
use crate::op_context::OpContext;
use crate::traffic::{Expiring, RateLimited, SharedAnswers};

pub(super) const LIFETIME: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct InstanceCache<E> {
    context: Arc<Context<E>>,
    known: Expiring<InstanceId, Arc<Instance>>,
}

impl<E: Ec2> InstanceCache<E> {
    pub(super) fn new(context: Arc<Context<E>>) -> Self {
        Self { context, known: Expiring::default() }
    }

    /// Drops the description, because EC2 contradicted it or because it shows no free device name.
    pub(super) fn forget(&self, id: &InstanceId) {
        self.known.remove(id);
    }

    pub(super) fn forget_device(&self, id: &InstanceId, volume: &VolumeId) {
        self.known.change(id, |instance| {
            let mut rest = Instance::clone(instance);
            rest.devices.retain(|d| d.volume.as_ref() != Some(volume));
            *instance = Arc::new(rest);
        });
    }

    /// Returns the instance as EC2 described it at most [`LIFETIME`] ago.
    pub(super) async fn get(&self, op: &OpContext<'_>, id: &InstanceId) -> Result<Arc<Instance>> {
        if let Some(instance) = self.known.get(id) {
            return Ok(instance);
        }
        let instance = Arc::new(self.context.describer.instance(Some(op), id).await?);
        self.known.insert(id.clone(), Arc::clone(&instance), LIFETIME);
        Ok(instance)
    }
}

const CARDS_LIFETIME: Duration = Duration::from_secs(3600);
const CARDS_FALLBACK_LIFETIME: Duration = Duration::from_secs(120);

/// The number of EBS cards by instance type. Describes each type at most once an hour.
#[derive(Debug)]
pub(crate) struct EbsCardCounts<E> {
    ec2: Arc<RateLimited<E>>,
    known: SharedAnswers<String, u32, Infallible>,
}

impl<E: Ec2> EbsCardCounts<E> {
    pub(crate) fn new(ec2: Arc<RateLimited<E>>) -> Self {
        Self { ec2, known: SharedAnswers::default() }
    }

    /// Returns the type's number of EBS cards, at least 1. If EC2 does not report it, uses the built-in table.
    pub(crate) async fn get(&self, instance_type: &str) -> u32 {
        let ask = async {
            let (cards, lifetime) = match self.ec2.for_background_read().describe_instance_type(instance_type).await {
                Ok(Some(info)) => (info.ebs_cards, CARDS_LIFETIME),
                other => {
                    tracing::info!(
                        instance_type,
                        ?other,
                        "DescribeInstanceTypes returned no EBS card count, using the built-in table"
                    );
                    (ebs_ec2::ebs_cards(instance_type), CARDS_FALLBACK_LIFETIME)
                }
            };
            Ok((cards.max(1), lifetime))
        };
        let Ok(cards) = self.known.get(&instance_type.to_owned(), ask).await;
        cards
    }
}
