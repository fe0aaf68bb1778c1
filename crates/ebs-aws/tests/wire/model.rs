//! AWS's own model of EC2, from botocore: the parameters of requests and the elements of replies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::LazyLock;

use serde_json::Value;

static MODEL: LazyLock<Value> = LazyLock::new(|| {
    let python = boto3_python();
    let lib = python.parent().and_then(|bin| bin.parent()).expect("a program in a directory of programs").join("lib");
    let versions = std::fs::read_dir(&lib).unwrap_or_else(|e| panic!("{}: {e}", lib.display()));
    let file = "site-packages/botocore/data/ec2/2016-11-15/service-2.json.gz";
    let file = versions.map(|version| version.unwrap().path().join(file)).find(|path| path.exists());
    let packed = std::fs::File::open(file.expect("boto3's environment has a model of EC2")).unwrap();
    serde_json::from_reader(flate2::read::GzDecoder::new(std::io::BufReader::new(packed))).unwrap()
});

pub(crate) fn boto3_python() -> PathBuf {
    let python = std::env::var_os("EBS_TEST_BOTO3_PYTHON").map(PathBuf::from);
    python.expect("EBS_TEST_BOTO3_PYTHON is not set: `make test` installs boto3 and sets it")
}

fn shape(name: &Value) -> &'static Value {
    &MODEL["shapes"][name.as_str().expect("the name of a shape")]
}

/// Returns a member's name in requests: its query name, its capitalized location name, or its own name.
fn in_requests<'a>(name: &'a str, member: &'a Value) -> String {
    if let Some(name) = member["queryName"].as_str() {
        return name.to_owned();
    }
    let name = member["locationName"].as_str().unwrap_or(name);
    let (first, rest) = name.split_at(1);
    first.to_uppercase() + rest
}

/// Returns a parameter's problem, if it has one. `name` is the path of the parameter within the shape `of`.
fn problem(of: &Value, name: &str, value: &str) -> Option<String> {
    match of["type"].as_str().expect("the type of a shape") {
        "structure" => {
            let (first, rest) = name.split_once('.').unwrap_or((name, ""));
            let members = of["members"].as_object().expect("members");
            let member = members.iter().find(|(member, of)| in_requests(member, of) == first);
            match member {
                Some((_, member)) => problem(shape(&member["shape"]), rest, value),
                None => Some(format!("no parameter is called {first}")),
            }
        }
        "list" => {
            let (number, rest) = name.split_once('.').unwrap_or((name, ""));
            match number.parse::<usize>() {
                Ok(1..) => problem(shape(&of["member"]["shape"]), rest, value),
                _ => Some(format!("{number:?} is no number in a list")),
            }
        }
        _ if !name.is_empty() => Some(format!("{name} of what has no parts")),
        "integer" => value.parse::<i32>().err().map(|e| e.to_string()),
        "long" => value.parse::<i64>().err().map(|e| e.to_string()),
        "boolean" => value.parse::<bool>().err().map(|e| e.to_string()),
        "string" | "timestamp" => None,
        other => Some(format!("a parameter of type {other}")),
    }
}

/// Checks each parameter of a request: the model must have it for this action, with this type.
pub(crate) fn check_request(form: &BTreeMap<String, String>) {
    let action = &form["Action"];
    let operation = &MODEL["operations"][action];
    assert!(operation.is_object(), "EC2 has no action {action}");
    assert_eq!(MODEL["metadata"]["apiVersion"], form["Version"].as_str(), "{action}");
    let input = shape(&operation["input"]["shape"]);
    for (name, value) in form.iter().filter(|(name, _)| !["Action", "Version"].contains(&name.as_str())) {
        assert_eq!(problem(input, name, value), None, "{action}: {name}={value}");
    }
}

/// Returns the paths of all elements that a reply to the action can have. List items are omitted.
pub(crate) fn elements_of_reply(action: &str, depth: usize) -> Vec<String> {
    let output = &MODEL["operations"][action]["output"];
    let mut paths = Vec::new();
    if output.is_object() {
        elements(shape(&output["shape"]), "", depth, &mut paths);
    }
    paths
}

fn elements(of: &Value, path: &str, depth: usize, paths: &mut Vec<String>) {
    match of["type"].as_str() {
        Some("structure") if depth > 0 => {
            for (name, member) in of["members"].as_object().expect("members") {
                let path = format!("{path}/{}", member["locationName"].as_str().unwrap_or(name));
                paths.push(path.clone());
                elements(shape(&member["shape"]), &path, depth - 1, paths);
            }
        }
        Some("list") => elements(shape(&of["member"]["shape"]), &format!("{path}/item"), depth, paths),
        _ => {}
    }
}

/// The corpus must contain every element that the adapter reads.
#[test]
fn every_corpus_element_exists_in_the_aws_api_model() {
    let mut replies = 0;
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus")).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap();
        let root = document.root_element();
        // The model does not describe error answers, which belong to the protocol.
        let Some(action) = root.tag_name().name().strip_suffix("Response").filter(|action| !action.is_empty()) else {
            continue;
        };
        let known = elements_of_reply(action, 8);
        for element in root.descendants().filter(|node| node.is_element() && *node != root) {
            let names: Vec<&str> =
                element.ancestors().filter(|node| node.is_element()).map(|node| node.tag_name().name()).collect();
            let path: String = names.iter().rev().skip(1).map(|name| format!("/{name}")).collect();
            // The model lists neither the request id and `return`, which every reply may have, nor the items of a list.
            let of_protocol = ["/requestId", "/return"].contains(&path.as_str()) || path.ends_with("/item");
            assert!(of_protocol || known.contains(&path), "{action}: {path}");
        }
        replies += 1;
    }
    assert!(replies >= 19, "{replies} replies");
}
