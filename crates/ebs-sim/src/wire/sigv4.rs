//! Checking a Signature Version 4, the way EC2 answers to a wrong one.

use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use http::HeaderMap;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sha2::{Digest, Sha256};

use crate::api::Fault;
use crate::config::AccessKey;

/// How far the clock of a client may be off.
const MAX_SKEW: Duration = Duration::from_secs(15 * 60);

/// Everything but AWS's unreserved characters is escaped.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What was signed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
}

/// The parts of an `Authorization` header.
struct Authorization<'a> {
    key_id: &'a str,
    date: &'a str,
    region: &'a str,
    service: &'a str,
    signed_headers: &'a str,
    signature: &'a str,
}

fn auth_failure(message: &str) -> Fault {
    Fault::with_status(401, "AuthFailure", message)
}

fn not_validated() -> Fault {
    auth_failure("AWS was not able to validate the provided access credentials")
}

fn incomplete(what: &str) -> Fault {
    Fault::new("IncompleteSignature", format!("The request signature does not conform to AWS standards: {what}."))
}

/// Checks the signature of a request.
///
/// # Errors
/// `MissingAuthenticationToken` without a signature, `IncompleteSignature` for one that cannot be read, `AuthFailure`
/// for an unknown key, a wrong secret or a foreign scope, `RequestExpired` when the clocks are more than 15 min apart.
pub(crate) fn check(request: &Signed<'_>, key: &AccessKey, region: &str, now: SystemTime) -> Result<(), Fault> {
    let Some(header) = request.headers.get(http::header::AUTHORIZATION) else {
        return Err(Fault::with_status(
            403,
            "MissingAuthenticationToken",
            "The request must contain a valid (registered) AWS access key ID and signature",
        ));
    };
    let header = header.to_str().map_err(|_| incomplete("the Authorization header is not ASCII"))?;
    let authorization = parse(header)?;
    if authorization.key_id != key.id {
        return Err(not_validated());
    }
    if authorization.service != "ec2" || authorization.region != region {
        return Err(auth_failure(&format!("Credential should be scoped to region {region} and service ec2")));
    }
    let stamp = time_stamp(request.headers)?;
    if !stamp.starts_with(authorization.date) {
        return Err(incomplete("the date of the credential scope is not that of the request"));
    }
    let expected = signature(&authorization, &canonical(request, authorization.signed_headers)?, &stamp, &key.secret);
    if !equal(expected.as_bytes(), authorization.signature.as_bytes()) {
        return Err(not_validated());
    }
    let sent = parse_stamp(&stamp).ok_or_else(|| incomplete("X-Amz-Date is no time"))?;
    let skew = now.duration_since(sent).unwrap_or_else(|early| early.duration());
    if skew > MAX_SKEW {
        return Err(Fault::new("RequestExpired", "Request has expired."));
    }
    Ok(())
}

fn parse(header: &str) -> Result<Authorization<'_>, Fault> {
    let rest = header
        .strip_prefix("AWS4-HMAC-SHA256")
        .ok_or_else(|| incomplete("the Authorization header is not AWS4-HMAC-SHA256"))?;
    let (mut credential, mut signed_headers, mut signature) = (None, None, None);
    for part in rest.split(',') {
        match part.trim().split_once('=') {
            Some(("Credential", value)) => credential = Some(value),
            Some(("SignedHeaders", value)) => signed_headers = Some(value),
            Some(("Signature", value)) => signature = Some(value),
            _ => return Err(incomplete("the Authorization header has a part that is not understood")),
        }
    }
    let credential = credential.ok_or_else(|| incomplete("Credential is missing"))?;
    let scope: Vec<&str> = credential.split('/').collect();
    let [key_id, date, region, service, "aws4_request"] = scope[..] else {
        return Err(incomplete("Credential is not KEY/DATE/REGION/SERVICE/aws4_request"));
    };
    Ok(Authorization {
        key_id,
        date,
        region,
        service,
        signed_headers: signed_headers.ok_or_else(|| incomplete("SignedHeaders is missing"))?,
        signature: signature.ok_or_else(|| incomplete("Signature is missing"))?,
    })
}

fn time_stamp(headers: &HeaderMap) -> Result<String, Fault> {
    let stamp = headers.get("x-amz-date").and_then(|value| value.to_str().ok());
    stamp.map(str::to_owned).ok_or_else(|| incomplete("X-Amz-Date is missing"))
}

/// `20260102T030405Z`.
fn parse_stamp(stamp: &str) -> Option<SystemTime> {
    if stamp.len() != 16 || !stamp.is_ascii() {
        return None;
    }
    let (date, time) = stamp.split_once('T')?;
    let time = time.strip_suffix('Z')?;
    if date.len() != 8 || time.len() != 6 {
        return None;
    }
    let text = format!("{}-{}-{}T{}:{}:{}Z", &date[..4], &date[4..6], &date[6..], &time[..2], &time[2..4], &time[4..]);
    humantime::parse_rfc3339(&text).ok()
}

