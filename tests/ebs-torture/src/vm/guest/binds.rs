//! Tests how a bind mount appears at a target, with mount_setattr(2) (Linux 5.12 and later) and without it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use csi_proto::csi::volume_capability::AccessType;
use ebs_testkit::content;
use ebs_testkit::csi_client::{Access, refused};

use super::node::{Node, kernel};
use crate::vm::line::Said;

const ATTRIBUTES: [&str; 4] = ["ro", "nosuid", "nodev", "noexec"];
/// How many times to publish the volume while a thread watches the target.
const TIMES: usize = 5;

/// Publishes the volume read-only several times while a thread watches the target. The target must never show the
/// volume with fewer attributes than requested, and nothing may be left where the bind was prepared.
pub(super) async fn complete_at_once(node: &Node) -> anyhow::Result<()> {
    let disk = node.volume(&Access::Mount("ext4".to_owned()))?;
    disk.plug()?;
    disk.stage().await?;
    let mut request = disk.volume.publish_request();
    request.readonly = true;
    let mount = request.volume_capability.as_mut().and_then(|capability| capability.access_type.as_mut());
    if let Some(AccessType::Mount(mount)) = mount {
        mount.mount_flags = ATTRIBUTES[1..].iter().map(|&word| word.to_owned()).collect();
    }
    let watch = Watch::start(disk.volume.target.clone());
    for _ in 0..TIMES {
        node.client().node().node_publish_volume(request.clone()).await.map_err(refused).context("publish")?;
        let options = options(&disk.volume.target)?.context("nothing is mounted at the target")?;
        ensure!(lacks(&options).is_empty(), "the target has {options}");
        let written = content::write_file(&disk.volume.target.join("data"), 1, 4096);
        let is_refused = written.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::ReadOnlyFilesystem);
        ensure!(is_refused, "{written:?}");
        disk.volume.unpublish().await.map_err(refused).context("unpublish")?;
    }
    let (looks, seen) = watch.end().await?;
    ensure!(seen.is_empty(), "for a moment the target had [{}]", seen.join("], ["));
    let table = std::fs::read_to_string("/proc/self/mountinfo").context("read the mount table")?;
    ensure!(!table.contains("/csi/binding/"), "a mount is left in the temporary directory:\n{table}");
    content::write_file(&disk.volume.staging.join("data"), 1, 4096)
        .context("the staging path is no longer writable")?;
    let way = if kernel()? >= (5, 12) { "in one step" } else { "in two steps" };
    node.say(&Said::Note { text: format!("binds were made {way}; the target was checked {looks} times") })?;
    disk.volume.unstage().await.map_err(refused).context("unstage")?;
    disk.unplug()
}

fn lacks(options: &str) -> Vec<&'static str> {
    let has: Vec<&str> = options.split(',').collect();
    ATTRIBUTES.into_iter().filter(|word| !has.contains(word)).collect()
}

fn options(at: &Path) -> anyhow::Result<Option<String>> {
    let table = std::fs::read_to_string("/proc/self/mountinfo").context("read the mount table")?;
    let here = |line: &&str| line.split(' ').nth(4) == at.to_str();
    Ok(table.lines().rfind(here).and_then(|line| line.split(' ').nth(5)).map(str::to_owned))
}

/// A thread that checks the mount at a path continuously.
struct Watch {
    stop: Arc<AtomicBool>,
    looking: tokio::task::JoinHandle<anyhow::Result<(usize, Vec<String>)>>,
}

impl Watch {
    fn start(at: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let looking = tokio::task::spawn_blocking(move || {
            let (mut looks, mut seen) = (0, Vec::new());
            while !until.load(Ordering::SeqCst) {
                looks += 1;
                seen.extend(options(&at)?.filter(|options| !lacks(options).is_empty()));
            }
            Ok((looks, seen))
        });
        Self { stop, looking }
    }

    async fn end(mut self) -> anyhow::Result<(usize, Vec<String>)> {
        self.stop.store(true, Ordering::SeqCst);
        (&mut self.looking).await.context("watch the target")?
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
    }
}
