//! What may be done with a volume next.

use ebs_types::SplitMix64;

/// What may be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Stage {
        spoilt: bool,
    },
    Publish {
        raw: bool,
    },
    WriteFile,
    /// Nobody is told that it is safe.
    WriteWithoutSync,
    WriteRaw,
    WriteForeign,
    Unpublish {
        raw: bool,
    },
    Unstage,
    /// EC2 makes the disk larger.
    Enlarge,
    Expand,
}

impl Step {
    /// By the rng. A raw volume is used as a raw device more often than not.
    pub(crate) fn any(rng: &mut SplitMix64, is_raw: bool, is_made: bool) -> Self {
        let more = |is_raw: bool| if is_raw { 12 } else { 0 };
        let all = [
            (if is_made { 20 } else { 34 }, Self::Stage { spoilt: false }),
            (7, Self::Stage { spoilt: true }),
            (14 + more(!is_raw), Self::Publish { raw: false }),
            (6 + more(is_raw), Self::Publish { raw: true }),
            (18, Self::WriteFile),
            (8, Self::WriteWithoutSync),
            (9 + more(is_raw), Self::WriteRaw),
            (11, Self::WriteForeign),
            (7, Self::Unpublish { raw: false }),
            (9, Self::Unpublish { raw: true }),
            (12, Self::Unstage),
            (6, Self::Enlarge),
            (6, Self::Expand),
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
