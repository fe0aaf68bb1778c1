//! Runs the model test through the real SDK, which signs every call, sends it as EC2's Query protocol to the
//! simulator's HTTP service inside this process, and parses the XML of the reply. Time is paused.
//!
//! `EBS_MODEL_SEED=n` runs one seed and prints every call; `EBS_MODEL_SEEDS=n` sets the number of seeds.

use std::sync::Arc;

use bytes::Bytes;
use ebs_aws::{AwsConfig, AwsEc2, Settings, Transport};
use ebs_ec2::{Observation, Observer};
use ebs_model::{Failure, Options, caught, run, run_seeds};
use ebs_sim::Ec2Service;
use ebs_sim::port::SimEc2;

/// The seeds of `make test`. The model test without the SDK uses other seeds.
const SEEDS: std::ops::Range<u64> = 20_000..20_300;

struct Unseen;

impl Observer for Unseen {
    fn observe(&self, _observation: &Observation<'_>) {}
}

/// Returns a client as a new driver process would create it. Its requests go to the simulator's HTTP service.
async fn client(sim: SimEc2) -> Arc<AwsEc2> {
    let service = Ec2Service::new(sim.engine().clone());
    let transport = Transport::answering(move |request: http::Request<Bytes>| {
        let service = service.clone();
        async move { Ok(service.answer(request).await) }
    });
    let settings =
        Settings { transport: Some(transport), ..Settings::default() }.with_access_key("AKIDMODEL", "secret");
    let config = AwsConfig {
        region: "us-west-2".to_owned(),
        ec2_endpoint: Some("http://127.0.0.1:1".to_owned()),
        sagemaker_endpoint: None,
        user_agent_extra: None,
        version: "v0.0.0".to_owned(),
        log_bodies: false,
    };
    Arc::new(AwsEc2::connect_with(&config, settings, Arc::new(Unseen)).await.expect("a plain configuration"))
}

fn one(seed: u64, options: &Options) -> Option<Failure> {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime starts").block_on(run(seed, options, |sim| Box::pin(client(sim))))
    };
    caught(seed, run).err()
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|n| n.parse().expect("a number"))
}

#[test]
fn model_rules_hold_through_sdk_and_wire() {
    let given = number("EBS_MODEL_SEED");
    let seeds = match (given, number("EBS_MODEL_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, Some(count)) => SEEDS.start..SEEDS.start + count,
        (None, None) => SEEDS,
    };
    let options = Options { verbose: given.is_some(), ..Options::default() };
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (failed, _) = run_seeds(threads, seeds, |failed| !failed.is_empty(), |seed| one(seed, &options));
    if let Some(failure) = failed.first() {
        let again = "again: EBS_MODEL_SEED={} cargo test --workspace --test model_over_sdk";
        panic!("{failure}{}", again.replace("{}", &failure.seed.to_string()));
    }
}
