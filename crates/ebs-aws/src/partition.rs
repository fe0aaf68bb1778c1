//! Which part of AWS a region is in: what ARNs and host names are made of.

/// A part of AWS that shares nothing with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Partition {
    /// Second field of every ARN.
    pub(crate) name: &'static str,
    /// End of host names.
    pub(crate) suffix: &'static str,
    /// End of the names of hosts that speak IPv6 too, where there are such.
    pub(crate) dual_stack_suffix: Option<&'static str>,
}

const AWS: Partition = Partition { name: "aws", suffix: "amazonaws.com", dual_stack_suffix: Some("api.aws") };

/// Partitions by the beginning of their regions' names; everything else is in `aws`.
const OTHERS: [(&str, Partition); 7] = [
    (
        "cn-",
        Partition {
            name: "aws-cn",
            suffix: "amazonaws.com.cn",
            dual_stack_suffix: Some("api.amazonwebservices.com.cn"),
        },
    ),
    ("us-gov-", Partition { name: "aws-us-gov", suffix: "amazonaws.com", dual_stack_suffix: Some("api.aws") }),
    ("us-iso-", Partition { name: "aws-iso", suffix: "c2s.ic.gov", dual_stack_suffix: None }),
    ("us-isob-", Partition { name: "aws-iso-b", suffix: "sc2s.sgov.gov", dual_stack_suffix: None }),
    ("eu-isoe-", Partition { name: "aws-iso-e", suffix: "cloud.adc-e.uk", dual_stack_suffix: None }),
    ("us-isof-", Partition { name: "aws-iso-f", suffix: "csp.hci.ic.gov", dual_stack_suffix: None }),
    ("eusc-", Partition { name: "aws-eusc", suffix: "amazonaws.eu", dual_stack_suffix: None }),
];

/// The partition of a region.
pub(crate) fn of(region: &str) -> Partition {
    OTHERS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or(AWS, |(_, partition)| *partition)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule: see `crates/ebs-aws/tests/wire/settings.rs::the_arn_of_a_cluster_is_in_the_partition_of_its_region`
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
