//! Which zones a volume may be put into when the request leaves it open.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Ec2, Zone, Zones as _};
use ebs_types::ZoneName;
use sha2::{Digest, Sha256};

use crate::CloudError;
use crate::call::read;
use crate::expiring::Expiring;
use crate::throttle::RateLimited;

const LIFETIME: Duration = Duration::from_secs(600);

/// The region's zones, asked for when needed.
#[derive(Debug)]
pub(crate) struct Zones<E> {
    ec2: Arc<RateLimited<E>>,
    known: Expiring<(), Vec<Zone>>,
}

impl<E: Ec2> Zones<E> {
    pub(crate) fn new(ec2: Arc<RateLimited<E>>) -> Self {
        Self { ec2, known: Expiring::default() }
    }

    async fn all(&self) -> Result<Vec<Zone>, CloudError> {
        if let Some(zones) = self.known.get(&()) {
            return Ok(zones);
        }
        let ec2 = self.ec2.for_background_read();
        let zones = read(&ec2, "list the zones of the region", || ec2.describe_zones()).await?;
        if !zones.is_empty() {
            self.known.insert((), zones.clone(), LIFETIME);
        }
        Ok(zones)
    }

    /// The availability zones (no local or wavelength zones) that are available, by name.
    pub(crate) async fn available(&self) -> Result<Vec<ZoneName>, CloudError> {
        let zones = self.all().await?.into_iter();
        let mut names: Vec<_> = zones.filter(|z| z.is_availability_zone && z.available).map(|z| z.name).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// Those among the names that no zone of the region has. None when EC2 does not tell: then it judges them itself.
    pub(crate) async fn unknown_among(&self, names: &[ZoneName]) -> Vec<ZoneName> {
        match self.all().await {
            Ok(zones) => names.iter().filter(|name| zones.iter().all(|z| z.name != **name)).cloned().collect(),
            Err(error) => {
                tracing::warn!(%error, "the zones cannot be checked, EC2 is left to judge them");
                Vec::new()
            }
        }
    }
}

/// All zones, beginning with the one that the name's hash chooses: volumes spread, and a retry begins alike.
pub(crate) fn in_order_of(name: &str, zones: &[ZoneName]) -> Vec<ZoneName> {
    if zones.is_empty() {
        return Vec::new();
    }
    let digest = Sha256::digest(name.as_bytes());
    let sum = digest.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let mut order = zones.to_vec();
    order.rotate_left(sum % zones.len());
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zones() -> Vec<ZoneName> {
        ["us-west-2a", "us-west-2b", "us-west-2c"].iter().map(|z| ZoneName::parse(z).unwrap()).collect()
    }

    #[test]
    fn the_zone_of_a_name_is_always_the_same_and_names_spread() {
        let first = |name: &str| in_order_of(name, &zones())[0].clone();
        assert_eq!(first("pvc-1"), first("pvc-1"));
        let mut seen: Vec<_> = (0..50).map(|n| first(&format!("pvc-{n}"))).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen, zones());
    }
}
