//! The suite of a boot: its tests with their order, and the enforced security module.

/// The tests of one boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// All tests under AppArmor.
    Everything,
    /// The kernel-dependent subset, for kernels other than the first.
    Kernel,
    /// Tests that need enforced SELinux.
    Labels,
}

/// In this order: the last but one checks the denials of all previous tests, and the last one never returns.
const EVERYTHING: &[&str] = &[
    "an_ext4_volume_is_found_by_its_serial_number_while_stage_waits_for_it",
    "an_xfs_volume_is_found_by_its_serial_number_while_stage_waits_for_it",
    "a_raw_volume_keeps_its_data",
    "a_disk_that_sysfs_knows_no_serial_number_of_is_asked_itself",
    "a_disk_without_ebs_statistics_is_refused_with_the_controllers_status",
    "a_bind_is_never_seen_without_the_attributes_that_it_is_to_have",
    "a_mounted_ext4_grows_while_it_is_written",
    "a_mounted_xfs_grows_while_it_is_written",
    "a_disk_whose_reads_hang_is_in_no_other_volumes_way",
    "an_ext4_whose_writes_fail_is_degraded_and_keeps_what_was_synced",
    "an_xfs_whose_writes_fail_is_reported_and_keeps_what_was_synced",
    FLAKY,
    "a_disk_that_vanishes_while_mounted_is_let_go_and_its_data_is_there_when_it_comes_back",
    "the_profile_confines_the_node_and_denies_it_nothing",
    AFTER_THE_CUT,
];
const KERNEL: &[&str] = &[
    "an_ext4_volume_is_found_by_its_serial_number_while_stage_waits_for_it",
    "an_xfs_volume_is_found_by_its_serial_number_while_stage_waits_for_it",
    "a_bind_is_never_seen_without_the_attributes_that_it_is_to_have",
    "an_ext4_whose_writes_fail_is_degraded_and_keeps_what_was_synced",
    "the_profile_confines_the_node_and_denies_it_nothing",
];
const LABELS: &[&str] = &[
    "an_ext4_volume_shows_the_label_it_is_mounted_with_and_other_pods_cannot_read_it",
    "an_xfs_volume_shows_the_label_it_is_mounted_with_and_other_pods_cannot_read_it",
];
/// The test that requires a kernel whose NVMe target can present any serial number.
pub const FLAKY: &str = "a_disk_that_errs_below_the_driver_is_not_blank_and_not_well";
/// The test that ends in a power cut, and continues in a separate boot.
pub const AFTER_THE_CUT: &str = "what_was_acknowledged_before_a_power_cut_is_there_after_it";

impl Suite {
    /// Returns its name on the kernel's command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Everything => "everything",
            Self::Kernel => "kernel",
            Self::Labels => "labels",
        }
    }

    /// Returns the suite with that name.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Everything, Self::Kernel, Self::Labels].into_iter().find(|suite| suite.word() == word)
    }

    /// Returns the kernel arguments that enforce its security module.
    pub fn security(self) -> &'static str {
        match self {
            Self::Everything | Self::Kernel => "apparmor=1 security=apparmor",
            Self::Labels => "security=selinux enforcing=1",
        }
    }

    /// Returns the names of its tests that contain one of the comma-separated words.
    pub fn tests(self, only: &str) -> Vec<&'static str> {
        let all = match self {
            Self::Everything => EVERYTHING,
            Self::Kernel => KERNEL,
            Self::Labels => LABELS,
        };
        all.iter().copied().filter(|name| only.split(',').any(|part| name.contains(part))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_selected_by_parts_of_their_names() {
        assert_eq!(Suite::Everything.tests("").len(), EVERYTHING.len());
        assert_eq!(Suite::Everything.tests("raw_volume,power").len(), 2);
        assert_eq!(Suite::Kernel.tests("power"), Vec::<&str>::new());
        assert_eq!(Suite::of_word(Suite::Labels.word()), Some(Suite::Labels));
    }

    #[test]
    fn kernel_suite_is_a_subset_of_everything() {
        assert!(KERNEL.iter().all(|name| EVERYTHING.contains(name)));
    }
}
