//! The zones of the region.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Ec2, Zone, ZoneName, Zones as _};

use crate::retry::read;
use crate::traffic::{RateLimited, SharedAnswers};
use crate::{CloudError, Result};

const LIFETIME: Duration = Duration::from_secs(600);

#[derive(Debug)]
pub(crate) struct Zones<E> {
    ec2: Arc<RateLimited<E>>,
    known: SharedAnswers<(), Vec<Zone>, CloudError>,
}

impl<E: Ec2> Zones<E> {
    pub(crate) fn new(ec2: Arc<RateLimited<E>>) -> Self {
        Self { ec2, known: SharedAnswers::default() }
    }

    async fn all(&self) -> Result<Vec<Zone>> {
        let ask = async {
            let ec2 = self.ec2.for_background_read();
            let zones = read(&ec2, "list the zones of the region", || ec2.describe_zones()).await?;
            let lifetime = if zones.is_empty() { Duration::ZERO } else { LIFETIME };
            Ok((zones, lifetime))
        };
        self.known.get(&(), ask).await
    }

    /// Returns the names of the available availability zones, without local and wavelength zones.
    pub(crate) async fn available(&self) -> Result<Vec<ZoneName>> {
        let zones = self.all().await?.into_iter();
        let mut names: Vec<_> = zones.filter(|z| z.is_availability_zone && z.available).map(|z| z.name).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Returns the names that match no zone. If EC2 does not list its zones, returns no names, and EC2 later checks the
    /// names itself.
    pub(crate) async fn unknown_among(&self, names: &[ZoneName]) -> Vec<ZoneName> {
        match self.all().await {
            Ok(zones) => names.iter().filter(|name| zones.iter().all(|z| z.name != **name)).cloned().collect(),
            Err(error) => {
                tracing::warn!(%error, "failed to check the zones, leaving the check to EC2");
                Vec::new()
            }
        }
    }
}
