//! Bugs that are planted on the way between a driver and EC2, so that it is known that the model finds them.

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// DetachVolume is answered and forgotten.
    DetachForgotten,
    /// DeleteVolume is answered and forgotten.
    DeleteForgotten,
    /// No description of a volume shows attachments, as if an error were read as "none".
    AttachmentsUnseen,
    /// An attachment that is on its way out is taken for gone.
    DetachingIsDetached,
    /// An attach is tried again by itself, whatever has happened since.
    AttachTwice,
    /// Descriptions name another device than the one attached.
    WrongDevice,
    /// Every CreateVolume has a client token of its own.
    TokenForEachCall,
    /// An unclear answer is taken for "nothing was done".
    UnclearIsRefused,
    /// A tag of the class is not written.
    TagsDropped,
    /// Everybody's volumes look like ours.
    OwnershipUnseen,
    /// The look for a snapshot by its name finds nothing.
    SnapshotsUnseen,
    /// A pending snapshot is told as completed.
    ReadyTooSoon,
    /// A size is told that is not yet there.
    SizeAhead,
    /// What has no answer may take effect a minute and a half later: no driver can wait for so long, so this shows
    /// that it is the time of 15 s which the rules hang on.
    LateBeyondBelief,
    /// The driver goes on with new mutations when its callers have left: work that is not tied to anybody's waiting.
    WorkWithoutCallers,
}

impl Planted {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::DetachForgotten,
        Self::DeleteForgotten,
        Self::AttachmentsUnseen,
        Self::DetachingIsDetached,
        Self::AttachTwice,
        Self::WrongDevice,
        Self::TokenForEachCall,
        Self::UnclearIsRefused,
        Self::TagsDropped,
        Self::OwnershipUnseen,
        Self::SnapshotsUnseen,
        Self::ReadyTooSoon,
        Self::SizeAhead,
        Self::LateBeyondBelief,
        Self::WorkWithoutCallers,
    ];
}
