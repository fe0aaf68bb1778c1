//! Computes Signature Version 4 from the received request, as AWS's documentation describes it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::server::{Request, SECRET};

pub(crate) fn check(request: &Request, region: &str, service: &str) {
    let header = |name: &str| request.headers[name].to_str().unwrap().to_owned();
    let authorization = header("authorization");
    let part = |name: &str| {
        let (_, rest) = authorization.split_once(&format!("{name}=")).unwrap();
        rest.split(',').next().unwrap().to_owned()
    };
    assert!(authorization.starts_with("AWS4-HMAC-SHA256 "), "{authorization}");
    let stamp = header("x-amz-date");
    let scope = format!("{}/{region}/{service}/aws4_request", &stamp[..8]);
    assert_eq!(part("Credential"), format!("AKIATEST/{scope}"));

    let signed = part("SignedHeaders");
    for name in ["host", "x-amz-date", "x-amz-security-token"] {
        assert!(signed.split(';').any(|s| s == name), "{name} is not signed: {signed}");
    }
    let mut canonical = format!("{}\n{}\n{}\n", request.method, request.uri.path(), request.uri.query().unwrap_or(""));
    for name in signed.split(';') {
        canonical += &format!("{name}:{}\n", header(name).trim());
    }
    canonical += &format!("\n{signed}\n{}", hex::encode(Sha256::digest(&request.body)));
    assert_eq!(part("Signature"), sign(SECRET, &stamp, &scope, &canonical), "of {canonical}");
}

pub(crate) fn sign(secret: &str, stamp: &str, scope: &str, canonical: &str) -> String {
    let to_sign = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", hex::encode(Sha256::digest(canonical)));
    let mut key = format!("AWS4{secret}").into_bytes();
    for text in scope.split('/') {
        key = mac(&key, text);
    }
    hex::encode(mac(&key, &to_sign))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}
