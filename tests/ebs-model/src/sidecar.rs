//! The sidecars that call a driver. Each has its own lease, so with two replicas they can call different drivers.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sidecar {
    Provisioner,
    Attacher,
    Resizer,
    Snapshotter,
}

impl Sidecar {
    pub(crate) const ALL: [Self; 4] = [Self::Provisioner, Self::Attacher, Self::Resizer, Self::Snapshotter];

    pub(crate) fn place(self) -> usize {
        match self {
            Self::Provisioner => 0,
            Self::Attacher => 1,
            Self::Resizer => 2,
            Self::Snapshotter => 3,
        }
    }
}
