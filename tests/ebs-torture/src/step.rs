//! The possible next steps of a volume.

use ebs_ec2::SplitMix64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Stage {
        spoilt: bool,
    },
    Publish {
        raw: bool,
    },
    WriteFile,
    /// Writes a file without a sync, so that its data is safe only once the volume is unstaged.
    WriteWithoutSync,
    WriteRaw {
        synced: bool,
    },
    WriteForeign,
    Unpublish {
        raw: bool,
    },
    Unstage,
    Enlarge,
    Expand,
    /// The disk grows, but the tools that grow the file system fail.
    StageWithoutGrowth,
    /// A backup freezes the file system and never thaws it.
    Freeze,
    /// Another mount namespace gets copies of the volume's mounts.
    CopyMounts {
        is_open: bool,
    },
    /// Damages metadata of the unmounted file system.
    Damage,
    /// The kernel finds an error in the mounted file system.
    KernelError,
}

impl Step {
    /// Draws a step. Most steps of a raw volume use it as a raw device.
    pub(crate) fn any(rng: &mut SplitMix64, is_raw: bool, is_made: bool) -> Self {
        let more = |is_raw: bool| if is_raw { 12 } else { 0 };
        let all = [
            (if is_made { 20 } else { 34 }, Self::Stage { spoilt: false }),
            (7, Self::Stage { spoilt: true }),
            (14 + more(!is_raw), Self::Publish { raw: false }),
            (6 + more(is_raw), Self::Publish { raw: true }),
            (18, Self::WriteFile),
            (8, Self::WriteWithoutSync),
            (6 + more(is_raw), Self::WriteRaw { synced: true }),
            (4 + more(is_raw), Self::WriteRaw { synced: false }),
            (11, Self::WriteForeign),
            (7, Self::Unpublish { raw: false }),
            (9, Self::Unpublish { raw: true }),
            (12, Self::Unstage),
            (6, Self::Enlarge),
            (6, Self::Expand),
            (3, Self::StageWithoutGrowth),
            (8, Self::Freeze),
            (3, Self::CopyMounts { is_open: false }),
            (1, Self::CopyMounts { is_open: true }),
            (18, Self::Damage),
            (2, Self::KernelError),
        ];
        let mut left = rng.below(all.iter().map(|(weight, _)| weight).sum());
        for (weight, step) in all {
            if left < weight {
                return step;
            }
            left -= weight;
        }
        Self::Unstage
    }
}
