//! Calls EC2 over the Query protocol. Each call of the port is one request.

use std::time::SystemTime;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::orchestrator::{HttpResponse, OrchestratorError};
use aws_types::SdkConfig;
use aws_types::request_id::RequestId;
use ebs_ec2::{Action, Result};

use crate::query::{API_VERSION, Query};
use crate::refused::Refused;
use crate::reply::{self, Element, Read};
use crate::service::{Names, Service, post};
use crate::user_agent::ExecutionEnvironment;
use crate::{AwsEc2, endpoint, failure, partition};

const NAMES: Names = Names { service: "EC2", signing: "ec2", api_version: API_VERSION };
const CONTENT_TYPE: &str = "application/x-www-form-urlencoded";

#[derive(Debug)]
struct Answer<T> {
    value: Read<T>,
    request_id: Option<String>,
}

impl<T> RequestId for Answer<T> {
    fn request_id(&self) -> Option<&str> {
        self.request_id.as_deref()
    }
}

pub(crate) fn service(
    shared: &SdkConfig,
    explicit: Option<String>,
    http: SharedHttpClient,
    agent: ExecutionEnvironment,
) -> Service {
    let url = endpoint::url(&endpoint::EC2, explicit, shared, own_url);
    Service::new(NAMES, shared, url, http, agent)
}

fn own_url(region: &str, fips: bool, dual_stack: bool) -> String {
    let partition = partition::of(region);
    let service = match (fips, dual_stack, partition.name) {
        // In aws-us-gov, every endpoint of EC2 is a FIPS endpoint.
        (false, ..) | (true, false, "aws-us-gov") => "ec2",
        (true, ..) => "ec2-fips",
    };
    format!("https://{service}.{region}.{}", partition.suffix(dual_stack))
}

impl AwsEc2 {
    /// Sends one request, reads the reply and checks that it answers the request. `check` also gets the reply's date.
    pub(crate) async fn ask<T, U>(
        &self,
        query: Query,
        read: impl Fn(Element<'_>) -> Read<T> + Send + Sync + 'static,
        check: impl FnOnce(T, Option<SystemTime>) -> Read<U> + Send,
    ) -> Result<U>
    where
        T: std::fmt::Debug + Send + Sync + 'static,
        U: Send,
    {
        let action = query.action;
        let mut monitor = self.monitor(action);
        monitor.dry_run = query.dry_run;
        let watch = monitor.clone();
        let operation = self.service.operation(
            &monitor,
            |query: Query| post(CONTENT_TYPE, query.into_body()),
            move |response| answer(response, action, &read),
        );
        let send = Box::pin(operation.invoke(query));
        self.call(monitor, send, |answer| check(answer.value?, watch.date())).await
    }

    /// Sends one request whose reply has no content except its success.
    pub(crate) async fn order(&self, query: Query) -> Result<()> {
        self.ask(query, |_| Ok(()), |(), _| Ok(())).await
    }
}

fn answer<T>(
    response: &HttpResponse,
    action: Action,
    read: impl Fn(Element<'_>) -> Read<T>,
) -> std::result::Result<Answer<T>, OrchestratorError<Refused>> {
    let body = response.body().bytes().unwrap_or_default();
    if !response.status().is_success() {
        let refused = match reply::code_and_message(body) {
            Ok((code, message)) => Refused::new(code, message),
            Err(error) => Refused::unreadable("parse the reply as XML", error),
        };
        return Err(OrchestratorError::operation(refused));
    }
    let value = reply::read(body, action, read).map_err(OrchestratorError::other)?;
    Ok(Answer { value, request_id: failure::request_id(response) })
}
