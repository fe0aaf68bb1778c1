//! Tests with leftovers of a killed simulator, and with resources of other programs.

use super::*;

/// A loop device and a link that do not belong to the simulator. Dropping this value removes them.
struct Foreign {
    device: PathBuf,
    link: PathBuf,
    file: PathBuf,
}

impl Foreign {
    fn new(bench: &Bench) -> Self {
        let file = bench.dir.join("vol-0f0000000000000f1.img");
        File::create(&file).unwrap().set_len(GIB).unwrap();
        let device = Losetup::find().unwrap().connect(&file).unwrap();
        let name = device.file_name().unwrap().to_str().unwrap();
        ById::new(&bench.dir.join("by-id")).point("vol-0f0000000000000f1", name).unwrap();
        Self { link: bench.link("vol-0f0000000000000f1"), device, file }
    }

    fn is_untouched(&self) -> bool {
        let name = self.device.file_name().unwrap().to_str().unwrap();
        sysfs::file_of(name).as_ref() == Some(&self.file) && self.link.symlink_metadata().is_ok()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        Losetup::find().and_then(|l| l.disconnect(&self.device).map_err(|e| e.to_string())).unwrap();
    }
}

#[test]
fn only_leftovers_of_previous_run_are_removed() {
    let bench = Bench::new();
    let foreign = Foreign::new(&bench);
    let (stale, kept, unknown) = ("vol-0c0000000000000c1", "vol-0c0000000000000c2", "vol-0c0000000000000c3");
    for volume in [stale, kept, unknown] {
        bench.create(volume, 1);
        bench.connect(volume);
    }
    let half_made = bench.dir.join("devices/vol-0c0000000000000c4.img.new");
    std::fs::write(&half_made, "x").unwrap();
    let old_snapshot = bench.dir.join("snapshots/snap-0c0000000000000c1.img");
    std::fs::write(&old_snapshot, "x").unwrap();
    let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<BTreeSet<_>>();

    // In the new run, `stale` is detached and `unknown` does not exist.
    bench.plane.sweep(&ids(&[kept]), &ids(&[stale, kept]), &ids(&[]));

    let connected = || -> BTreeSet<PathBuf> {
        sysfs::connected_below(&bench.dir.join("devices")).unwrap().into_iter().map(|c| c.file).collect()
    };
    assert!(soon(|| connected() == [bench.image(kept)].into()), "{:?}", connected());
    assert!(bench.link(kept).symlink_metadata().is_ok());
    assert!(bench.link(stale).symlink_metadata().is_err() && bench.link(unknown).symlink_metadata().is_err());
    assert!(bench.image(stale).exists(), "the data of a volume that exists");
    assert!(!bench.image(unknown).exists() && !half_made.exists() && !old_snapshot.exists());
    assert!(foreign.is_untouched());
}
