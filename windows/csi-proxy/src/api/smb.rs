//! Group smb. The error of old responses stays empty.

use winstorage::service::SmbMapping;
use winstorage::types::Secret;

use super::{Around, Table, rows};
use crate::status::Failure;

macro_rules! mapping {
    ($request:ident) => {
        SmbMapping {
            remote_path: $request.remote_path,
            local_path: $request.local_path,
            username: $request.username,
            password: Secret::new($request.password),
        }
    };
}

pub(super) fn table() -> Table {
    let mut table = Table::new();
    rows!(table, smb: v1alpha1 v1beta1 => {
        NewSmbGlobalMapping writes: NewSmbGlobalMappingRequest, |request| Ok(mapping!(request)), create,
            |()| m::NewSmbGlobalMappingResponse { error: String::new() };
        RemoveSmbGlobalMapping writes: RemoveSmbGlobalMappingRequest, |request| Ok(request.remote_path), remove,
            |()| m::RemoveSmbGlobalMappingResponse { error: String::new() };
    });
    rows!(table, smb: v1beta2 v1 => {
        NewSmbGlobalMapping writes: NewSmbGlobalMappingRequest, |request| Ok(mapping!(request)), create,
            |()| m::NewSmbGlobalMappingResponse {};
        RemoveSmbGlobalMapping writes: RemoveSmbGlobalMappingRequest, |request| Ok(request.remote_path), remove,
            |()| m::RemoveSmbGlobalMappingResponse {};
    });
    table
}

fn create(around: &Around<'_>, wanted: SmbMapping) -> Result<(), Failure> {
    Ok(around.storage.new_smb_global_mapping(&wanted)?)
}

fn remove(around: &Around<'_>, remote_path: String) -> Result<(), Failure> {
    Ok(around.storage.remove_smb_global_mapping(&remote_path)?)
}
