//! From parameters to a typed call.

#[cfg(test)]
mod tests;

use crate::api::query::Params;
use crate::api::{Call, Fault};

/// The version of the API that is spoken.
const VERSION: &str = "2016-11-15";

/// Parameters that sign a request in its query string; they say nothing about the call.
const SIGNING: [&str; 7] =
    ["AWSAccessKeyId", "Signature", "SignatureVersion", "SignatureMethod", "Timestamp", "Expires", "SecurityToken"];

/// True for what signs a request, and so has no place in a ledger.
pub(crate) fn signs(name: &str) -> bool {
    SIGNING.contains(&name) || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("X-Amz-"))
}

/// Decodes the call.
///
/// # Errors
/// `MissingAction`, `InvalidAction`, `NoSuchVersion`, `MissingParameter`, `UnknownParameter`, `InvalidParameterValue`, and
/// `UnsupportedOperation` for parameters that EC2 has and the simulator has not.
pub(crate) fn decode(mut p: Params) -> Result<Call, Fault> {
    p.drop_where(signs);
    let action = p.text("Action").filter(|name| !name.is_empty());
    let action = action
        .ok_or_else(|| Fault::new("MissingAction", "The request is missing an action or a required parameter"))?;
    // EC2 still answers older versions, each in its own shape; here there is but one.
    if let Some(version) = p.text("Version").filter(|version| version != VERSION) {
        let message = format!("The requested version ({version}) of service AmazonEC2 does not exist");
        return Err(Fault::new("NoSuchVersion", message));
    }
    let call = Call::decode(&action, &mut p)?;
    p.finish()?;
    Ok(call)
}
