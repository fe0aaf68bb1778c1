//! EC2's token buckets, with their documented sizes.

use ebs_ec2::Action;

/// One of EC2's token buckets. Each action has its own bucket, and each describe action has a second, smaller bucket
/// for calls with neither a filter nor a page length.
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
    pub(crate) const fn of(action: Action) -> Self {
        Self { action, unfiltered: false }
    }

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
            // AWS documents these as "other mutating actions", and documents nothing for SageMaker and STS.
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
