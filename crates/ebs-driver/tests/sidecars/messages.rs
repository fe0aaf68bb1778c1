//! Converts the JSON of a recording into requests, and responses into JSON. The JSON follows the JSON mapping of
//! Protocol Buffers, with the protocol's field names. An unknown field fails the test.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, SerializeOptions};
use serde_json::Value;

static PROTOCOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto");
    let files = protox::compile(["csi.proto"], [directory]).expect("the protocol compiles");
    DescriptorPool::from_file_descriptor_set(files).expect("the protocol is complete")
});

fn descriptor(message: &str) -> MessageDescriptor {
    PROTOCOL.get_message_by_name(&format!("csi.v1.{message}")).expect("a message of CSI")
}

pub(crate) fn request<R: Message + Default>(rpc: &str, json: Value) -> R {
    let message = DynamicMessage::deserialize(descriptor(&format!("{rpc}Request")), json);
    let message = message.unwrap_or_else(|error| panic!("{rpc}: {error}"));
    message.transcode_to().expect("the same message")
}

/// Converts the response of an RPC.
pub(crate) fn reply(rpc: &str, reply: &impl Message) -> Value {
    let mut message = DynamicMessage::new(descriptor(&format!("{rpc}Response")));
    message.transcode_from(reply).expect("the same message");
    let options = SerializeOptions::new().use_proto_field_name(true);
    message.serialize_with_options(serde_json::value::Serializer, &options).expect("a response is JSON")
}
