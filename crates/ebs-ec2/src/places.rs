//! Zones, and the health check.

use crate::{Result, ZoneId, ZoneName};

/// An availability, local or wavelength zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The name in this account.
    pub name: ZoneName,
    /// The id, which means the same zone in all accounts.
    pub id: ZoneId,
    /// Whether `zone-type` is `availability-zone`, not a local or wavelength zone.
    pub is_availability_zone: bool,
    pub available: bool,
}

/// Calls EC2's actions on zones.
pub trait Zones {
    /// Calls DescribeAvailabilityZones without filters.
    fn describe_zones(&self) -> impl Future<Output = Result<Vec<Zone>>> + Send;

    /// Calls DescribeAvailabilityZones once as a dry run, without a retry. Returns `Ok` if EC2 reports that the call
    /// would have succeeded, or if it succeeds.
    fn check_access(&self) -> impl Future<Output = Result<()>> + Send;
}
