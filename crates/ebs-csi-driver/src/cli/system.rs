//! What the systems differ in for whoever gives flags, as values: so both are tested on either.

use ebs_driver::config::Mode;

use super::Role;

/// A system that the driver is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Platform {
    Linux,
    Windows,
}

impl Platform {
    /// The one that this program was built for.
    pub(super) const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Linux };

    /// Why a mode does not run here.
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
