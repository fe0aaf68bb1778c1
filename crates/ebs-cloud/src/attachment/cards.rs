//! How many EBS cards an instance type has.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::Ec2;

use crate::expiring::Expiring;

const LIFETIME: Duration = Duration::from_secs(3600);
const LIFETIME_OF_FALLBACK: Duration = Duration::from_secs(120);

/// Asks EC2 once an hour for each type.
#[derive(Debug)]
pub(crate) struct EbsCardCounts<E> {
    ec2: Arc<E>,
    known: Expiring<String, u32>,
}

impl<E: Ec2> EbsCardCounts<E> {
    pub(crate) fn new(ec2: Arc<E>) -> Self {
        Self { ec2, known: Expiring::default() }
    }

    /// The number of EBS cards of the type, at least 1. Without an answer of EC2 the table of this version counts, for a short while.
    pub(crate) async fn get(&self, instance_type: &str) -> u32 {
        let key = instance_type.to_owned();
        if let Some(cards) = self.known.get(&key) {
            return cards;
        }
        let (cards, lifetime) = match self.ec2.describe_instance_type(instance_type).await {
            Ok(Some(info)) => (info.ebs_cards, LIFETIME),
            other => {
                tracing::info!(instance_type, ?other, "EC2 did not tell the number of EBS cards, the table is used");
                (ebs_types::ebs_cards(instance_type), LIFETIME_OF_FALLBACK)
            }
        };
        let cards = cards.max(1);
        self.known.insert(key, cards, lifetime);
        cards
    }
}
