//! The builder of a world.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use ebs_sim::engine::Timing as TimeMode;
use ebs_sim::iam::{Extra, Shipped};
use ebs_sim::{AccessKey, Devices, Server, ServerConfig};

use super::{Baseline, TESTS_OWN_KEY, World};
use crate::control::{Control, Timing};
use crate::csi_client::CsiClient;
use crate::process::ProcessSpec;
use crate::run_dir::OwnDir;

/// A builder of worlds. [`World::builder`] creates it.
#[must_use]
#[derive(Debug)]
pub struct WorldBuilder {
    binary: PathBuf,
    mode: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    without_env: BTreeSet<String>,
    simulator: ServerConfig,
    timing: Option<Timing>,
    one_zone: bool,
    policy: Option<Shipped>,
    extras: Vec<Extra>,
}

impl WorldBuilder {
    pub(super) fn new(binary: PathBuf) -> Self {
        Self {
            binary,
            mode: "all".to_owned(),
            args: Vec::new(),
            env: BTreeMap::new(),
            without_env: BTreeSet::new(),
            // Starting the world sets the directory.
            simulator: ServerConfig::new(PathBuf::new()),
            timing: None,
            one_zone: false,
            policy: None,
            extras: Vec::new(),
        }
    }

    /// Sets the driver's mode; the default is `all`.
    pub fn mode(mut self, mode: &str) -> Self {
        mode.clone_into(&mut self.mode);
        self
    }

    pub fn arg(mut self, arg: &str) -> Self {
        self.args.push(arg.to_owned());
        self
    }

    /// Sets an environment variable of the driver. It overrides a variable that the simulator sets.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Removes an environment variable of the driver, even if the simulator sets it.
    pub fn without_env(mut self, name: &str) -> Self {
        self.without_env.insert(name.to_owned());
        self
    }

    /// Makes attached volumes real block devices; needs root.
    pub fn loop_devices(mut self) -> Self {
        self.simulator.engine.devices = Devices::Loop;
        self
    }

    /// Sets the delays of EC2; the default is zero.
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = Some(timing);
        self
    }

    /// Makes EC2 as slow as AWS documents, with its real rate limits. Its reads may be stale by up to `max_lag`, at
    /// most 15 s.
    pub fn realistic(mut self, max_lag: Duration) -> Self {
        self.simulator.engine.timing = TimeMode::Realistic;
        self.simulator.engine.consistency.max_lag = max_lag;
        self
    }

    /// Makes the simulator accept only requests that are signed with this key. The driver gets the key from the
    /// simulator's variables, unless [`WorldBuilder::env`] overrides it.
    pub fn access_key(mut self, id: &str, secret: &str) -> Self {
        let key = AccessKey { id: id.to_owned(), secret: secret.to_owned(), session_token: None };
        self.simulator.access_key = Some(key);
        self
    }

    /// Gives the region only the availability zone of this machine, for volumes without a topology.
    pub fn one_zone(mut self) -> Self {
        self.one_zone = true;
        self
    }

    /// Sets the policy in `deploy/iam` that must allow every call of the driver. By default, any of the three policies
    /// may allow it.
    pub fn under(mut self, policy: Shipped) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Permits calls that the policies in `deploy/iam` allow only with this addition.
    pub fn with_extra(mut self, extra: Extra) -> Self {
        self.extras.push(extra);
        self
    }

    /// Sets a tag of the driver's role, which policies read as `${aws:PrincipalTag/…}`.
    pub fn principal_tag(mut self, key: &str, value: &str) -> Self {
        self.simulator.engine.iam.principal_tags.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Starts the simulator and the driver, and waits until the driver is ready.
    pub async fn start(self) -> anyhow::Result<World> {
        let mut world = self.start_without_driver().await?;
        world.start_driver().await?;
        Ok(world)
    }

    /// Starts only the simulator. [`World::start_driver`] or [`World::spawn_driver`] starts the driver.
    pub async fn start_without_driver(self) -> anyhow::Result<World> {
        let dir = OwnDir::new("ebs-world-").context("create a directory for the world")?;
        let path = dir.path().to_owned();
        for name in ["csi", "sim", "kubelet"] {
            std::fs::create_dir(path.join(name)).with_context(|| format!("make the directory {name}"))?;
        }
        let mut config = self.simulator;
        let engine = &mut config.engine;
        engine.state_dir = Some(path.join("sim"));
        if self.one_zone {
            let own = &engine.zone;
            engine.zones.retain(|zone| zone.name == *own || zone.zone_type != "availability-zone");
            let other = engine.zones.iter().find(|zone| zone.name != *own).context("a zone for the second instance")?;
            engine.second_zone.clone_from(&other.name);
        }
        let sim = Server::start(config).await.context("start the simulator")?;
        let least_rights = sim.engine().least_rights().clone();
        least_rights.except(TESTS_OWN_KEY);
        self.policy.into_iter().for_each(|policy| least_rights.demand(policy));
        self.extras.into_iter().for_each(|extra| least_rights.declare(extra));
        let sim_env = sim.env();
        let control = Control::new(sim_env.get("EBS_SIM_CONTROL").context("read the simulator's EBS_SIM_CONTROL")?);
        if let Some(timing) = self.timing {
            control.set_timing(timing).await?;
        }
        let state = control.state().await?;
        let baseline = Baseline {
            volumes: state.volumes.into_iter().map(|volume| volume.id).collect(),
            snapshots: state.snapshots.into_iter().map(|snapshot| snapshot.id).collect(),
        };
        let mut env = sim_env;
        env.extend(self.env);
        env.retain(|name, _| !self.without_env.contains(name));
        let socket = path.join("csi/csi.sock");
        let mut args = vec![self.mode, format!("--endpoint=unix://{}", socket.display()), "--v=4".to_owned()];
        args.extend(self.args);
        let spec = ProcessSpec {
            name: "driver".to_owned(),
            program: self.binary,
            args: args.into_iter().map(Into::into).collect(),
            env,
            log: path.join("driver.log"),
        };
        let client = CsiClient::lazy(&socket);
        let (sim, finished) = (Some(sim), false);
        Ok(World { driver: None, client, control, spec, baseline, least_rights, sim, dir, path, finished })
    }
}
