//! The AWS account that the credentials belong to. STS is called once per process, when the account is first needed.

use aws_sdk_sts::config::retry::RetryConfig;
use aws_sdk_sts::operation::get_caller_identity::GetCallerIdentityOutput;
use aws_types::SdkConfig;
use ebs_ec2::{Action, ErrorClass, Result};
use tokio::sync::OnceCell;

use crate::AwsEc2;
use crate::convert::required;
use crate::reply::{Incomplete, Read};
use crate::user_agent::ExecutionEnvironment;

/// The account that the credentials belong to. A failure is not cached: the next caller asks STS again.
pub(crate) struct Account {
    /// The client for STS. Each process needs only one, which remembers the clock skew from STS's replies.
    sts: aws_sdk_sts::Client,
    id: OnceCell<String>,
}

impl Account {
    pub(crate) fn new(shared: &SdkConfig, agent: &ExecutionEnvironment, endpoint: Option<String>) -> Self {
        let mut config = aws_sdk_sts::config::Builder::from(shared)
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .interceptor(agent.clone());
        if let Some(url) = endpoint {
            config = config.endpoint_url(url);
        }
        Self { sts: aws_sdk_sts::Client::from_conf(config.build()), id: OnceCell::new() }
    }

    /// Returns the twelve digits of the account id. Concurrent callers share one request. Because the call only reads,
    /// an error is `NotSent` instead of `Ambiguous` or `Other`.
    pub(crate) async fn id(&self, ec2: &AwsEc2) -> Result<&str> {
        let id = self.id.get_or_try_init(|| async {
            let monitor = ec2.monitor(Action::GetCallerIdentity);
            let send = self.sts.get_caller_identity().customize().interceptor(monitor.clone());
            let send = Box::pin(send.send());
            ec2.call(monitor, send, account_in).await.map_err(|mut error| {
                if matches!(error.class, ErrorClass::Ambiguous | ErrorClass::Other) {
                    error.class = ErrorClass::NotSent;
                }
                error
            })
        });
        id.await.map(String::as_str)
    }
}

fn account_in(reply: GetCallerIdentityOutput) -> Read<String> {
    let account = required(reply.account, "account")?;
    if account.len() == 12 && account.bytes().all(|b| b.is_ascii_digit()) {
        Ok(account)
    } else {
        Err(Incomplete(format!("account id {account:?} is invalid")))
    }
}
