//! Zones, and the health check.

use crate::{ZoneId, ZoneName};

use crate::Result;

/// An availability, local or wavelength zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// The name in this account.
    pub name: ZoneName,
    /// The id, which is the same in all accounts.
    pub id: ZoneId,
    /// True if `zone-type` is `availability-zone` (not local or wavelength).
    pub is_availability_zone: bool,
    pub available: bool,
}

/// EC2's actions on zones.
pub trait Zones {
    /// Calls DescribeAvailabilityZones without filters.
    fn describe_zones(&self) -> impl Future<Output = Result<Vec<Zone>>> + Send;

    /// Calls DescribeAvailabilityZones as a dry run, once, without retry. `Ok` if EC2 reports that it would have
    /// succeeded, or returns success.
    fn check_access(&self) -> impl Future<Output = Result<()>> + Send;
}
