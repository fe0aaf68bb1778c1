//! Bugs that are planted in a driver or in its calls to EC2, to prove that the model finds them.

use clap::ValueEnum;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Planted {
    /// DeleteVolume reports success without an effect.
    DeleteForgotten,
    /// DeleteSnapshot reports success without an effect.
    SnapshotDeleteForgotten,
    /// LockSnapshot reports success without an effect.
    LockForgotten,
    /// EnableFastSnapshotRestores reports success without an effect.
    FastRestoresForgotten,
    /// A detaching attachment counts as detached.
    DetachingIsDetached,
    /// A while after an attach, the volume is detached without a request.
    DetachUnasked,
    /// A while after a detach, the volume is deleted without a request.
    DeleteUnasked,
    /// A deletion also removes all objects with the same name.
    DeleteByName,
    /// Descriptions name another device than the one attached.
    WrongDevice,
    /// Every attachment requests the same device name.
    SameDevice,
    /// Every CreateVolume has a new client token.
    TokenForEachCall,
    /// A volume is created a second time, regardless of later requests.
    CreateTwice,
    /// A snapshot is created a second time, without its name.
    SnapshotTwice,
    /// A volume is created in another zone.
    ZoneIgnored,
    /// A volume is smaller than requested.
    SizeCut,
    /// A volume for several nodes is created for one.
    SharingForgotten,
    /// A volume has another type.
    TypeForgotten,
    /// A volume is created without its source.
    SourceForgotten,
    /// A volume is not encrypted.
    EncryptionForgotten,
    /// A volume or snapshot in creation counts as created.
    CreatingIsUsable,
    /// An unclear response counts as "nothing was done".
    UnclearIsRefused,
    /// A tag of the class is not written.
    TagsDropped,
    /// Snapshots lack the ownership tag.
    SnapshotTagsDropped,
    /// The name tag is missing.
    NameDropped,
    /// All volumes look like ours.
    OwnershipUnseen,
    /// The lookup of a volume by name finds nothing.
    VolumesUnseen,
    /// The lookup of a snapshot by name finds nothing.
    SnapshotsUnseen,
    /// A pending snapshot is reported as completed.
    ReadyTooSoon,
    /// A size is reported before it is reached.
    SizeAhead,
    /// A call without a response may take effect after 90 s: the rules depend on the 15 s.
    LateBeyondBelief,
    /// The driver starts new mutations after its callers have disconnected.
    WorkWithoutCallers,
    /// The driver makes a call that its policies do not allow.
    BeyondThePolicies,
    /// Every call goes to a new process: no state survives between attempts.
    NothingRemembered,
    /// An object with the requested name counts as the requested one.
    ContentIgnored,
    /// The response for a name is remembered and repeated, regardless of later requests.
    AnswersRemembered,
    /// An unknown outcome is reported as a success.
    UnknownIsSuccess,
    /// An unknown outcome is reported with a final code.
    UnknownIsFinal,
    /// A second response for the same name has another id.
    IdChanges,
    /// The response has another zone.
    WrongZone,
    /// The response for snapshots and grown volumes has a smaller size.
    WrongSize,
    /// The response for snapshots has another source.
    WrongSource,
    /// ModifyVolume is sent twice concurrently.
    ModifyBeside,
    /// A modification is undone as soon as EC2 accepts the next one.
    ChangedBack,
    /// CreateTags reports success without an effect.
    ClassTagsForgotten,
    /// DeleteTags reports success without an effect.
    TagsKept,
    /// The tags of a class are written before EC2 has accepted it.
    RefusedIsTagged,
    /// The tag with the IOPS per GiB is ignored.
    RatioUnseen,
    /// A class with an unknown outcome is reported as a success.
    ClassGuessed,
    /// The right time from a response is forgotten before the next call.
    ClockForgotten,
    /// If EC2 does not report the maximum of IOPS, an old limit is used.
    IopsGuessed,
    /// The driver does not notice that the resizer has called another driver meanwhile.
    ResizerTermUnseen,
}
