//! Selects the endpoints, and checks them before any call.

use std::net::IpAddr;

use aws_types::SdkConfig;
use aws_types::service_config::ServiceConfigKey;

use crate::ConfigError;

const ALL: &str = "AWS_ENDPOINT_URL";

pub(crate) struct Service {
    /// The driver's own variable, which takes precedence over the SDK's.
    own: &'static str,
    sdk: &'static str,
    /// The service's name in profiles of the AWS configuration file.
    id: &'static str,
}

pub(crate) const EC2: Service = Service { own: "AWS_EC2_ENDPOINT", sdk: "AWS_ENDPOINT_URL_EC2", id: "EC2" };

pub(crate) const SAGEMAKER: Service =
    Service { own: "AWS_SAGEMAKER_ENDPOINT", sdk: "AWS_ENDPOINT_URL_SAGEMAKER", id: "SageMaker" };

/// The endpoint, as selected before the SDK has read the profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The value of the driver's own variable. If `None`, the SDK chooses from its own variables and the profile.
    pub(crate) explicit: Option<String>,
    pub(crate) variable: Option<&'static str>,
    /// Whether the endpoint is on this machine. If so, the client never uses a proxy for it.
    pub(crate) loopback: bool,
}

/// Selects and checks the endpoint from the driver's own variable and the environment.
pub(crate) fn resolve(
    service: &Service,
    own: Option<&str>,
    env: impl Fn(&'static str) -> Option<String>,
) -> Result<Endpoint, ConfigError> {
    if let Some(url) = own.filter(|url| !url.is_empty()) {
        let loopback = check(service.own, url)?;
        return Ok(Endpoint { explicit: Some(url.to_owned()), variable: Some(service.own), loopback });
    }
    let ignored = env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let found = [service.sdk, ALL].into_iter().find_map(|name| Some((name, env(name).filter(|url| !url.is_empty())?)));
    match found {
        Some((name, url)) if !ignored => {
            let loopback = check(name, &url)?;
            Ok(Endpoint { explicit: None, variable: Some(name), loopback })
        }
        _ => Ok(Endpoint { explicit: None, variable: None, loopback: false }),
    }
}

pub(crate) fn configured(service: &Service, shared: &SdkConfig) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id(service.id).env(ALL).profile("endpoint_url").build().ok()?;
    let of_service = shared.service_config().and_then(|config| config.load_config(key));
    of_service.or_else(|| shared.endpoint_url().map(str::to_owned))
}

/// Returns the URL of a service: the explicit endpoint, else the endpoint from the SDK's variables or the profile, else
/// AWS's own host name, which `own` builds from the region, FIPS and dual stack.
pub(crate) fn url(
    service: &Service,
    explicit: Option<String>,
    shared: &SdkConfig,
    own: impl FnOnce(&str, bool, bool) -> String,
) -> String {
    explicit.or_else(|| configured(service, shared)).unwrap_or_else(|| {
        let region = shared.region().map_or("", |region| region.as_ref());
        own(region, shared.use_fips() == Some(true), shared.use_dual_stack() == Some(true))
    })
}

/// Rejects settings with which the SDK would reject every call: an invalid URL in the profile, or a custom endpoint
/// together with FIPS or dual stack, which only AWS's own host names support.
pub(crate) fn check_with(service: &Service, endpoint: &Endpoint, shared: &SdkConfig) -> Result<(), ConfigError> {
    let profile = configured(service, shared).filter(|_| endpoint.variable.is_none());
    if let Some(url) = &profile {
        check(PROFILE, url)?;
    }
    let Some(variable) = endpoint.variable.or(profile.map(|_| PROFILE)) else { return Ok(()) };
    for (wanted, setting) in
        [(shared.use_fips(), "AWS_USE_FIPS_ENDPOINT"), (shared.use_dual_stack(), "AWS_USE_DUALSTACK_ENDPOINT")]
    {
        if wanted == Some(true) {
            return Err(ConfigError::Contradiction { variable, setting });
        }
    }
    Ok(())
}

const PROFILE: &str = "endpoint_url of the AWS profile";

