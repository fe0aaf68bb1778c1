//! Instances through the port.

use ebs_ec2::{Action, ErrorClass, Instance, InstanceTypeInfo, Instances, Page, PageRequest, Result};
use ebs_types::InstanceId;

use crate::api::{self, Call, Reply};

use super::convert::{self, filter, paging, texts};
use super::{SimEc2, unexpected};

impl Instances for SimEc2 {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        let (max_results, next_token) = paging(page);
        let call = api::DescribeInstances {
            instance_ids: Vec::new(),
            filters: filter("instance-id", texts(ids)),
            max_results,
            next_token,
            dry_run: false,
        };
        match self.make(Action::DescribeInstances, Call::DescribeInstances(call)).await? {
            Reply::DescribeInstances(listing) => Ok(convert::page(listing, convert::instance)),
            other => Err(unexpected(Action::DescribeInstances, &other)),
        }
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let instance_types = vec![instance_type.to_owned()];
        let call = Call::DescribeInstanceTypes(api::DescribeInstanceTypes { instance_types, ..Default::default() });
        match self.make(Action::DescribeInstanceTypes, call).await {
            Ok(Reply::DescribeInstanceTypes(listing)) => Ok(listing
                .items
                .into_iter()
                .next()
                .map(|t| InstanceTypeInfo { instance_type: t.name, ebs_cards: t.maximum_ebs_cards })),
            Ok(other) => Err(unexpected(Action::DescribeInstanceTypes, &other)),
            Err(e) if e.class == ErrorClass::InvalidParameter && e.code.as_deref() == Some("InvalidInstanceType") => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}
