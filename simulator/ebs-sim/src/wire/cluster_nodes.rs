//! SageMaker's AttachClusterNodeVolume and DetachClusterNodeVolume, in JSON.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::api::{Call, ClusterNodeVolume, Fault, Reply};

pub(crate) const TARGET: &str = "x-amz-target";
pub(crate) const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

/// Returns the action in a target such as `SageMaker.AttachClusterNodeVolume`.
pub(crate) fn action(target: &str) -> &str {
    target.strip_prefix("SageMaker.").unwrap_or(target)
}

/// Returns the string members of a request, or an empty map if the request is invalid.
pub(crate) fn texts(body: &[u8]) -> BTreeMap<String, String> {
    let members = serde_json::from_slice::<BTreeMap<String, Value>>(body).unwrap_or_default();
    members.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?.to_owned()))).collect()
}

/// Decodes the call.
///
/// # Errors
/// SageMaker's error codes: `UnknownOperationException` for an invalid action, `SerializationException` for a malformed
/// request, and `ValidationException` for a missing parameter.
pub(crate) fn decode(target: &str, body: &[u8]) -> Result<Call, Fault> {
    let action = action(target);
    let make = match action {
        "AttachClusterNodeVolume" => Call::AttachClusterNodeVolume,
        "DetachClusterNodeVolume" => Call::DetachClusterNodeVolume,
        _ => return Err(Fault::new("UnknownOperationException", format!("Unknown action {action}."))),
    };
    let members: BTreeMap<String, Value> = serde_json::from_slice(body)
        .map_err(|error| Fault::new("SerializationException", format!("The body cannot be read: {error}")))?;
    let text = |name: &str| match members.get(name) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Fault::new("SerializationException", format!("{name} is not a string."))),
        None => Err(Fault::new("ValidationException", format!("{name} must not be null."))),
    };
    Ok(make(ClusterNodeVolume {
        cluster_arn: text("ClusterArn")?,
        node_id: text("NodeId")?,
        volume_id: text("VolumeId")?,
    }))
}

/// Returns the body of the reply. It is empty for replies that SageMaker does not have.
pub(crate) fn encode(reply: &Reply) -> String {
    let (Reply::AttachClusterNodeVolume(a) | Reply::DetachClusterNodeVolume(a)) = reply else { return String::new() };
    // The resource is the ARN of the cluster, a dash, and the instance id, which itself contains a dash.
    let resource = a.associated_resource.as_deref().unwrap_or_default();
    let node = resource.rmatch_indices('-').nth(1).map_or(resource.len(), |(at, _)| at);
    json!({
        "ClusterArn": &resource[..node],
        "NodeId": resource[node..].trim_start_matches('-'),
        "VolumeId": a.volume_id,
        "AttachTime": seconds(a.attach_time),
        "Status": a.state,
        "DeviceName": a.device,
    })
    .to_string()
}

pub(crate) fn refusal(fault: &Fault) -> String {
    json!({"__type": fault.code, "message": fault.message}).to_string()
}

fn seconds(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
