//! Instances through the port.

use ebs_ec2::{ErrorClass, Instance, InstanceTypeInfo, Instances, Page, PageRequest, Result};
use ebs_types::InstanceId;

use crate::api;

use super::convert::{self, filter, paging, texts};
use super::{SimEc2, call};

impl Instances for SimEc2 {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        let (max_results, next_token) = paging(page);
        let filters = filter("instance-id", texts(ids));
        let asked = api::DescribeInstances { filters, max_results, next_token, ..Default::default() };
        call!(self, DescribeInstances, asked).map(|page| convert::page(page, convert::instance))
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let instance_types = vec![instance_type.to_owned()];
        let asked = api::DescribeInstanceTypes { instance_types, ..Default::default() };
        match call!(self, DescribeInstanceTypes, asked) {
            Ok(page) => Ok(page
                .items
                .into_iter()
                .next()
                .map(|t| InstanceTypeInfo { instance_type: t.name, ebs_cards: t.maximum_ebs_cards })),
            Err(e) if e.class == ErrorClass::InvalidParameter && e.code.as_deref() == Some("InvalidInstanceType") => {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}
