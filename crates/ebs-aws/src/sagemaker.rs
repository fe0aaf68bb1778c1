//! Calls SageMaker with JSON. The requests are signed and sent like EC2's.

use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_types::SdkConfig;
use aws_types::request_id::RequestId;
use ebs_ec2::Action;
use serde::Deserialize;

use crate::call_monitor::CallMonitor;
use crate::json_reply::code_and_message;
use crate::refused::Refused;
use crate::service::{Names, Service, post};
use crate::user_agent::ExecutionEnvironment;
use crate::{endpoint, partition};

const NAMES: Names = Names { service: "SageMaker", signing: "sagemaker", api_version: "2017-07-24" };
const CONTENT_TYPE: &str = "application/x-amz-json-1.1";

pub(crate) struct SageMaker(Service);

/// SageMaker's reply to an attach or a detach. The driver takes the attach time and the state from EC2 instead.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    #[serde(rename = "VolumeId")]
    pub(crate) volume_id: Option<String>,
    #[serde(rename = "NodeId")]
    pub(crate) node_id: Option<String>,
    #[serde(rename = "DeviceName")]
    pub(crate) device_name: Option<String>,
    #[serde(skip)]
    request_id: Option<String>,
}

impl RequestId for Answer {
    fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }
}

impl SageMaker {
    pub(crate) fn new(
        shared: &SdkConfig,
        explicit: Option<String>,
        http: SharedHttpClient,
        agent: ExecutionEnvironment,
    ) -> Self {
        let url = endpoint::url(&endpoint::SAGEMAKER, explicit, shared, own_url);
        Self(Service::new(NAMES, shared, url, http, agent))
    }

    pub(crate) fn region(&self) -> &str {
        self.0.region()
    }

    /// Returns the operation for one call, which takes the request's body as text and sends it once.
    pub(crate) fn operation(&self, monitor: &CallMonitor) -> Operation<String, Answer, Refused> {
        let action = monitor.action;
        self.0.operation(monitor, move |body| request(action, body), answer)
    }
}

fn own_url(region: &str, fips: bool, dual_stack: bool) -> String {
    let partition = partition::of(region);
    let service = match (fips, dual_stack, partition.name) {
        (false, ..) => "api.sagemaker",
        // Only these two partitions use this host name, and only without dual stack.
        (true, false, "aws" | "aws-us-gov") => "api-fips.sagemaker",
        (true, ..) => "api.sagemaker-fips",
    };
    format!("https://{service}.{region}.{}", partition.suffix(dual_stack))
}

fn request(action: Action, body: String) -> Result<HttpRequest, BoxError> {
    let mut request = post(CONTENT_TYPE, body)?;
    request.headers_mut().insert("x-amz-target", format!("SageMaker.{action}"));
    Ok(request)
}

fn answer(response: &HttpResponse) -> Result<Answer, OrchestratorError<Refused>> {
    if !response.status().is_success() {
        let (code, message) = code_and_message(response);
        return Err(OrchestratorError::operation(Refused::new(code, message)));
    }
    let answer: Answer = serde_json::from_slice(response.body().bytes().unwrap_or_default())
        .map_err(|e| OrchestratorError::operation(Refused::unreadable("parse the reply as JSON", e)))?;
    Ok(Answer { request_id: response.headers().request_id().map(str::to_owned), ..answer })
}
