//! All calls of all versions: a table of conversions, with one file for each group.
//!
//! A row is a method of one or more versions. It converts the request to the arguments of an operation, and the result
//! to the response. Versions that have the same method share a row. The operations are in `winstorage`.

mod contents;
mod disk;
mod filesystem;
mod iscsi;
mod number;
mod smb;
mod system;
#[cfg(test)]
mod tests;
mod volume;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use csi_proto::csi_proxy::{Group, Version};
use serde::Serialize;
use serde_json::Value;
use winstorage::Storage;

use crate::status::Failure;

pub(crate) struct Around<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) patience: Duration,
}

/// An operation with its arguments. It runs on a thread that may block, and may run again if its disk was busy. It
/// returns the encoded response.
pub(crate) type Work = Arc<dyn Fn(&Around<'_>) -> Result<Vec<u8>, Failure> + Send + Sync>;

pub(crate) struct Understood {
    /// The request's fields for audit records. Secrets are hidden.
    pub(crate) fields: Value,
    pub(crate) work: Result<Work, Failure>,
}

/// A method of one version of a group.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// The service of the method, if it differs from the service of the group.
    pub(crate) service: Option<&'static str>,
    /// Whether the method changes the machine.
    pub(crate) writes: bool,
    pub(crate) read: fn(Bytes) -> Result<Understood, prost::DecodeError>,
}

pub(crate) fn methods(group: Group, version: Version) -> Vec<Method> {
    let table = match group {
        Group::Disk => disk::table(),
        Group::Volume => volume::table(),
        Group::Filesystem => filesystem::table(),
        Group::Smb => smb::table(),
        Group::Iscsi => iscsi::table(),
        Group::System => system::table(),
    };
    let name = version.to_string();
    let mut methods: Vec<Method> = table.into_iter().filter(|(of, _)| *of == name).map(|(_, method)| method).collect();
    if (group, name.as_str()) == (Group::Disk, "v1") {
        methods.extend(contents::methods());
    }
    methods
}

/// The three steps of a method: get the arguments from the request, run the operation, create the response.
struct Steps<Q, I, A, E, R> {
    take: fn(Q) -> Result<I, Failure>,
    run: fn(&Around<'_>, I) -> Result<A, E>,
    give: fn(A) -> R,
}

fn understand<Q, I, A, E, R>(body: Bytes, steps: Steps<Q, I, A, E, R>) -> Result<Understood, prost::DecodeError>
where
    Q: prost::Message + Default + Serialize,
    I: Clone + Send + Sync + 'static,
    A: 'static,
    E: 'static,
    Failure: From<E>,
    R: prost::Message + 'static,
{
    let request = Q::decode(body)?;
    let fields = serde_json::to_value(&request).unwrap_or(Value::Null);
    let Steps { take, run, give } = steps;
    let work = take(request)
        .map(|arguments| -> Work { Arc::new(move |around| Ok(give(run(around, arguments.clone())?).encode_to_vec())) });
    Ok(Understood { fields, work })
}

/// Rows of a group for some of its versions: `Method reads|writes: Request, arguments, operation, response`. A response
/// without fields is `=> Response`. `m` is the module with the messages of the version.
macro_rules! rows {
    (@version $table:ident, $group:ident, $version:ident, { $(
        $name:ident $kind:ident: $request:ident, $take:expr, $run:expr $(, $give:expr)? $(=> $response:ident)?;
    )+ }) => { $(
        $table.push((stringify!($version), $crate::api::Method {
            name: stringify!($name),
            service: None,
            writes: rows!(@writes $kind),
            read: |body| {
                use csi_proto::csi_proxy::$group::$version as m;
                let take: fn(m::$request) -> Result<_, $crate::status::Failure> = $take;
                $crate::api::understand(
                    body,
                    $crate::api::Steps { take, run: $run, give: rows!(@give $($give)? $(=> m::$response)?) },
                )
            },
        }));
    )+ };
    (@give => $response:path) => { |()| <$response>::default() };
    (@give $give:expr) => { $give };
    (@writes writes) => { true };
    (@writes reads) => { false };
    ($table:ident, $group:ident: $($version:ident)+ => $rows:tt) => { $(
        rows!(@version $table, $group, $version, $rows);
    )+ };
}
use rows;

type Table = Vec<(&'static str, Method)>;
