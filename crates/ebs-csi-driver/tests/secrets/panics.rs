//! Real panics of the whole program while it handles secrets: the machine refuses to start threads, and tokio panics in
//! the task that needs one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_testkit::collector::Collector;
use ebs_testkit::csi_client::{Access, CsiClient, new_volume};
use ebs_testkit::process::run_tool;
use ebs_testkit::world::{World, with_mounts};

use super::{BOUND, Said, all_rpcs, get, pages, secrets, stage, talkative, with_keys};

/// Compiles the library that refuses threads.
fn no_threads(dir: &Path) -> anyhow::Result<PathBuf> {
    let (source, library) = (dir.join("no_threads.c"), dir.join("no_threads.so"));
    std::fs::write(&source, include_str!("no_threads.c"))?;
    let (from, to) = (source.display().to_string(), library.display().to_string());
    run_tool("/usr/bin/env", &["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", &to, &from], BOUND)?;
    Ok(library)
}

/// Waits until the driver has no idle thread, so that any blocking call needs a new one.
async fn no_thread_idles(pid: u32) -> anyhow::Result<()> {
    let workers = std::thread::available_parallelism()?.get().min(2);
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let wait = async {
        loop {
            tick.tick().await;
            let mut threads = 0;
            for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
                // A thread may end in the meantime.
                let name = std::fs::read_to_string(task?.path().join("comm")).unwrap_or_default();
                threads += usize::from(name.starts_with("tokio-"));
            }
            if threads <= workers {
                return anyhow::Ok(());
            }
        }
    };
    tokio::time::timeout(BOUND, wait).await.context("a thread goes on idling")?
}

/// The panics are in the controller, between a request with secrets and a signed call, and in the node service, with
/// secrets in a request. Each ends only that request, and the driver logs it without any secret. Then the driver works
/// again.
#[test]
fn secrets_are_not_written_when_program_panics() {
    with_mounts(|| async {
        let dir = tempfile::tempdir()?;
        let (library, switch) = (no_threads(dir.path())?, dir.path().join("no-threads"));
        let collector = Collector::start(dir.path(), &[]).await?;
        let mut world = with_keys(talkative("all", &collector))
            .loop_devices()
            // The resolver may block: each new connection needs a thread.
            .by_name()
            .env("LD_PRELOAD", &library.display().to_string())
            .env("NO_THREADS", &switch.display().to_string())
            .start()
            .await?;
        let pid = world.driver()?.pid();
        let (mut said, access) = (Said::default(), Access::Mount("ext4".to_owned()));
        let request = csi::CreateVolumeRequest { secrets: secrets(), ..new_volume("pvc-panics", 1, &access) };

        no_thread_idles(pid).await?;
        std::fs::write(&switch, "")?;
        // The connection of the health check still exists.
        world.control().break_connections().await?;
        // The controller queries EC2 for the volume repeatedly, and panics each time.
        let bounded = CsiClient::within(request.clone(), Duration::from_secs(5));
        let answer = world.client().controller().create_volume(bounded).await;
        ensure!(answer.is_err(), "EC2 cannot be reached: {answer:?}");
        said.answer("CreateVolume", answer);
        world.control().no_faults().await?;
        std::fs::remove_file(&switch)?;

        let volume =
            world.client().controller().create_volume(request).await?.into_inner().volume.context("a volume")?;
        let mut on_node = world.on_node(volume, &access).await?;
        on_node.attach().await?;
        no_thread_idles(pid).await?;
        std::fs::write(&switch, "")?;
        let answer = stage(world.client(), &on_node, "ext4").await;
        let told = answer.as_ref().is_err_and(|status| status.message().contains("its outcome is unknown"));
        ensure!(told, "no panic ended it: {answer:?}");
        said.answer("NodeStageVolume", answer);
        std::fs::remove_file(&switch)?;

        all_rpcs(&world, &mut said).await?;
        stage(world.client(), &on_node, "ext4").await.context("staged after all")?;
        on_node.unstage().await?;
        on_node.detach().await?;
        world.client().delete_volume(on_node.id()).await?;
        told_of_panics(&world).await?;
        said.add_all_of(&world, &collector).await?;
        said.holds_no_secret()?;
        said.log_is_complete(&["panicked: this is a bug", "request to AWS", "NodeStageVolume"])?;
        world.finish().await
    });
}

/// Checks that a panic below a call to EC2 and one in the node service are counted and logged.
async fn told_of_panics(world: &World) -> anyhow::Result<()> {
    let log = std::fs::read_to_string(&world.driver_spec().log)?;
    let metrics = get(&pages(&log).context("pages")?, "/metrics").await?;
    let counted = metrics.lines().find_map(|line| line.strip_prefix("aws_ebs_csi_panics_total ")).context("counted")?;
    ensure!(counted.parse::<f64>()? >= 2.0, "{counted} panics");
    let panics: Vec<&str> =
        log.lines().filter(|line| line.contains("OS can't spawn") && line.contains("panicked")).collect();
    for place in ["action=\"", "rpc=\"NodeStageVolume\""] {
        ensure!(panics.iter().any(|line| line.contains(place)), "none of the panics was in {place}: {panics:#?}");
    }
    Ok(())
}
