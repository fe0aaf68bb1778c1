//! Images on made-up bases, in the format of a registry.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;

use super::*;
use crate::oci::write;

const EPOCH: u64 = 1_700_000_000;
const URL: &str = "https://base.example/layer";

fn about() -> About {
    About { what: IMAGES[0], version: "1.2.3".to_owned(), commit: "abc".to_owned(), epoch: EPOCH }
}

/// Returns manifest and configuration of a base with one foreign and one ordinary layer.
fn said(version: &str) -> (Value, Value) {
    let config = json!({
        "architecture": "amd64", "os": "windows", "os.version": version, "created": "2026-01-01T00:00:00Z",
        "config": { "Cmd": ["c:\\windows\\system32\\cmd.exe"], "Env": ["PATH=C:\\Windows\\system32"], "User": "ContainerUser" },
        "rootfs": { "type": "layers", "diff_ids": ["sha256:1", "sha256:2"] },
        "history": [{ "created_by": "base" }, { "created_by": "update" }],
    });
    let layer = |kind: &str, digit: &str| {
        json!({ "mediaType": format!("application/vnd.docker.image.rootfs.{kind}.tar.gzip"), "size": 100,
                "digest": format!("sha256:{}", digit.repeat(64)) })
    };
    let mut foreign = layer("foreign.diff", "a");
    foreign["urls"] = json!([URL]);
    let manifest = json!({ "schemaVersion": 2, "layers": [foreign, layer("diff", "b")],
                           "config": { "digest": digest(&config) } });
    (manifest, config)
}

fn digest(of: &Value) -> String {
    use sha2::{Digest, Sha256};
    format!("sha256:{}", hex::encode(Sha256::digest(of.to_string())))
}

fn read(release: Release, (manifest, config): &(Value, Value)) -> anyhow::Result<Base> {
    Base::read(release, manifest.to_string().as_bytes(), config.to_string().as_bytes())
}

fn base(release: Release) -> Base {
    read(release, &said(&format!("{}42", release.build()))).unwrap()
}

fn tree() -> Tree {
    files(IMAGES[0], b"MZ the driver", &[("LICENSE".to_owned(), b"Apache-2.0".to_vec())]).unwrap()
}

/// Returns the files of the archive of an index on these bases.
fn index(releases: &[Release]) -> BTreeMap<String, Vec<u8>> {
    let images: Vec<Image> = releases.iter().map(|release| pack(&base(*release), &tree(), &about()).unwrap()).collect();
    let directory = tempfile::tempdir().unwrap();
    let to = directory.path().join("image.tar");
    write(&images.iter().collect::<Vec<_>>(), &about(), &to).unwrap();
    let mut files = BTreeMap::new();
    for entry in tar::Archive::new(std::fs::File::open(to).unwrap()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        files.insert(path, bytes);
    }
    files
}

fn blob<'a>(files: &'a BTreeMap<String, Vec<u8>>, descriptor: &Value) -> &'a [u8] {
    &files[&format!("blobs/{}", descriptor["digest"].as_str().unwrap().replace(':', "/"))]
}

fn json_of(files: &BTreeMap<String, Vec<u8>>, descriptor: &Value) -> Value {
    serde_json::from_slice(blob(files, descriptor)).unwrap()
}

/// Returns the index of the images, which the archive's index names.
fn images(files: &BTreeMap<String, Vec<u8>>) -> Value {
    let top: Value = serde_json::from_slice(&files["index.json"]).unwrap();
    json_of(files, &top["manifests"][0])
}

