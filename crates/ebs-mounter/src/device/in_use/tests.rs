use proptest::prelude::*;

use super::*;

const PREFIX: &str = "/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/";

fn places(prefix: &str, at: &[&str]) -> Places {
    Places::new(Some(Path::new(prefix)), at.iter().map(PathBuf::from))
}

fn found(table: &str, places: &Places) -> Vec<String> {
    let name = |named| match named {
        Named::Number(number) => number.to_string(),
        Named::Name(name) => name.into_string().unwrap(),
    };
    named(&MountTable::parse(table.as_bytes()), places).into_iter().map(name).collect()
}

/// A mount may have any optional fields. With the directory of a CSI driver, raw block volumes next to it are found
/// too.
#[test]
fn volumes_are_found_below_prefix_and_at_registered_paths() {
    let csi = "/var/lib/kubelet/plugins/kubernetes.io/csi";
    let table = format!(
        "\
1 0 259:0 / / rw - ext4 /dev/nvme0n1p1 rw
2 1 259:1 / {csi}/ebs.csi.aws.com/a/globalmount rw - ext4 /dev/nvme1n1 rw
3 1 259:2 / {csi}/ebs.csi.aws.com/b/globalmount rw shared:1 master:2 - xfs /dev/nvme2n1p1 rw
4 1 0:33 / {csi}/ebs.csi.aws.com/c/globalmount rw shared:3 - btrfs /dev/nvme3n1 rw
5 1 0:5 /nvme4n1 {csi}/volumeDevices/publish/pvc-d/e rw - devtmpfs udev rw
6 1 0:5 /nvme5n1//deleted {csi}/volumeDevices/publish/pvc-f/g rw - devtmpfs udev rw
7 1 0:5 /null {csi}/volumeDevices/publish/pvc-h rw - devtmpfs udev rw
8 1 259:6 / {csi}/other.csi.com/i/globalmount rw - ext4 /dev/nvme6n1 rw
9 1 259:7 / /var/lib/kubelet/pods/j/volumes/kubernetes.io~csi/k/mount rw - ext4 /dev/nvme7n1 rw
10 1 259:8 / /mnt/elsewhere rw - ext4 /dev/nvme8n1 rw
11 1 0:40 / {csi}/ebs.csi.aws.com/nfs/globalmount rw - nfs4 server:/share rw
12 1 259:1 / {csi}/ebs.csi.aws.com/a/again rw - ext4 /dev/nvme1n1 rw
"
    );
    let at = "/var/lib/kubelet/pods/j/volumes/kubernetes.io~csi/k/mount";
    // /null is a device, but sysfs does not list it as a block device.
    assert_eq!(found(&table, &places(PREFIX, &[at])), ["259:1", "259:2", "259:7", "null", "nvme3n1", "nvme4n1"]);
    assert_eq!(found(&table, &Places::new(None, [PathBuf::from(at)])), ["259:7"]);
}

/// A path is cleaned as a text, without `..` and double slashes.
#[test]
fn empty_prefix_selects_nothing_and_root_selects_everything() {
    let table = "\
1 0 259:0 / / rw - ext4 /dev/nvme0n1p1 rw
2 1 259:1 / /a/c/x rw - ext4 /dev/nvme1n1 rw
3 1 259:2 / /a/cx/x rw - ext4 /dev/nvme2n1 rw
4 1 259:3 / /a/c rw - ext4 /dev/nvme3n1 rw
";
    for nothing in ["", "a/c", "."] {
        assert_eq!(found(table, &places(nothing, &[])), Vec::<String>::new(), "{nothing}");
    }
    assert_eq!(found(table, &Places::new(None, [])), Vec::<String>::new());
    for c in ["/a/c", "/a/c/", "/a//b/../c", "/./a/c/."] {
        assert_eq!(found(table, &places(c, &[])), ["259:1"], "{c}: only below the directory");
    }
    for root in ["/", "//", "/a/.."] {
        assert_eq!(found(table, &places(root, &[])), ["259:1", "259:2", "259:3"], "{root}");
    }
}

#[derive(Debug, Clone)]
enum Device {
    Disk(u32),
    Raw(String),
    Sourced(String),
    Network,
}

#[derive(Debug, Clone)]
struct Mount {
    target: String,
    optional: String,
    device: Device,
}

impl Mount {
    fn line(&self, id: usize) -> String {
        let Self { target, optional, device } = self;
        let (number, root, fs) = match device {
            Device::Disk(minor) => (format!("259:{minor}"), "/".to_owned(), format!("ext4 /dev/x{minor}")),
            Device::Raw(name) => ("0:5".to_owned(), format!("/{name}"), "devtmpfs udev".to_owned()),
            Device::Sourced(name) => ("0:61".to_owned(), "/".to_owned(), format!("btrfs /dev/{name}")),
            Device::Network => ("0:62".to_owned(), "/".to_owned(), "nfs4 10.0.0.1:/dev/x".to_owned()),
        };
        format!("{id} 1 {number} {root} {} rw,relatime {optional}- {fs} rw\n", target.replace(' ', "\\040"))
    }

    /// Returns the name that the search must find for this mount.
    fn expected(&self) -> Option<String> {
        let below = |directory: &str| self.target.strip_prefix(directory).is_some_and(|rest| !rest.is_empty());
        let is_ours = below("/k/kubernetes.io/csi/ebs/") || below("/k/kubernetes.io/csi/volumeDevices/");
        match &self.device {
            _ if !is_ours => None,
            Device::Disk(minor) => Some(format!("259:{minor}")),
            Device::Raw(name) | Device::Sourced(name) => Some(name.clone()),
            Device::Network => None,
        }
    }
}

fn mount() -> impl Strategy<Value = Mount> {
    let target = prop_oneof![
        "/k/kubernetes.io/csi/ebs/[a-z ]{1,4}(/globalmount)?",
        "/k/kubernetes.io/csi/volumeDevices/publish/[a-z]{1,4}",
        "/k/kubernetes.io/csi/ebsx/[a-z]{1,4}",
        "/k/pods/[a-z]{1,4}",
    ];
    let optional = prop_oneof![Just(""), Just("shared:7 "), Just("shared:7 master:2 "), Just("unbindable ")];
    let device = prop_oneof![
        (0..64_u32).prop_map(Device::Disk),
        "nvme[0-9]n[1-9]".prop_map(Device::Raw),
        "nvme[0-9]n[1-9]p[1-9]".prop_map(Device::Sourced),
        Just(Device::Network),
    ];
    (target, optional, device).prop_map(|(target, optional, device)| Mount {
        target,
        optional: optional.to_owned(),
        device,
    })
}

proptest! {
    #[test]
    fn exactly_the_mounts_of_the_driver_are_found(
        mounts in proptest::collection::vec(mount(), 0..30),
        noise in "[ -~]{0,40}",
    ) {
        let table: String = mounts.iter().enumerate().map(|(id, mount)| mount.line(id + 2)).collect();
        let expected: BTreeSet<String> = mounts.iter().filter_map(Mount::expected).collect();
        let places = places("/k/kubernetes.io/csi/ebs", &[]);
        // An invalid line at a path outside of the places.
        let table = format!("{table}{}\n", noise.replace('/', "_"));
        let found: BTreeSet<String> = found(&table, &places).into_iter().collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn search_never_panics(
        table in proptest::collection::vec(any::<u8>(), 0..300),
        prefix in "[a-z./ ]{0,20}",
    ) {
        drop(named(&MountTable::parse(&table), &places(&prefix, &["/a"])));
    }
}
