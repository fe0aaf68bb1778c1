//! The port's calls for instances and zones.

use ebs_ec2::{Action, Ec2, Instance, InstanceId, InstanceTypeInfo, Instances, Page, PageRequest, Result, Zone, Zones};

use super::{Ec2Call, Link};

impl<E: Ec2> Instances for Link<E> {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        let (ec2, ids, page) = (self.ec2(), ids.to_vec(), page.clone());
        let ec2_call = Ec2Call::ask(Action::DescribeInstances);
        self.make(ec2_call, Box::pin(async move { ec2.describe_instances(&ids, &page).await })).await
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let (ec2, instance_type) = (self.ec2(), instance_type.to_owned());
        let ec2_call = Ec2Call::ask(Action::DescribeInstanceTypes);
        self.make(ec2_call, Box::pin(async move { ec2.describe_instance_type(&instance_type).await })).await
    }
}

impl<E: Ec2> Zones for Link<E> {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        let ec2 = self.ec2();
        self.make(Ec2Call::ask(Action::DescribeAvailabilityZones), Box::pin(async move { ec2.describe_zones().await }))
            .await
    }

    async fn check_access(&self) -> Result<()> {
        let ec2 = self.ec2();
        self.make(Ec2Call::ask(Action::DescribeAvailabilityZones), Box::pin(async move { ec2.check_access().await }))
            .await
    }
}
