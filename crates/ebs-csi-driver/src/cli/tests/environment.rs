//! The complete table of environment variables that the process reads, for the documentation and for the test that
//! keeps it complete.

use std::collections::BTreeSet;

use super::product_source::{code_of, product_files};

/// A variable, or several that belong together.
pub(super) struct Variable {
    /// Separated by spaces.
    pub(super) names: &'static str,
    pub(super) reader: Reader,
    pub(super) modes: &'static str,
    pub(super) text: &'static str,
}

/// The code that reads the variable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// The driver. A product crate contains the name.
    Driver,
    /// The AWS SDK, by its own rules.
    Sdk,
    /// The OpenTelemetry SDK, by its own rules.
    Telemetry,
}

impl Reader {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Driver => "the driver",
            Self::Sdk => "the AWS SDK",
            Self::Telemetry => "the OpenTelemetry SDK",
        }
    }
}

const AWS: &str = "all, controller, metadataLabeler";
const IMDS: &str = "all, controller, node, metadataLabeler";
const TRACED: &str = "all modes, with `--enable-otel-tracing`";

const fn ours(names: &'static str, modes: &'static str, text: &'static str) -> Variable {
    Variable { names, reader: Reader::Driver, modes, text }
}

const fn sdk(names: &'static str, text: &'static str) -> Variable {
    Variable { names, reader: Reader::Sdk, modes: AWS, text }
}

const fn traces(names: &'static str, text: &'static str) -> Variable {
    Variable { names, reader: Reader::Telemetry, modes: TRACED, text }
}

/// For the driver's own variables, an empty value equals an unset variable.
pub(super) const VARIABLES: &[Variable] = &[
    ours(
        "CSI_NODE_NAME",
        "all, node, pre-stop-hook",
        "Name of this machine's Node object, for start-up taints, metadata from Kubernetes and the hook. A name that begins with `hyperpod-` disables the metadata service",
    ),
    ours(
        "AWS_REGION",
        IMDS,
        "The region. It overrides all metadata sources, and with it a controller needs no metadata",
    ),
    ours(
        "AWS_EC2_METADATA_DISABLED",
        IMDS,
        "`true` (in upper or lower case): do not call the instance metadata service",
    ),
    ours(
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        IMDS,
        "Alternative address of the metadata service, such as `http://127.0.0.1:1338`",
    ),
    ours("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", IMDS, "`IPv6`: use the IPv6 address of the metadata service"),
    ours("AWS_EC2_METADATA_V1_DISABLED", IMDS, "`true`: call the metadata service with a session token only"),
    ours("DISABLE_TAINT_WATCHER", "all, node", "Any value: do not remove start-up taints"),
    ours(
        "KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT",
        "all modes",
        "Address of the API server unless `--kubeconfig` is given; set in every pod",
    ),
    ours(
        "CONTAINER_SANDBOX_MOUNT_POINT",
        "all modes",
        "Directory that contains the files of the service account if they are not in their usual place",
    ),
    ours("POD_NAMESPACE", "metadataLabeler", "Namespace of the labeler's Lease"),
    ours("AWS_EC2_ENDPOINT AWS_SAGEMAKER_ENDPOINT", AWS, "Alternative base URL of the service"),
    ours(
        "AWS_ENDPOINT_URL AWS_ENDPOINT_URL_EC2 AWS_ENDPOINT_URL_SAGEMAKER",
        AWS,
        "The same with the SDK's names; checked at start-up, and overridden by the variables in the row above",
    ),
    ours(
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        AWS,
        "`true` (in upper or lower case): ignore the variables `AWS_ENDPOINT_URL…`",
    ),
    ours("AWS_CA_BUNDLE", AWS, "PEM file with the certificate authorities to trust instead of the system's"),
    ours(
        "AWS_USE_FIPS_ENDPOINT GODEBUG",
        AWS,
        "FIPS endpoints. `fips140=on` or `fips140=only` in `GODEBUG` requests a validated cryptographic module; a build without one does not start",
    ),
    ours(
        "AWS_RETRY_MODE AWS_MAX_ATTEMPTS",
        AWS,
        "No effect, with a warning: the rate limiter of the driver and the time limit of each request determine the retries",
    ),
    ours(
        "EBS_SIM_DEVICES_DIR",
        "all, node",
        "Directory with the devices of the simulated EC2. Never set it elsewhere: the driver then identifies a disk by a file name",
    ),
    ours("RUST_LOG", "all modes", "Log levels by target, which override `--v`: `RUST_LOG=ebs_driver=trace`"),
    sdk("AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN", "Credentials"),
    sdk(
        "AWS_ROLE_ARN AWS_ROLE_SESSION_NAME AWS_WEB_IDENTITY_TOKEN_FILE",
        "Credentials for the role of a service account (IRSA)",
    ),
    sdk(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_CONTAINER_AUTHORIZATION_TOKEN AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "Credentials from EKS Pod Identity or the container",
    ),
    sdk("AWS_PROFILE AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE", "Credentials and settings from files"),
    sdk("AWS_ENDPOINT_URL_STS", "Alternative base URL of STS, for the credentials of a role and the account number"),
    sdk("AWS_USE_DUALSTACK_ENDPOINT", "Dual-stack endpoints (IPv4 and IPv6)"),
    sdk("AWS_SDK_UA_APP_ID", "Suffix of the user agent, as in any program with the SDK"),
    sdk(
        "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY",
        "Proxies for calls to AWS; lower-case names work, too. Calls to the metadata service use none",
    ),
    traces(
        "OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_TRACES_ENDPOINT OTEL_EXPORTER_OTLP_INSECURE OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS OTEL_EXPORTER_OTLP_TIMEOUT OTEL_EXPORTER_OTLP_TRACES_TIMEOUT OTEL_EXPORTER_OTLP_COMPRESSION OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
        "Address, protocol settings and headers of the trace collector",
    ),
    traces(
        "OTEL_EXPORTER_OTLP_CERTIFICATE OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
        "PEM file with the certificate authorities to trust for the collector instead of the system's",
    ),
    traces(
        "OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES OTEL_TRACES_SAMPLER OTEL_TRACES_SAMPLER_ARG OTEL_SDK_DISABLED",
        "Resource attributes of the traces, and the sampling",
    ),
    traces(
        "OTEL_BSP_SCHEDULE_DELAY OTEL_BSP_MAX_QUEUE_SIZE OTEL_BSP_MAX_EXPORT_BATCH_SIZE OTEL_BSP_EXPORT_TIMEOUT OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT OTEL_SPAN_EVENT_COUNT_LIMIT OTEL_SPAN_LINK_COUNT_LIMIT",
        "Batches of spans, and their limits: [defaults](logging.md#traces)",
    ),
    traces(
        "OTEL_TRACES_EXPORTER OTEL_EXPORTER_OTLP_PROTOCOL OTEL_EXPORTER_OTLP_TRACES_PROTOCOL OTEL_PROPAGATORS OTEL_BSP_MAX_CONCURRENT_EXPORTS OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE OTEL_EXPORTER_OTLP_CLIENT_KEY",
        "No effect, with a warning if the value differs from what the driver does",
    ),
];

