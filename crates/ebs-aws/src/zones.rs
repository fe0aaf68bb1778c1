//! The port's calls about zones, and the health check.

use ebs_ec2::{Action, ErrorClass, Result, Zone, Zones};

use crate::AwsEc2;
use crate::convert::instance as convert;
use crate::query::Query;

impl Zones for AwsEc2 {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        let monitor = self.monitor(Action::DescribeAvailabilityZones).repeatable();
        self.ask(monitor, Query::new(Action::DescribeAvailabilityZones), convert::zones, Ok).await
    }

    async fn check_access(&self) -> Result<()> {
        let monitor = self.monitor(Action::DescribeAvailabilityZones).maybe_dry_run(true);
        let query = Query::new(Action::DescribeAvailabilityZones).with("DryRun", true);
        match self.ask(monitor, query, |_| Ok(()), Ok).await {
            Err(error) if error.class == ErrorClass::DryRunSucceeded => Ok(()),
            answer => answer,
        }
    }
}
