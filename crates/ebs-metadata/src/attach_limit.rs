//! Computes how many volumes the driver can attach to a node. Decision:
//! `docs/dev/decisions/0015-compute-the-attach-limit-from-ec2s-table.md`.

use ebs_ec2::{LimitKind, attachment_limit};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitFlagError {
    #[error(
        "--volume-attach-limit=0 is invalid: Kubernetes reads 0 as unlimited; set a number of volumes or omit the flag"
    )]
    ZeroLimit,
    #[error("--volume-attach-limit={0} is out of range: 1 to 2147483647, or -1 to compute it")]
    Limit(i64),
    #[error("--reserved-volume-attachments={0} is out of range: 0 to 2147483647, or -1 to read it from the metadata")]
    Reserved(i64),
    #[error("--volume-attach-limit and --reserved-volume-attachments are mutually exclusive; set only one of them")]
    Both,
}

/// The validated values of the two flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitFlags {
    limit: Option<u32>,
    reserved: Option<u32>,
}

impl LimitFlags {
    /// Validates `--volume-attach-limit` and `--reserved-volume-attachments`. For both, -1 means not given.
    pub fn parse(volume_attach_limit: i64, reserved_volume_attachments: i64) -> Result<Self, LimitFlagError> {
        let number = |value: i64| i32::try_from(value).ok().and_then(|value| u32::try_from(value).ok());
        let limit = match volume_attach_limit {
            -1 => None,
            0 => return Err(LimitFlagError::ZeroLimit),
            given => Some(number(given).ok_or(LimitFlagError::Limit(given))?),
        };
        let reserved = match reserved_volume_attachments {
            -1 => None,
            given => Some(number(given).ok_or(LimitFlagError::Reserved(given))?),
        };
        if limit.is_some() && reserved.is_some() {
            return Err(LimitFlagError::Both);
        }
        Ok(Self { limit, reserved })
    }
}

/// Returns the number of volumes to report for a node, at least 1, because Kubernetes reads 0 as unlimited. If no flag
/// sets the limit, reserves `flags.reserved` slots or, if unset, slots for the root and the volumes in the metadata. On
/// types whose network interfaces use the same slots, also subtracts every interface after the first.
pub fn attach_limit(instance_type: &str, block_devices: u32, network_interfaces: u32, flags: &LimitFlags) -> u32 {
    if let Some(limit) = flags.limit {
        return limit;
    }
    let table = attachment_limit(instance_type);
    let reserved = flags.reserved.unwrap_or(block_devices.saturating_add(1));
    let interfaces = match table.kind {
        LimitKind::Shared => network_interfaces.max(1) - 1,
        LimitKind::Dedicated => 0,
    };
    table.limit.saturating_sub(reserved).saturating_sub(interfaces).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attach_limits_match_the_published_values() {
        let none = LimitFlags::default();
        let reserved = |count| LimitFlags::parse(-1, count).unwrap();
        for (instance_type, block_devices, interfaces, flags, expected) in [
            ("m5.large", 5, 9, LimitFlags::parse(10, -1).unwrap(), 10),
            ("t2.medium", 0, 4, none, 38),
            ("t2.medium", 7, 4, reserved(3), 36),
            // An instance has one interface even if the metadata lists none.
            ("m5.large", 0, 1, none, 26),
            ("m5.large", 0, 0, none, 26),
            ("d3en.12xlarge", 0, 1, none, 2),
            ("d3.8xlarge", 0, 1, none, 2),
            ("m7i.48xlarge", 0, 15, none, 127),
            ("t3.xlarge", 9, 40, reserved(0), 1),
            ("mac1.metal", 0, 1, none, 15),
            ("g4dn.xlarge", 0, 1, none, 24),
            ("g4ad.xlarge", 0, 1, none, 24),
            ("g4dn.12xlarge", 0, 1, none, 21),
            ("g5.48xlarge", 0, 1, none, 8),
            ("inf1.xlarge", 0, 1, none, 25),
            ("inf1.2xlarge", 0, 1, none, 25),
            ("inf1.6xlarge", 0, 1, none, 22),
            ("inf1.24xlarge", 0, 1, none, 10),
            ("m5d.large", 0, 3, none, 23),
            ("unknown.type", 2, 2, none, 23),
        ] {
            let limit = attach_limit(instance_type, block_devices, interfaces, &flags);
            assert_eq!(limit, expected, "{instance_type} B={block_devices} E={interfaces} {flags:?}");
        }
    }

    #[test]
    fn attach_limit_is_at_least_one() {
        assert_eq!(attach_limit("t3.xlarge", 1000, 1000, &LimitFlags::default()), 1);
        assert_eq!(attach_limit("t3.xlarge", u32::MAX, 1, &LimitFlags::default()), 1);
    }

    #[test]
    fn zero_negative_or_conflicting_limit_flags_are_rejected() {
        assert_eq!(LimitFlags::parse(0, -1), Err(LimitFlagError::ZeroLimit));
        assert_eq!(LimitFlags::parse(-2, -1), Err(LimitFlagError::Limit(-2)));
        assert_eq!(LimitFlags::parse(1 << 31, -1), Err(LimitFlagError::Limit(1 << 31)));
        assert_eq!(LimitFlags::parse(-1, -2), Err(LimitFlagError::Reserved(-2)));
        assert_eq!(LimitFlags::parse(5, 0), Err(LimitFlagError::Both));
        assert_eq!(LimitFlags::parse(-1, -1), Ok(LimitFlags::default()));
    }
}
