//! Disks that Windows has made read-only.

use super::*;
use crate::fake::Effect;
use crate::host::Answer;

fn online(storage: &Storage) -> Result<(), crate::StorageError> {
    storage.set_disk_state(DiskNumber(1), true)
}

/// A disk that is brought online is made writable, whether Windows calls it read-only because of its policy or because it collides with
/// another disk; in the second case it goes online only after that.
#[test]
fn disk_is_made_writable_before_it_goes_online() {
    for collides in [false, true] {
        let (host, storage) = machine();
        storage.set_disk_state(DiskNumber(1), false).unwrap();
        host.set_read_only(1, collides);
        online(&storage).unwrap_or_else(|error| panic!("collides {collides}: {error}"));
        assert!(host.is_online(1) && !host.is_read_only(1), "collides {collides}");
        formatted(&storage);
    }
}

/// A disk that is online and read-only is made writable too.
#[test]
fn online_disk_is_made_writable() {
    let (host, storage) = machine();
    host.set_read_only(1, false);
    online(&storage).unwrap();
    assert!(!host.is_read_only(1));
    assert_eq!(host.calls("set_online"), 0);
}

#[test]
fn attribute_set_while_going_online_is_cleared() {
    let (host, storage) = machine();
    storage.set_disk_state(DiskNumber(1), false).unwrap();
    host.inject("set_online", 0, Effect::Meanwhile(Box::new(|host| host.set_read_only(1, false))));
    online(&storage).unwrap();
    assert!(!host.is_read_only(1));
}

#[test]
fn refused_online_names_the_offline_reason() {
    let (host, storage) = machine();
    storage.set_disk_state(DiskNumber(1), false).unwrap();
    host.set_read_only(1, true);
    host.inject("set_online", 0, Effect::Fail(Answer::Method(4)));
    let refused = online(&storage).unwrap_err();
    assert!(refused.text().contains("disk 1") && refused.text().contains("collides"), "{refused}");
    assert_eq!(refused.answer(), Some(&Answer::Method(4)));
}
