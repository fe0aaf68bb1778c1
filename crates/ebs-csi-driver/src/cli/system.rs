//! Represents platform differences of the command line as values, so that tests on either platform cover both.

use ebs_driver::config::Mode;

use super::Role;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Platform {
    Linux,
    Windows,
}

impl Platform {
    pub(super) const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Linux };

    pub(super) fn refuses(self, role: Role) -> Option<&'static str> {
        match (self, role) {
            (Self::Linux, _) | (Self::Windows, Role::Driver(Mode::Node) | Role::PreStopHook) => None,
            (Self::Windows, Role::Driver(Mode::Controller)) => Some(
                "mode controller is unsupported on Windows; run it on a Linux node, where it also serves Windows nodes",
            ),
            (Self::Windows, Role::Driver(Mode::All)) => Some(
                "mode all, the default, is unsupported on Windows because it includes the controller; use mode node here, and run \
                 the controller on a Linux node",
            ),
            (Self::Windows, Role::Labeler) => Some(
                "mode metadataLabeler is unsupported on Windows; run it on a Linux node, where it also labels Windows nodes",
            ),
        }
    }
}