/// Variables that only test files read.
const OF_TESTS: [&str; 1] = ["EBS_WRITE_DOCS"];

/// Variables that the reference driver reads and this program does not, with the reason.
pub(super) const UNREAD: &[(&str, &str)] = &[
    (
        "TMPDIR",
        "the reference driver unmounts a path below it at start-up to test umount; this driver calls the kernel directly",
    ),
    (
        "AWS_EXECUTION_ENV",
        "the reference driver sets it for its SDK; this driver adds the same words to the user agent without it",
    ),
];

/// Returns the string literals of the product code that look like names of variables.
fn names_in(text: &str) -> BTreeSet<String> {
    const BEGINNINGS: [&str; 13] = [
        "AWS_",
        "EBS_",
        "CSI_",
        "OTEL_",
        "KUBERNETES_",
        "POD_",
        "NODE_",
        "DISABLE_",
        "CONTAINER_",
        "RUST_",
        "GODEBUG",
        "TMPDIR",
        "HOSTNAME",
    ];
    let code = code_of(text);
    let is_name = |literal: &&str| {
        literal.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
            && BEGINNINGS.iter().any(|beginning| literal.starts_with(beginning) && literal.len() >= beginning.len())
    };
    code.split('"').skip(1).step_by(2).filter(is_name).map(str::to_owned).collect()
}

#[test]
fn every_variable_read_is_in_the_table() {
    let told: BTreeSet<&str> = VARIABLES.iter().flat_map(|row| row.names.split_whitespace()).collect();
    let mut read = BTreeSet::new();
    for path in product_files() {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for name in names_in(&text) {
            let unread = UNREAD.iter().any(|(unread, _)| *unread == name) || OF_TESTS.contains(&name.as_str());
            assert!(told.contains(name.as_str()) || unread, "{name}, in {}, is not in VARIABLES", path.display());
            read.insert(name);
        }
    }
    assert!(read.contains("AWS_REGION") && read.contains("RUST_LOG"), "the search finds nothing any more: {read:?}");
}
