//! A simulated account that receives forms, as EC2's Query API does, and its replies.

use bytes::Bytes;
use ebs_sim::Ec2Service;
use ebs_sim::engine::{Engine, EngineConfig, TimingOverride};
use http::{Request, Response};

/// An hour, for states that must not end during a test.
pub(super) const LONG_MS: u64 = 3_600_000;
const VERSION: &str = "Version=2016-11-15";
/// A cluster and one of its nodes.
const NODE: &str =
    r#""ClusterArn":"arn:aws:sagemaker:us-west-2:123456789012:cluster/c","NodeId":"i-0123456789abcdef0""#;

/// A reply, raw and parsed.
#[derive(Debug, Clone)]
pub(super) struct Said {
    pub(super) status: u16,
    pub(super) body: String,
    /// Empty for success.
    pub(super) code: String,
    pub(super) text: String,
    /// The request id in the reply's header.
    pub(super) request_id: String,
}

/// The account. Its first instance is in us-west-2a, and the second one in us-west-2b.
pub(super) struct Account {
    pub(super) engine: Engine,
    pub(super) service: Ec2Service,
    pub(super) instance: String,
    pub(super) second: String,
}

impl Account {
    pub(super) async fn new() -> Self {
        Self::with(|_| ()).await
    }

    pub(super) async fn with(change: impl FnOnce(&mut EngineConfig)) -> Self {
        let mut config = EngineConfig::default();
        change(&mut config);
        let engine = Engine::start(config).await.unwrap();
        let ids: Vec<String> = engine.snapshot_of_state().await.instances.into_iter().map(|i| i.id).collect();
        let service = Ec2Service::new(engine.clone());
        Self { engine, service, instance: ids[0].clone(), second: ids[1].clone() }
    }

    /// Creates an account with these times of transitions.
    pub(super) async fn timed(timing: TimingOverride) -> Self {
        let account = Self::new().await;
        account.engine.set_timing(timing).await;
        account
    }

    pub(super) async fn ask(&self, form: &str) -> Said {
        let body = format!("{form}&{VERSION}");
        said(self.service.answer(Request::post("/").body(Bytes::from(body)).unwrap()).await)
    }

    /// Calls SageMaker about a volume of the node.
    pub(super) async fn ask_for_node(&self, action: &str, volume: &str) -> Said {
        let body = format!(r#"{{{NODE},"VolumeId":"{volume}"}}"#);
        let request = Request::post("/").header("x-amz-target", format!("SageMaker.{action}"));
        said(self.service.answer(request.body(Bytes::from(body)).unwrap()).await)
    }

    /// Sends a request that must succeed.
    pub(super) async fn done(&self, form: &str) -> Said {
        let said = self.ask(form).await;
        assert_eq!(said.status, 200, "{form}: {said:?}");
        said
    }

    /// Creates a resource and returns its id.
    async fn made(&self, form: &str, element: &str) -> String {
        of(&self.done(form).await.body, element).unwrap_or_else(|| panic!("{form} gave no {element}"))
    }

    /// Creates a gp3 volume of 4 GiB in the first instance's zone.
    pub(super) async fn volume(&self) -> String {
        self.made(CREATE, "volumeId").await
    }

    /// Creates a volume that is attached to the first instance.
    pub(super) async fn attached(&self, device: &str) -> String {
        let volume = self.volume().await;
        assert_eq!(self.attach(&volume, device).await.status, 200);
        volume
    }

    pub(super) async fn attach(&self, volume: &str, device: &str) -> Said {
        self.attach_to(&self.instance, volume, device).await
    }

    pub(super) async fn attach_to(&self, instance: &str, volume: &str, device: &str) -> Said {
        self.ask(&format!("Action=AttachVolume&VolumeId={volume}&InstanceId={instance}&Device={device}")).await
    }

    pub(super) async fn detach(&self, volume: &str) -> Said {
        self.ask(&format!("Action=DetachVolume&VolumeId={volume}&InstanceId={}", self.instance)).await
    }

    pub(super) async fn snapshot(&self, volume: &str) -> String {
        self.made(&format!("Action=CreateSnapshot&VolumeId={volume}"), "snapshotId").await
    }

    /// Launches another instance in the first one's zone.
    pub(super) async fn launched(&self) -> String {
        self.made(LAUNCH, "instanceId").await
    }

    /// Returns the state of a volume's only attachment at EC2.
    pub(super) async fn attachment_state(&self, volume: &str) -> Option<String> {
        let volumes = self.engine.snapshot_of_state().await.volumes;
        let volume = volumes.into_iter().find(|v| v.id == volume)?;
        volume.attachments.into_iter().next().map(|a| a.state)
    }
}

pub(super) const CREATE: &str = "Action=CreateVolume&AvailabilityZone=us-west-2a&Size=4&VolumeType=gp3";
pub(super) const LAUNCH: &str =
    "Action=RunInstances&ImageId=ami-12345678&MinCount=1&MaxCount=1&Placement.AvailabilityZone=us-west-2a";

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

/// Returns the text of the first element with the name.
pub(super) fn of(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let marks = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    Some(marks.iter().fold(text.to_owned(), |text, (mark, is)| text.replace(mark, is)))
}

/// Returns the texts of all elements with the name.
pub(super) fn all_of(xml: &str, name: &str) -> Vec<String> {
    xml.split(&format!("<{name}>")).skip(1).filter_map(|rest| Some(rest.split_once("</")?.0.to_owned())).collect()
}
