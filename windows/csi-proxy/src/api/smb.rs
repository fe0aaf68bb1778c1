//! The calls of the API group `smb`. The error field of old responses stays empty.

use winstorage::service::SmbMapping;
use winstorage::types::Secret;

use super::{Table, rows};

pub(super) fn table() -> Table {
    let mut table = Table::new();
    rows!(table, smb: v1alpha1 v1beta1 v1beta2 v1 => {
        NewSmbGlobalMapping writes: NewSmbGlobalMappingRequest, |request| Ok(SmbMapping {
            remote_path: request.remote_path,
            local_path: request.local_path,
            username: request.username,
            password: Secret::new(request.password),
        }), |around, wanted: SmbMapping| around.storage.new_smb_global_mapping(&wanted) => NewSmbGlobalMappingResponse;
        RemoveSmbGlobalMapping writes: RemoveSmbGlobalMappingRequest, |request| Ok(request.remote_path),
            |around, path: String| around.storage.remove_smb_global_mapping(&path) => RemoveSmbGlobalMappingResponse;
    });
    table
}
