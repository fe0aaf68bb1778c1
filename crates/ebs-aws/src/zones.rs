//! The port's calls about zones, and the health check.

use ebs_ec2::{Action, ErrorClass, Result, Zone, Zones};

use crate::AwsEc2;
use crate::convert::instance as convert;
use crate::query::Query;

impl Zones for AwsEc2 {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        self.ask(Query::new(Action::DescribeAvailabilityZones), convert::zones, |zones, _| Ok(zones)).await
    }

    async fn check_access(&self) -> Result<()> {
        match self.order(Query::new(Action::DescribeAvailabilityZones).maybe_dry_run(true)).await {
            Err(error) if error.class == ErrorClass::DryRunSucceeded => Ok(()),
            answer => answer,
        }
    }
}
