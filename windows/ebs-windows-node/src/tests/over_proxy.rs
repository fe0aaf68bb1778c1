//! Tests of a node service that reaches its machine only through csi-proxy. `tests/csi_sanity.rs` also runs csi-sanity
//! with it.

use std::time::Duration;

use tonic::Code;
use winstorage::fake::{Effect, Late};
use winstorage::host::Answer;

use super::*;

mod foreign;
#[path = "../../tests/csi_sanity/proxied.rs"]
mod proxied;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proxy {
    Ours,
    Foreign,
}

fn machine() -> FakeHost {
    World::new().host
}

impl World {
    async fn over(host: FakeHost, whose: Proxy, unproven: Unproven) -> anyhow::Result<Self> {
        let mut proxy = JoinSet::new();
        let storage = match whose {
            Proxy::Ours => proxied::over_proxy(&host, policy(), &mut proxy, unproven).await?,
            Proxy::Foreign => foreign::over_foreign_proxy(&host, policy(), &mut proxy, unproven).await?,
        };
        Ok(Self { node: service_over(Arc::new(storage), "m5.large"), host, _proxy: Arc::new(proxy) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn disk_not_proven_blank_is_not_formatted_without_permission() -> anyhow::Result<()> {
    let world = World::over(machine(), Proxy::Foreign, Unproven::Refuse).await?;
    for _ in 0..2 {
        let refused = world.stage().await.expect_err("nothing proves it blank");
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains("--format-over-csi-proxy"), "{refused}");
        assert!(world.host.volumes_of(1).is_empty(), "it was given a partition");
        assert!(!world.host.is_online(1));
    }
    let formatted = World::over(machine(), Proxy::Foreign, Unproven::Format).await?;
    formatted.stage().await?;
    assert_eq!(formatted.formats(), 1);
    formatted.unstage().await?;
    let careful = World::over(formatted.host.clone(), Proxy::Foreign, Unproven::Refuse).await?;
    careful.stage().await?;
    assert_eq!(careful.formats(), 1, "what was formatted is mounted as it is");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_csi_proxy_formats_only_a_blank_disk() -> anyhow::Result<()> {
    let blank = World::over(machine(), Proxy::Ours, Unproven::Refuse).await?;
    blank.stage().await?;
    assert_eq!(blank.formats(), 1);

    let host = machine();
    host.write_disk(1, 0x438, b"\x53\xef");
    let holds_data = World::over(host, Proxy::Ours, Unproven::Format).await?;
    let refused = holds_data.stage().await.expect_err("it holds an ext4");
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(refused.message().contains("offset 1080"), "{refused}");
    for step in ["initialize_gpt", "create_data_partition", "format_ntfs"] {
        assert_eq!(holds_data.host.calls(step), 0, "{step}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_file_system_over_foreign_proxy_is_not_formatted_again() -> anyhow::Result<()> {
    for unproven in [Unproven::Format, Unproven::Refuse] {
        let host = with_directories(FakeHost::from_json("{}").map_err(anyhow::Error::msg)?);
        host.add_disk(1, SERIAL, 10 * GIB, false);
        let first = World::over(host.clone(), Proxy::Foreign, Unproven::Format).await?;
        first.stage().await?;
        first.unstage().await?;
        host.show_late(1, Late::FileSystems, Duration::from_secs(1));
        let world = World::over(host, Proxy::Foreign, unproven).await?;
        world.stage().await?;
        assert_eq!(world.formats(), 1, "{unproven:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stats_come_from_the_proxy_if_the_path_is_not_visible() -> anyhow::Result<()> {
    let world = World::over(machine(), Proxy::Ours, Unproven::Refuse).await?;
    world.stage().await?;
    world.publish().await?;
    let own = world.stats(TARGET).await?;
    world.host.inject("space", 0, Effect::Fail(Answer::Win32(3)));
    assert_eq!(world.stats(TARGET).await?, own);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retried_stage_over_csi_proxy_completes_a_failed_stage() -> anyhow::Result<()> {
    for step in ["set_online", "initialize_gpt", "create_data_partition", "online_partition", "format_ntfs", "mount"] {
        let world = World::over(machine(), Proxy::Ours, Unproven::Refuse).await?;
        world.host.inject(step, 0, Effect::FailAfter(Answer::Com(0x8004_1001)));
        let refused = world.stage().await.expect_err(step);
        assert!(refused.message().contains("call csi-proxy's"), "{step}: {refused}");
        world.stage().await.unwrap_or_else(|error| panic!("{step}: {error}"));
        assert_eq!(world.formats(), 1, "{step}");
        world.unstage().await?;
        assert!(!world.host.is_online(1), "{step}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonempty_target_is_not_removed_over_csi_proxy() -> anyhow::Result<()> {
    let world = World::over(machine(), Proxy::Ours, Unproven::Refuse).await?;
    world.stage().await?;
    world.host.add_directory(&format!(r"{TARGET}\data"));
    let refused = world.publish().await.expect_err("it is not empty");
    assert!(refused.message().contains("not empty"), "{refused}");
    assert_eq!(world.host.kind_at(&format!(r"{TARGET}\data")), Some(EntryKind::Directory));
    Ok(())
}
