//! The keys of an API server: a CA, a certificate for the server's address, and the key that signs service account
//! tokens.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use rustls_pki_types::CertificateDer;

#[derive(Debug)]
pub(super) struct Pki {
    pub(super) ca: PathBuf,
    pub(super) ca_der: CertificateDer<'static>,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
    /// Private key of service account tokens.
    pub(super) signing_key: PathBuf,
    pub(super) signing_public_key: PathBuf,
}

impl Pki {
    pub(super) fn make(dir: &Path, address: IpAddr) -> anyhow::Result<Self> {
        let (ca_certificate, ca, ca_key) = authority()?;
        let issuer = Issuer::new(ca, ca_key);

        let key = KeyPair::generate().context("create a key for the server")?;
        let mut server = CertificateParams::default();
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.subject_alt_names = vec![SanType::IpAddress(address)];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = server.signed_by(&key, &issuer).context("create a certificate for the server")?;
        let signing = KeyPair::generate().context("create a key for service account tokens")?;

        let write = |name: &str, text: String| -> anyhow::Result<PathBuf> {
            let path = dir.join(name);
            std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
            Ok(path)
        };
        Ok(Self {
            ca: write("ca.pem", ca_certificate.pem())?,
            ca_der: ca_certificate.der().clone(),
            certificate: write("server.pem", certificate.pem())?,
            key: write("server.key", key.serialize_pem())?,
            signing_key: write("tokens.key", signing.serialize_pem())?,
            signing_public_key: write("tokens.pub", signing.public_key_pem())?,
        })
    }
}

/// Creates a CA. Returns its certificate, the parameters of the certificate, and its key.
pub(super) fn authority() -> anyhow::Result<(Certificate, CertificateParams, KeyPair)> {
    let key = KeyPair::generate().context("create a key for the authority")?;
    let mut ca = CertificateParams::default();
    ca.distinguished_name.push(DnType::CommonName, "made up for tests");
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let certificate = ca.self_signed(&key).context("create a certificate for the authority")?;
    Ok((certificate, ca, key))
}