/// Checks the URL. Returns true if its host is a loopback address or name.
fn check(variable: &'static str, url: &str) -> Result<bool, ConfigError> {
    let refuse =
        |reason: &str| Err(ConfigError::Endpoint { variable, url: without_userinfo(url), reason: reason.to_owned() });
    let Ok(uri) = url.parse::<http::Uri>() else { return refuse("it is not a URL") };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return refuse("only http and https are supported"),
        None => return refuse("it must start with https:// or http://"),
    }
    let Some(authority) = uri.authority().filter(|a| !a.host().is_empty()) else { return refuse("it has no host") };
    if authority.as_str().contains('@') {
        return refuse("it must not contain a user name or password");
    }
    if authority.as_str().len() > authority.host().len() && authority.port_u16().is_none() {
        return refuse("its port is not a number from 0 to 65535");
    }
    if uri.query().is_some() || url.contains('#') {
        return refuse("it must not contain a query or fragment");
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    Ok(host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// Removes a user name and password from the URL, for an error message.
fn without_userinfo(url: &str) -> String {
    url.rsplit_once('@').map_or_else(|| url.to_owned(), |(_, host)| format!("…@{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &'static str) -> Option<String> {
        None
    }

    #[test]
    fn own_endpoint_variable_wins_over_the_sdk_variables() {
        let sdk = |name| (name == "AWS_ENDPOINT_URL_EC2").then(|| "http://sdk.example".to_owned());
        let endpoint = resolve(&EC2, Some("http://127.0.0.1:1"), sdk).unwrap();
        let variable = Some("AWS_EC2_ENDPOINT");
        assert_eq!(endpoint, Endpoint { explicit: Some("http://127.0.0.1:1".into()), variable, loopback: true });
        let variable = Some("AWS_ENDPOINT_URL_EC2");
        assert_eq!(resolve(&EC2, Some(""), sdk).unwrap(), Endpoint { explicit: None, variable, loopback: false });
        let nothing = Endpoint { explicit: None, variable: None, loopback: false };
        assert_eq!(resolve(&EC2, None, none).unwrap(), nothing);
        assert_eq!(resolve(&SAGEMAKER, None, sdk).unwrap(), nothing, "the variable of another service");
        let variable = Some("AWS_SAGEMAKER_ENDPOINT");
        assert_eq!(resolve(&SAGEMAKER, Some("http://127.0.0.1:1"), sdk).unwrap().variable, variable);
        let both = |name| match name {
            "AWS_ENDPOINT_URL" => Some("http://all.example".to_owned()),
            "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS" => Some("TRUE".to_owned()),
            _ => None,
        };
        assert_eq!(resolve(&EC2, None, both).unwrap(), nothing);
    }

    /// The message never contains the URL's password.
    #[test]
    fn invalid_endpoint_is_rejected_with_its_variable() {
        for bad in [
            "ec2.us-west-2.amazonaws.com",
            "127.0.0.1:4566",
            "ftp://host",
            "http://",
            "http://host:99999",
            "http://ho st",
            "http://user:secret@host",
            "http://host/?a=b",
            "http://host/#a",
            "http://:80",
            "https:///path",
            "http://host:",
            "http://[::1",
            "http://host\\path",
            "http://ho\u{7f}st",
            "http://host\n",
            "//host",
            "https:host",
        ] {
            let error = resolve(&EC2, Some(bad), none).unwrap_err();
            assert!(matches!(error, ConfigError::Endpoint { variable: "AWS_EC2_ENDPOINT", .. }), "{bad}: {error}");
            assert!(error.to_string().contains("AWS_EC2_ENDPOINT"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let error = resolve(&EC2, None, |name| (name == "AWS_ENDPOINT_URL").then(|| "nonsense".into())).unwrap_err();
        assert!(matches!(error, ConfigError::Endpoint { variable: "AWS_ENDPOINT_URL", .. }), "{error}");
    }

    /// The client never uses a proxy for a loopback endpoint.
    #[test]
    fn loopback_endpoint_is_detected_by_address_and_name() {
        for url in ["http://127.0.0.1:4566", "http://localhost:1/", "http://[::1]:80", "http://127.1.2.3"] {
            assert!(resolve(&EC2, Some(url), none).unwrap().loopback, "{url}");
        }
        for url in ["https://ec2.us-west-2.amazonaws.com", "http://10.0.0.1:80", "http://localhost.example"] {
            assert!(!resolve(&EC2, Some(url), none).unwrap().loopback, "{url}");
        }
    }
}
