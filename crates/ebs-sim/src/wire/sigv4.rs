//! Checking a Signature Version 4, the way EC2 answers to a wrong one.

mod proof;
#[cfg(test)]
mod tests;

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

/// What a request says of itself to prove who sent it, from its `Authorization` header or from its query string.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Proof {
    key_id: String,
    date: String,
    region: String,
    service: String,
    signed_headers: String,
    signature: String,
    /// `X-Amz-Date`, wherever it was.
    stamp: String,
    /// `X-Amz-Security-Token`, wherever it was.
    token: Option<String>,
    /// How long a signed query string is good for; a header is good for the skew of the clocks.
    expires: Option<Duration>,
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

/// Checks the signature of a request: in its header, or in its query string (a presigned URL).
///
/// # Errors
/// `MissingAuthenticationToken` without a signature, `IncompleteSignature` for one that cannot be read, `AuthFailure`
/// for an unknown key, a wrong secret, a wrong session token or a foreign scope, `RequestExpired` when the clocks are
/// more than 15 min apart or the time of a signed query string is over.
pub(crate) fn check(
    request: &Signed<'_>,
    key: &AccessKey,
    (service, region): (&str, &str),
    now: SystemTime,
) -> Result<(), Fault> {
    let proof = proof::of(request)?.ok_or_else(|| {
        Fault::with_status(
            403,
            "MissingAuthenticationToken",
            "The request must contain a valid (registered) AWS access key ID and signature",
        )
    })?;
    if proof.key_id != key.id || !same_token(proof.token.as_deref(), key.session_token.as_deref()) {
        return Err(not_validated());
    }
    if proof.service != service || proof.region != region {
        return Err(auth_failure(&format!("Credential should be scoped to region {region} and service {service}")));
    }
    if !proof.stamp.starts_with(&proof.date) {
        return Err(incomplete("the date of the credential scope is not that of the request"));
    }
    let expected = signature(&proof, &canonical(request, &proof.signed_headers)?, &key.secret);
    if !equal(expected.as_bytes(), proof.signature.as_bytes()) {
        return Err(not_validated());
    }
    in_time(&proof, now)
}

fn same_token(given: Option<&str>, wanted: Option<&str>) -> bool {
    equal(given.unwrap_or("").as_bytes(), wanted.unwrap_or("").as_bytes())
}

fn in_time(proof: &Proof, now: SystemTime) -> Result<(), Fault> {
    let sent = parse_stamp(&proof.stamp).ok_or_else(|| incomplete("X-Amz-Date is no time"))?;
    let good_for = proof.expires.unwrap_or(MAX_SKEW);
    let in_time = match now.duration_since(sent) {
        Ok(age) => age <= good_for,
        Err(early) => early.duration() <= MAX_SKEW,
    };
    if in_time { Ok(()) } else { Err(Fault::new("RequestExpired", "Request has expired.")) }
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
        .filter(|(name, _)| name != "X-Amz-Signature")
        .collect();
    pairs.sort();
    pairs.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}

fn signature(proof: &Proof, canonical: &str, secret: &str) -> String {
    let scope = format!("{}/{}/{}/aws4_request", proof.date, proof.region, proof.service);
    let digest = hex::encode(Sha256::digest(canonical.as_bytes()));
    let to_sign = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{digest}", proof.stamp);
    let mut key = hmac(format!("AWS4{secret}").as_bytes(), &proof.date);
    for part in [proof.region.as_str(), &proof.service, "aws4_request"] {
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