/// A node selects its own by `os.version`.
#[test]
fn index_has_one_image_for_each_version_of_windows() {
    let files = index(&Release::ALL);
    let index = images(&files);
    let mut seen = Vec::new();
    for manifest in index["manifests"].as_array().unwrap() {
        let platform = &manifest["platform"];
        assert_eq!((platform["os"].as_str(), platform["architecture"].as_str()), (Some("windows"), Some("amd64")));
        let config = json_of(&files, &json_of(&files, manifest)["config"]);
        assert_eq!(config["os.version"], platform["os.version"]);
        seen.push(platform["os.version"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, ["10.0.17763.42", "10.0.20348.42", "10.0.26100.42"]);
}

/// Foreign layers keep their URLs, and the archive contains none of the base's bytes.
#[test]
fn base_is_a_reference_and_our_layer_is_the_last() {
    let files = index(&[Release::Ltsc2022]);
    let manifest = json_of(&files, &images(&files)["manifests"][0]);
    let layers = manifest["layers"].as_array().unwrap();
    let kinds: Vec<&str> = layers.iter().map(|layer| layer["mediaType"].as_str().unwrap()).collect();
    let ordinary = "application/vnd.oci.image.layer.v1.tar+gzip";
    assert_eq!(kinds, ["application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", ordinary, ordinary]);
    assert_eq!(layers[0]["urls"], json!([URL]));
    let there: Vec<&String> =
        files.keys().filter(|path| path.starts_with("blobs/sha256/") && path.len() > 13).collect();
    assert_eq!(there.len(), 4, "index, manifest, configuration and our layer: {there:?}");
    assert!(!files.contains_key("manifest.json"), "Docker's form needs every layer");
    let annotations = &manifest["annotations"];
    assert_eq!(annotations["org.opencontainers.image.base.digest"], digest(&said("10.0.20348.42").0));
    let config = json_of(&files, &manifest["config"]);
    assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 3);
    assert_eq!(config["history"].as_array().unwrap().len(), 3);
    let settings = &config["config"];
    assert_eq!(settings["Entrypoint"], json!(["/aws-ebs-csi-driver.exe"]));
    assert_eq!((settings["User"].as_str(), settings.get("Cmd")), (Some("ContainerAdministrator"), None));
    assert_eq!(settings["Env"], json!(["PATH=C:\\Windows\\system32"]));
}

/// It has `Files` and `Hives`, with Windows' attributes, rights and times in extended headers.
#[test]
fn our_layer_has_the_format_of_windows_layers() {
    let files = index(&[Release::Ltsc2019]);
    let manifest = json_of(&files, &images(&files)["manifests"][0]);
    let mut bytes = Vec::new();
    GzDecoder::new(blob(&files, &manifest["layers"][2])).read_to_end(&mut bytes).unwrap();
    let mut seen = BTreeMap::new();
    for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let path = entry.path().unwrap().display().to_string();
        let extensions = entry.pax_extensions().unwrap().unwrap();
        let extensions: BTreeMap<String, String> = extensions
            .map(|each| each.unwrap())
            .map(|each| (each.key().unwrap().to_owned(), each.value().unwrap().to_owned()))
            .collect();
        assert_eq!(extensions["LIBARCHIVE.creationtime"], EPOCH.to_string());
        assert!(extensions["MSWINDOWS.rawsd"].starts_with("AQAEkBQA"), "{extensions:?}");
        seen.insert(path, extensions["MSWINDOWS.fileattr"].clone());
    }
    let expected = [
        ("Files", "16"),
        ("Files/ProgramData", "16"),
        ("Files/ProgramData/aws-ebs-csi-driver", "16"),
        ("Files/ProgramData/aws-ebs-csi-driver/LICENSE", "32"),
        ("Files/aws-ebs-csi-driver.exe", "32"),
        ("Hives", "16"),
    ];
    let expected = expected.map(|(path, attributes)| (path.to_owned(), attributes.to_owned()));
    assert_eq!(seen, expected.into());
}

/// It has the same form.
#[test]
fn registrar_has_a_separate_image() {
    let what = image_of(Path::new("out/csi-node-driver-registrar.exe")).unwrap();
    let about = About { what, ..about() };
    assert_eq!(about.reference(), "csi-node-driver-registrar:v1.2.3");
    let files = files(what, b"MZ", &[]).unwrap();
    assert_eq!(files.nodes().map(|(path, _)| path).collect::<Vec<_>>(), ["csi-node-driver-registrar.exe"]);
    let image = pack(&base(Release::Ltsc2022), &files, &about).unwrap();
    assert_ne!(image.digest(), pack(&base(Release::Ltsc2022), &tree(), &super::tests::about()).unwrap().digest());
}

#[test]
fn same_program_and_bases_give_the_same_bytes() {
    assert_eq!(index(&Release::ALL), index(&Release::ALL));
}

/// A change of a manifest and a configuration.
type Change = fn(&mut Value, &mut Value);

/// This covers another version, system or configuration, an unknown kind of layer, and a foreign layer without URLs.
/// The error names it.
#[test]
fn base_that_does_not_fit_is_rejected() {
    let changed = |change: Change| {
        let (mut manifest, mut config) = said("10.0.20348.42");
        change(&mut manifest, &mut config);
        if manifest["config"]["digest"] != "sha256:other" {
            manifest["config"]["digest"] = digest(&config).into();
        }
        format!("{:#}", read(Release::Ltsc2022, &(manifest, config)).unwrap_err())
    };
    let cases: [(Change, &str); 8] = [
        (|manifest, _| manifest["config"]["digest"] = "sha256:other".into(), "another configuration"),
        (|_, config| config["os.version"] = "10.0.17763.42".into(), "10.0.20348."),
        (|_, config| config["os"] = "linux".into(), "linux on amd64"),
        (|_, config| config["architecture"] = "arm64".into(), "windows on arm64"),
        (|manifest, _| manifest["layers"][1]["mediaType"] = "text/plain".into(), "text/plain"),
        (|manifest, _| manifest["layers"][0]["urls"] = json!([]), "no URLs"),
        (|manifest, _| manifest["layers"][1]["digest"] = "sha256:zz".into(), "not a descriptor"),
        (|_, config| config["rootfs"]["diff_ids"] = json!([]), "2 layers"),
    ];
    for (change, why) in cases {
        let refused = changed(change);
        assert!(refused.contains(why), "{why}: {refused}");
    }
    assert!(Base::read(Release::Ltsc2022, b"no JSON", b"{}").is_err());
    assert!(files(IMAGES[0], b"\x7fELF", &[]).is_err());
    assert!(image_of(Path::new("a/csi-proxy.exe")).is_err());
    assert!("ltsc2016".parse::<Release>().is_err());
}
