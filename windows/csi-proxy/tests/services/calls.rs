//! The test cases of each call: its fields, its response, the step that can fail, and invalid arguments.

/// One call, in all versions that have it, under all of its names.
pub(crate) struct Scenario {
    pub(crate) names: &'static [&'static str],
    /// Fields of any of the versions; each version uses those that it has.
    pub(crate) fields: &'static [(&'static str, &'static str)],
    /// Part of the response, in protobuf's text form without blanks.
    pub(crate) answer: &'static str,
    /// The step of the machine that fails.
    pub(crate) fails: &'static str,
    /// Invalid fields and part of the error; `None` for calls without fields that can be invalid.
    pub(crate) refused: Option<(&'static [(&'static str, &'static str)], &'static str)>,
}

const DISK: &[(&str, &str)] = &[("diskID", "1"), ("disk_id", "1"), ("disk_number", "1")];
const NO_DISK: &[(&str, &str)] = &[("diskID", "4294967297"), ("disk_id", "4294967297"), ("disk_number", "77")];
const VOLUME_ID: (&str, &str) = ("volume_id", r"\\?\Volume{11111111-1111-1111-1111-111111111111}\");
const VOLUME: &[(&str, &str)] = &[VOLUME_ID];
const NO_VOLUME: &[(&str, &str)] = &[("volume_id", r"C:\")];
const NEW_TARGET: &[(&str, &str)] = &[
    ("target_portal", "10.0.0.1"),
    ("iqn", "iqn.2026-11.example:new"),
    ("auth_type", "ONE_WAY_CHAP"),
    ("chap_username", "user"),
    ("chap_secret", "planted-secret"),
];
const USED_TARGET: &[(&str, &str)] = &[("target_portal", "10.0.0.1"), ("iqn", "iqn.2026-11.example:used")];
const OUTSIDE: &str = "is not within the working directories";

const fn call(
    names: &'static [&'static str],
    fields: &'static [(&'static str, &'static str)],
    answer: &'static str,
    fails: &'static str,
    refused: Option<(&'static [(&'static str, &'static str)], &'static str)>,
) -> Scenario {
    Scenario { names, fields, answer, fails, refused }
}

pub(crate) const CALLS: &[Scenario] = &[
    call(&["ListDiskLocations"], &[], r#"Target:"1",LUNID:"7""#, "disk_locations", None),
    call(
        &["PartitionDisk"],
        &[("diskID", "2"), ("disk_number", "2")],
        "",
        "initialize_gpt",
        Some((NO_DISK, "77|4294967297")),
    ),
    call(&["Rescan"], &[], "", "rescan", None),
    call(
        &["GetDiskNumberByName"],
        &[("disk_name", "naa.5000")],
        r#"disk_number:"1""#,
        "disks",
        Some((&[("disk_name", "nobody")], "could not find disk with Page83 ID nobody")),
    ),
    call(&["ListDiskIDs"], &[], "vol0123456789abcdef0_00000001.", "disks", None),
    call(&["DiskStats", "GetDiskStats"], DISK, ":12884901888", "disk", Some((NO_DISK, "77|4294967297"))),
    call(&["SetAttachState", "SetDiskState"], DISK, "", "set_online", Some((NO_DISK, "77|4294967297"))),
    call(&["GetAttachState", "GetDiskState"], DISK, ":true", "disk", Some((NO_DISK, "77|4294967297"))),
    call(
        &["ListVolumesOnDisk"],
        DISK,
        "11111111-1111-1111-1111-111111111111",
        "partitions",
        Some((NO_DISK, "77|4294967297")),
    ),
    call(
        &["MountVolume"],
        &[VOLUME_ID, ("path", r"C:\var\lib\kubelet\empty"), ("target_path", r"C:\var\lib\kubelet\empty")],
        "",
        "mount",
        Some((&[VOLUME_ID], "MountVolumeRequest.TargetPath is empty")),
    ),
    call(
        &["DismountVolume", "UnmountVolume"],
        &[VOLUME_ID, ("path", r"C:\var\lib\kubelet\mounted"), ("target_path", r"C:\var\lib\kubelet\mounted")],
        "",
        "flush",
        Some((&[("path", r"C:\x"), ("target_path", r"C:\x")], "volume id empty")),
    ),
    call(&["IsVolumeFormatted"], VOLUME, "formatted:true", "volume", Some((NO_VOLUME, "C:"))),
    call(
        &["FormatVolume"],
        &[("volume_id", r"\\?\Volume{33333333-3333-3333-3333-333333333333}\")],
        "",
        "format_ntfs",
        Some((&[], "volume id empty")),
    ),
    call(
        &["ResizeVolume"],
        &[VOLUME_ID, ("size", "0"), ("size_bytes", "0")],
        "",
        "largest_size",
        Some((
            &[VOLUME_ID, ("size", "-5"), ("size_bytes", "-5")],
            "invalid negative size -5 for volume (\\\\?\\Volume{1",
        )),
    ),
    call(&["VolumeStats", "GetVolumeStats"], VOLUME, ":10737418240", "volume", Some((NO_VOLUME, "C:"))),
    call(
        &["GetVolumeDiskNumber", "GetDiskNumberFromVolumeID"],
        VOLUME,
        ":1",
        "partitions_of_volume",
        Some((NO_VOLUME, "C:")),
    ),
    call(
        &["GetVolumeIDFromMount", "GetVolumeIDFromTargetPath"],
        &[("mount", r"C:\var\lib\kubelet\link"), ("target_path", r"C:\var\lib\kubelet\link")],
        "11111111-1111-1111-1111-111111111111",
        "open",
        Some((&[("mount", r"D:\x"), ("target_path", r"D:\x")], OUTSIDE)),
    ),
    call(&["WriteVolumeCache"], VOLUME, "", "flush", Some((&[], "volume id empty"))),
    call(
        &["GetClosestVolumeIDFromTargetPath"],
        &[("target_path", r"C:\var\lib\kubelet\mounted")],
        "11111111-1111-1111-1111-111111111111",
        "open",
        Some((&[], "target path is empty")),
    ),
    call(
        &["PathExists"],
        &[("path", r"C:\var\lib\kubelet\empty"), ("context", "POD")],
        "exists:true",
        "open",
        Some((&[("path", r"\\srv\x")], r"invalid character \ at beginning of path: \\srv\x")),
    ),
    call(
        &["Mkdir"],
        &[("path", r"C:\var\lib\kubelet\a\b"), ("context", "PLUGIN")],
        "",
        "create_directory",
        Some((&[("path", r"C:\var\lib\kubelet\a*b")], "path contains invalid characters")),
    ),
    call(
        &["Rmdir"],
        &[("path", r"C:\var\lib\kubelet\full"), ("force", "true")],
        "",
        "remove",
        Some((&[("path", r"C:\foo\bar")], OUTSIDE)),
    ),
    call(
        &["RmdirContents"],
        &[("path", r"C:\var\lib\kubelet\full")],
        "",
        "children",
        Some((&[("path", "pv1")], "not an absolute Windows path: pv1")),
    ),
    call(
        &["LinkPath", "CreateSymlink"],
        &[("source_path", r"C:\var\lib\kubelet\empty"), ("target_path", r"C:\var\lib\kubelet\new")],
        "",
        "create_link",
        Some((&[("source_path", r"C:\var\lib\kubelet\empty"), ("target_path", r"C:\x")], OUTSIDE)),
    ),
    call(
        &["IsMountPoint", "IsSymlink"],
        &[("path", r"C:\var\lib\kubelet\plain")],
        ":true",
        "leads_somewhere",
        Some((&[("path", r"C:\var\lib\kubelet\NUL")], "NUL")),
    ),
    call(
        &["NewSmbGlobalMapping"],
        &[
            ("remote_path", r"\\host\share\sub"),
            ("local_path", r"C:\var\lib\kubelet\smb"),
            ("username", "domain\\user"),
            ("password", "planted-secret"),
        ],
        "",
        "create_mapping",
        Some((&[("remote_path", "hostname"), ("password", "planted-secret")], "remote path (hostname) is invalid")),
    ),
    call(
        &["RemoveSmbGlobalMapping"],
        &[("remote_path", r"\\host\mapped")],
        "",
        "remove_mapping",
        Some((&[], "remote path is empty")),
    ),
    call(
        &["AddTargetPortal"],
        &[("target_portal", "10.0.0.2")],
        "",
        "add_portal",
        Some((&[], "target_portal is missing")),
    ),
    call(
        &["RemoveTargetPortal"],
        &[("target_portal", "10.0.0.1")],
        "",
        "remove_portal",
        Some((&[], "target_portal is missing")),
    ),
    call(
        &["DiscoverTargetPortal"],
        &[("target_portal", "10.0.0.1")],
        "iqn.2026-11.example:new",
        "targets",
        Some((&[], "target_portal is missing")),
    ),
    call(&["ListTargetPortals"], &[], r#"target_address:"10.0.0.1",target_port:3260"#, "portals", None),
    call(
        &["ConnectTarget"],
        NEW_TARGET,
        "",
        "connect",
        Some((
            &[
                ("target_portal", "10.0.0.1"),
                ("iqn", "iqn.2026-11.example:new"),
                ("auth_type", "9"),
                ("chap_secret", "planted-secret"),
            ],
            "invalid authentication type authType=9",
        )),
    ),
    call(
        &["DisconnectTarget"],
        USED_TARGET,
        "",
        "disconnect",
        Some((&[("iqn", "iqn.2026-11.example:used")], "target_portal is missing")),
    ),
    call(
        &["GetTargetDisks"],
        USED_TARGET,
        r#"diskIDs:["3"]"#,
        "target_disks",
        Some((&[("iqn", "iqn.2026-11.example:used")], "target_portal is missing")),
    ),
    call(
        &["SetMutualChapSecret"],
        &[("MutualChapSecret", "planted-secret")],
        "",
        "set_chap_secret",
        Some((&[("MutualChapSecret", "planted-secret-that-is-too-long")], "bytes")),
    ),
    call(&["GetBIOSSerialNumber"], &[], r#"serial_number:"ec2-firmware""#, "bios_serials", None),
    call(
        &["StartService"],
        &[("name", "idle")],
        "",
        "start_service",
        Some((&[("name", r"a\b")], "invalid service name")),
    ),
    call(
        &["StopService"],
        &[("name", "spooler"), ("force", "true")],
        "",
        "stop_service",
        Some((&[("name", "")], "invalid service name")),
    ),
    call(
        &["GetService"],
        &[("name", "spooler")],
        r#"display_name:"Print Spooler",start_type:AUTOMATIC,status:RUNNING"#,
        "service",
        Some((&[("name", r"a\b")], "invalid service name")),
    ),
];
