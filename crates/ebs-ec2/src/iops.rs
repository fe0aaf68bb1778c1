//! Computes the IOPS to request.

use std::num::NonZeroU32;

use crate::Gib;

/// A number of I/O operations per second.
pub type Iops = u32;

/// The IOPS limits of a volume type in a zone or Outpost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IopsLimits {
    pub min: Iops,
    /// The highest IOPS of the volume type in the zone or Outpost. 0 means that the maximum is unknown and not applied.
    pub max: Iops,
    pub per_gib: Iops,
}

impl IopsLimits {
    /// Returns the limits with this maximum. `None` means that the maximum is unknown.
    pub fn with_max(self, max: Option<Iops>) -> Self {
        Self { max: max.unwrap_or(0), ..self }
    }
}

/// The IOPS that a user requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum IopsRequest {
    /// The user requests nothing, and EC2 chooses.
    #[default]
    Default,
    /// This number of IOPS.
    Explicit(NonZeroU32),
    /// This number of IOPS per GiB of the volume.
    PerGib(NonZeroU32),
}

impl IopsRequest {
    /// Requests a number of IOPS. 0 requests nothing.
    pub fn explicit(iops: Iops) -> Self {
        NonZeroU32::new(iops).map_or(Self::Default, Self::Explicit)
    }

    /// Requests IOPS per GiB. 0 requests nothing.
    pub fn per_gib(iops: Iops) -> Self {
        NonZeroU32::new(iops).map_or(Self::Default, Self::PerGib)
    }

    /// Returns the IOPS to request from EC2, or `None` to let EC2 choose. Lowers a request above a maximum, and with
    /// `raise_to_min` raises one below the type's minimum. The caller logs the adjustment.
    pub fn resolve(self, size: Gib, limits: Option<IopsLimits>, raise_to_min: bool) -> Option<Iops> {
        let asked = match self {
            Self::Default => return None,
            Self::Explicit(n) => u64::from(n.get()),
            Self::PerGib(n) => u64::from(n.get()) * u64::from(size.0),
        };
        let Some(limits) = limits else { return Some(u32::try_from(asked).unwrap_or(Iops::MAX)) };
        let mut iops = asked;
        if raise_to_min {
            iops = iops.max(u64::from(limits.min));
        }
        if limits.max > 0 {
            iops = iops.min(u64::from(limits.max));
        }
        let cap = u64::from(limits.per_gib) * u64::from(size.0);
        if cap > 0 && cap >= u64::from(limits.min) {
            iops = iops.min(cap);
        }
        Some(u32::try_from(iops).unwrap_or(Iops::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VolumeType;

    #[test]
    fn iops_match_published_vectors() {
        let io1 = VolumeType::Io1.iops_limits();
        let io2 = VolumeType::Io2.iops_limits();
        let gp3 = VolumeType::Gp3.iops_limits();
        assert_eq!(IopsRequest::per_gib(1).resolve(Gib(4), io1, true), Some(100));
        assert_eq!(IopsRequest::per_gib(1).resolve(Gib(4), io1, false), Some(4));
        assert_eq!(IopsRequest::per_gib(10_000).resolve(Gib(4), io1, false), Some(200));
        assert_eq!(IopsRequest::per_gib(10_000).resolve(Gib(4), io2, false), Some(4000));
        assert_eq!(IopsRequest::explicit(16_000).resolve(Gib(4), gp3, false), Some(16_000));
        assert_eq!(IopsRequest::explicit(99_000).resolve(Gib(4), gp3, false), Some(80_000));
    }

    #[test]
    fn iops_are_capped_only_per_gib_when_no_maximum_is_known() {
        let gp3 = VolumeType::Gp3.iops_limits().map(|limits| limits.with_max(None));
        assert_eq!(IopsRequest::explicit(99_000).resolve(Gib(1000), gp3, false), Some(99_000));
        assert_eq!(IopsRequest::explicit(99_000).resolve(Gib(100), gp3, false), Some(50_000), "500 for each GiB");
    }

    #[test]
    fn iops_per_gib_times_size_does_not_overflow() {
        assert_eq!(IopsRequest::per_gib(u32::MAX).resolve(Gib(65_536), None, false), Some(u32::MAX));
        assert_eq!(IopsRequest::per_gib(0).resolve(Gib(4), None, true), None);
    }
}
