//! Bugs that the tests plant in a driver or in its calls to EC2, to prove that the model finds them.

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
    /// A volume that is still detaching counts as detached.
    DetachingIsDetached,
    /// Some time after an attach, the driver detaches the volume without a request.
    DetachUnasked,
    /// Some time after a detach, the driver deletes the volume without a request.
    DeleteUnasked,
    /// A deletion also removes all objects with the same name.
    DeleteByName,
    /// Descriptions show a device name that differs from the attached one.
    WrongDevice,
    /// Every attachment requests the same device name.
    SameDevice,
    /// Every CreateVolume call has a new client token.
    TokenForEachCall,
    /// The driver creates a volume a second time, regardless of later requests.
    CreateTwice,
    /// The driver creates a snapshot a second time, without its name.
    SnapshotTwice,
    /// A volume is created in a zone that was not requested.
    ZoneIgnored,
    /// A volume is smaller than requested.
    SizeCut,
    /// A volume for several nodes is created for a single one.
    SharingForgotten,
    /// A volume's type differs from the requested one.
    TypeForgotten,
    /// A volume is created without its source.
    SourceForgotten,
    /// A volume is not encrypted.
    EncryptionForgotten,
    /// A volume or snapshot that is still being created counts as created.
    CreatingIsUsable,
    /// The driver treats an unclear response as "nothing was done".
    UnclearIsRefused,
    /// The driver does not write a tag of the class.
    TagsDropped,
    /// Snapshots lack the ownership tag.
    SnapshotTagsDropped,
    /// Volumes and snapshots lack the name tag.
    NameDropped,
    /// Every volume appears to belong to the driver.
    OwnershipUnseen,
    /// The lookup of a volume by name finds nothing.
    VolumesUnseen,
    /// The lookup of a snapshot by name finds nothing.
    SnapshotsUnseen,
    /// A pending snapshot is reported as completed.
    ReadyTooSoon,
    /// A size is reported before it is reached.
    SizeAhead,
    /// A call without a response may take effect after 90 s, although the driver's rules assume at most 15 s.
    LateBeyondBelief,
    /// The driver starts new mutations after its callers have disconnected.
    WorkWithoutCallers,
    /// The driver makes a call that its policies do not allow.
    BeyondThePolicies,
    /// Every call goes to a new process, so that no state survives between attempts.
    NothingRemembered,
    /// Any object with the requested name counts as the requested one.
    ContentIgnored,
    /// The driver remembers the response for a name and repeats it, regardless of later requests.
    AnswersRemembered,
    /// The driver reports an unknown outcome as a success.
    UnknownIsSuccess,
    /// The driver reports an unknown outcome with a final code.
    UnknownIsFinal,
    /// The second response for a name has a different id.
    IdChanges,
    /// The response contains a wrong zone.
    WrongZone,
    /// The response for snapshots and expanded volumes contains a size that is too small.
    WrongSize,
    /// The response for snapshots contains a wrong source.
    WrongSource,
    /// The driver sends ModifyVolume twice concurrently.
    ModifyBeside,
    /// The driver undoes a modification as soon as EC2 accepts the next one.
    ChangedBack,
    /// CreateTags reports success without an effect.
    ClassTagsForgotten,
    /// DeleteTags reports success without an effect.
    TagsKept,
    /// The driver writes the tags of a class before EC2 has accepted the class.
    RefusedIsTagged,
    /// The driver ignores the tag with the IOPS per GiB.
    RatioUnseen,
    /// The driver reports a class with an unknown outcome as a success.
    ClassGuessed,
    /// The driver forgets the right time that EC2's error contains, instead of using it for the next call.
    ClockForgotten,
    /// If EC2 does not report the maximum IOPS, the driver uses an old limit.
    IopsGuessed,
    /// The driver does not notice that the resizer has called another driver in the meantime.
    ResizerTermUnseen,
}
