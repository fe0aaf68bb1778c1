use proptest::prelude::*;

use super::*;

/// A page that is built field by field, as in the table of the EBS user guide.
struct Page([u8; STATISTICS_PAGE_BYTES]);

impl Page {
    fn new(magic: u32) -> Self {
        let mut page = Self([0; STATISTICS_PAGE_BYTES]);
        page.put(0, &magic.to_le_bytes());
        page
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn counted(mut self) -> Self {
        for (field, value) in (8..=88).step_by(8).zip(1_u64..) {
            self.put(field, &value.to_le_bytes());
        }
        self
    }

    fn with_bins(mut self, at: usize, count: u32, bins: &[(u64, u64, u32)]) -> Self {
        self.put(at, &count.to_le_bytes());
        for (start, (lower, upper, operations)) in (at + 8..).step_by(24).zip(bins) {
            self.put(start, &lower.to_le_bytes());
            self.put(start + 8, &upper.to_le_bytes());
            self.put(start + 16, &operations.to_le_bytes());
        }
        self
    }
}

const READS: &[(u64, u64, u32)] = &[(0, 128, 7), (128, 256, 8), (256, u64::MAX, 9)];
const WRITES: &[(u64, u64, u32)] = &[(0, 512, u32::MAX)];

fn ebs() -> Page {
    Page::new(0x3C23_B510).counted().with_bins(512, 3, READS).with_bins(2056, 1, WRITES)
}

fn bin(lower: u64, upper: Option<u64>, operations: u32) -> LatencyBin {
    LatencyBin { lower, upper, operations }
}

#[test]
fn ebs_page_is_decoded_with_counters_and_histograms() {
    let transfers = |operations, bytes, microseconds| Transfers { operations, bytes, microseconds };
    let exceeded = |iops_microseconds, throughput_microseconds| Exceeded { iops_microseconds, throughput_microseconds };
    let expected = NvmeStatistics {
        version: 0,
        reads: transfers(1, 3, 5),
        writes: transfers(2, 4, 6),
        volume_exceeded: exceeded(7, 8),
        instance_exceeded: exceeded(9, 10),
        queue_length: 11,
        read_latency: vec![bin(0, Some(128), 7), bin(128, Some(256), 8), bin(256, None, 9)],
        write_latency: vec![bin(0, Some(512), u32::MAX)],
    };
    assert_eq!(NvmeStatistics::decode(&ebs().0), Ok(expected));
}

#[test]
fn later_version_and_reserved_data_do_not_prevent_decoding() {
    let mut page = ebs();
    page.put(4, &3_u32.to_le_bytes());
    for reserved in [516, 512 + 8 + 20, 2060, 2056 + 8 + 20] {
        page.put(reserved, &[0xff; 4]);
    }
    page.put(96, &[0xff; 416]);
    page.put(3600, &[0xff; 496]);
    let expected = NvmeStatistics { version: 3, ..NvmeStatistics::decode(&ebs().0).unwrap() };
    assert_eq!(NvmeStatistics::decode(&page.0), Ok(expected));
}

#[test]
fn histogram_has_at_most_64_ranges_and_no_empty_range() {
    let full: Vec<(u64, u64, u32)> = (0..64).map(|bin| (bin, bin + 1, 1)).collect();
    for count in [64, 65, u32::MAX] {
        let page = Page::new(0x3C23_B510).with_bins(512, count, &full);
        assert_eq!(NvmeStatistics::decode(&page.0).unwrap().read_latency.len(), 64, "{count}");
    }
    let page = Page::new(0x3C23_B510).with_bins(2056, 3, &[(0, 8, 1), (8, 8, 2), (9, 3, 3)]);
    assert_eq!(NvmeStatistics::decode(&page.0).unwrap().write_latency, [bin(0, Some(8), 1)]);
}

#[test]
fn page_without_ebs_magic_is_rejected() {
    let of = |magic| NvmeStatistics::decode(&Page::new(magic).counted().0).unwrap_err();
    assert_eq!(of(0xEC2C_0D7E), StatisticsPageError::InstanceStore);
    assert_eq!(of(0), StatisticsPageError::Magic { found: 0 });
    assert!(of(0x1234).to_string().contains("0x00001234"));
}

proptest! {
    #[test]
    fn any_statistics_page_is_decoded_or_rejected(
        bytes in proptest::collection::vec(any::<u8>(), STATISTICS_PAGE_BYTES),
        is_ebs in any::<bool>(),
    ) {
        let mut page: [u8; STATISTICS_PAGE_BYTES] = bytes.try_into().expect("as long as a page");
        if is_ebs {
            page[..4].copy_from_slice(&0x3C23_B510_u32.to_le_bytes());
        }
        match NvmeStatistics::decode(&page) {
            Ok(read) => {
                prop_assert!(read.read_latency.len() <= 64 && read.write_latency.len() <= 64);
            }
            Err(_) => prop_assert!(!is_ebs),
        }
    }
}
