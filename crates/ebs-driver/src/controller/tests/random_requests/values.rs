//! Random values of fields.

use std::collections::HashMap;

/// A random generator that repeats its values for a seed (SplitMix64).
pub(super) struct Random(u64);

impl From<u64> for Random {
    fn from(seed: u64) -> Self {
        Self(seed)
    }
}

const TEXTS: [&str; 52] = [
    "",
    " ",
    "\t\r\n",
    "\0",
    "\u{1b}[31mred\u{7}",
    "\u{202e}dlrow",
    "日本語のボリューム",
    "🦀🦀🦀",
    "e\u{301}\u{327}",
    "İıſK",
    "0",
    "-1",
    "+1",
    "1e9",
    "0x10",
    " 7 ",
    "007",
    "2147483647",
    "2147483648",
    "99999999999999999999999999",
    "3.14",
    "NaN",
    "true",
    "TRUE",
    "t",
    "yes",
    "null",
    "gp3",
    "GP3",
    "io2",
    "standard",
    "gp9",
    "ext4",
    "xfs",
    "ntfs",
    "vol-",
    "vol-0123456789abcdef0",
    "VOL-0123456789ABCDEF0",
    "snap-0123456789abcdef0",
    "i-0123456789abcdef0",
    "aws://us-west-2a/vol-0123456789abcdef0",
    "local-ebs://dev/xvdbz",
    "hyperpod-x-i-0123456789abcdef0",
    "arn:aws:kms:us-west-2:123456789012:key/1",
    "us-west-2a",
    "us-west-2z",
    "../../etc/passwd",
    "'; DROP TABLE volumes; --",
    "a=b",
    "a={{.PVCName",
    "a={{ printf \"%s\" .PVName }}",
    "kubernetes.io/x=y",
];

const KEYS: [&str; 34] = [
    "type",
    "TYPE",
    "volumeType",
    "iops",
    "IOPS",
    "iopsPerGB",
    "iopspergb",
    "allowAutoIOPSPerGBIncrease",
    "allowAutoIOPSIncreaseOnModify",
    "throughput",
    "volumeInitializationRate",
    "encrypted",
    "Encrypted",
    "kmsKeyId",
    "csi.storage.k8s.io/pvc/name",
    "csi.storage.k8s.io/fstype",
    "fsType",
    "blockSize",
    "inodeSize",
    "bytesPerInode",
    "numberOfInodes",
    "ext4BigAlloc",
    "ext4ClusterSize",
    "ext4EncryptionSupport",
    "blockAttachUntilInitialized",
    "formatBlankRestore",
    "tagSpecification_1",
    "tagSpecification",
    "tagspecification_2",
    "tagDeletion_1",
    "lockMode",
    "lockDuration",
    "fastSnapshotRestoreAvailabilityZones",
    "outpostArn",
];

impl Random {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, which must be above 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.bits() % u64::try_from(end).expect("small")).expect("below a usize")
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    fn char(&mut self) -> char {
        let range = [0..0x20, 0x20..0x7f, 0x20..0x7f, 0x80..0x250, 0x3000..0x30ff, 0x1_f600..0x1_f64f];
        let range = self.pick(&range);
        let at = range.start + u32::try_from(self.below(range.len())).expect("small");
        char::from_u32(at).unwrap_or('?')
    }

    pub(super) fn text(&mut self) -> String {
        match self.below(8) {
            0 => (0..self.below(40)).map(|_| self.char()).collect(),
            1 if self.one_in(4) => self.pick(&TEXTS).repeat(1 + self.below(20_000)),
            2 => format!("{}{}", self.pick(&TEXTS), self.pick(&TEXTS)),
            3 => format!("{}-{:017x}", self.pick(&["vol", "snap", "i"]), self.bits() >> 1),
            _ => self.pick(&TEXTS).to_owned(),
        }
    }

    pub(super) fn long(&mut self) -> i64 {
        const GIB: i64 = 1 << 30;
        let odd = [0, 1, -1, i64::MIN, i64::MAX, GIB - 1, GIB, GIB + 1, 4 * GIB, -GIB, 64 << 40, (64 << 40) + 1];
        if self.one_in(2) { self.pick(&odd) } else { self.bits().cast_signed() >> self.below(64) }
    }

    pub(super) fn int(&mut self) -> i32 {
        let odd = [0, 1, 4, 5, -1, i32::MIN, i32::MAX, 1_000, 1_001];
        let any = i32::try_from(self.long() >> 32).unwrap_or_default();
        if self.one_in(2) { self.pick(&odd) } else { any }
    }

    /// Returns a map with known and unknown keys, of which some differ only in case.
    pub(super) fn map(&mut self) -> HashMap<String, String> {
        let mut map = HashMap::new();
        for _ in 0..=self.below(3) {
            let key = if self.one_in(4) { self.text() } else { self.pick(&KEYS).to_owned() };
            if self.one_in(6) {
                map.insert(key.to_uppercase(), self.text());
            }
            map.insert(key, self.text());
        }
        map
    }
}
