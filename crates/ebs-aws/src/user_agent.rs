//! The driver's name in the user agent: `exec-env/aws-ebs-csi-driver-<version>[-<extra>]`.
//!
//! The SDK reads this part from the environment variable `AWS_EXECUTION_ENV`. Changing the environment of a running
//! process would be a data race, so an interceptor gives the SDK a user agent with variables of its own.

use aws_runtime::user_agent::{ApiMetadata, AwsUserAgent};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::interceptors::context::BeforeSerializationInterceptorContextRef;
use aws_smithy_runtime_api::client::interceptors::{Intercept, dyn_dispatch_hint};
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::config_bag::ConfigBag;
use aws_types::app_name::AppName;
use aws_types::os_shim_internal::Env;

#[derive(Debug, Clone)]
pub(crate) struct ExecutionEnvironment(String);

impl ExecutionEnvironment {
    /// Replaces characters that a header cannot contain with `-`. `extra` is the value of `--user-agent-extra`.
    pub(crate) fn new(version: &str, extra: Option<&str>) -> Self {
        let mut name = format!("aws-ebs-csi-driver-{version}");
        if let Some(extra) = extra.filter(|extra| !extra.is_empty()) {
            name.push('-');
            name.push_str(extra);
        }
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        Self(name.chars().map(|c| if token(c) { c } else { '-' }).collect())
    }
}

#[dyn_dispatch_hint]
impl Intercept for ExecutionEnvironment {
    fn name(&self) -> &'static str {
        "ExecutionEnvironment"
    }

    fn read_before_serialization(
        &self,
        _context: &BeforeSerializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        cfg: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(api) = cfg.load::<ApiMetadata>().cloned() else { return Ok(()) };
        let env = Env::from_slice(&[("AWS_EXECUTION_ENV", &self.0)]);
        let mut agent = AwsUserAgent::new_from_environment(env, api);
        if let Some(app) = cfg.load::<AppName>() {
            agent.set_app_name(app.clone());
        }
        cfg.interceptor_state().store_put(agent);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_environment_contains_name_version_and_extra() {
        assert_eq!(ExecutionEnvironment::new("v1.0.0", None).0, "aws-ebs-csi-driver-v1.0.0");
        assert_eq!(ExecutionEnvironment::new("v1.0.0", Some("")).0, "aws-ebs-csi-driver-v1.0.0");
        assert_eq!(ExecutionEnvironment::new("v1.0.0", Some("helm")).0, "aws-ebs-csi-driver-v1.0.0-helm");
        assert_eq!(ExecutionEnvironment::new("v1", Some("a b\r\nX: ü")).0, "aws-ebs-csi-driver-v1-a-b--X---");
    }
}
