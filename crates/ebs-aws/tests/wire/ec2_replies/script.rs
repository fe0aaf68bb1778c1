//! Runs the scripts of `rows.tsv` in a simulated account that receives forms, as EC2's Query API does.
//!
//! A script is a list of steps, separated by `; `. `? STEP` marks the step that gets the quoted reply. `N* STEP & STEP`
//! repeats steps N times and replaces `#` with `b`, `c` …, and `until STEP & STEP` repeats them until the conditions
//! hold. Steps are:
//!
//! - settings of the account, before all others: `account`, `limits`, `policy`, `instance-type`, `max-lag`,
//!   `snapshot-interval`, `modifications`;
//! - changes of the simulator: `timing`, `rules`, `advance SECONDS`, `release`;
//! - checks: `state VOLUME STATE` for the volume's only attachment, and `whole-body`, which compares the body instead
//!   of the text;
//! - calls: `ACTION NAME=VALUE …`, where `NAME.N=VALUE*50` abbreviates fifty parameters, and the short forms of
//!   [`Account::form`]. A call must succeed, or fail with the code if `!CODE` precedes it. `x = CALL` stores the id of
//!   a short form as `$x`, and `x = ELEMENT of CALL` stores another element. Conditions on the reply follow ` | `: `has
//!   TEXT`, `lacks TEXT`, `refused`. `$i` is the instance in us-west-2a, and `$j` the one in us-west-2b.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use ebs_sim::Ec2Service;
use ebs_sim::engine::{Consistency, Engine, EngineConfig};
use ebs_sim::faults::{Effect, Rule, rules_from_json};
use ebs_sim::iam::Policy;
use http::{Request, Response};
use serde::de::DeserializeOwned;

use super::rows::{How, Row, example};
use super::signed;

const VERSION: &str = "Version=2016-11-15";
const CREATE: &str = "CreateVolume AvailabilityZone=us-west-2a Size=4 VolumeType=gp3";
const LAUNCH: &str = "RunInstances ImageId=ami-12345678 MinCount=1 MaxCount=1 Placement.AvailabilityZone=us-west-2a";
/// A cluster and one of its nodes.
const NODE: &str =
    r#""ClusterArn":"arn:aws:sagemaker:us-west-2:123456789012:cluster/c","NodeId":"i-0123456789abcdef0""#;
/// The most times that `until` repeats its steps. How stale a describe is varies at random, so several attempts may be
/// needed until one shows the required state.
const LOOKS: usize = 400;

#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) body: String,
    /// Empty for success.
    pub(super) code: String,
    pub(super) text: String,
    /// The request id in the reply's header.
    request_id: String,
}

pub(super) async fn provoke(row: &Row) -> Said {
    let script = match &row.how {
        How::Script(script) => script,
        How::Fault => return replaced(row).await,
        How::Not(why) => panic!("not provoked: {why}"),
    };
    let mut config = EngineConfig::default();
    let steps: Vec<&str> = script.split("; ").filter(|step| !configures(&mut config, step)).collect();
    let mut account = Account::start(config).await;
    for step in steps {
        account.step(step).await;
    }
    account.quoted.expect("a step with a question mark")
}

/// Replaces the reply to the first call of the row's action. A second call must succeed.
async fn replaced(row: &Row) -> Said {
    let (before, call) = match row.action.as_str() {
        "CreateVolume" => ("", "volume"),
        "AttachVolume" => ("v = volume", "attach $v /dev/xvdaa"),
        "DetachVolume" => ("v = volume; attach $v /dev/xvdaa", "DetachVolume VolumeId=$v"),
        "DeleteVolume" => ("v = volume", "DeleteVolume VolumeId=$v"),
        "ModifyVolume" => ("v = volume", "ModifyVolume Size=5 VolumeId=$v"),
        "CopyVolumes" => ("v = volume", "CopyVolumes SourceVolumeId=$v"),
        "DeleteSnapshot" => ("v = volume; s = snapshot $v", "DeleteSnapshot SnapshotId=$s"),
        describe => ("", describe),
    };
    let mut account = Account::start(EngineConfig::default()).await;
    for step in before.split("; ").filter(|step| !step.is_empty()) {
        account.step(step).await;
    }
    let (code, message, status) = (row.code.clone(), example(&row.text), row.status);
    let effect = Effect::Error { code, message, status, after_doing: false };
    account.engine.faults().add(Rule::new(effect).on(row.action.as_str()).times(1)).unwrap();
    account.step(&format!("? {call}")).await;
    account.step(call).await;
    account.quoted.unwrap()
}

