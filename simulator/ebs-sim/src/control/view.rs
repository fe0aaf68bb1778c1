//! The state as JSON.

use serde_json::{Value, json};

use crate::api::{SimAttachment, SimInstance, SimSnapshot, SimVolume, StateView};
use crate::wire::xml::timestamp;

pub(super) fn view(state: &StateView) -> Value {
    json!({
        "volumes": state.volumes.iter().map(volume).collect::<Vec<_>>(),
        "snapshots": state.snapshots.iter().map(snapshot).collect::<Vec<_>>(),
        "instances": state.instances.iter().map(instance).collect::<Vec<_>>(),
    })
}

fn volume(v: &SimVolume) -> Value {
    json!({
        "id": v.id, "state": v.state, "size_gib": v.size_gib, "type": v.volume_type, "iops": v.iops,
        "throughput": v.throughput, "zone": v.zone, "snapshot": v.snapshot_id, "source_volume": v.source_volume_id,
        "created": timestamp(v.created), "tags": v.tags,
        "attachments": v.attachments.iter().map(attachment).collect::<Vec<_>>(),
    })
}

fn attachment(a: &SimAttachment) -> Value {
    json!({
        "instance": a.instance_id, "device": a.device, "state": a.state, "loop": a.loop_device,
        "attach_time": timestamp(a.attach_time),
    })
}

fn snapshot(s: &SimSnapshot) -> Value {
    json!({
        "id": s.id, "state": s.state, "volume": s.volume_id, "size_gib": s.size_gib, "progress": s.progress,
        "tags": s.tags,
    })
}

fn instance(i: &SimInstance) -> Value {
    json!({
        "id": i.id, "state": i.state, "type": i.instance_type, "zone": i.zone, "local": i.local,
        "devices": i.devices.iter().map(|d| json!({
            "device": d.device, "volume": d.volume_id, "state": d.state,
        })).collect::<Vec<_>>(),
    })
}
