//! How many IOPS a request means.

use std::num::NonZeroU32;

use crate::Gib;

/// A number of I/O operations per second.
pub type Iops = u32;

/// The limits of a volume type in a place. 0 in `max` means that no maximum is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IopsLimits {
    /// Fewest IOPS a volume of the type can have.
    pub min: Iops,
    /// Most IOPS a volume of the type can have here; 0: unknown, nothing is lowered.
    pub max: Iops,
    /// Most IOPS for each GiB.
    pub per_gib: Iops,
}

impl IopsLimits {
    /// The same with this maximum; `None`: no maximum is known.
    pub fn with_max(self, max: Option<Iops>) -> Self {
        Self { max: max.unwrap_or(0), ..self }
    }
}

/// What the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IopsRequest {
    /// Nothing: EC2 chooses.
    Default,
    /// A number, as given.
    Explicit(NonZeroU32),
    /// A number for each GiB of the volume.
    PerGib(NonZeroU32),
}

impl IopsRequest {
    /// A number; 0 asks for nothing.
    pub fn explicit(iops: Iops) -> Self {
        NonZeroU32::new(iops).map_or(Self::Default, Self::Explicit)
    }

    /// A number for each GiB; 0 asks for nothing.
    pub fn per_gib(iops: Iops) -> Self {
        NonZeroU32::new(iops).map_or(Self::Default, Self::PerGib)
    }

    /// The IOPS to ask EC2 for, or `None` to leave the choice to EC2. `raise_to_min` lifts a request below the
    /// type's minimum; requests above a maximum are lowered to it (the caller warns when that changes a number).
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

    /// IOPS follow from the request, the type's limits and the size.
    #[test]
    fn iops_follow_the_published_vectors() {
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
    fn a_request_keeps_its_number_while_no_maximum_is_known() {
        let gp3 = VolumeType::Gp3.iops_limits().map(|limits| limits.with_max(None));
        assert_eq!(IopsRequest::explicit(99_000).resolve(Gib(1000), gp3, false), Some(99_000));
        assert_eq!(IopsRequest::explicit(99_000).resolve(Gib(100), gp3, false), Some(50_000), "500 for each GiB");
    }

    /// A ratio times a size cannot overflow.
    #[test]
    fn a_ratio_times_a_size_cannot_overflow_into_no_request() {
        assert_eq!(IopsRequest::per_gib(u32::MAX).resolve(Gib(65_536), None, false), Some(u32::MAX));
        assert_eq!(IopsRequest::per_gib(0).resolve(Gib(4), None, true), None);
    }
}
