use super::*;

#[test]
fn invalid_machine_description_is_rejected() {
    for odd in [
        r#"{"disk": []}"#,
        r#"{"disks": [{"number": 1}]}"#,
        r#"{"disks": [{"number": 1, "size": 1}, {"number": 1, "size": 1}]}"#,
        r#"{"tree": {"pods": "directory"}}"#,
        r#"{"tree": {"C:\\x": "pipe"}}"#,
        r#"{"faults": [{"step": "disk"}]}"#,
        r#"{"faults": [{"step": "disk", "win32": 1, "result": 2}]}"#,
        r#"{"disks": [{"number": 1, "size": 1, "partitions": [{"number": 0, "kind": "data", "size": 1}]}]}"#,
    ] {
        assert!(FakeHost::from_json(odd).is_err(), "{odd}");
    }
    assert!(FakeHost::from_json("{}").is_ok());
}
