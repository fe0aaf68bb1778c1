//! Checks the volumes after all faults: the driver stages each volume again without help, with all its data, or rejects
//! it for a reason from a closed list ([`Exception`]). To prove the reason, the torture test performs the documented
//! manual repair, which must then work.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use ebs_testkit::process::run_tool;
use tokio::time::Instant;

use crate::calls::{Answer, Refusal};
use crate::planted::records;
use crate::shared::{Exception, STAGED, Shared};
use crate::truth::is_free;
use crate::volume::Volume;

/// How long the volume may take to reach its state after the faults.
const SETTLE: Duration = Duration::from_secs(90);
const RETRY: Duration = Duration::from_millis(40);
/// How many times NodeStageVolume may fail before the torture checks whether an interrupted mkfs explains it.
const FAILURES: u32 = 4;
const E2FSCK: &str = "/usr/sbin/e2fsck";

pub(crate) async fn settle(volume: &mut Volume, shared: &Shared) -> anyhow::Result<()> {
    // Unstage the volume, as the kubelet would, if its disk lost power or has leftovers of other programs or unflushed
    // raw writes.
    let must_be_unstaged = shared.places[volume.index].is_dead.get()
        || volume.trouble.must_be_unstaged()
        || !volume.truth.unflushed.is_empty();
    for raw in [true, false] {
        if raw || must_be_unstaged {
            until_done(volume, shared, "unpublish", async |v, s| v.unpublish(s, raw, None).await).await?;
        }
    }
    if must_be_unstaged {
        let_go(volume, shared).await?;
    }
    if shared.is_broken() || !is_quiet(volume, shared).await? {
        return Ok(());
    }
    if let Some(why) = stage_or_refusal(volume, shared).await? {
        let Some(exception) = judge(volume, shared, &why) else { return Ok(()) };
        shared.count(exception.as_str());
        volume.look_at_raw(shared, shared.places[volume.index].cuts.get()).await?;
        if exception == Exception::HoldsData {
            return end(volume, shared).await;
        }
        by_hand(volume, shared, exception)?;
        if let Some(why) = stage_or_refusal(volume, shared).await? {
            volume.broken(
                shared,
                &format!("NodeStageVolume fails after a manual repair ({}): {why}", exception.as_str()),
            );
            return Ok(());
        }
    } else {
        shared.count(STAGED);
    }
    use_it(volume, shared).await?;
    end(volume, shared).await
}

/// Unstages the volume, whatever other programs have left on it. Also checks that a pod does not get a file system that
/// the kernel has made read-only, and that the volume stays while a process in another mount namespace has a file open.
async fn let_go(volume: &mut Volume, shared: &Shared) -> anyhow::Result<()> {
    if volume.trouble.is_read_only && volume.is_staged(shared).await? {
        volume.publish(shared, false, None).await?;
        until_done(volume, shared, "unpublish", async |v, s| v.unpublish(s, false, None).await).await?;
    }
    if volume.trouble.is_in_use() {
        if volume.unstage(shared, None).await? != Answer::Done {
            shared.count("volumes not unstaged while a file was open in another mount namespace");
        }
        if let Some(copy) = &mut volume.trouble.copy {
            copy.close();
            volume.trouble.copy_is_used = false;
        }
    }
    until_done(volume, shared, "unstage", async |v, s| v.unstage(s, None).await).await
}

/// Waits until no orphan uses the disk. Returns false if that takes too long.
async fn is_quiet(volume: &Volume, shared: &Shared) -> anyhow::Result<bool> {
    let node = volume.node(shared);
    if node.is_file_system_at(&node.staging(&volume.id)).await? {
        return Ok(true);
    }
    let deadline = Instant::now() + SETTLE;
    while !is_free(volume.device()?).context("check whether the device is in use")? {
        if Instant::now() > deadline {
            volume.broken(shared, "the disk is still open although nothing is mounted and no fault is active");
            return Ok(false);
        }
        tokio::time::sleep(RETRY).await;
    }
    Ok(true)
}

