//! Sends the simulator's replies through the SDK, over loopback HTTP.

use super::script::{Said, all_of};
use crate::fixtures::{INSTANCE, Objects, VOLUME, call, instance, vol};
use crate::hyperpod;
use crate::server::{Reply, Wire};

/// Returns the name of the class that the adapter assigns to a reply to the action, or `ok` for success. The driver
/// never calls RunInstances, so replies to RunInstances are sent to a CreateVolume call instead.
pub(super) async fn class_of(action: &str, said: &Said) -> String {
    let reply = Reply::Say(said.status, said.body.clone());
    let replies = if action.ends_with("ClusterNodeVolume") { vec![hyperpod::known(), reply] } else { vec![reply] };
    let wire = Wire::answering(replies).await;
    // The client accepts a successful reply only if it is about the requested objects.
    let ids = |element| all_of(&said.body, element).into_iter().filter(|id| !id.is_empty());
    let volumes = ids("volumeId").chain([VOLUME.to_owned()]).map(|id| vol(&id)).collect();
    let instances = ids("instanceId").chain([INSTANCE.to_owned()]).map(|id| instance(&id)).collect();
    let about = Objects { volumes, instances, ..Objects::of_corpus() };
    let action = if action == "RunInstances" { "CreateVolume" } else { action };
    match call(&wire.ec2, action, &about).await {
        Ok(_) => "ok".to_owned(),
        Err(error) => {
            let class = format!("{:?}", error.class);
            if error.code.as_deref() == Some(said.code.as_str()) { class } else { format!("{class} of {error}") }
        }
    }
}
