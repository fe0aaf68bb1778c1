//! Finding the signature in a request.

use std::collections::BTreeMap;
use std::time::Duration;

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::{Proof, Signed, incomplete};
use crate::api::Fault;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The longest that a signed query string may be good for, in seconds.
const LONGEST: u64 = 7 * 24 * 60 * 60;

/// The proof in the `Authorization` header, else the one in the query string, else none.
///
/// # Errors
/// `IncompleteSignature` for one that cannot be read.
pub(super) fn of(request: &Signed<'_>) -> Result<Option<Proof>, Fault> {
    if let Some(header) = request.headers.get(http::header::AUTHORIZATION) {
        let header = header.to_str().map_err(|_| incomplete("the Authorization header is not ASCII"))?;
        return in_header(header, request.headers).map(Some);
    }
    let query = signing_parameters(request.query);
    if query.is_empty() { Ok(None) } else { in_query(&query).map(Some) }
}

fn in_header(header: &str, headers: &HeaderMap) -> Result<Proof, Fault> {
    let rest =
        header.strip_prefix(ALGORITHM).ok_or_else(|| incomplete("the Authorization header is not AWS4-HMAC-SHA256"))?;
    let (mut credential, mut signed_headers, mut signature) = (None, None, None);
    for part in rest.split(',') {
        match part.trim().split_once('=') {
            Some(("Credential", value)) => credential = Some(value),
            Some(("SignedHeaders", value)) => signed_headers = Some(value),
            Some(("Signature", value)) => signature = Some(value),
            _ => return Err(incomplete("the Authorization header has a part that is not understood")),
        }
    }
    let signed_headers = signed_headers.ok_or_else(|| incomplete("SignedHeaders is missing"))?;
    let token = text_of(headers, "x-amz-security-token");
    if token.is_some() && !signed_headers.split(';').any(|name| name == "x-amz-security-token") {
        return Err(incomplete("the header x-amz-security-token is not signed"));
    }
    Ok(Proof {
        signed_headers: signed_headers.to_owned(),
        signature: signature.ok_or_else(|| incomplete("Signature is missing"))?.to_owned(),
        stamp: text_of(headers, "x-amz-date").ok_or_else(|| incomplete("X-Amz-Date is missing"))?,
        token,
        expires: None,
        ..scope(credential.ok_or_else(|| incomplete("Credential is missing"))?)?
    })
}

fn text_of(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// The parameters `X-Amz-…` of a query string.
fn signing_parameters(query: &str) -> BTreeMap<String, String> {
    let text = |raw: &str| percent_decode_str(&raw.replace('+', " ")).decode_utf8_lossy().into_owned();
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (text(name), text(value)))
        .filter(|(name, _)| name.starts_with("X-Amz-"))
        .collect()
}

fn in_query(query: &BTreeMap<String, String>) -> Result<Proof, Fault> {
    let of = |name: &str| query.get(name).cloned().ok_or_else(|| incomplete(&format!("{name} is missing")));
    if of("X-Amz-Algorithm")? != ALGORITHM {
        return Err(incomplete("X-Amz-Algorithm is not AWS4-HMAC-SHA256"));
    }
    let expires = of("X-Amz-Expires")?.parse().ok().filter(|seconds| (1..=LONGEST).contains(seconds));
    Ok(Proof {
        signed_headers: of("X-Amz-SignedHeaders")?,
        signature: of("X-Amz-Signature")?,
        stamp: of("X-Amz-Date")?,
        token: query.get("X-Amz-Security-Token").cloned(),
        expires: Some(Duration::from_secs(
            expires.ok_or_else(|| incomplete("X-Amz-Expires is no number of seconds up to a week"))?,
        )),
        ..scope(&of("X-Amz-Credential")?)?
    })
}

/// A proof of which only the credential is known.
fn scope(credential: &str) -> Result<Proof, Fault> {
    let parts: Vec<&str> = credential.split('/').collect();
    let [key_id, date, region, service, "aws4_request"] = parts[..] else {
        return Err(incomplete("Credential is not KEY/DATE/REGION/SERVICE/aws4_request"));
    };
    Ok(Proof {
        key_id: key_id.to_owned(),
        date: date.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
        signed_headers: String::new(),
        signature: String::new(),
        stamp: String::new(),
        token: None,
        expires: None,
    })
}
