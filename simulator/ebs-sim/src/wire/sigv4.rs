//! Verifies Signature Version 4, with EC2's errors. To do so, it signs the request again with the known secret and
//! compares the signatures.

mod proof;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SignatureLocation, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use http::HeaderMap;

use crate::api::Fault;
use crate::config::AccessKey;

use proof::Proof;

/// Maximum difference between the client's clock and the simulator's.
const MAX_SKEW: Duration = Duration::from_mins(5);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
}

fn auth_failure(message: &str) -> Fault {
    Fault::with_status(401, "AuthFailure", message)
}

fn not_validated() -> Fault {
    auth_failure("AWS was not able to validate the provided access credentials")
}

/// EC2's error for temporary credentials, or a signed query string, that are too old.
pub(crate) fn expired() -> Fault {
    Fault::new("RequestExpired", "Request has expired.")
}

fn incomplete(what: &str) -> Fault {
    Fault::new("IncompleteSignature", format!("The request signature does not conform to AWS standards: {what}."))
}

/// Verifies the signature of a request in its header or in its query string (a presigned URL).
///
/// # Errors
/// - `MissingAuthenticationToken` without a signature.
/// - `IncompleteSignature` for an unreadable signature.
/// - `AuthFailure` for an unknown key, a wrong secret, a wrong session token, a scope of another service or region, or
///   clocks that differ by more than 5 min.
/// - `RequestExpired` when a signed query string has expired.
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
    if !equal(signature(request, &proof, &key.secret)?.as_bytes(), proof.signature.as_bytes()) {
        return Err(not_validated());
    }
    match (now.duration_since(proof.sent), proof.expires) {
        (Ok(age), Some(good_for)) if age > good_for => Err(expired()),
        (Ok(age), None) if age > MAX_SKEW => Err(not_validated()),
        (Err(early), _) if early.duration() > MAX_SKEW => Err(not_validated()),
        _ => Ok(()),
    }
}

fn same_token(given: Option<&str>, wanted: Option<&str>) -> bool {
    equal(given.unwrap_or("").as_bytes(), wanted.unwrap_or("").as_bytes())
}

fn signature(request: &Signed<'_>, proof: &Proof, secret: &str) -> Result<String, Fault> {
    let mut settings = SigningSettings::default();
    // Exclude no header: the client lists the headers that it signed.
    settings.excluded_headers = None;
    if let Some(expires) = proof.expires {
        settings.signature_location = SignatureLocation::QueryParams;
        settings.expires_in = Some(expires);
    }
    let identity = Credentials::new(&proof.key_id, secret, proof.token.clone(), None, "the request").into();
    let params = SigningParams::builder().identity(&identity).region(&proof.region).name(&proof.service);
    let params = params.time(proof.sent).settings(settings).build().expect("all parameters are set").into();
    let path = if request.path.is_empty() { "/" } else { request.path };
    let query = if proof.expires.is_some() { proof::unsigned(request.query) } else { request.query.to_owned() };
    let uri = format!("{path}?{query}");
    let headers = signed_headers(request.headers, proof)?;
    let body = SignableBody::Bytes(request.body);
    let unsignable = |_| incomplete("the request cannot be signed");
    let request = SignableRequest::new(request.method, uri, headers.into_iter(), body).map_err(unsignable)?;
    Ok(sign(request, &params).map_err(unsignable)?.signature().to_owned())
}

/// Returns the headers that the client signed, except those that signing itself adds.
fn signed_headers<'a>(headers: &'a HeaderMap, proof: &'a Proof) -> Result<Vec<(&'a str, &'a str)>, Fault> {
    let mut signed = Vec::new();
    for name in proof.signed_headers.split(';') {
        if !headers.contains_key(name) {
            return Err(incomplete(&format!("the signed header {name} is missing")));
        }
        let values = headers.get_all(name).iter().filter(|_| !matches!(name, "x-amz-date" | "x-amz-security-token"));
        for value in values {
            signed.push((name, value.to_str().map_err(|_| incomplete(&format!("the header {name} is not ASCII")))?));
        }
    }
    if signed.iter().any(|(name, _)| *name == "host") {
        Ok(signed)
    } else {
        Err(incomplete("the header host is not signed"))
    }
}

/// Compares in constant time, so that the duration does not reveal where the first difference is.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}
