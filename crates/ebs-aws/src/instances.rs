//! The port's instances: one method, one call.

use aws_sdk_ec2::types::InstanceType;
use ebs_ec2::{Action, Instance, InstanceTypeInfo, Instances, Page, PageRequest, Result};
use ebs_types::InstanceId;

use crate::AwsEc2;
use crate::convert::{Read, about, among, instance as convert, required, text};
use crate::query::{filter, max_results};

impl Instances for AwsEc2 {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        if ids.is_empty() {
            // A filter without values would mean "all" to EC2.
            return Ok(Page { items: vec![], next: None });
        }
        let monitor = self.monitor(Action::DescribeInstances);
        let operation = self
            .client
            .describe_instances()
            .filters(filter("instance-id", ids.iter().map(InstanceId::as_str)))
            .set_max_results(max_results(page))
            .set_next_token(page.token.clone())
            .customize();
        let send = monitor.repeatable(operation).send();
        self.call(monitor, send, |reply| {
            let reservations = required(reply.reservations, "list of reservations")?.into_iter();
            let list = reservations.flat_map(|r| r.instances.unwrap_or_default());
            let items = list.map(convert::instance).collect::<Read<Vec<_>>>()?;
            among(&items, |i| &i.id, ids)?;
            Ok(Page { items, next: text(reply.next_token) })
        })
        .await
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let monitor = self.monitor(Action::DescribeInstanceTypes);
        let operation =
            self.client.describe_instance_types().instance_types(InstanceType::from(instance_type)).customize();
        let send = monitor.repeatable(operation).send();
        let answer = self
            .call(monitor, send, |reply| {
                let list = required(reply.instance_types, "list of instance types")?;
                let info = list.into_iter().next().map(convert::instance_type).transpose()?;
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
