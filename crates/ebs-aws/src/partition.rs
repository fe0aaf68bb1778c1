//! Which part of AWS a region is in: what ARNs and host names are made of.

/// A part of AWS that shares nothing with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Second field of every ARN.
    pub(crate) name: &'static str,
    /// End of host names.
    suffix: &'static str,
    /// End of the names of hosts that speak IPv6 too.
    dual_stack_suffix: &'static str,
}

impl Partition {
    /// The end of the names of its hosts.
    pub(crate) const fn suffix(&self, dual_stack: bool) -> &'static str {
        if dual_stack { self.dual_stack_suffix } else { self.suffix }
    }
}

const fn partition(name: &'static str, suffix: &'static str, dual_stack_suffix: &'static str) -> Partition {
    Partition { name, suffix, dual_stack_suffix }
}

const AWS: Partition = partition("aws", "amazonaws.com", "api.aws");

/// Partitions by the beginning of their regions' names; everything else is in `aws`. A test compares them, and every host name that
/// follows from them, with the rule sets that AWS publishes (`tests/wire/endpoints.rs`).
const OTHERS: [(&str, Partition); 7] = [
    ("cn-", partition("aws-cn", "amazonaws.com.cn", "api.amazonwebservices.com.cn")),
    ("us-gov-", partition("aws-us-gov", "amazonaws.com", "api.aws")),
    ("us-iso-", partition("aws-iso", "c2s.ic.gov", "api.aws.ic.gov")),
    ("us-isob-", partition("aws-iso-b", "sc2s.sgov.gov", "api.aws.scloud")),
    ("eu-isoe-", partition("aws-iso-e", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk")),
    ("us-isof-", partition("aws-iso-f", "csp.hci.ic.gov", "api.aws.hci.ic.gov")),
    ("eusc-", partition("aws-eusc", "amazonaws.eu", "api.amazonwebservices.eu")),
];

/// The partition of a region.
pub(crate) fn of(region: &str) -> Partition {
    OTHERS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or(AWS, |(_, partition)| *partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_region_is_in_its_partition() {
        for (region, name) in [
            ("us-west-2", "aws"),
            ("eu-central-1", "aws"),
            ("cn-north-1", "aws-cn"),
            ("us-gov-east-1", "aws-us-gov"),
            ("us-iso-east-1", "aws-iso"),
            ("us-isob-east-1", "aws-iso-b"),
            ("eu-isoe-west-1", "aws-iso-e"),
            ("us-isof-south-1", "aws-iso-f"),
            ("eusc-de-east-1", "aws-eusc"),
            ("mars-north-1", "aws"),
        ] {
            assert_eq!(of(region).name, name, "{region}");
        }
    }
}
