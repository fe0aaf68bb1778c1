//! Actions of an administrator, for which the drivers have no permission: disabling the fast restores that keep EC2
//! from deleting a snapshot.

use std::collections::BTreeSet;
use std::time::Duration;

use ebs_ec2::Ec2;
use ebs_sim::api::{self, Call};

use crate::beliefs::SnapshotBelief;
use crate::truth::named_snapshots;
use crate::world::World;

/// How long EC2 takes to disable fast restores.
const OFF: Duration = Duration::from_secs(60);

impl<E: Ec2> World<E> {
    /// Asks the administrator to disable this snapshot's fast restores, because a driver has reported that they prevent
    /// its deletion.
    pub(crate) fn ask_to_switch_off(&mut self, snapshot: &str) {
        self.to_switch_off.insert(snapshot.to_owned());
    }

    /// Disables the fast restores that the administrator was asked to disable. The next call retries after a throttle.
    pub(crate) async fn switch_off_fast_restores(&mut self) {
        if self.locks_have_ended {
            self.ask_for_places().await;
        }
        for snapshot in std::mem::take(&mut self.to_switch_off) {
            let is_done = self.switched_off(&snapshot).await;
            self.tell(format!("fast restores of {snapshot} are {}disabled", if is_done { "" } else { "not " }));
            if !is_done {
                self.to_switch_off.insert(snapshot);
            }
        }
    }

    async fn switched_off(&self, snapshot: &str) -> bool {
        let engine = self.sim.by_test().engine().clone();
        let zones = engine.config().zones.iter().filter(|z| z.zone_type == "availability-zone");
        let call = api::DisableFastSnapshotRestores {
            source_snapshot_ids: vec![snapshot.to_owned()],
            availability_zones: zones.map(|zone| zone.name.clone()).collect(),
            ..Default::default()
        };
        engine.call(Call::DisableFastSnapshotRestores(call)).await.is_ok()
    }

    /// Asks the administrator to disable the fast restores of incomplete snapshots. Their quota is small: snapshots
    /// that use part of it can neither become ready nor be deleted, and would block each other forever.
    async fn ask_for_places(&mut self) {
        let truth = self.sim.engine().snapshot_of_state().await;
        let is_short = |snap: &&crate::beliefs::SnapClaim| {
            matches!(snap.state, SnapshotBelief::Unknown) && snap.creating == 0 && !snap.order.fast_in.is_empty()
        };
        let short: BTreeSet<String> = self
            .beliefs
            .snaps
            .iter()
            .filter(is_short)
            .flat_map(|snap| named_snapshots(&truth, &snap.name).map(|s| s.id.clone()).collect::<Vec<_>>())
            .collect();
        self.to_switch_off.extend(short);
    }

    /// Disables the fast restores of snapshots that the administrator is about to delete.
    pub(crate) async fn switch_off_for_good(&mut self, snapshots: Vec<String>) {
        self.to_switch_off.extend(snapshots);
        while !self.to_switch_off.is_empty() {
            self.switch_off_fast_restores().await;
            tokio::time::sleep(OFF).await;
        }
    }
}
