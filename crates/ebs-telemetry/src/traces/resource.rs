//! Detects the attributes of this process, which `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` can override.

use std::path::Path;

use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::resource::{EnvResourceDetector, TelemetryResourceDetector};

/// Returns the known attributes. Omits the process's arguments, because they may contain secrets.
pub(super) fn detect(version: &str) -> Resource {
    let mut attributes = vec![
        KeyValue::new("service.name", super::SCOPE),
        KeyValue::new("service.version", version.to_owned()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
        KeyValue::new("process.runtime.name", "rust"),
        KeyValue::new("os.type", std::env::consts::OS),
        KeyValue::new("host.arch", arch()),
    ];
    let executable = std::env::current_exe().ok();
    let name = executable.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    attributes.extend(name.map(|name| KeyValue::new("process.executable.name", name)));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    attributes.extend(host.map(|host| KeyValue::new("host.name", host.trim().to_owned())));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok();
    attributes.extend(mounts.and_then(|mounts| Some(KeyValue::new("container.id", container(&mounts)?.to_owned()))));
    let resource = Resource::builder_empty()
        .with_attributes(attributes)
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())]);
    match std::env::var("OTEL_SERVICE_NAME") {
        Ok(name) if !name.is_empty() => resource.with_service_name(name).build(),
        _ => resource.build(),
    }
}

/// Returns OpenTelemetry's name for the architecture.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Returns the id of this process's container: 64 hexadecimal digits in the path of a file that the runtime mounts.
fn container(mounts: &str) -> Option<&str> {
    let is_id = |part: &&str| part.len() == 64 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let own = |line: &&str| ["/etc/hostname", "/etc/resolv.conf", "/etc/hosts"].iter().any(|file| line.contains(file));
    mounts.lines().filter(own).find_map(|line| line.split(' ').nth(3)?.split('/').find(is_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn container_id_is_found_in_its_file_mounts() {
        let id = "0123456789abcdef".repeat(4);
        let mounts = format!(
            "22 1 0:20 / /proc rw - proc proc rw\n\
             910 890 8:1 /var/lib/containers/{id}/hostname /etc/hostname rw,relatime - ext4 /dev/sda1 rw\n"
        );
        assert_eq!(container(&mounts), Some(id.as_str()));
        assert_eq!(container("22 1 0:20 / /proc rw - proc proc rw\n"), None);
        assert_eq!(container("910 890 8:1 /hostname /etc/hostname rw - ext4 /dev/sda1 rw\n"), None);
    }
}
