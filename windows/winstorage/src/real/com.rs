//! WMI over COM. All `unsafe` code for it is in the `wmi` crate.

use std::cell::RefCell;
use std::collections::BTreeMap;

use wmi::{AuthLevel, IWbemClassWrapper, Variant, WMIConnection, WMIError};

use crate::wmi::{Call, Namespace, On, Row, Value, Wmi, WmiError};

/// The COM error for a connection whose service has been restarted.
const DISCONNECTED: u32 = 0x8001_0108;
const SERVER_UNAVAILABLE: u32 = 0x8007_06BA;

thread_local! {
    /// Each thread has a connection for each namespace that it has used, because COM objects belong to their thread.
    static CONNECTIONS: RefCell<BTreeMap<Namespace, WMIConnection>> = const { RefCell::new(BTreeMap::new()) };
}

/// Uses the WMI connections of the thread that calls it.
#[derive(Debug, Clone, Copy)]
pub struct ComWmi {
    encrypt: bool,
}

impl ComWmi {
    pub fn new(encrypt: bool) -> Self {
        Self { encrypt }
    }

    fn connection(self, namespace: Namespace) -> Result<WMIConnection, WmiError> {
        let known = CONNECTIONS.with_borrow(|all| all.get(&namespace).cloned());
        if let Some(connection) = known {
            return Ok(connection);
        }
        let connection = WMIConnection::with_namespace_path(namespace.path()).map_err(refused)?;
        if self.encrypt {
            connection.set_proxy_blanket(AuthLevel::PktPrivacy).map_err(refused)?;
        }
        CONNECTIONS.with_borrow_mut(|all| all.insert(namespace, connection.clone()));
        Ok(connection)
    }

    /// Runs an idempotent step. If the connection is dead, repeats the step over a new one.
    fn twice<T>(
        self,
        namespace: Namespace,
        ask: impl Fn(&WMIConnection) -> Result<T, WmiError>,
    ) -> Result<T, WmiError> {
        match ask(&self.connection(namespace)?) {
            Err(error) if is_dead(&error) => {
                forget(namespace);
                ask(&self.connection(namespace)?)
            }
            answer => answer,
        }
    }
}

impl Wmi for ComWmi {
    fn query(&self, namespace: Namespace, wql: &str) -> Result<Vec<Row>, WmiError> {
        self.twice(namespace, |connection| {
            let found = connection.exec_query(wql).map_err(refused)?;
            found.map(|object| row(&object.map_err(refused)?)).collect()
        })
    }

    fn exec(&self, on: On<'_>, call: Call, arguments: &[(&'static str, Value)]) -> Result<Row, WmiError> {
        let (class, namespace) = (call.class().name(), call.class().namespace());
        // Repeat only the query for the signature. The call itself is sent once.
        let input = self.twice(namespace, |connection| {
            let signature =
                connection.get_object(class).map_err(refused)?.get_method(call.method()).map_err(refused)?;
            let Some(signature) = signature else { return Ok(None) };
            let input = signature.spawn_instance().map_err(refused)?;
            for (name, value) in arguments {
                input.put_property(name, variant(value)).map_err(refused)?;
            }
            Ok(Some(input))
        })?;
        let path = match on {
            On::Class => class,
            On::Object(path) => path.0.as_str(),
        };
        let out = self.connection(namespace)?.exec_method(path, call.method(), input.as_ref()).map_err(refused);
        if out.as_ref().is_err_and(is_dead) {
            forget(namespace);
        }
        out?.as_ref().map_or_else(|| Ok(Row::default()), row)
    }
}

/// Closes the connections of the calling thread. A thread must call this before it ends: Windows drops thread-local
/// values under the loader lock, where COM may deadlock.
pub fn disconnect() {
    let connections = CONNECTIONS.with_borrow_mut(std::mem::take);
    drop(connections);
}

fn forget(namespace: Namespace) {
    CONNECTIONS.with_borrow_mut(|all| all.remove(&namespace));
}

fn is_dead(error: &WmiError) -> bool {
    matches!(error, WmiError::Com(DISCONNECTED | SERVER_UNAVAILABLE))
}

fn refused(error: WMIError) -> WmiError {
    match error {
        WMIError::HResultError { hres } => WmiError::Com(hres.cast_unsigned()),
        other => WmiError::Malformed(other.to_string()),
    }
}

fn row(object: &IWbemClassWrapper) -> Result<Row, WmiError> {
    // The output of a method has no object path.
    let mut row = Row::new(object.path().ok());
    for name in object.list_properties().map_err(refused)? {
        // Skip a property whose type no caller reads.
        if let Some(value) = object.get_property(&name).ok().and_then(value) {
            row.set(&name, value);
        }
    }
    Ok(row)
}

fn value(variant: Variant) -> Option<Value> {
    Some(match variant {
        Variant::Empty | Variant::Null => Value::Null,
        Variant::String(text) => Value::Text(text),
        Variant::Bool(flag) => Value::Bool(flag),
        Variant::UI1(number) => Value::U16(number.into()),
        Variant::UI2(number) => Value::U16(number),
        Variant::UI4(number) => Value::U32(number),
        Variant::UI8(number) => Value::U64(number),
        Variant::I1(number) => Value::U64(u64::try_from(number).ok()?),
        Variant::I2(number) => Value::U64(u64::try_from(number).ok()?),
        Variant::I4(number) => Value::U64(u64::try_from(number).ok()?),
        Variant::I8(number) => Value::U64(u64::try_from(number).ok()?),
        _ => return None,
    })
}

fn variant(value: &Value) -> Variant {
    match value {
        Value::Null => Variant::Null,
        Value::Bool(flag) => Variant::Bool(*flag),
        Value::U16(number) => Variant::UI2(*number),
        Value::U32(number) => Variant::UI4(*number),
        Value::U64(number) => Variant::UI8(*number),
        Value::Text(text) => Variant::String(text.clone()),
        Value::Secret(secret) => Variant::String(secret.expose().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_reuses_its_connection_to_a_wmi_namespace() {
        let wmi = ComWmi::new(true);
        let first = wmi.connection(Namespace::Cim).unwrap();
        for _ in 0..3 {
            wmi.query(Namespace::Cim, "SELECT Name FROM Win32_Service WHERE Name = 'RpcSs'").unwrap();
        }
        // The debug output contains the address of the COM object.
        let object = |connection: &WMIConnection| format!("{connection:?}");
        assert_eq!(object(&wmi.connection(Namespace::Cim).unwrap()), object(&first));
        for end in [|| forget(Namespace::Cim), disconnect] {
            end();
            assert_ne!(object(&wmi.connection(Namespace::Cim).unwrap()), object(&first));
        }
    }
}