/// Applies the step if it is a setting. Returns false otherwise.
fn configures(config: &mut EngineConfig, step: &str) -> bool {
    let (word, value) = step.split_once(' ').unwrap_or((step, ""));
    match word {
        "account" => config.account = json(value),
        "limits" => config.limits = Some(json(value)),
        "policy" => config.iam.policies = vec![Policy::parse("policy", value).unwrap()],
        "instance-type" => value.clone_into(&mut config.instance_type),
        "max-lag" => config.consistency = Consistency { max_lag: seconds(value) },
        "snapshot-interval" => config.snapshot_interval = Some(seconds(value)),
        "modifications" => config.modifications_per_day = Some(value.parse().unwrap()),
        _ => return false,
    }
    true
}

fn json<T: DeserializeOwned>(text: &str) -> T {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

fn seconds(text: &str) -> Duration {
    Duration::from_secs(text.parse().unwrap())
}

struct Account {
    engine: Engine,
    service: Ec2Service,
    /// The values of variables such as `$x`.
    names: BTreeMap<String, String>,
    quoted: Option<Said>,
}

impl Account {
    async fn start(config: EngineConfig) -> Self {
        let engine = Engine::start(config).await.unwrap();
        let instances = engine.snapshot_of_state().await.instances;
        let names = ["i", "j"].map(str::to_owned).into_iter().zip(instances.into_iter().map(|i| i.id)).collect();
        Self { service: Ec2Service::new(engine.clone()), engine, names, quoted: None }
    }

    async fn step(&mut self, step: &str) {
        let (is_quoted, step) = step.strip_prefix("? ").map_or((false, step), |step| (true, step));
        let mut last = None;
        if let Some(parts) = step.strip_prefix("until ") {
            let mut looks = 0;
            while last.is_none() {
                assert!(looks < LOOKS, "never: {parts}");
                looks += 1;
                last = self.parts(parts).await.ok();
            }
        } else if let Some((count, parts)) = step.split_once("* ").filter(|(count, _)| count.parse::<usize>().is_ok()) {
            for letter in ('b'..).take(count.parse().unwrap()) {
                self.parts(&parts.replace('#', &letter.to_string())).await.unwrap();
            }
        } else if step == "whole-body" {
            let said = self.quoted.as_mut().unwrap();
            assert!(said.body.contains(&format!("<RequestID>{}</RequestID>", said.request_id)), "{said:?}");
            said.text.clone_from(&said.body);
        } else {
            last = Some(self.parts(step).await.unwrap());
        }
        if is_quoted {
            let (said, before) = (last.unwrap(), self.quoted.take());
            assert!(before.is_none_or(|before| (before.code, before.text) == (said.code.clone(), said.text.clone())));
            self.quoted = Some(said);
        }
    }

    /// Runs the steps and returns the reply to the last one.
    async fn parts(&mut self, parts: &str) -> Result<Said, String> {
        let mut last = Said::default();
        for part in parts.split(" & ") {
            last = self.part(part).await?;
        }
        Ok(last)
    }

    async fn part(&mut self, part: &str) -> Result<Said, String> {
        let part =
            self.names.iter().fold(part.to_owned(), |part, (name, value)| part.replace(&format!("${name}"), value));
        let (word, rest) = part.split_once(' ').unwrap_or((&part, ""));
        match word {
            "timing" => self.engine.set_timing(json(rest)).await,
            "rules" => {
                for rule in rules_from_json(rest.as_bytes()).unwrap() {
                    self.engine.faults().add(rule).unwrap();
                }
            }
            "advance" => self.engine.advance(seconds(rest)),
            "release" => self.engine.release_all(),
            "state" => {
                let (volume, state) = rest.split_once(' ').unwrap();
                assert_eq!(self.attachment_state(volume).await.as_deref().unwrap_or("-"), state, "{part}");
            }
            _ => return self.call(&part).await,
        }
        Ok(Said::default())
    }

    async fn call(&mut self, call: &str) -> Result<Said, String> {
        let (call, conditions) = call.split_once(" | ").unwrap_or((call, ""));
        let (name, call) = call.split_once(" = ").map_or((None, call), |(name, call)| (Some(name), call));
        let (element, call) = call.split_once(" of ").map_or((None, call), |(element, call)| (Some(element), call));
        let (code, call) = call.strip_prefix('!').map_or((None, call), |call| {
            let (code, call) = call.split_once(' ').unwrap();
            (Some(code), call)
        });
        let said = self.ask(call).await;
        if let Some(name) = name {
            let word = call.split(' ').next().unwrap();
            let element = element.or(match word {
                "volume" => Some("volumeId"),
                "snapshot" => Some("snapshotId"),
                "launch" => Some("instanceId"),
                _ => None,
            });
            let value = element.and_then(|element| of(&said.body, element));
            self.names.insert(name.to_owned(), value.unwrap_or_else(|| panic!("{call}: {said:?}")));
        }
        let holds = |condition: &str| match condition.split_once(' ') {
            Some(("has", text)) => said.body.contains(text) || said.text.contains(text),
            Some(("lacks", text)) => !said.body.contains(text),
            _ => said.status != 200,
        };
        let conditions: Vec<&str> = conditions.split(" | ").filter(|condition| !condition.is_empty()).collect();
        if let Some(failed) = conditions.iter().find(|condition| !holds(condition)) {
            return Err(format!("{call}: not {failed}: {said:?}"));
        }
        assert!(code.is_none_or(|code| said.code == code), "{call}: {said:?}");
        Ok(said)
    }

    async fn ask(&self, call: &str) -> Said {
        let request = match call.split_once(' ') {
            None if call == "signed-with-wrong-clock" => return signed::with_a_clock_that_is_wrong().await,
            None if call == "signed-with-wrong-secret" => return signed::with_another_secret().await,
            Some(("node", rest)) => {
                let (action, volume) = rest.split_once(' ').unwrap();
                let request = Request::post("/").header("x-amz-target", format!("SageMaker.{action}ClusterNodeVolume"));
                request.body(Bytes::from(format!(r#"{{{NODE},"VolumeId":"{volume}"}}"#)))
            }
            _ => Request::post("/").body(Bytes::from(self.form(call))),
        };
        said(self.service.answer(request.unwrap()).await)
    }

    fn form(&self, call: &str) -> String {
        let (word, rest) = call.split_once(' ').unwrap_or((call, ""));
        let instance = &self.names["i"];
        let call = match (word, rest.split_once(' ')) {
            ("volume", _) => format!("{CREATE} {rest}"),
            ("launch", _) => format!("{LAUNCH} {rest}"),
            ("snapshot", _) => format!("CreateSnapshot VolumeId={rest}"),
            ("attach", Some((volume, device))) => {
                format!("AttachVolume VolumeId={volume} InstanceId={instance} Device={device}")
            }
            ("detach", _) => format!("DetachVolume VolumeId={rest} InstanceId={instance}"),
            _ => call.to_owned(),
        };
        let parameters = call.split_whitespace().map(|parameter| match parameter.rsplit_once('*') {
            Some((parameter, count)) => {
                let numbers = 1..=count.parse::<usize>().unwrap();
                numbers.map(|n| parameter.replace('N', &n.to_string())).collect::<Vec<_>>().join("&")
            }
            None => parameter.to_owned(),
        });
        format!("Action={}&{VERSION}", parameters.collect::<Vec<_>>().join("&"))
    }

    async fn attachment_state(&self, volume: &str) -> Option<String> {
        let volumes = self.engine.snapshot_of_state().await.volumes;
        let volume = volumes.into_iter().find(|v| v.id == volume)?;
        volume.attachments.into_iter().next().map(|a| a.state)
    }
}

pub(super) fn said(response: Response<Bytes>) -> Said {
    let status = response.status().as_u16();
    let request_id = response.headers().get("x-amzn-requestid").map(|id| id.to_str().unwrap().to_owned());
    let body = String::from_utf8(response.into_body().to_vec()).unwrap();
    let (code, text) = if let Ok(json) = serde_json::from_str::<serde_json::Value>(&body) {
        let member = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        (member("__type"), member("message"))
    } else {
        (of(&body, "Code").unwrap_or_default(), of(&body, "Message").unwrap_or_default())
    };
    Said { status, body, code, text, request_id: request_id.unwrap_or_default() }
}

fn of(xml: &str, name: &str) -> Option<String> {
    let text = all_of(xml, name).into_iter().next()?;
    let marks = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(marks.iter().fold(text, |text, (mark, is)| text.replace(mark, is)))
}

pub(super) fn all_of(xml: &str, name: &str) -> Vec<String> {
    xml.split(&format!("<{name}>")).skip(1).filter_map(|rest| Some(rest.split_once("</")?.0.to_owned())).collect()
}
