//! Tests of copied data: snapshots, restores and clones.

use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

fn read(path: &PathBuf, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    File::open(path).unwrap().read_exact_at(&mut bytes, at).unwrap();
    bytes
}

fn snapshot(volume: &str, snapshot: &str) -> Effect {
    Effect::CopyToSnapshot { volume: volume.to_owned(), snapshot: snapshot.to_owned() }
}

/// A restored volume may be larger than its snapshot.
#[test]
fn snapshot_and_restored_volume_have_the_data_of_the_device() {
    let bench = Bench::new();
    let (volume, restored) = ("vol-0b0000000000000b1", "vol-0b0000000000000b2");
    let snap = "snap-0b0000000000000b1";
    bench.create(volume, 1);
    let device = bench.connect(volume);
    let last = GIB - 4096;
    // The writer has not synced, so the data is only in the device's cache.
    let writer = open(&device);
    writer.write_all_at(&[7; 4096], 0).unwrap();
    writer.write_all_at(&[8; 4096], last).unwrap();
    bench.done(&snapshot(volume, snap));
    writer.write_all_at(&[9; 4096], 0).unwrap();
    drop(writer);
    let source = Source::Snapshot(snap.to_owned());
    bench.done(&Effect::CreateBacking { volume: restored.to_owned(), gib: 2, source });
    let copy = bench.connect(restored);
    assert_eq!(size(&copy), 2 * GIB, "a larger volume");
    assert_eq!(read(&copy, 0), [7; 4096], "not what was written later");
    assert_eq!(read(&copy, last), [8; 4096]);
    assert_eq!(read(&copy, 4096), [0; 4096]);
    assert_eq!(read(&copy, GIB), [0; 4096]);
    assert_eq!(read(&device, 0), [9; 4096]);
}

#[test]
fn copies_of_sparse_images_stay_sparse() {
    let bench = Bench::new();
    let (volume, clone) = ("vol-0b0000000000000b3", "vol-0b0000000000000b4");
    bench.create(volume, 100);
    let file = OpenOptions::new().write(true).open(bench.image(volume)).unwrap();
    for at in [0, 10 * GIB, 100 * GIB - 4096] {
        file.write_all_at(&[1; 4096], at).unwrap();
    }
    bench.done(&Effect::CopyVolume { source: volume.to_owned(), volume: clone.to_owned(), gib: 200 });
    let copy = std::fs::metadata(bench.image(clone)).unwrap();
    assert_eq!(copy.len(), 200 * GIB);
    assert!(copy.blocks() * 512 < 16 << 20, "{} bytes are in use", copy.blocks() * 512);
    assert_eq!(read(&bench.image(clone), 10 * GIB), [1; 4096]);
    assert_eq!(read(&bench.image(clone), 100 * GIB - 4096), [1; 4096]);
}

/// The writer increases a number at the start of the device, then the same number at its end, and syncs each. At any
/// moment the first number is equal to the second or one higher.
#[test]
fn copy_during_writes_is_point_in_time_or_fails() {
    let bench = Bench::new();
    let (volume, snap) = ("vol-0b0000000000000b5", "snap-0b0000000000000b5");
    bench.create(volume, 1);
    // Put data between the two numbers, so that a torn copy is likely.
    let filler = OpenOptions::new().write(true).open(bench.image(volume)).unwrap();
    for mib in 1..33 {
        filler.write_all_at(&vec![5; 1 << 20], mib << 20).unwrap();
    }
    let device = bench.connect(volume);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = open(&device);
        let stop_writing = &stop;
        scope.spawn(move || {
            let mut number = 0_u64;
            while !stop_writing.load(Ordering::Relaxed) {
                number += 1;
                for at in [0, GIB - 4096] {
                    writer.write_all_at(&number.to_le_bytes().repeat(512), at).unwrap();
                    writer.sync_data().unwrap();
                }
            }
        });
        let outcome = bench.plane.carry_out(&snapshot(volume, snap));
        stop.store(true, Ordering::Relaxed);
        match outcome {
            Outcome::Failed(why) => assert!(why.contains("written to during each"), "{why}"),
            Outcome::Done(_) => {
                let file = bench.dir.join("snapshots").join(format!("{snap}.img"));
                let number = |at| u64::from_le_bytes(read(&file, at)[..8].try_into().unwrap());
                let (first, second) = (number(0), number(GIB - 4096));
                assert!(first == second || first == second + 1, "torn: {first} and {second}");
            }
            Outcome::Busy => panic!("a copy is never busy"),
        }
    });
    // A copy always succeeds while nothing writes to the volume.
    bench.done(&snapshot(volume, snap));
}

#[test]
fn copy_of_missing_source_fails_and_leaves_no_file() {
    let bench = Bench::new();
    let missing = snapshot("vol-0b0000000000000bf", "snap-0b0000000000000bf");
    assert!(matches!(bench.plane.carry_out(&missing), Outcome::Failed(_)));
    assert!(!bench.dir.join("snapshots/snap-0b0000000000000bf.img").exists());
}
