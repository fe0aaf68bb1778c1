use std::sync::Arc;

use super::model::{Chance, Disk, Ground, Model, PLACES, Place, replay};
use super::*;
use crate::Policy;
use crate::fake::{Effect, FakeHost};
use crate::host::{Answer, EntryKind};
use crate::types::WinPath;

fn machine() -> (FakeHost, Storage, Spare) {
    let host = FakeHost::new();
    host.add_disk(1, "spare", 4 << 30, true);
    host.add_directory(r"C:\work");
    let storage = Storage::new(Arc::new(host.clone()), Policy::new(vec![WinPath::normalise("/work").unwrap()]));
    (host, storage, Spare { disk: DiskNumber(1), directory: r"C:\work\selftest".to_owned() })
}

fn failed(storage: &Storage, spare: &Spare) -> Vec<(&'static str, String)> {
    let mut failed = Vec::new();
    let count =
        run(storage, spare, &mut |step| failed.extend(step.failure.clone().map(|failure| (step.what, failure))))
            .unwrap();
    assert_eq!(count, failed.len());
    failed
}

#[test]
fn fake_machine_passes_the_selftest() {
    let (host, storage, spare) = machine();
    assert_eq!(failed(&storage, &spare), []);
    assert_eq!(host.kind_at(&spare.directory), None);
    assert!(!host.is_online(1));
}

#[test]
fn failed_selftest_step_reports_what_it_found() {
    let (host, storage, spare) = machine();
    host.inject("device_number", 1, Effect::Fail(Answer::Win32(1)));
    assert_eq!(
        failed(&storage, &spare),
        [("the disk is listed with its identifiers", "the disk is not in the list".to_owned())]
    );
    let (host, storage, spare) = machine();
    host.inject("flush", 0, Effect::Fail(Answer::Method(4)));
    let steps: Vec<&str> = failed(&storage, &spare).into_iter().map(|(step, _)| step).collect();
    assert_eq!(steps, ["the volume is flushed and unmounted, and the directory remains"]);
}

#[test]
fn selftest_uses_only_a_disk_without_partitions() {
    let (host, storage, mut spare) = machine();
    for disk in [0, 7] {
        spare.disk = DiskNumber(disk);
        assert!(run(&storage, &spare, &mut |_| {}).is_err());
    }
    spare.disk = DiskNumber(1);
    storage.partition_disk(spare.disk).unwrap();
    host.clear_log();
    assert!(matches!(run(&storage, &spare, &mut |_| {}), Err(StorageError::InUse(_))));
    assert_eq!(["create_data_partition", "set_online", "format_ntfs"].map(|step| host.calls(step)), [0, 0, 0]);
}

#[test]
fn random_operations_match_the_model() {
    for run in 0..40 {
        let (host, storage, _) = machine();
        host.add_disk(2, "another", 1 << 30, false);
        let volume_of = |disk: usize| host.volumes_of(u32::try_from(disk + 1).unwrap()).pop();
        let path = |place: usize| format!(r"C:\work\{place}");
        let ground =
            Ground { storage: &storage, disks: &[DiskNumber(1), DiskNumber(2)], volume: &volume_of, path: &path };
        let disks = vec![Disk { is_online: true, ..Disk::default() }, Disk::default()];
        let mut model = Model { disks, places: [Place::Nothing; PLACES] };
        let mut chance = Chance(run);
        for step in 0..200 {
            replay(&ground, &mut model, &mut chance, 1)
                .unwrap_or_else(|text| panic!("step {step} of run {run}: {text}"));
            // Check the machine itself, independently of the reports of the operations.
            for (place, expected) in model.places.iter().enumerate() {
                let is = match host.kind_at(&path(place)) {
                    None => Place::Nothing,
                    Some(EntryKind::MountPoint(volume)) => Place::Mount(usize::from(volume_of(1) == Some(volume))),
                    Some(_) => Place::Directory,
                };
                assert_eq!(is, *expected, "place {place}, step {step} of run {run}");
            }
        }
        let volumes = [host.volumes_of(1), host.volumes_of(2)].concat();
        assert!(volumes.len() <= 2 && volumes.iter().all(|volume| host.formats(volume) <= 1), "run {run}");
        assert!(host.is_online(0) && host.volumes_of(0).len() == 1, "run {run}");
    }
}

#[test]
fn machine_that_deviates_from_the_model_is_detected() {
    let (host, storage, spare) = machine();
    // Let later calls fail, so that the calls of the earlier steps succeed.
    for skip in 1..40 {
        host.inject("unmount", skip, Effect::Fail(Answer::Win32(5)));
    }
    let found = failed(&storage, &spare);
    let by_chance = |(step, _): &&(&str, String)| step.starts_with("random operations");
    let chance = found.iter().find(by_chance).unwrap_or_else(|| panic!("{found:?}"));
    assert!(chance.1.contains("operation ") && chance.1.contains("Unmount("), "{chance:?}");
}
