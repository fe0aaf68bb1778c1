//! Decodes parameters into a typed call.

#[cfg(test)]
mod tests;

use crate::api::query::Params;
use crate::api::{Call, Fault};

const VERSION: &str = "2016-11-15";

/// The parameters that sign a query string. They do not belong to the call.
const SIGNING: [&str; 7] =
    ["AWSAccessKeyId", "Signature", "SignatureVersion", "SignatureMethod", "Timestamp", "Expires", "SecurityToken"];

/// Returns whether a parameter belongs to the signature. The ledger must not contain such a parameter.
pub(crate) fn signs(name: &str) -> bool {
    SIGNING.contains(&name) || name.get(..6).is_some_and(|start| start.eq_ignore_ascii_case("X-Amz-"))
}

/// Decodes the call.
///
/// # Errors
/// `MissingAction`, `InvalidAction`, `NoSuchVersion`, `MissingParameter`, `UnknownParameter`, `InvalidParameterValue`,
/// and `UnsupportedOperation` for parameters that EC2 supports and the simulator does not.
pub(crate) fn decode(mut p: Params) -> Result<Call, Fault> {
    p.drop_where(signs);
    let action = p.text("Action").filter(|name| !name.is_empty());
    let action = action
        .ok_or_else(|| Fault::new("MissingAction", "The request is missing an action or a required parameter"))?;
    // EC2 still supports older versions, each with its own format. The simulator supports only this one.
    if let Some(version) = p.text("Version").filter(|version| version != VERSION) {
        let message = format!("The requested version ({version}) of service AmazonEC2 does not exist");
        return Err(Fault::new("NoSuchVersion", message));
    }
    let call = Call::decode(&action, &mut p)?;
    p.finish()?;
    Ok(call)
}
