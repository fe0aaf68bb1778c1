//! Platform differences of the command line, as values, so that both platforms are tested on either one.

use ebs_driver::config::Mode;

use super::Role;

/// A platform that the driver is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Platform {
    Linux,
    Windows,
}

impl Platform {
    /// The platform that this program was built for.
    pub(super) const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Linux };

    /// Returns the reason why the platform does not support the mode, if it does not.
    pub(super) fn refuses(self, role: Role) -> Option<&'static str> {
        match (self, role) {
            (Self::Linux, _) | (Self::Windows, Role::Driver(Mode::Node) | Role::PreStopHook) => None,
            (Self::Windows, Role::Driver(Mode::Controller)) => Some(
                "mode controller does not run on Windows: run the controller on a Linux node, it serves volumes of Windows nodes too",
            ),
            (Self::Windows, Role::Driver(Mode::All)) => Some(
                "mode all, which is the default, has a controller, and that does not run on Windows: start with `node` here, and run \
                 the controller on a Linux node, it serves volumes of Windows nodes too",
            ),
            (Self::Windows, Role::Labeler) => Some(
                "mode metadataLabeler does not run on Windows: run it on a Linux node, it labels Windows nodes too",
            ),
        }
    }
}
