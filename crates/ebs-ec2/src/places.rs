//! Zones, and the health check.

use ebs_types::{ZoneId, ZoneName};

use crate::Result;

/// An availability, local or wavelength zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Name in this account.
    pub name: ZoneName,
    /// Id, the same in all accounts.
    pub id: ZoneId,
    /// `zone-type` is `availability-zone` (not local or wavelength).
    pub is_availability_zone: bool,
    /// State is `available`.
    pub available: bool,
}

/// What EC2 says of places.
pub trait Zones {
    /// DescribeAvailabilityZones without filters.
    fn describe_zones(&self) -> impl Future<Output = Result<Vec<Zone>>> + Send;

    /// DescribeAvailabilityZones as a dry run, once, without retry: `Ok` when EC2 answers that it would have
    /// succeeded (or answers at all with success).
    fn check_access(&self) -> impl Future<Output = Result<()>> + Send;
}
