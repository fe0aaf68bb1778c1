//! Builds requests from names and values of fields, with the descriptors in the protocol files.

use std::time::Duration;

use csi_proto::csi_proxy::{Group, Version};
use csi_proxy::Bare;
use protox::prost::Message;
use protox::prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor};
use tonic::{Request, Status};

pub(crate) fn methods(group: Group, version: Version) -> Vec<MethodDescriptor> {
    let files = concat!(env!("CARGO_MANIFEST_DIR"), "/../../proto/csi-proxy");
    let compiled = protox::compile([format!("{group}/{version}.proto")], [files]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(compiled).unwrap();
    pool.services().next().unwrap().methods().collect()
}

pub(crate) fn request(of: &MessageDescriptor, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut text = String::new();
    for (name, value) in fields {
        let Some(field) = of.get_field_by_name(name) else { continue };
        let value = match field.kind() {
            Kind::String => format!("{value:?}"),
            Kind::Message(_) => format!("{{ target_address: {value:?} }}"),
            _ => (*value).to_owned(),
        };
        text.push_str(&format!("{name}: {value}\n"));
    }
    DynamicMessage::parse_text_format(of.clone(), &text)
        .unwrap_or_else(|error| panic!("{text}: {error}"))
        .encode_to_vec()
}

pub(crate) fn text(of: MessageDescriptor, bytes: &[u8]) -> String {
    DynamicMessage::decode(of, bytes).unwrap().to_text_format()
}

pub(crate) async fn call(channel: &tonic::transport::Channel, path: &str, message: Vec<u8>) -> Result<Vec<u8>, Status> {
    send(channel, path, Request::new(message)).await
}

pub(crate) async fn call_within(
    channel: &tonic::transport::Channel,
    path: &str,
    message: Vec<u8>,
    deadline: Duration,
) -> Result<Vec<u8>, Status> {
    let mut request = Request::new(message);
    request.set_timeout(deadline);
    send(channel, path, request).await
}

async fn send(channel: &tonic::transport::Channel, path: &str, request: Request<Vec<u8>>) -> Result<Vec<u8>, Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    client.unary(request, path.parse().unwrap(), Bare).await.map(|response| response.into_inner().to_vec())
}
