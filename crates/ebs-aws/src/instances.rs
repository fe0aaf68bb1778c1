//! The port's calls about instances. Each method makes one call.

use ebs_ec2::{Action, Instance, InstanceId, InstanceTypeInfo, Instances, Page, PageRequest, Result};

use crate::AwsEc2;
use crate::convert::{about, among, instance as convert};
use crate::query::Query;

impl Instances for AwsEc2 {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        if ids.is_empty() {
            // A filter without values would match all instances.
            return Ok(Page { items: vec![], next: None });
        }
        let query =
            Query::new(Action::DescribeInstances).filter("instance-id", ids.iter().map(InstanceId::as_str)).page(page);
        let monitor = self.monitor(Action::DescribeInstances).repeatable();
        self.ask(monitor, query, convert::instances, |page| {
            among(&page.items, |i| &i.id, ids)?;
            Ok(page)
        })
        .await
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let query = Query::new(Action::DescribeInstanceTypes).list("InstanceType", [instance_type]);
        let monitor = self.monitor(Action::DescribeInstanceTypes).repeatable();
        let answer = self
            .ask(monitor, query, convert::first_instance_type, |info| {
                if let Some(info) = &info {
                    about(&info.instance_type.as_str(), &instance_type)?;
                }
                Ok(info)
            })
            .await;
        match answer {
            Err(error) if error.code.as_deref() == Some("InvalidInstanceType") => Ok(None),
            answer => answer,
        }
    }
}
