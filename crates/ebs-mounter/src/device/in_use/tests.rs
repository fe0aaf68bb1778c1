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
13 1 259:9 / {csi}/ebs.csi.aws.com.old/a rw - ext4 /dev/nvme9n1 rw
14 1 259:10 / {csi}/ebs.csi.aws.com/with\\040space rw - ext4 /dev/nvme10n1 rw
not a line of a mount table
"
    );
    let at = "/var/lib/kubelet/pods/j/volumes/kubernetes.io~csi/k/mount";
    // `/dev/null` is a device, but sysfs does not list it as a block device.
    assert_eq!(
        found(&table, &places(PREFIX, &[at])),
        ["259:1", "259:2", "259:7", "259:10", "null", "nvme3n1", "nvme4n1"]
    );
    assert_eq!(found(&table, &Places::new(None, [PathBuf::from(at)])), ["259:7"]);
}

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
