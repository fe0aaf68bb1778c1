use std::io::Write;
use std::sync::Mutex;

use csi_proto::csi::volume_capability::BlockVolume;

use super::*;

#[tokio::test]
async fn paths_are_normalised_before_any_work() {
    let world = World::new();
    let staging = STAGING.replace('\\', r"\\");
    world.stage_as(csi::NodeStageVolumeRequest { staging_target_path: staging, ..stage_request() }).await.unwrap();
    assert!(world.is_staged());
    let slashes = STAGING.strip_prefix("C:").unwrap().replace('\\', "/");
    let target = format!("{}/", TARGET.strip_prefix("C:").unwrap().replace('\\', "/"));
    let request =
        csi::NodePublishVolumeRequest { staging_target_path: slashes, target_path: target, ..publish_request() };
    world.publish_as(request).await.unwrap();
    assert!(world.is_published());
    assert_eq!(world.host.calls("mount"), 1);
}

#[tokio::test]
async fn paths_outside_of_the_kubelet_directory_are_rejected() {
    let world = World::new();
    for path in [r"C:\Windows\x", r"\\host\share\x", r"C:\var\lib\kubelet\..\x", "relative"] {
        let request = csi::NodeStageVolumeRequest { staging_target_path: path.to_owned(), ..stage_request() };
        let refused = world.stage_as(request).await.unwrap_err();
        assert_eq!(code(&refused), "InvalidArgument", "{path}: {refused}");
    }
    assert!(!world.host.is_online(1) && world.formats() == 0);
}

#[tokio::test]
async fn mkfs_options_are_rejected() {
    let mut request = stage_request();
    request.volume_context.insert("blocksize".to_owned(), "4096".to_owned());
    let refused = World::new().stage_as(request).await.unwrap_err();
    assert_eq!(code(&refused), "InvalidArgument");
    assert!(refused.message().contains("blocksize"), "{refused}");
}

#[tokio::test]
async fn raw_block_volumes_are_rejected() {
    let world = World::new();
    let block = capability("")
        .map(|wire| csi::VolumeCapability { access_type: Some(AccessType::Block(BlockVolume {})), ..wire });
    let stage = csi::NodeStageVolumeRequest { volume_capability: block.clone(), ..stage_request() };
    let publish = csi::NodePublishVolumeRequest { volume_capability: block, ..publish_request() };
    for refused in [world.stage_as(stage).await.unwrap_err(), world.publish_as(publish).await.unwrap_err()] {
        assert_eq!(code(&refused), "InvalidArgument");
        assert!(refused.message().contains("block"), "{refused}");
    }
    assert_eq!(world.host.log(), Vec::<String>::new());
}

#[tokio::test]
async fn ext4_default_becomes_ntfs_and_xfs_is_rejected() {
    for (fs_type, is_taken) in
        [("", true), ("ntfs", true), ("NTFS", true), ("ext4", true), ("xfs", false), ("zfs", false)]
    {
        let world = World::new();
        let request = csi::NodeStageVolumeRequest { volume_capability: capability(fs_type), ..stage_request() };
        let staged = world.stage_as(request).await;
        assert_eq!(staged.is_ok(), is_taken, "{fs_type}");
        if let Err(refused) = staged {
            assert_eq!(code(&refused), "InvalidArgument");
            assert!(refused.message().contains(fs_type), "{refused}");
        }
    }
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Captures what this thread logs while the guard exists. Also installs a global subscriber: without one, a log
/// statement that another thread reaches first would stay disabled.
fn logged() -> (Lines, tracing::subscriber::DefaultGuard) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let nowhere = tracing_subscriber::fmt().with_writer(std::io::sink).finish();
        tracing::subscriber::set_global_default(nowhere).expect("the first one");
    });
    let lines = Lines::default();
    let writer = lines.clone();
    let here = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    (lines, tracing::subscriber::set_default(here))
}

#[tokio::test]
async fn mount_flags_and_readonly_only_cause_a_warning() {
    let world = World::new();
    let (lines, _guard) = logged();
    let said = || {
        let text = String::from_utf8(std::mem::take(&mut *lines.0.lock().unwrap())).unwrap();
        let warnings = text.lines().filter(|line| line.contains("have no effect on Windows"));
        warnings.map(str::to_owned).collect::<Vec<_>>()
    };
    world.stage().await.unwrap();
    world.publish().await.unwrap();
    let plain = world.stats(TARGET).await.unwrap();
    assert_eq!(said(), Vec::<String>::new());
    world.unpublish().await.unwrap();
    world.unstage().await.unwrap();

    let mut flags = capability("ntfs");
    if let Some(AccessType::Mount(mount)) = flags.as_mut().and_then(|wire| wire.access_type.as_mut()) {
        mount.mount_flags = vec!["ro".to_owned(), "noatime".to_owned()];
    }
    let stage = csi::NodeStageVolumeRequest { volume_capability: flags.clone(), ..stage_request() };
    world.stage_as(stage).await.unwrap();
    let of_stage = said();
    assert!(of_stage.len() == 1 && of_stage[0].contains("ro,noatime") && of_stage[0].contains(VOLUME), "{of_stage:?}");
    let publish = csi::NodePublishVolumeRequest { readonly: true, ..publish_request() };
    world.publish_as(publish).await.unwrap();
    let of_publish = said();
    assert!(of_publish.len() == 1 && of_publish[0].contains("read_only=true"), "{of_publish:?}");
    assert!(of_publish[0].contains("WARN") && of_publish[0].contains(VOLUME), "{of_publish:?}");
    assert!(world.is_staged() && world.is_published());
    assert_eq!(world.stats(TARGET).await.unwrap(), plain);
}

#[tokio::test]
async fn node_info_has_windows_topology_and_capabilities() {
    let world = World::new();
    let info = world.node.node_get_info(Request::new(csi::NodeGetInfoRequest {})).await.unwrap().into_inner();
    assert_eq!(info.node_id, "i-0123456789abcdef0");
    let segments = info.accessible_topology.unwrap().segments;
    assert_eq!(segments["kubernetes.io/os"], "windows");
    assert_eq!(segments["topology.kubernetes.io/zone"], "us-west-2a");
    assert!(info.max_volumes_per_node > 20);
    let request = Request::new(csi::NodeGetCapabilitiesRequest {});
    let capabilities = world.node.node_get_capabilities(request).await.unwrap().into_inner().capabilities;
    assert_eq!(capabilities.len(), 3);
}

#[tokio::test]
async fn equal_requests_share_one_operation() {
    let world = World::new();
    let gate = winstorage::fake::Gate::default();
    world.host.inject("format_ntfs", 0, winstorage::fake::Effect::Hold(gate.clone()));
    let (one, two) = (world.clone(), world.clone());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { one.stage().await });
    let reached = gate.clone();
    assert!(tokio::task::spawn_blocking(move || reached.wait_reached()).await.unwrap());
    tasks.spawn(async move { two.stage().await });
    let refused = world.unstage().await.unwrap_err();
    assert_eq!(code(&refused), "Aborted");
    let refused = world.publish().await.unwrap_err();
    assert_eq!(code(&refused), "Aborted");
    gate.open();
    for ended in tasks.join_all().await {
        ended.unwrap();
    }
    assert_eq!(world.formats(), 1);
}
