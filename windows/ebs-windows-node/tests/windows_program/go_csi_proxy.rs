//! Tests of the driver's Windows program with the Kubernetes project's own csi-proxy, which is written in Go and
//! unmodified. Both run under Wine. `make interop` builds csi-proxy. Wine has no disks in MSFT_Disk, so the test covers
//! only pipes, calls, directories, and errors with the texts of that csi-proxy.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use ebs_sim::server::{Server, ServerConfig};
use tonic::{Code, Request};

use crate::forward::Forward;
use crate::program::Driver;
use crate::stage;
use crate::wine::Windows;

const PROXY: &str = "EBS_TEST_GO_CSI_PROXY";
const DRIVER: &str = "aws-ebs-csi-driver.exe";
const VOLUME: &str = "vol-0123456789abcdef0";

/// Formats a path on drive `C:` as the Windows kubelet does.
fn in_kubelets_words(windows: &Windows, path: &Path) -> anyhow::Result<String> {
    Ok(format!(r"C:\{}", path.strip_prefix(windows.drive_c())?.display()).replace('/', r"\"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn driver_works_with_the_go_csi_proxy() -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("ebs-windows-").tempdir()?;
    let windows = Windows::new()?;
    let kubelet = windows.drive_c().join("var/lib/kubelet");
    std::fs::create_dir_all(&kubelet)?;
    let pods = tempfile::Builder::new().prefix("pods-").tempdir_in(&kubelet)?;
    let server = Server::start(ServerConfig::new(dir.path().join("ec2"))).await?;
    let program = std::env::var(PROXY).with_context(|| format!("{PROXY} is not set: scripts/interop does"))?;
    let mut proxy = windows.start(&program, &["-v=5".to_owned()], &BTreeMap::new(), dir.path())?;
    proxy.said("Require privacy").await?;
    // The Go program keeps one instance of each pipe, and clients on Windows cannot open that instance. Wine gives it
    // to the first client, so connect once to use it up.
    drop(Driver::start(&windows, dir.path(), DRIVER, &server.env(), &[]).await?);
    let driver = Driver::start(&windows, dir.path(), DRIVER, &server.env(), &[]).await?;
    let seen = async {
        let node = Forward::to(driver.address()).await?;
        let [missing, empty, full, staging] =
            ["missing", "empty", "full", "staging"].map(|name| pods.path().join(name));
        let unpublish = async |target: &Path| {
            let target_path = in_kubelets_words(&windows, target)?;
            let request = csi::NodeUnpublishVolumeRequest { volume_id: VOLUME.to_owned(), target_path };
            anyhow::Ok(node.node_unpublish_volume(Request::new(request)).await.map(drop))
        };
        unpublish(&missing).await??;
        std::fs::create_dir(&empty)?;
        unpublish(&empty).await??;
        ensure!(!empty.exists(), "nothing was mounted there, and it stays");
        std::fs::create_dir_all(full.join("data"))?;
        let refused = unpublish(&full).await?.err().context("there is something in it")?;
        ensure!(refused.message().contains("call csi-proxy's Rmdir"), "{refused}");
        ensure!(full.join("data").exists(), "what is in it is gone");

        let staged = node.node_stage_volume(stage(VOLUME, &in_kubelets_words(&windows, &staging)?)).await;
        let refused = staged.err().context("there is no such disk")?;
        ensure!(refused.code() == Code::NotFound && refused.message().contains(VOLUME), "{refused}");
        anyhow::Ok(())
    };
    seen.await.with_context(|| format!("{}\n{}", driver.wine.log(), proxy.log()))?;
    ensure!(proxy.output()?.contains("Request: ListDiskIDs"), "{}", proxy.log());
    drop((driver, proxy));
    Ok(server.shutdown().await?)
}
