//! ARNs of Outposts.

use std::fmt;

use crate::IdError;

/// The ARN of an AWS Outpost, `arn:aws:outposts:us-west-2:123456789012:outpost/op-…`, by its parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutpostArn {
    partition: String,
    region: String,
    account: String,
    outpost: String,
}

impl OutpostArn {
    /// Accepts an Outpost's ARN, with nothing around it.
    ///
    /// # Errors
    /// [`IdError`] names the text and what was wanted.
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

    /// The ARN's partition, `aws`.
    pub fn partition(&self) -> &str {
        &self.partition
    }

    /// The region to which the Outpost belongs.
    pub fn region(&self) -> &str {
        &self.region
    }

    /// The account that owns it.
    pub fn account(&self) -> &str {
        &self.account
    }

    /// Its id, `op-…`.
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

/// What can be a part, and the value of a node's label.
fn is_segment(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ARN of an Outpost has a partition, a region, an account and an id that starts after `outpost/`; all else is refused.
    #[test]
    fn an_outposts_arn_has_four_parts_and_all_else_is_refused() {
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
