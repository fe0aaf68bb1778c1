//! Zones and the health check through the port.

use ebs_ec2::{Action, ErrorClass, Result, Zone, Zones};

use crate::api::{self, Call, Reply};

use super::{SimEc2, convert, unexpected};

impl Zones for SimEc2 {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        let call = Call::DescribeAvailabilityZones(api::DescribeAvailabilityZones::default());
        match self.make(Action::DescribeAvailabilityZones, call).await? {
            Reply::DescribeAvailabilityZones(zones) => Ok(zones.into_iter().map(convert::zone).collect()),
            other => Err(unexpected(Action::DescribeAvailabilityZones, &other)),
        }
    }

    async fn check_access(&self) -> Result<()> {
        let call = api::DescribeAvailabilityZones { dry_run: true, ..Default::default() };
        match self.make(Action::DescribeAvailabilityZones, Call::DescribeAvailabilityZones(call)).await {
            Err(e) if e.class != ErrorClass::DryRunSucceeded => Err(e),
            _ => Ok(()),
        }
    }
}
