//! Which EC2 endpoint is meant, checked before anything is called.

use std::net::IpAddr;

use crate::ConfigError;

/// Our own variable: wins over the SDK's.
const OWN: &str = "AWS_EC2_ENDPOINT";

/// The SDK's variables, the stronger first.
const SDK: [&str; 2] = ["AWS_ENDPOINT_URL_EC2", "AWS_ENDPOINT_URL"];

/// The outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// To be set on the client; `None` leaves it to the SDK, which reads its own variables and the profile.
    pub(crate) explicit: Option<String>,
    /// The endpoint is this machine: never to be reached through a proxy.
    pub(crate) loopback: bool,
}

/// Decides and validates. `own` is the value of `AWS_EC2_ENDPOINT`, `env` looks up the SDK's variables.
pub(crate) fn resolve(
    own: Option<&str>,
    env: impl Fn(&'static str) -> Option<String>,
) -> Result<Endpoint, ConfigError> {
    if let Some(url) = own.filter(|url| !url.is_empty()) {
        let loopback = check(OWN, url)?;
        return Ok(Endpoint { explicit: Some(url.to_owned()), loopback });
    }
    let ignored = env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    let found = SDK.into_iter().find_map(|name| Some((name, env(name).filter(|url| !url.is_empty())?)));
    let loopback = match found {
        Some((name, url)) if !ignored => check(name, &url)?,
        _ => false,
    };
    Ok(Endpoint { explicit: None, loopback })
}

/// True for a loopback host.
fn check(variable: &'static str, url: &str) -> Result<bool, ConfigError> {
    let refuse =
        |reason: &str| Err(ConfigError::Endpoint { variable, url: without_userinfo(url), reason: reason.to_owned() });
    let uri: http::Uri = match url.parse() {
        Ok(uri) => uri,
        Err(_) => return refuse("it cannot be read as a URL"),
    };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(_) => return refuse("only http and https are spoken"),
        None => return refuse("it must start with https:// or http://"),
    }
    let Some(authority) = uri.authority() else { return refuse("it names no host") };
    if authority.host().is_empty() {
        return refuse("it names no host");
    }
    if authority.as_str().contains('@') {
        return refuse("it must not contain a user name or password");
    }
    if authority.as_str().len() > authority.host().len() && authority.port_u16().is_none() {
        return refuse("its port is no number from 0 to 65535");
    }
    if uri.query().is_some() {
        return refuse("it must not contain a query");
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    Ok(host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()))
}

/// The text with what may be a password blanked out: it goes into an error message.
fn without_userinfo(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none(_: &'static str) -> Option<String> {
        None
    }

    #[test]
    fn our_own_variable_wins_over_those_of_the_sdk() {
        let sdk = |name| (name == "AWS_ENDPOINT_URL_EC2").then(|| "http://sdk.example".to_owned());
        let endpoint = resolve(Some("http://127.0.0.1:1"), sdk).unwrap();
        assert_eq!(endpoint, Endpoint { explicit: Some("http://127.0.0.1:1".into()), loopback: true });
        assert_eq!(resolve(Some(""), sdk).unwrap(), Endpoint { explicit: None, loopback: false });
        assert_eq!(resolve(None, none).unwrap(), Endpoint { explicit: None, loopback: false });
    }

    #[test]
    fn an_endpoint_that_is_no_url_is_refused_naming_its_variable() {
        for bad in [
            "ec2.us-west-2.amazonaws.com",
            "127.0.0.1:4566",
            "ftp://host",
            "http://",
            "http://host:99999",
            "http://ho st",
            "http://user:secret@host",
            "http://host/?a=b",
        ] {
            let error = resolve(Some(bad), none).unwrap_err();
            assert!(matches!(error, ConfigError::Endpoint { variable: "AWS_EC2_ENDPOINT", .. }), "{bad}: {error}");
            assert!(error.to_string().contains("AWS_EC2_ENDPOINT"), "{error}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
        let error = resolve(None, |name| (name == "AWS_ENDPOINT_URL").then(|| "nonsense".into())).unwrap_err();
        assert!(matches!(error, ConfigError::Endpoint { variable: "AWS_ENDPOINT_URL", .. }), "{error}");
    }

    #[test]
    fn a_loopback_endpoint_is_recognised_by_address_and_by_name() {
        for url in ["http://127.0.0.1:4566", "http://localhost:1/", "http://[::1]:80", "http://127.1.2.3"] {
            assert!(resolve(Some(url), none).unwrap().loopback, "{url}");
        }
        for url in ["https://ec2.us-west-2.amazonaws.com", "http://10.0.0.1:80", "http://localhost.example"] {
            assert!(!resolve(Some(url), none).unwrap().loopback, "{url}");
        }
    }
}