/// Repeats NodeStageVolume until it succeeds or is rejected. Returns the text of the rejection.
async fn stage_or_refusal(volume: &mut Volume, shared: &Shared) -> anyhow::Result<Option<String>> {
    let deadline = Instant::now() + SETTLE;
    let mut failures = 0;
    loop {
        match volume.stage(shared, false, None).await? {
            Answer::Done => return Ok(None),
            Answer::Refused(Refusal::Rule, why) => return Ok(Some(why)),
            Answer::Refused(Refusal::Failed, why) if failures >= FAILURES && volume.truth.half_by_cut => {
                return Ok(Some(why));
            }
            Answer::Refused(Refusal::Failed, _) => failures += 1,
            _ => {}
        }
        if Instant::now() > deadline {
            return Ok(Some("it fails repeatedly".to_owned()));
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Returns the exception that explains a rejection. A rejection without an exception violates a rule.
fn judge(volume: &Volume, shared: &Shared, why: &str) -> Option<Exception> {
    let truth = &volume.truth;
    let names_what_it_found = why.contains("not blank") || why.contains("holds") || why.contains("blkid finds");
    let exception = if !truth.raw.is_empty() || truth.maybe_raw {
        Exception::HoldsData
    } else if truth.half_grown && why.contains("e2fsck") {
        return Some(Exception::GrowthBrokenOff);
    } else if !truth.has_file_system && truth.half_by_cut {
        if !names_what_it_found {
            shared.count("wiped volumes that failed to mount but were not rejected");
        }
        return Some(Exception::FormatCut);
    } else if !truth.has_file_system && truth.half {
        Exception::FormatForgotten
    } else {
        volume.broken(shared, &format!("a volume that only the driver has written to requires manual repair: {why}"));
        return None;
    };
    if !names_what_it_found {
        volume.broken(shared, &format!("rejected, but the error does not name the data found: {why}"));
        return None;
    }
    Some(exception)
}

fn by_hand(volume: &mut Volume, shared: &Shared, exception: Exception) -> anyhow::Result<()> {
    shared.tell(format!("volume {}: manual repair, {}", volume.index, exception.as_str()));
    match exception {
        Exception::HoldsData => Ok(()),
        Exception::FormatCut | Exception::FormatForgotten => {
            shared.disks.borrow_mut().wipe(&volume.id)?;
            volume.truth.wiped();
            Ok(())
        }
        Exception::GrowthBrokenOff => {
            let device = volume.device()?.to_string_lossy().into_owned();
            // The exit code is a bit mask, so ignore it: only the repaired data counts.
            let _mask = run_tool(E2FSCK, &["-f", "-y", &device], SETTLE);
            Ok(())
        }
    }
}

/// Checks that a pod can read all data and can write.
async fn use_it(volume: &mut Volume, shared: &Shared) -> anyhow::Result<()> {
    until_done(volume, shared, "publish", async |v, s| v.publish(s, false, None).await).await?;
    volume.write_file(shared, true).await?;
    let target = volume.node(shared).target(&volume.id);
    volume.look_at_files(shared, target, shared.places[volume.index].cuts.get()).await;
    Ok(())
}

/// Unpublishes, unstages and detaches the volume, and checks that nothing is left behind.
async fn end(volume: &mut Volume, shared: &Shared) -> anyhow::Result<()> {
    until_done(volume, shared, "unpublish", async |v, s| v.unpublish(s, false, None).await).await?;
    let node = volume.at;
    until_done(volume, shared, "unstage", async |v, s| v.unstage(s, None).await).await?;
    let record = crate::planted::record_of(Path::new(&shared.nodes[node].state()), &volume.id);
    if records(&shared.nodes[node].state()).contains(&record) {
        volume.broken(shared, "a format record was left behind");
    }
    Ok(())
}

/// Repeats the call until it succeeds, like an orchestrator.
pub(crate) async fn until_done(
    volume: &mut Volume,
    shared: &Shared,
    what: &str,
    mut request: impl AsyncFnMut(&mut Volume, &Shared) -> anyhow::Result<Answer>,
) -> anyhow::Result<()> {
    let deadline = Instant::now() + SETTLE;
    loop {
        match request(volume, shared).await? {
            Answer::Done => return Ok(()),
            _ if shared.is_broken() => return Ok(()),
            other if Instant::now() > deadline => {
                volume.broken(shared, &format!("{what} does not finish although the faults have ended: {other:?}"));
                return Ok(());
            }
            _ => tokio::time::sleep(RETRY).await,
        }
    }
}
