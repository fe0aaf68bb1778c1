//! The port's zones, and the health check.

use ebs_ec2::{Action, ErrorClass, Result, Zone, Zones};

use crate::AwsEc2;
use crate::convert::{Read, instance as convert, required};

impl Zones for AwsEc2 {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        let monitor = self.monitor(Action::DescribeAvailabilityZones);
        let send = monitor.repeatable(self.client.describe_availability_zones().customize()).send();
        self.call(monitor, send, |reply| {
            required(reply.availability_zones, "list of zones")?.into_iter().map(convert::zone).collect::<Read<_>>()
        })
        .await
    }

    async fn check_access(&self) -> Result<()> {
        let monitor = self.monitor(Action::DescribeAvailabilityZones).maybe_dry_run(true);
        let send = monitor.once(self.client.describe_availability_zones().dry_run(true).customize()).send();
        let answer = self.call(monitor, send, |_| Ok(())).await;
        match answer {
            Err(error) if error.class == ErrorClass::DryRunSucceeded => Ok(()),
            answer => answer,
        }
    }
}
