//! The port's calls about instances. Each method makes one call.

use ebs_ec2::{Action, Instance, InstanceId, InstanceTypeInfo, Instances, Page, PageRequest, Result};

use crate::AwsEc2;
use crate::convert::{about, instance as convert, only};
use crate::query::Query;

impl Instances for AwsEc2 {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        if ids.is_empty() {
            // A filter without values would match all instances.
            return Ok(Page { items: vec![], next: None });
        }
        let query =
            Query::new(Action::DescribeInstances).filter("instance-id", ids.iter().map(InstanceId::as_str)).page(page);
        self.ask(query, convert::instances, |page, _| only(page, |i| &i.id, ids)).await
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let query = Query::new(Action::DescribeInstanceTypes).list("InstanceType", [instance_type]);
        let check = |info: Option<InstanceTypeInfo>, _| {
            info.as_ref().map_or(Ok(()), |info| about(&info.instance_type.as_str(), &instance_type)).map(|()| info)
        };
        match self.ask(query, convert::first_instance_type, check).await {
            Err(error) if error.code.as_deref() == Some("InvalidInstanceType") => Ok(None),
            answer => answer,
        }
    }
}
