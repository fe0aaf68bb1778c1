//! The AWS partition of a region, which determines ARNs and host names.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition {
    /// The second field of every ARN.
    pub(crate) name: &'static str,
    suffix: &'static str,
    dual_stack_suffix: &'static str,
}

impl Partition {
    pub(crate) const fn suffix(&self, dual_stack: bool) -> &'static str {
        if dual_stack { self.dual_stack_suffix } else { self.suffix }
    }
}

const fn partition(name: &'static str, suffix: &'static str, dual_stack_suffix: &'static str) -> Partition {
    Partition { name, suffix, dual_stack_suffix }
}

const AWS: Partition = partition("aws", "amazonaws.com", "api.aws");

/// The partitions other than `aws`, by the prefixes of their regions. A test compares them, and every host name, with
/// the rule sets that AWS publishes (`tests/wire/endpoints.rs`).
const OTHERS: [(&str, Partition); 7] = [
    ("cn-", partition("aws-cn", "amazonaws.com.cn", "api.amazonwebservices.com.cn")),
    ("us-gov-", partition("aws-us-gov", "amazonaws.com", "api.aws")),
    ("us-iso-", partition("aws-iso", "c2s.ic.gov", "api.aws.ic.gov")),
    ("us-isob-", partition("aws-iso-b", "sc2s.sgov.gov", "api.aws.scloud")),
    ("eu-isoe-", partition("aws-iso-e", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk")),
    ("us-isof-", partition("aws-iso-f", "csp.hci.ic.gov", "api.aws.hci.ic.gov")),
    ("eusc-", partition("aws-eusc", "amazonaws.eu", "api.amazonwebservices.eu")),
];

pub(crate) fn of(region: &str) -> Partition {
    OTHERS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or(AWS, |(_, partition)| *partition)
}
