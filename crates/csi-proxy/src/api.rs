//! All calls of all versions: one table of conversions, a file for each group.
//!
//! A row is a method of some versions: how its request becomes arguments of one operation, and how what that answers becomes its
//! response. What versions have in common is a row once; what the operation does is `winstorage`'s.

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
use csi_proxy_proto::{Group, Version};
use serde::Serialize;
use serde_json::Value;
use winstorage::Storage;

use crate::status::Failure;

/// What an operation is given besides its arguments.
pub(crate) struct Around<'a> {
    pub(crate) storage: &'a Storage,
    /// That of the caller.
    pub(crate) version: Version,
    /// How long an operation that can try again may do so.
    pub(crate) patience: Duration,
}

/// An operation with its arguments, ready to run on a thread that may block, and to run again where it was refused because its disk was busy. It
/// answers with the encoded response.
pub(crate) type Work = Arc<dyn Fn(&Around<'_>) -> Result<Vec<u8>, Failure> + Send + Sync>;

/// A request that could be read.
pub(crate) struct Understood {
    /// Its fields, for records; secrets are hidden.
    pub(crate) fields: Value,
    /// What to do, or why its arguments say nothing that can be done.
    pub(crate) work: Result<Work, Failure>,
}

/// A method of one version of a group.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    /// The service that it belongs to, where it is not the group's.
    pub(crate) service: Option<&'static str>,
    /// It changes something on the machine.
    pub(crate) writes: bool,
    pub(crate) read: fn(Bytes) -> Result<Understood, prost::DecodeError>,
}

/// The methods of one version of a group.
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

/// What a method does, in three steps: the request's arguments, the operation, the response.
struct Steps<Q, I, A, R> {
    take: fn(Q) -> Result<I, Failure>,
    run: fn(&Around<'_>, I) -> Result<A, Failure>,
    give: fn(A) -> R,
}

fn understand<Q, I, A, R>(body: Bytes, steps: Steps<Q, I, A, R>) -> Result<Understood, prost::DecodeError>
where
    Q: prost::Message + Default + Serialize,
    I: Clone + Send + Sync + 'static,
    A: 'static,
    R: prost::Message + 'static,
{
    let request = Q::decode(body)?;
    let fields = serde_json::to_value(&request).unwrap_or(Value::Null);
    let Steps { take, run, give } = steps;
    let work = take(request)
        .map(|arguments| -> Work { Arc::new(move |around| Ok(give(run(around, arguments.clone())?).encode_to_vec())) });
    Ok(Understood { fields, work })
}

/// Rows of a group for some of its versions. `m` is the module of the version's messages.
macro_rules! rows {
    (@version $table:ident, $group:ident, $version:ident, { $(
        $name:ident $kind:ident: $request:ident, $take:expr, $run:expr, $give:expr;
    )+ }) => { $(
        $table.push((stringify!($version), $crate::api::Method {
            name: stringify!($name),
            service: None,
            writes: rows!(@writes $kind),
            read: |body| {
                use csi_proxy_proto::$group::$version as m;
                let take: fn(m::$request) -> Result<_, $crate::status::Failure> = $take;
                $crate::api::understand(body, $crate::api::Steps { take, run: $run, give: $give })
            },
        }));
    )+ };
    (@writes writes) => { true };
    (@writes reads) => { false };
    ($table:ident, $group:ident: $($version:ident)+ => $rows:tt) => { $(
        rows!(@version $table, $group, $version, $rows);
    )+ };
}
use rows;

/// The rows of a group, each with its version.
type Table = Vec<(&'static str, Method)>;

/// Refuses a call of a version that does not have it. Its pipe does not know the method either: this is the second lock.
fn at_least(around: &Around<'_>, minimum: &'static str, name: &'static str) -> Result<(), Failure> {
    let minimum: Version = minimum.parse().expect("it is written in this program");
    if around.version < minimum {
        return Err(Failure::Refused(format!("{name} requires CSI-Proxy API version {minimum} or greater")));
    }
    Ok(())
}
