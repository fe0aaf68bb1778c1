//! The ARNs of Outposts.

use std::fmt;

use crate::IdError;

/// The parts of an AWS Outpost's ARN, `arn:aws:outposts:us-west-2:123456789012:outpost/op-…`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutpostArn {
    partition: String,
    region: String,
    account: String,
    outpost: String,
}

impl OutpostArn {
    /// Parses the ARN of an Outpost.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let refused = || IdError::new(text, "the ARN of an Outpost (arn:aws:outposts:REGION:ACCOUNT:outpost/op-…)");
        let parts: Vec<&str> = text.split(':').collect();
        let ["arn", partition, "outposts", region, account, resource] = parts[..] else { return Err(refused()) };
        let outpost = resource.strip_prefix("outpost/").ok_or_else(refused)?;
        if ![partition, region, account, outpost].into_iter().all(is_segment) {
            return Err(refused());
        }
        Ok(Self {
            partition: partition.to_owned(),
            region: region.to_owned(),
            account: account.to_owned(),
            outpost: outpost.to_owned(),
        })
    }

    /// Returns the ARN's partition, such as `aws`.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// Returns the region to which the Outpost belongs.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// Returns the account that owns the Outpost.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// Returns the Outpost's id, `op-…`.
    pub fn outpost(&self) -> &str {
        &self.outpost
    }
}

impl fmt::Display for OutpostArn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { partition, region, account, outpost } = self;
        write!(f, "arn:{partition}:outposts:{region}:{account}:outpost/{outpost}")
    }
}

/// Returns true if the text is valid both as a part of an ARN and as the value of a node label.
fn is_segment(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outpost_arn_without_four_valid_parts_is_rejected() {
        let text = "arn:aws-us-gov:outposts:us-gov-west-1:123456789012:outpost/op-0123456789abcdef0";
        let arn = OutpostArn::parse(text).unwrap();
        assert_eq!(
            [arn.partition(), arn.region(), arn.account(), arn.outpost()],
            ["aws-us-gov", "us-gov-west-1", "123456789012", "op-0123456789abcdef0"]
        );
        assert_eq!(arn.to_string(), text);
        for bad in [
            "",
            "op-0123456789abcdef0",
            "arn:aws:outposts:us-west-2:123456789012:op-1",
            "arn:aws:outposts:us-west-2:123456789012:outpost/",
            "arn:aws:outposts::123456789012:outpost/op-1",
            "arn:aws:outposts:us-west-2::outpost/op-1",
            "arn::outposts:us-west-2:123456789012:outpost/op-1",
            "arn:aws:ec2:us-west-2:123456789012:outpost/op-1",
            "arn:aws:outposts:us-west-2:123456789012:outpost/op-1:x",
            "arn:aws:outposts:us-west-2:123456789012:outpost/op-1/x",
            " arn:aws:outposts:us-west-2:123456789012:outpost/op-1",
        ] {
            assert!(OutpostArn::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
