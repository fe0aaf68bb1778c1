use http::{HeaderMap, HeaderValue};

use super::*;

// The example in AWS's documentation of Signature Version 4 (ListUsers), with its published signature.
const STAMP: &str = "20150830T123600Z";
const SIGNATURE: &str = "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7";

fn proof(region: &str, service: &str, signed_headers: &str, stamp: &str) -> Proof {
    let stamp = format!(
        "{}-{}-{}T{}:{}:{}Z",
        &stamp[..4],
        &stamp[4..6],
        &stamp[6..8],
        &stamp[9..11],
        &stamp[11..13],
        &stamp[13..15]
    );
    Proof {
        key_id: "AKIA".into(),
        region: region.into(),
        service: service.into(),
        signed_headers: signed_headers.into(),
        signature: String::new(),
        sent: at(&stamp),
        token: None,
        expires: None,
    }
}

#[test]
fn published_example_of_signature_v4_verifies() {
    let proof = proof("us-east-1", "iam", "content-type;host;x-amz-date", STAMP);
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("iam.amazonaws.com"));
    let form = "application/x-www-form-urlencoded;   charset=utf-8";
    headers.insert("content-type", HeaderValue::from_static(form));
    headers.insert("x-amz-date", HeaderValue::from_static(STAMP));
    let query = "Version=2010-05-08&Action=ListUsers";
    let signed = Signed { method: "GET", path: "/", query, headers: &headers, body: b"" };
    assert_eq!(signature(&signed, &proof, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY").unwrap(), SIGNATURE);
}

fn key() -> AccessKey {
    AccessKey { id: "AKIA".into(), secret: "right".into(), session_token: None }
}

/// Returns headers that are signed with a secret. They include the session token if it is given.
fn signed_request(secret: &str, stamp: &'static str, token: Option<&'static str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("127.0.0.1:1"));
    headers.insert("x-amz-date", HeaderValue::from_static(stamp));
    let mut names = "host;x-amz-date".to_owned();
    if let Some(token) = token {
        headers.insert("x-amz-security-token", HeaderValue::from_static(token));
        names.push_str(";x-amz-security-token");
    }
    let request = Signed { method: "POST", path: "/", query: "", headers: &headers, body: b"Action=X" };
    let proof = Proof { token: token.map(str::to_owned), ..proof("us-west-2", "ec2", &names, stamp) };
    let signature = signature(&request, &proof, secret).unwrap();
    let value = format!(
        "AWS4-HMAC-SHA256 Credential=AKIA/{}/us-west-2/ec2/aws4_request, SignedHeaders={names}, Signature={signature}",
        &stamp[..8]
    );
    headers.insert("authorization", HeaderValue::from_str(&value).unwrap());
    headers
}

fn at(time: &str) -> SystemTime {
    humantime::parse_rfc3339(time).unwrap()
}

fn answer(headers: &HeaderMap, body: &[u8], now: &str) -> Result<(), String> {
    let request = Signed { method: "POST", path: "/", query: "", headers, body };
    check(&request, &key(), ("ec2", "us-west-2"), at(now)).map_err(|fault| fault.code)
}

const SENT: &str = "20260102T030405Z";
const NOW: &str = "2026-01-02T03:04:05Z";

#[test]
fn clock_skew_over_5_minutes_is_auth_failure() {
    let headers = signed_request("right", SENT, None);
    for near in ["2026-01-02T03:09:05Z", "2026-01-02T02:59:05Z"] {
        assert_eq!(answer(&headers, b"Action=X", near), Ok(()), "{near}");
    }
    for far in ["2026-01-02T03:09:06Z", "2026-01-02T02:59:04Z"] {
        assert_eq!(answer(&headers, b"Action=X", far), Err("AuthFailure".into()), "{far}");
    }
}

#[test]
fn missing_and_malformed_signatures_have_different_errors() {
    assert_eq!(answer(&HeaderMap::new(), b"", NOW), Err("MissingAuthenticationToken".into()));
    for garbled in ["Basic YTpi", "AWS4-HMAC-SHA256 Credential=AKIA", "AWS4-HMAC-SHA256 x"] {
        let mut headers = signed_request("right", SENT, None);
        headers.insert("authorization", HeaderValue::from_str(garbled).unwrap());
        assert_eq!(answer(&headers, b"", NOW), Err("IncompleteSignature".into()), "{garbled}");
    }
}

fn presigned(secret: &str, more: &str) -> String {
    let query = format!(
        "Action=DescribeVolumes&Version=2016-11-15{more}&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Date={SENT}\
         &X-Amz-Credential=AKIA%2F20260102%2Fus-west-2%2Fec2%2Faws4_request&X-Amz-Expires=60&X-Amz-SignedHeaders=host"
    );
    let headers = HeaderMap::from_iter([(http::header::HOST, HeaderValue::from_static("127.0.0.1:1"))]);
    let request = Signed { method: "GET", path: "/", query: &query, headers: &headers, body: b"" };
    let proof = Proof { expires: Some(Duration::from_secs(60)), ..proof("us-west-2", "ec2", "host", SENT) };
    let signature = signature(&request, &proof, secret).unwrap();
    format!("{query}&X-Amz-Signature={signature}")
}

fn answer_query(query: &str, now: &str) -> Result<(), String> {
    let headers = HeaderMap::from_iter([(http::header::HOST, HeaderValue::from_static("127.0.0.1:1"))]);
    let request = Signed { method: "GET", path: "/", query, headers: &headers, body: b"" };
    check(&request, &key(), ("ec2", "us-west-2"), at(now)).map_err(|fault| fault.code)
}

/// A modified query string is never accepted.
#[test]
fn signed_query_string_is_accepted_until_expiry() {
    let query = presigned("right", "&MaxResults=5");
    assert_eq!(answer_query(&query, NOW), Ok(()));
    assert_eq!(answer_query(&query, "2026-01-02T03:05:05Z"), Ok(()));
    assert_eq!(answer_query(&query, "2026-01-02T03:05:06Z"), Err("RequestExpired".into()));
    assert_eq!(answer_query(&query, "2026-01-02T02:59:04Z"), Err("AuthFailure".into()));
    assert_eq!(answer_query(&query.replace("MaxResults=5", "MaxResults=6"), NOW), Err("AuthFailure".into()));
    assert_eq!(answer_query(&presigned("wrong", ""), NOW), Err("AuthFailure".into()));
}

#[test]
fn signed_query_without_a_part_is_incomplete_signature() {
    let query = presigned("right", "");
    for part in ["Algorithm", "Date", "Credential", "Expires", "SignedHeaders", "Signature"] {
        let without = query.replace(&format!("X-Amz-{part}="), "Unrelated=");
        assert_eq!(answer_query(&without, NOW), Err("IncompleteSignature".into()), "{part}");
    }
    for bad in ["X-Amz-Expires=0", "X-Amz-Expires=604801", "X-Amz-Expires=soon"] {
        let changed = query.replace("X-Amz-Expires=60", bad);
        assert_eq!(answer_query(&changed, NOW), Err("IncompleteSignature".into()), "{bad}");
    }
}
