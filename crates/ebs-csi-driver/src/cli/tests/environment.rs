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
        "Name of this machine's Node object: for start-up taints, metadata from Kubernetes, the hook. A name that begins with `hyperpod-` switches the metadata service off",
    ),
    ours(
        "AWS_REGION",
        IMDS,
        "The region, over what any source of metadata says; with it a controller needs no metadata",
    ),
    ours("AWS_EC2_METADATA_DISABLED", IMDS, "`true`, in any case: do not ask the instance metadata service"),
    ours(
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        IMDS,
        "Another address of the metadata service, such as `http://127.0.0.1:1338`",
    ),
    ours("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", IMDS, "`IPv6`: the metadata service's IPv6 address"),
    ours("AWS_EC2_METADATA_V1_DISABLED", IMDS, "`true`: no requests to the metadata service without a session token"),
    ours("DISABLE_TAINT_WATCHER", "all, node", "Any value: start-up taints are left alone"),
    ours(
        "KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT",
        "all modes",
        "Where the API server is, unless `--kubeconfig` is given; set in every pod",
    ),
    ours(
        "CONTAINER_SANDBOX_MOUNT_POINT",
        "all modes",
        "Where the files of the service account lie when they are not at their usual place",
    ),
    ours("POD_NAMESPACE", "metadataLabeler", "Namespace of the labeler's Lease"),
    ours("AWS_EC2_ENDPOINT AWS_SAGEMAKER_ENDPOINT", AWS, "Another base URL of the service"),
    ours(
        "AWS_ENDPOINT_URL AWS_ENDPOINT_URL_EC2 AWS_ENDPOINT_URL_SAGEMAKER",
        AWS,
        "The same in the SDK's words; checked at the start, and weaker than those of the row above",
    ),
    ours(
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
        AWS,
        "`true`, in any case: the variables `AWS_ENDPOINT_URL…` are left out of account",
    ),
    ours("AWS_CA_BUNDLE", AWS, "PEM file with the authorities to believe instead of the system's"),
    ours(
        "AWS_USE_FIPS_ENDPOINT GODEBUG",
        AWS,
        "FIPS endpoints. `fips140=on` or `fips140=only` in `GODEBUG` asks for a validated cryptographic module; a build without one does not start",
    ),
    ours(
        "AWS_RETRY_MODE AWS_MAX_ATTEMPTS",
        AWS,
        "Without effect, and the log says so: how often a call is made follows from what EC2 takes, within each request's own bound",
    ),
    ours(
        "EBS_SIM_DEVICES_DIR",
        "all, node",
        "Devices below this directory stand for disks of the simulated EC2. Never set it elsewhere: a disk is then believed by the name of a file",
    ),
    ours("RUST_LOG", "all modes", "Levels of the log by target, over `--v`: `RUST_LOG=ebs_driver=trace`"),
    sdk("AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN", "Credentials"),
    sdk(
        "AWS_ROLE_ARN AWS_ROLE_SESSION_NAME AWS_WEB_IDENTITY_TOKEN_FILE",
        "Credentials of a service account's role (IRSA)",
    ),
    sdk(
        "AWS_CONTAINER_CREDENTIALS_FULL_URI AWS_CONTAINER_CREDENTIALS_RELATIVE_URI AWS_CONTAINER_AUTHORIZATION_TOKEN AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "Credentials of EKS Pod Identity and of containers",
    ),
    sdk("AWS_PROFILE AWS_CONFIG_FILE AWS_SHARED_CREDENTIALS_FILE", "Credentials and settings from files"),
    sdk("AWS_ENDPOINT_URL_STS", "Another base URL of STS: for a role's credentials, and for the account's number"),
    sdk("AWS_USE_DUALSTACK_ENDPOINT", "Endpoints that answer over IPv6, too"),
    sdk("AWS_SDK_UA_APP_ID", "Added to the user agent, as in any program over the SDK"),
    sdk(
        "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY",
        "Proxies for calls to AWS; in small letters, too. The metadata service is asked without one",
    ),
    traces(
        "OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_TRACES_ENDPOINT OTEL_EXPORTER_OTLP_INSECURE OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_TRACES_HEADERS OTEL_EXPORTER_OTLP_TIMEOUT OTEL_EXPORTER_OTLP_TRACES_TIMEOUT OTEL_EXPORTER_OTLP_COMPRESSION OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
        "Where traces go, and how",
    ),
    traces(
        "OTEL_EXPORTER_OTLP_CERTIFICATE OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
        "PEM file with the authorities of the collector, instead of the system's",
    ),
    traces(
        "OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES OTEL_TRACES_SAMPLER OTEL_TRACES_SAMPLER_ARG OTEL_SDK_DISABLED",
        "Who the traces are of, and which are exported",
    ),
    traces(
        "OTEL_BSP_SCHEDULE_DELAY OTEL_BSP_MAX_QUEUE_SIZE OTEL_BSP_MAX_EXPORT_BATCH_SIZE OTEL_BSP_EXPORT_TIMEOUT OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT OTEL_SPAN_EVENT_COUNT_LIMIT OTEL_SPAN_LINK_COUNT_LIMIT",
        "Batches of spans, and their bounds: [defaults](logging.md#traces)",
    ),
    traces(
        "OTEL_TRACES_EXPORTER OTEL_EXPORTER_OTLP_PROTOCOL OTEL_EXPORTER_OTLP_TRACES_PROTOCOL OTEL_PROPAGATORS OTEL_BSP_MAX_CONCURRENT_EXPORTS OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE OTEL_EXPORTER_OTLP_CLIENT_KEY",
        "Without effect, and the log says so when they ask for something else than what is done",
    ),
];

/// Variables that only test files read.
const OF_TESTS: [&str; 1] = ["EBS_WRITE_DOCS"];

/// Variables that the reference driver reads and this program does not, with the reason.
pub(super) const UNREAD: &[(&str, &str)] = &[
    (
        "TMPDIR",
        "the reference unmounts something below it at its start, to find out what umount does; this driver asks the kernel itself",
    ),
    (
        "AWS_EXECUTION_ENV",
        "the reference sets it for its own SDK; here the same words go into the user agent without it",
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

#[test]
fn search_for_variables_skips_comments_and_tests() {
    let text = "// \"AWS_A\"\nf(\"AWS_B\");\ng(\"not AWS_C\");\n#[cfg(test)]\nmod tests { h(\"AWS_D\"); }";
    assert_eq!(names_in(text), BTreeSet::from(["AWS_B".to_owned()]));
}
