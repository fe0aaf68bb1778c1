//! WMI queries and calls for SMB mappings.

use super::vocabulary::{self, Call, Class};
use super::{On, Row, Value, Wmi, WmiHost};
use crate::host::{HostError, Mapping, MappingStatus, NativeHost, NewMapping, SmbHost};

impl<W: Wmi, N: NativeHost> SmbHost for WmiHost<W, N> {
    fn mapping(&self, root: &str) -> Result<Option<Mapping>, HostError> {
        let read = |row: &Row| {
            let status = match row.number32("Status")? {
                0 => MappingStatus::Ok,
                other => MappingStatus::Bad(other),
            };
            Ok(Mapping { object: row.path()?, root: root.to_owned(), status })
        };
        self.first(Class::SmbGlobalMapping, &vocabulary::mapping(root), &root, &read)
    }

    fn create_mapping(&self, mapping: &NewMapping) -> Result<(), HostError> {
        let mut arguments = vec![
            ("RemotePath", Value::Text(mapping.root.clone())),
            ("RequirePrivacy", Value::Bool(mapping.require_privacy)),
        ];
        if let Some(credential) = &mapping.credential {
            arguments.push(("Credential", Value::Secret(credential.clone())));
        }
        self.call(On::Class, Call::CREATE_MAPPING, &arguments, &mapping.root).map(drop)
    }

    fn remove_mapping(&self, mapping: &Mapping) -> Result<(), HostError> {
        let arguments = [("Force", Value::Bool(true))];
        self.call(On::Object(&mapping.object), Call::REMOVE_MAPPING, &arguments, &mapping.root).map(drop)
    }
}
