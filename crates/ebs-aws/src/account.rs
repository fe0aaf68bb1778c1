//! Which account this is: asked of STS once for the process, and only when something needs it.

use aws_sdk_sts::config::retry::RetryConfig;
use aws_sdk_sts::operation::get_caller_identity::GetCallerIdentityOutput;
use aws_types::SdkConfig;
use ebs_ec2::{Action, ErrorClass, Result};
use tokio::sync::OnceCell;

use crate::AwsEc2;
use crate::convert::required;
use crate::reply::{Incomplete, Read};
use crate::user_agent::ExecutionEnvironment;

/// The account of the credentials. A failure is not remembered: the next caller asks again.
pub(crate) struct Account {
    /// One for the process: it remembers what STS's replies say of the time.
    sts: aws_sdk_sts::Client,
    id: OnceCell<String>,
}

impl Account {
    /// STS is where the SDK finds it, unless an endpoint is given.
    pub(crate) fn new(shared: &SdkConfig, agent: &ExecutionEnvironment, endpoint: Option<String>) -> Self {
        let config = aws_sdk_sts::config::Builder::from(shared)
            .retry_config(RetryConfig::standard().with_max_attempts(3))
            .interceptor(agent.clone());
        let config = match endpoint {
            Some(url) => config.endpoint_url(url),
            None => config,
        };
        Self { sts: aws_sdk_sts::Client::from_conf(config.build()), id: OnceCell::new() }
    }

    /// The account's twelve digits. Callers that come while it is being asked wait for that answer.
    ///
    /// # Errors
    /// STS's, with a class that says that nothing was changed: it only reads.
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
        Err(Incomplete(format!("{account:?} is no account")))
    }
}
