//! Tests of disks that Windows has made read-only.

use super::*;
use crate::fake::Effect;
use crate::host::Answer;

fn online(storage: &Storage) -> Result<(), crate::StorageError> {
    storage.set_disk_state(DiskNumber(1), true)
}

#[test]
fn read_only_attribute_set_while_going_online_is_cleared() {
    let (host, storage) = machine();
    storage.set_disk_state(DiskNumber(1), false).unwrap();
    host.inject("set_online", 0, Effect::Meanwhile(Box::new(|host| host.set_read_only(1, false))));
    online(&storage).unwrap();
    assert!(!host.is_read_only(1));
}

#[test]
fn failed_online_error_names_the_offline_reason() {
    let (host, storage) = machine();
    storage.set_disk_state(DiskNumber(1), false).unwrap();
    host.set_read_only(1, true);
    host.inject("set_online", 0, Effect::Fail(Answer::Method(4)));
    let refused = online(&storage).unwrap_err();
    assert!(refused.text().contains("disk 1") && refused.text().contains("collides"), "{refused}");
    assert_eq!(refused.answer(), Some(&Answer::Method(4)));
}
