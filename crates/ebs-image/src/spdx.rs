//! The bill of materials in SPDX 2.3: the image, the driver's program with its crates, and the Debian packages of the
//! other files.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::contents::{LICENCES, NAME};
use crate::crates::Crate;
use crate::oci::{About, time};
use crate::package::Package;
use crate::platform::Platform;

const NOBODY_SAYS: &str = "NOASSERTION";

/// Returns the serialised document.
///
/// # Errors
/// Never for these values, but serialisation requires it.
pub fn document(
    platform: Platform,
    about: &About,
    packages: &[Package],
    crates: &[Crate],
    rust: &str,
) -> anyhow::Result<Vec<u8>> {
    let image = "SPDXRef-Image";
    let driver = "SPDXRef-Driver";
    let mut all = vec![
        package(image, NAME, &format!("v{}", about.version), "Apache-2.0"),
        package(driver, &format!("{NAME} (program)"), &about.version, "Apache-2.0"),
    ];
    all[0]["primaryPackagePurpose"] = json!("CONTAINER");
    all[1]["primaryPackagePurpose"] = json!("APPLICATION");
    let mut relations = vec![relation("SPDXRef-DOCUMENT", "DESCRIBES", image), relation(image, "CONTAINS", driver)];
    for debian in packages {
        let id = id("deb", &debian.name);
        relations.push(relation(image, "CONTAINS", &id));
        all.push(of_debian(&id, debian, platform));
    }
    for part in crates {
        let id = id("crate", &format!("{}-{}", part.name, part.version));
        relations.push(relation(driver, "STATIC_LINK", &id));
        all.push(of_crate(&id, part));
    }
    let std = "SPDXRef-RustStandardLibrary";
    relations.push(relation(driver, "STATIC_LINK", std));
    all.push(package(std, "rust-std", rust, "MIT OR Apache-2.0"));
    let content = json!([all, relations]);
    let unique = hex::encode(Sha256::digest(serde_json::to_vec(&content)?));
    let name = format!("{NAME}-{}-{platform}", about.version);
    let document = json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": name,
        "documentNamespace": format!("https://spdx.org/spdxdocs/{name}-{}", &unique[..32]),
        "creationInfo": { "created": time(about.epoch), "creators": [format!("Tool: ebs-image-{}", about.version)] },
        "packages": all,
        "relationships": relations,
    });
    Ok(serde_json::to_vec_pretty(&document)?)
}

fn of_debian(id: &str, debian: &Package, platform: Platform) -> Value {
    let licence = LICENCES.iter().find(|(name, _)| *name == debian.name).map_or(NOBODY_SAYS, |(_, licence)| licence);
    let mut about = package(id, &debian.name, &debian.version, licence);
    about["supplier"] = json!("Organization: Debian");
    about["sourceInfo"] = json!(format!("built by Debian from the source package {}", debian.source));
    about["licenseComments"] =
        json!(format!("of the files in the image; all licences are in /usr/share/doc/{}/copyright", debian.name));
    let version = debian.version.replace('+', "%2B").replace(':', "%3A");
    let purl = format!("pkg:deb/debian/{}@{version}?arch={platform}&distro=debian-12", debian.name);
    about["externalRefs"] = purl_reference(&purl);
    about
}

fn of_crate(id: &str, part: &Crate) -> Value {
    let mut about = package(id, &part.name, &part.version, &part.licence);
    about["downloadLocation"] =
        json!(format!("https://static.crates.io/crates/{0}/{0}-{1}.crate", part.name, part.version));
    if let Some(sum) = &part.sha256 {
        about["checksums"] = json!([{ "algorithm": "SHA256", "checksumValue": sum }]);
    }
    about["externalRefs"] = purl_reference(&format!("pkg:cargo/{}@{}", part.name, part.version.replace('+', "%2B")));
    about
}

fn purl_reference(purl: &str) -> Value {
    json!([{ "referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl }])
}

fn package(id: &str, name: &str, version: &str, licence: &str) -> Value {
    json!({
        "SPDXID": id,
        "name": name,
        "versionInfo": version,
        "downloadLocation": NOBODY_SAYS,
        "filesAnalyzed": false,
        "licenseConcluded": NOBODY_SAYS,
        "licenseDeclared": licence,
        "copyrightText": NOBODY_SAYS,
    })
}

fn relation(from: &str, kind: &str, to: &str) -> Value {
    json!({ "spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to })
}

/// Returns an id, which may contain only letters, digits, dots and hyphens.
fn id(kind: &str, name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' };
    format!("SPDXRef-{kind}-{}", name.chars().map(allowed).collect::<String>())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn sample() -> Value {
        let about = About {
            what: crate::contents::DRIVER_IMAGE,
            version: "1.2.3".to_owned(),
            commit: String::new(),
            epoch: 1_700_000_000,
        };
        let debian = Package {
            name: "libcom-err2".to_owned(),
            version: "1.47.0-2+b2".to_owned(),
            source: "e2fsprogs (1.47.0-2)".to_owned(),
            control: String::new(),
            entries: BTreeMap::new(),
        };
        let (name, version) = ("wasi_x".to_owned(), "0.1.0+wasi".to_owned());
        let part =
            Crate { name, version, licence: "MIT".to_owned(), sha256: Some("ab".repeat(32)), directory: "/".into() };
        let bytes = document(Platform::Arm64, &about, &[debian], &[part], "1.95.0").unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Image, driver, crates and Debian packages each have a version and a licence.
    #[test]
    fn every_relationship_of_the_bill_names_existing_packages() {
        let document = sample();
        let packages = document["packages"].as_array().unwrap();
        let mut ids: BTreeSet<&str> = packages.iter().map(|package| package["SPDXID"].as_str().unwrap()).collect();
        assert_eq!(ids.len(), packages.len(), "an id stands twice");
        ids.insert("SPDXRef-DOCUMENT");
        let relations = document["relationships"].as_array().unwrap();
        for relation in relations {
            for end in ["spdxElementId", "relatedSpdxElement"] {
                assert!(ids.contains(relation[end].as_str().unwrap()), "{relation}");
            }
        }
        // Each has one relationship: with the document, the image or the driver.
        assert_eq!(relations.len(), packages.len());
        for package in packages {
            assert_ne!(package["licenseDeclared"], NOBODY_SAYS, "{package}");
            assert!(!package["versionInfo"].as_str().unwrap().is_empty());
        }
    }

    #[test]
    fn purls_are_percent_encoded() {
        let document = sample();
        let of = |name: &str| {
            let packages = document["packages"].as_array().unwrap();
            let package = packages.iter().find(|package| package["name"] == name).unwrap();
            package["externalRefs"][0]["referenceLocator"].as_str().unwrap().to_owned()
        };
        assert_eq!(of("libcom-err2"), "pkg:deb/debian/libcom-err2@1.47.0-2%2Bb2?arch=arm64&distro=debian-12");
        assert_eq!(of("wasi_x"), "pkg:cargo/wasi_x@0.1.0%2Bwasi");
    }
}
