//! Bugs that are planted in a driver or on its way to EC2, so that it is known that the model finds them.

macro_rules! planted {
    ($($(#[doc = $text:literal])+ $bug:ident,)+) => {
        /// A planted bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Planted {
            $($(#[doc = $text])+ $bug,)+
        }

        impl Planted {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$bug,)+];
        }
    };
}

planted! {
    /// DetachVolume is answered and forgotten.
    DetachForgotten,
    /// DeleteVolume is answered and forgotten.
    DeleteForgotten,
    /// DeleteSnapshot is answered and forgotten.
    SnapshotDeleteForgotten,
    /// LockSnapshot is answered and forgotten.
    LockForgotten,
    /// EnableFastSnapshotRestores is answered and forgotten.
    FastRestoresForgotten,
    /// No description of a volume shows attachments, as if an error were read as "none".
    AttachmentsUnseen,
    /// An attachment that is on its way out is taken for gone.
    DetachingIsDetached,
    /// An attach is tried again by itself, whatever has happened since.
    AttachTwice,
    /// A while after an attach it is taken back, though nobody asked.
    DetachUnasked,
    /// A while after a detach the volume is deleted, though nobody asked.
    DeleteUnasked,
    /// A deletion takes everything along that carries the same name.
    DeleteByName,
    /// Descriptions name another device than the one attached.
    WrongDevice,
    /// Every attachment asks for the same device name.
    SameDevice,
    /// Every CreateVolume has a client token of its own.
    TokenForEachCall,
    /// A volume is made once more by itself, whatever has happened since.
    CreateTwice,
    /// A snapshot is taken once more, without its name.
    SnapshotTwice,
    /// A volume is made somewhere else than asked for.
    ZoneIgnored,
    /// A volume is made smaller than asked for.
    SizeCut,
    /// A volume for several nodes is made for one.
    SharingForgotten,
    /// A volume is made of another type.
    TypeForgotten,
    /// A volume is made without what it is to be made from.
    SourceForgotten,
    /// A volume is made in the clear.
    EncryptionForgotten,
    /// What is being made is taken for made.
    CreatingIsUsable,
    /// An unclear answer is taken for "nothing was done".
    UnclearIsRefused,
    /// A tag of the class is not written.
    TagsDropped,
    /// The tag that says whose it is is missing from snapshots.
    SnapshotTagsDropped,
    /// The tag with the name is missing.
    NameDropped,
    /// Everybody's volumes look like ours.
    OwnershipUnseen,
    /// The look for a volume by its name finds nothing.
    VolumesUnseen,
    /// The look for a snapshot by its name finds nothing.
    SnapshotsUnseen,
    /// A pending snapshot is reported as completed.
    ReadyTooSoon,
    /// A size is reported that is not yet there.
    SizeAhead,
    /// What has no answer may take effect a minute and a half later: no driver can wait for so long, so this shows
    /// that it is the time of 15 s which the rules hang on.
    LateBeyondBelief,
    /// The driver goes on with new mutations when its callers have left: work that is not tied to anybody's waiting.
    WorkWithoutCallers,
    /// The driver makes a call that its policies do not allow.
    BeyondThePolicies,
    /// Every call goes to a process that was started just now: nothing is remembered from attempt to attempt.
    NothingRemembered,
    /// What is there under the name is taken for what is asked for.
    ContentIgnored,
    /// The answer to a name is remembered and given again, whatever has happened since.
    AnswersRemembered,
    /// An unknown outcome is answered with a success.
    UnknownIsSuccess,
    /// An unknown outcome is answered with a final code.
    UnknownIsFinal,
    /// A second answer to the same name has another id.
    IdChanges,
    /// The zone in the answer is another.
    WrongZone,
    /// The size in the answer for snapshots and grown volumes is smaller.
    WrongSize,
    /// The source in the answer for snapshots is another.
    WrongSource,
    /// ModifyVolume is sent twice at once.
    ModifyBeside,
    /// A modification is undone as soon as EC2 takes the next one.
    ChangedBack,
    /// CreateTags is answered and forgotten.
    ClassTagsForgotten,
    /// DeleteTags is answered and forgotten.
    TagsKept,
    /// The tags of a class are written before EC2 has judged it.
    RefusedIsTagged,
    /// The tag with the IOPS for each GiB is not seen.
    RatioUnseen,
    /// A class whose outcome is unknown is answered with a success.
    ClassGuessed,
    /// A class that was applied is answered as infeasible.
    AppliedIsInfeasible,
    /// What a reply taught of the right time is forgotten before the next call.
    ClockForgotten,
    /// When EC2 does not tell how many IOPS there are, an old limit counts.
    IopsGuessed,
    /// The driver does not see that the resizer has asked another driver meanwhile.
    ResizerTermUnseen,
}
