//! The data of a request's signature.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use percent_encoding::percent_decode_str;

use super::{Signed, incomplete};
use crate::api::Fault;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// Maximum validity of a signed query string, in seconds.
const LONGEST: u64 = 7 * 24 * 60 * 60;

/// The parts of a signature. They come from the `Authorization` header and related headers, or from the query string.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) key_id: String,
    pub(super) region: String,
    pub(super) service: String,
    /// Names of headers, separated by `;`.
    pub(super) signed_headers: String,
    pub(super) signature: String,
    pub(super) sent: SystemTime,
    pub(super) token: Option<String>,
    /// How long a signed query string is valid. `None` for a signed header, which is valid within the clock skew.
    pub(super) expires: Option<Duration>,
}

/// Returns the signature data in the `Authorization` header, else in the query string, else `None`.
pub(super) fn of(request: &Signed<'_>) -> Result<Option<Proof>, Fault> {
    let Some(header) = request.headers.get(http::header::AUTHORIZATION) else {
        let parts = in_query(request.query);
        return if parts.is_empty() { Ok(None) } else { proof(parts, true).map(Some) };
    };
    let header = header.to_str().map_err(|_| incomplete("the Authorization header is not ASCII"))?;
    let proof = proof(in_header(header, request.headers)?, false)?;
    if proof.token.is_some() && !proof.signed_headers.split(';').any(|name| name == "x-amz-security-token") {
        return Err(incomplete("the header x-amz-security-token is not signed"));
    }
    Ok(Some(proof))
}

/// Returns the parts of the signature from the headers, under their query string names without `X-Amz-`.
fn in_header(header: &str, headers: &HeaderMap) -> Result<BTreeMap<String, String>, Fault> {
    let not_understood = || incomplete("the Authorization header does not consist of AWS4-HMAC-SHA256 and three parts");
    let rest = header.strip_prefix(ALGORITHM).ok_or_else(not_understood)?;
    let mut parts = BTreeMap::from([("Algorithm".to_owned(), ALGORITHM.to_owned())]);
    for part in rest.split(',') {
        let (name, value) = part.trim().split_once('=').ok_or_else(not_understood)?;
        if !["Credential", "SignedHeaders", "Signature"].contains(&name) {
            return Err(not_understood());
        }
        parts.insert(name.to_owned(), value.to_owned());
    }
    for (name, header) in [("Date", "x-amz-date"), ("Security-Token", "x-amz-security-token")] {
        let value = headers.get(header).and_then(|value| value.to_str().ok());
        parts.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    }
    Ok(parts)
}

fn in_query(query: &str) -> BTreeMap<String, String> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter_map(|(name, value)| Some((text(name).strip_prefix("X-Amz-")?.to_owned(), text(value)))).collect()
}

fn text(raw: &str) -> String {
    percent_decode_str(&raw.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// Returns the query string as it was before it was signed.
pub(super) fn unsigned(query: &str) -> String {
    let is_signed = |pair: &&str| !text(pair.split('=').next().unwrap_or_default()).starts_with("X-Amz-");
    query.split('&').filter(is_signed).collect::<Vec<_>>().join("&")
}

fn proof(mut parts: BTreeMap<String, String>, expires: bool) -> Result<Proof, Fault> {
    let token = parts.remove("Security-Token");
    let mut take = |name: &str| parts.remove(name).ok_or_else(|| incomplete(&format!("{name} is missing")));
    if take("Algorithm")? != ALGORITHM {
        return Err(incomplete("X-Amz-Algorithm is not AWS4-HMAC-SHA256"));
    }
    let (credential, stamp) = (take("Credential")?, take("Date")?);
    let scope: Vec<&str> = credential.split('/').collect();
    let [key_id, date, region, service, "aws4_request"] = scope[..] else {
        return Err(incomplete("Credential is not KEY/DATE/REGION/SERVICE/aws4_request"));
    };
    if !stamp.starts_with(date) {
        return Err(incomplete("the credential scope and the request have different dates"));
    }
    let expires = if expires { Some(lifetime(&take("Expires")?)?) } else { None };
    Ok(Proof {
        key_id: key_id.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
        signed_headers: take("SignedHeaders")?,
        signature: take("Signature")?,
        sent: parse_stamp(&stamp).ok_or_else(|| incomplete("X-Amz-Date is not a time"))?,
        token,
        expires,
    })
}

fn lifetime(seconds: &str) -> Result<Duration, Fault> {
    let seconds = seconds.parse().ok().filter(|seconds| (1..=LONGEST).contains(seconds));
    let no_time = || incomplete("X-Amz-Expires is not a number of seconds up to a week");
    seconds.map(Duration::from_secs).ok_or_else(no_time)
}

fn parse_stamp(stamp: &str) -> Option<SystemTime> {
    let digits = |at: std::ops::Range<usize>| stamp.get(at).filter(|part| part.bytes().all(|b| b.is_ascii_digit()));
    let [year, month, day] = [digits(0..4)?, digits(4..6)?, digits(6..8)?];
    let [hour, minute, second] = [digits(9..11)?, digits(11..13)?, digits(13..15)?];
    if stamp.len() != 16 || stamp.as_bytes()[8] != b'T' || stamp.as_bytes()[15] != b'Z' {
        return None;
    }
    humantime::parse_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z")).ok()
}