fn canonical(request: &Signed<'_>, signed_headers: &str) -> Result<String, Fault> {
    let mut headers = String::new();
    for name in signed_headers.split(';') {
        let mut values = request.headers.get_all(name).iter().peekable();
        if values.peek().is_none() {
            return Err(incomplete(&format!("the signed header {name} is missing")));
        }
        let joined: Vec<String> = values
            .map(|value| String::from_utf8_lossy(value.as_bytes()).split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        headers.push_str(&format!("{name}:{}\n", joined.join(",")));
    }
    if !signed_headers.split(';').any(|name| name == "host") {
        return Err(incomplete("the header host is not signed"));
    }
    Ok(format!(
        "{}\n{}\n{}\n{headers}\n{signed_headers}\n{}",
        request.method,
        if request.path.is_empty() { "/" } else { request.path },
        canonical_query(request.query),
        hex::encode(Sha256::digest(request.body))
    ))
}

fn canonical_query(query: &str) -> String {
    let escape = |raw: &str| {
        let text: Vec<u8> = percent_decode_str(&raw.replace('+', " ")).collect();
        utf8_percent_encode(&String::from_utf8_lossy(&text), ESCAPED).to_string()
    };
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (escape(name), escape(value)))
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn signature(authorization: &Authorization<'_>, canonical: &str, stamp: &str, secret: &str) -> String {
    let scope = format!("{}/{}/{}/aws4_request", authorization.date, authorization.region, authorization.service);
    let to_sign = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex::encode(Sha256::digest(canonical.as_bytes())));
    let mut key = hmac(format!("AWS4{secret}").as_bytes(), authorization.date);
    for part in [authorization.region, authorization.service, "aws4_request"] {
        key = hmac(&key, part);
    }
    hex::encode(hmac(&key, &to_sign))
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Compares without telling by its time where the difference is.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    // The example of AWS's own documentation of Signature Version 4 (ListUsers), with its published signature.
    const STAMP: &str = "20150830T123600Z";
    const SIGNATURE: &str = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";

    fn example() -> (Authorization<'static>, HeaderMap) {
        let authorization = Authorization {
            key_id: "AKIDEXAMPLE",
            date: "20150830",
            region: "us-east-1",
            service: "iam",
            signed_headers: "content-type;host;x-amz-date",
            signature: SIGNATURE,
        };
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("iam.amazonaws.com"));
        let form = "application/x-www-form-urlencoded;   charset=utf-8";
        headers.insert("content-type", HeaderValue::from_static(form));
        headers.insert("x-amz-date", HeaderValue::from_static(STAMP));
        (authorization, headers)
    }

    #[test]
    fn the_published_example_of_signature_version_4_verifies() {
        let (authorization, headers) = example();
        let query = "Version=2010-05-08&Action=ListUsers";
        let signed = Signed { method: "GET", path: "/", query, headers: &headers, body: b"" };
        let canonical = canonical(&signed, authorization.signed_headers).unwrap();
        let secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";
        assert_eq!(signature(&authorization, &canonical, STAMP, secret), SIGNATURE);
    }

    fn signed_request(secret: &str, stamp: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("host", HeaderValue::from_static("127.0.0.1:1"));
        headers.insert("x-amz-date", HeaderValue::from_static(stamp));
        let authorization = Authorization {
            key_id: "AKIA",
            date: "20260102",
            region: "us-west-2",
            service: "ec2",
            signed_headers: "host;x-amz-date",
            signature: "",
        };
        let request = Signed { method: "POST", path: "/", query: "", headers: &headers, body: b"Action=X" };
        let signature =
            signature(&authorization, &canonical(&request, authorization.signed_headers).unwrap(), stamp, secret);
        let value = format!(
            "AWS4-HMAC-SHA256 Credential=AKIA/20260102/us-west-2/ec2/aws4_request, SignedHeaders=host;x-amz-date, \
             Signature={signature}"
        );
        headers.insert("authorization", HeaderValue::from_str(&value).unwrap());
        headers
    }

    fn answer(headers: &HeaderMap, body: &[u8], now: &str) -> Result<(), String> {
        let request = Signed { method: "POST", path: "/", query: "", headers, body };
        let key = AccessKey { id: "AKIA".into(), secret: "right".into() };
        check(&request, &key, "us-west-2", humantime::parse_rfc3339(now).unwrap()).map_err(|fault| fault.code)
    }

    const NOW: &str = "2026-01-02T03:04:05Z";

    #[test]
    fn the_right_secret_is_accepted_and_a_wrong_one_is_an_auth_failure() {
        assert_eq!(answer(&signed_request("right", "20260102T030405Z"), b"Action=X", NOW), Ok(()));
        assert_eq!(answer(&signed_request("wrong", "20260102T030405Z"), b"Action=X", NOW), Err("AuthFailure".into()));
    }

    #[test]
    fn a_body_that_was_changed_after_signing_is_an_auth_failure() {
        assert_eq!(answer(&signed_request("right", "20260102T030405Z"), b"Action=Y", NOW), Err("AuthFailure".into()));
    }

    #[test]
    fn a_clock_more_than_fifteen_minutes_off_is_an_expired_request() {
        let headers = signed_request("right", "20260102T030405Z");
        for near in ["2026-01-02T03:19:05Z", "2026-01-02T02:49:05Z"] {
            assert_eq!(answer(&headers, b"Action=X", near), Ok(()), "{near}");
        }
        for far in ["2026-01-02T03:19:06Z", "2026-01-02T02:49:04Z"] {
            assert_eq!(answer(&headers, b"Action=X", far), Err("RequestExpired".into()), "{far}");
        }
    }

    #[test]
    fn a_request_without_signature_lacks_a_token_and_a_garbled_one_is_incomplete() {
        assert_eq!(answer(&HeaderMap::new(), b"", NOW), Err("MissingAuthenticationToken".into()));
        for garbled in ["Basic YTpi", "AWS4-HMAC-SHA256 Credential=AKIA", "AWS4-HMAC-SHA256 x"] {
            let mut headers = signed_request("right", "20260102T030405Z");
            headers.insert("authorization", HeaderValue::from_str(garbled).unwrap());
            assert_eq!(answer(&headers, b"", NOW), Err("IncompleteSignature".into()), "{garbled}");
        }
    }
}
