//! The token buckets of EC2, with their documented sizes.

use ebs_ec2::Action;

/// One of EC2's token buckets. There is one for each action. Describes by ids without a filter, and of everything, have
/// a smaller bucket than those with a filter or a page length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BucketKey {
    action: Action,
    unfiltered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct BucketSize {
    pub(crate) capacity: f64,
    pub(crate) per_second: f64,
}

impl BucketKey {
    /// Returns the bucket of a mutating call, or of a describe with a filter or a page length.
    pub(crate) const fn of(action: Action) -> Self {
        Self { action, unfiltered: false }
    }

    /// Returns the bucket of a describe by ids without a filter, or of everything.
    pub(crate) const fn unfiltered(action: Action) -> Self {
        Self { action, unfiltered: true }
    }

    pub(crate) fn action(self) -> Action {
        self.action
    }

    pub(crate) fn documented(self) -> BucketSize {
        let size = |capacity, per_second| BucketSize { capacity, per_second };
        match self.action {
            Action::CreateVolume | Action::DeleteVolume | Action::CreateSnapshot | Action::DeleteSnapshot => {
                size(100.0, 5.0)
            }
            Action::AttachVolume | Action::DetachVolume | Action::ModifyVolume | Action::CopyVolumes => size(50.0, 5.0),
            Action::CreateTags | Action::DeleteTags => size(100.0, 10.0),
            // Documented as "other mutating actions". There is no documentation for SageMaker and STS.
            Action::EnableFastSnapshotRestores
            | Action::LockSnapshot
            | Action::AttachClusterNodeVolume
            | Action::DetachClusterNodeVolume
            | Action::GetCallerIdentity => size(50.0, 5.0),
            Action::DescribeAvailabilityZones
            | Action::DescribeInstances
            | Action::DescribeInstanceTypes
            | Action::DescribeLockedSnapshots
            | Action::DescribeSnapshots
            | Action::DescribeVolumes
            | Action::DescribeVolumesModifications
            | Action::DescribeVolumeStatus => {
                if self.unfiltered {
                    size(50.0, 10.0)
                } else {
                    size(100.0, 20.0)
                }
            }
        }
    }
}
