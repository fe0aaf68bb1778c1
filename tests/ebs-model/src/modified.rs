//! Processes the responses to changes of volumes: classes and expansions.

use ebs_ec2::Ec2;
use ebs_sim::api::{SimVolume, StateView};
use tonic::Code;

use crate::answers::unexpected;
use crate::beliefs::VolumeBelief;
use crate::classes::{Class, within_limits};
use crate::content;
use crate::rpc::{RpcError, RpcReply, RpcResult};
use crate::target::Call;
use crate::world::{Checked, World, broken};

impl<E: Ec2> World<E> {
    pub(crate) fn expanded(
        &mut self,
        call: &Call,
        id: &str,
        gib: i64,
        (answer, truth): (RpcResult, &StateView),
    ) -> Checked {
        // A volume that is being deleted may be gone by now, although it had this size at the last EC2 call.
        let is_deleting = self.is_deleting(id);
        if let Some(disk) = self.beliefs.disk(id) {
            disk.growing = disk.growing.saturating_sub(1);
            disk.growth_refusals += u32::from(matches!(&answer, Err(e) if e.code == Code::FailedPrecondition));
        }
        match answer {
            Ok(RpcReply::Expanded(bytes)) => {
                let answered = content::gib(bytes);
                let real = truth.volumes.iter().find(|v| v.id == id);
                if answered < gib {
                    return broken(format!("{id} is reported with {answered} GiB instead of {gib}"));
                }
                if let Some(disk) = self.beliefs.disk(id) {
                    disk.gib = disk.gib.max(answered);
                    let size = real.map(|v| i64::from(v.size_gib));
                    if size.map_or(!is_deleting, |size| size < answered) {
                        return broken(format!("{id} is reported with {answered} GiB but has {size:?}"));
                    }
                }
                self.check_ratio(call, id, answered, real)
            }
            Ok(_) => broken("Expand returned an unexpected reply"),
            Err(refused) if self.is_expected_of_a_change(call, id, &refused) => Ok(()),
            Err(refused) => unexpected("ControllerExpandVolume", id, &refused),
        }
    }

    /// Checks that an expansion raises the IOPS by the ratio of a class, if the class requires it.
    fn check_ratio(&mut self, call: &Call, id: &str, gib: i64, real: Option<&SimVolume>) -> Checked {
        let (Some(ratio), Some(disk), Some(real)) = (call.ratio, self.beliefs.disk(id), real) else { return Ok(()) };
        if disk.changes.calls != call.others_before {
            return Ok(());
        }
        let least = within_limits(ratio * u64::try_from(gib).unwrap_or(0), &real.volume_type, gib);
        match real.iops {
            Some(iops) if u64::from(iops) < least => {
                broken(format!("{id} of {gib} GiB has {iops} IOPS, but its tags require at least {least}"))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn modified(
        &mut self,
        call: &Call,
        id: &str,
        class: &Class,
        (answer, truth): (RpcResult, &StateView),
    ) -> Checked {
        let is_deleting = self.is_deleting(id);
        if let Some(disk) = self.beliefs.disk(id) {
            let codes = [Code::InvalidArgument, Code::FailedPrecondition];
            disk.changes.hear(answer.as_ref().map_or_else(|refused| codes.contains(&refused.code), |_| true));
        }
        let real = truth.volumes.iter().find(|v| v.id == id);
        match answer {
            Ok(RpcReply::Done) => match (self.beliefs.disk(id), real) {
                (Some(disk), Some(real)) => {
                    if let Some(what) = class.missing_in(real, call.gib) {
                        return broken(format!("{id} was modified, but its {what} differs from {class:?}: {real:?}"));
                    }
                    let may_be_raised = disk.growing > 0 || disk.changes.auto || class.auto == Some(true);
                    if !may_be_raised && class.has_other_iops(real, call.gib) {
                        return broken(format!("{id} was modified, but the IOPS differ from {class:?}: {real:?}"));
                    }
                    disk.changes.apply(class, call.gib);
                    Ok(())
                }
                (Some(_), None) if !is_deleting => broken(format!("{id} was modified, but EC2 does not have it")),
                _ => Ok(()),
            },
            Ok(_) => broken("Modify returned an unexpected reply"),
            Err(refused) => self.modification_refused(call, id, class, (&refused, real)),
        }
    }

    fn modification_refused(
        &mut self,
        call: &Call,
        id: &str,
        class: &Class,
        (refused, real): (&RpcError, Option<&SimVolume>),
    ) -> Checked {
        if self.is_expected_of_a_change(call, id, refused) {
            if let (Code::FailedPrecondition, Some(disk)) = (refused.code, self.beliefs.disk(id)) {
                disk.changes.refusals += 1;
            }
            return Ok(());
        }
        let Some(disk) = self.beliefs.disk(id) else { return Ok(()) };
        // EC2 may have applied an earlier class although every response to it was a temporary error.
        let kinds = [Some(disk.changes.kind), real.map(|real| real.volume_type.as_str())];
        let is_infeasible = refused.code == Code::InvalidArgument
            && kinds.into_iter().flatten().any(|kind| class.may_be_refused(kind, call.gib));
        if !is_infeasible {
            return unexpected("ControllerModifyVolume", id, refused);
        }
        if real.is_some_and(|real| class.has_left_its_mark(real)) {
            return broken(format!(
                "{class:?} was rejected as infeasible for {id}, but the volume has the tag of the class: {refused:?}"
            ));
        }
        (disk.changes.pending, disk.changes.refusals) = (None, 0);
        Ok(())
    }

    /// Returns true if this error is expected for a class change as well as for an expansion.
    fn is_expected_of_a_change(&self, call: &Call, id: &str, refused: &RpcError) -> bool {
        match refused.code {
            // Too many modifications in a day, or the last one is too recent.
            Code::FailedPrecondition => true,
            Code::NotFound => {
                !call.was_sure || !self.beliefs.is_sure_of(id) || self.network.facts().unknown.contains(id)
            }
            _ => self.is_denial(refused) || !refused.is_final(false),
        }
    }

    fn is_deleting(&mut self, id: &str) -> bool {
        self.beliefs.owner(id).is_some_and(|claim| matches!(claim.state, VolumeBelief::Deleting(_)))
    }
}
