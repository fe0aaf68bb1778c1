//! The sources of credentials and their failures. An unavailable source is an outage, and a source that rejects the
//! driver is a configuration error. Each case runs in its own process, because a process has only one environment.

use bytes::Bytes;
use ebs_aws::{Settings, Transport};
use ebs_ec2::{VolumeId, Volumes};
use tempfile::TempDir;

use crate::server::{CHILD, client, printed_by_child};

/// Returns a source's answer: `broken` breaks the connection, `silent` sends nothing, and any other text has a status
/// and a body.
async fn answer_as(behaviour: &str) -> std::io::Result<http::Response<Bytes>> {
    match behaviour {
        "broken" => Err(std::io::ErrorKind::ConnectionRefused.into()),
        "silent" => std::future::pending().await,
        _ => {
            let (status, body) = behaviour.split_once(' ').unwrap();
            let response = http::Response::builder().status(status.parse::<u16>().unwrap());
            Ok(response.body(Bytes::copy_from_slice(body.as_bytes())).unwrap())
        }
    }
}

/// The child process that the other tests start, not a test itself. Prints the outcome of one EC2 call.
#[expect(clippy::print_stdout, reason = "a child talks to its parent so")]
#[tokio::test(start_paused = true)]
async fn child_prints_the_outcome_of_a_call() {
    let Ok(behaviour) = std::env::var(CHILD) else { return };
    let transport = Transport::answering(move |request: http::Request<Bytes>| {
        let behaviour = behaviour.clone();
        async move {
            match request.uri().host() {
                Some("ec2.invalid") => Ok(http::Response::new(Bytes::from(
                    "<DeleteVolumeResponse><return>true</return></DeleteVolumeResponse>",
                ))),
                _ => answer_as(&behaviour).await,
            }
        }
    });
    let settings = Settings { transport: Some(transport), ..Settings::default() };
    let ec2 = client("http://ec2.invalid", settings).await;
    match ec2.delete_volume(&VolumeId::parse("vol-1").unwrap()).await {
        Ok(()) => println!("\nENDED Succeeded"),
        Err(error) => println!("\nENDED {:?} {error}", error.class),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    WebIdentity,
    PodIdentity,
    AssumedRole,
    Instance,
}

impl Source {
    const ALL: [Self; 4] = [Self::WebIdentity, Self::PodIdentity, Self::AssumedRole, Self::Instance];

    fn environment(self, dir: &TempDir) -> Vec<(&'static str, String)> {
        let token = dir.path().join("token");
        std::fs::write(&token, "made-up-token").unwrap();
        let profile = dir.path().join("config");
        let token = token.to_str().unwrap().to_owned();
        match self {
            Self::WebIdentity => vec![
                ("AWS_WEB_IDENTITY_TOKEN_FILE", token),
                ("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/made-up".to_owned()),
                ("AWS_REGION", "us-west-2".to_owned()),
            ],
            Self::PodIdentity => vec![
                ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials".to_owned()),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token),
            ],
            Self::AssumedRole => {
                let text = "[default]\nrole_arn = arn:aws:iam::123456789012:role/made-up\nsource_profile = base\n\
                            [profile base]\naws_access_key_id = AKIAMADEUP\naws_secret_access_key = made-up\n";
                std::fs::write(&profile, text).unwrap();
                vec![("AWS_CONFIG_FILE", profile.to_str().unwrap().to_owned())]
            }
            Self::Instance => Vec::new(),
        }
    }
}

fn ended(behaviour: &str, environment: &[(&'static str, String)]) -> String {
    let environment: Vec<(&str, &str)> = environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let test = "credentials::child_prints_the_outcome_of_a_call";
    let printed = printed_by_child(test, behaviour, &environment);
    let ended = printed.lines().find_map(|line| line.strip_prefix("ENDED "));
    ended.unwrap_or_else(|| panic!("{printed}")).to_owned()
}

fn ended_with(source: Source, behaviour: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    ended(behaviour, &source.environment(&dir))
}

fn sts(status: u16, code: &str) -> String {
    format!(
        "{status} <ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>made up</Message></Error>\
         <RequestId>r</RequestId></ErrorResponse>"
    )
}

#[test]
fn unavailable_credential_source_is_reported_as_not_sent() {
    for source in Source::ALL {
        for behaviour in ["broken", "silent", "500 ", "503 it broke"] {
            let ended = ended_with(source, behaviour);
            assert!(ended.starts_with("NotSent "), "{source:?}, {behaviour}: {ended}");
            assert!(ended.contains("credentials") && ended.contains("nothing was sent"), "{source:?}: {ended}");
        }
    }
    for source in [Source::WebIdentity, Source::AssumedRole] {
        for (status, code) in [(503, "ServiceUnavailable"), (400, "Throttling"), (400, "IDPCommunicationError")] {
            let ended = ended_with(source, &sts(status, code));
            assert!(ended.starts_with("NotSent "), "{source:?}, {code}: {ended}");
        }
        let ended = ended_with(source, "200 <html>a proxy's page</html>");
        assert!(ended.starts_with("NotSent "), "{source:?}: {ended}");
    }
    for source in [Source::PodIdentity, Source::Instance] {
        let ended = ended_with(source, "429 slow down");
        assert!(ended.starts_with("NotSent "), "{source:?}: {ended}");
    }
}

#[test]
fn refused_or_missing_credentials_are_unauthenticated() {
    for source in [Source::WebIdentity, Source::AssumedRole] {
        for (status, code) in [
            (403, "AccessDenied"),
            (400, "ExpiredTokenException"),
            (400, "InvalidIdentityToken"),
            (403, "RegionDisabledException"),
        ] {
            let ended = ended_with(source, &sts(status, code));
            assert!(ended.starts_with("Unauthenticated "), "{source:?}, {code}: {ended}");
        }
    }
    for behaviour in ["400 x", "403 x", "404 x"] {
        let ended = ended_with(Source::PodIdentity, behaviour);
        assert!(ended.starts_with("Unauthenticated "), "{behaviour}: {ended}");
    }
    let no_role = ended_with(Source::Instance, "404 x");
    assert!(no_role.starts_with("Unauthenticated "), "{no_role}");
    let dir = tempfile::tempdir().unwrap();
    let nowhere = ended("broken", &[("AWS_EC2_METADATA_DISABLED", "true".to_owned())]);
    assert!(
        nowhere.starts_with("Unauthenticated ") && nowhere.contains("no source returned usable credentials"),
        "{nowhere}"
    );
    let mut environment = Source::WebIdentity.environment(&dir);
    environment[0].1 = dir.path().join("absent").to_str().unwrap().to_owned();
    let no_token = ended("broken", &environment);
    assert!(no_token.starts_with("Unauthenticated "), "{no_token}");
}

/// The driver does not support IAM Identity Center.
#[test]
fn profile_with_sso_is_refused_with_an_error_that_names_sso() {
    let dir = tempfile::tempdir().unwrap();
    let profile = dir.path().join("config");
    let text = "[default]\nsso_account_id = 123456789012\nsso_role_name = made-up\nsso_region = us-west-2\n\
                sso_start_url = https://made-up.example/start\n";
    std::fs::write(&profile, text).unwrap();
    let ended = ended("broken", &[("AWS_CONFIG_FILE", profile.to_str().unwrap().to_owned())]);
    assert!(ended.starts_with("Unauthenticated ") && ended.contains("SSO"), "{ended}");
    assert!(ended.contains("nothing was sent"), "{ended}");
}
