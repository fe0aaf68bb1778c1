//! Zones and the health check through the port.

use ebs_ec2::{ErrorClass, Result, Zone, Zones};

use crate::api;

use super::{SimEc2, call, convert};

impl Zones for SimEc2 {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        let zones = call!(self, DescribeAvailabilityZones, api::DescribeAvailabilityZones::default())?;
        Ok(zones.into_iter().map(convert::zone).collect())
    }

    async fn check_access(&self) -> Result<()> {
        let asked = api::DescribeAvailabilityZones { dry_run: true, ..Default::default() };
        match call!(self, DescribeAvailabilityZones, asked) {
            Err(e) if e.class != ErrorClass::DryRunSucceeded => Err(e),
            _ => Ok(()),
        }
    }
}
