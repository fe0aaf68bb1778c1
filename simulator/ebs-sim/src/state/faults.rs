//! EC2's errors. Each error that several actions return has one constructor.

use crate::api::Fault;

pub(super) use crate::api::missing;

/// Returns EC2's error that ends a dry run after all checks, or `Ok` if the call is not a dry run.
pub(super) fn unless_dry_run(dry_run: bool) -> Result<(), Fault> {
    if !dry_run {
        return Ok(());
    }
    Err(Fault::with_status(412, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."))
}

pub(super) fn invalid_value(message: impl Into<String>) -> Fault {
    Fault::new("InvalidParameterValue", message)
}

pub(super) fn invalid_combination(message: impl Into<String>) -> Fault {
    Fault::new("InvalidParameterCombination", message)
}

pub(super) fn token_mismatch() -> Fault {
    Fault::new(
        "IdempotentParameterMismatch",
        "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).",
    )
}

/// Returns the error for a page size that the action does not support.
pub(super) fn bad_page_size(asked: i64, min: i64, max: i64) -> Fault {
    // The text contains "greater than", although EC2 accepts the minimum itself.
    let bound = if asked < min { format!("greater than {min}") } else { format!("less than or equal to {max}") };
    invalid_value(format!("Value ( {asked} ) for parameter maxResults is invalid. Expecting a value {bound}."))
}

pub(super) fn incorrect_state(message: impl Into<String>) -> Fault {
    Fault::new("IncorrectState", message)
}

pub(super) fn no_such_volume(id: &str) -> Fault {
    Fault::new("InvalidVolume.NotFound", format!("The volume '{id}' does not exist."))
}

pub(super) fn no_such_snapshot(id: &str) -> Fault {
    Fault::new("InvalidSnapshot.NotFound", format!("The snapshot '{id}' does not exist."))
}

pub(super) fn no_such_instance(id: &str) -> Fault {
    Fault::new("InvalidInstanceID.NotFound", format!("The instance ID '{id}' does not exist"))
}

/// Returns the error for instance ids, none of which exist.
pub(super) fn no_such_instances(ids: &[&str]) -> Fault {
    match ids {
        [id] => no_such_instance(id),
        many => {
            let message = format!("The instance IDs '{}' do not exist", many.join(", "));
            Fault::new("InvalidInstanceID.NotFound", message)
        }
    }
}

pub(super) fn unsupported(message: impl Into<String>) -> Fault {
    Fault::new("UnsupportedOperation", message)
}

/// Returns the error for a DetachVolume call on a volume that SageMaker has attached.
pub(super) fn managed_volume(volume: &str) -> Fault {
    Fault::new(
        "UnsupportedOperation",
        format!("Unable to detach volume '{volume}': it is attached to a resource that another service manages"),
    )
}
