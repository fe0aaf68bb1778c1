//! A running simulator with its three listeners and its engine.

mod config;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::ValidKey;
use crate::control::Control;
use crate::engine::{Engine, EngineError};
use crate::http::{Ec2Service, Listener, OpenError};
use crate::imds::{Imds, Tree};
use crate::ledger::{Ledger, LedgerPage};

pub use config::ServerConfig;

/// Timeout for the shutdown of the engine, which removes devices and saves the state.
const ENGINE_WITHIN: Duration = Duration::from_secs(60);

/// Credentials for clients of a simulator that accepts any credentials.
const ANY_KEY: (&str, &str) = ("EBSSIMACCEPTSANYKEY0", "ebs-sim-accepts-any-secret");

/// Why a simulator could not start, or could not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The simulated EC2 itself could not start.
    #[error("start the simulated EC2")]
    Start(#[source] EngineError),
    /// A port could not be opened.
    #[error(transparent)]
    Listen(#[from] OpenError),
    /// The state has no instance for this machine, or no second instance.
    #[error("load the state directory: {0} instances instead of two; remove the directory and start again")]
    Instances(usize),
    /// The ledger's files could not be used.
    #[error("open the ledger in {path}")]
    Ledger { path: PathBuf, source: std::io::Error },
    /// The shutdown left resources behind.
    #[error("stop the simulated EC2")]
    Stop(#[source] EngineError),
    /// The shutdown took too long.
    #[error(
        "stop the simulated EC2: not done within {0:?}; start it again on the same directory to remove leftover devices"
    )]
    StopTooLate(Duration),
}

/// A running simulator. Dropping it closes its ports. Its devices remain until the next run in its directory.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    ledger: Arc<Ledger>,
    ec2: Ec2Service,
    env: BTreeMap<String, String>,
    stop: CancellationToken,
    end_wanted: CancellationToken,
    tasks: JoinSet<()>,
}

struct Sockets {
    ec2: Listener,
    imds: Listener,
    control: Listener,
}

impl Sockets {
    fn env(&self) -> [(String, String); 6] {
        [
            ("AWS_EC2_ENDPOINT", &self.ec2),
            ("AWS_ENDPOINT_URL_EC2", &self.ec2),
            // The EC2 listener also serves SageMaker's calls for cluster nodes, and STS's call that returns the account
            // id.
            ("AWS_ENDPOINT_URL_SAGEMAKER", &self.ec2),
            ("AWS_ENDPOINT_URL_STS", &self.ec2),
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &self.imds),
            ("EBS_SIM_CONTROL", &self.control),
        ]
        .map(|(name, listener)| (name.to_owned(), listener.url()))
    }
}

impl Server {
    /// Starts the simulator. All listeners are open when this returns.
    pub async fn start(config: ServerConfig) -> Result<Self, ServerError> {
        let ec2 = Listener::open(config.ec2_listen, "the EC2 API").await?;
        let imds = Listener::open(config.imds_listen, "the metadata service").await?;
        let control = Listener::open(config.control_listen, "the control API").await?;
        let engine = Engine::start(config.engine.clone()).await.map_err(ServerError::Start)?;
        match Self::over(&engine, config, Sockets { ec2, imds, control }).await {
            Ok(server) => Ok(server),
            Err(error) => {
                engine.shutdown().await.map_err(ServerError::Stop)?;
                Err(error)
            }
        }
    }

    /// Starts the simulator with an engine. If this fails, the caller shuts the engine down.
    async fn over(engine: &Engine, config: ServerConfig, sockets: Sockets) -> Result<Self, ServerError> {
        let instances = engine.snapshot_of_state().await.instances;
        let [own, second, ..] = &instances[..] else { return Err(ServerError::Instances(instances.len())) };
        let mut env = env_of(&config, engine);
        env.insert("EBS_SIM_INSTANCE_ID".to_owned(), own.id.clone());
        env.insert("EBS_SIM_SECOND_INSTANCE_ID".to_owned(), second.id.clone());
        env.extend(sockets.env());
        let ledger = Arc::new(open_ledger(config.engine.state_dir.as_deref().unwrap_or(Path::new(""))).await?);
        let key = ValidKey::new(config.access_key);
        let service = Ec2Service::with(engine.clone(), key.clone(), Arc::clone(&ledger));
        let mut server = Self {
            engine: engine.clone(),
            ledger: Arc::clone(&ledger),
            ec2: service.clone(),
            env,
            stop: CancellationToken::new(),
            end_wanted: CancellationToken::new(),
            tasks: JoinSet::new(),
        };
        let end_wanted = server.end_wanted.clone();
        server.serve(sockets.control, Control { engine: engine.clone(), key, ledger, end_wanted }.router());
        server.serve(sockets.imds, Imds::new(Tree::of(own, &engine.config().region), config.imds_v1).router());
        server.serve(sockets.ec2, service.router());
        Ok(server)
    }

    fn serve(&mut self, listener: Listener, app: Router) {
        self.tasks.spawn(listener.serve(app, self.stop.clone()));
    }

    /// Returns the environment variables for clients, which are the content of the env file.
    pub fn env(&self) -> BTreeMap<String, String> {
        self.env.clone()
    }

    /// Returns the engine, for tests that bypass the API.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the service behind the EC2 listener, for clients in this process that use no socket.
    pub fn ec2(&self) -> &Ec2Service {
        &self.ec2
    }

    /// Returns the EC2 calls from number `since` on.
    pub fn ledger(&self, since: u64) -> LedgerPage {
        self.ledger.since(since)
    }

    /// Waits until a client requests the shutdown over the control API.
    pub async fn end_wanted(&self) {
        self.end_wanted.cancelled().await;
    }

    /// Closes the listeners, removes devices and links, and saves the state. Takes a minute at most.
    pub async fn shutdown(mut self) -> Result<(), ServerError> {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        match tokio::time::timeout(ENGINE_WITHIN, self.engine.shutdown()).await {
            Ok(result) => result.map_err(ServerError::Stop),
            Err(_) => Err(ServerError::StopTooLate(ENGINE_WITHIN)),
        }
    }
}

/// Opens the ledger on a blocking thread, because the ledger of a previous run may be long.
async fn open_ledger(dir: &Path) -> Result<Ledger, ServerError> {
    let path = dir.to_owned();
    let opened = tokio::task::spawn_blocking(move || Ledger::open(&path)).await;
    let opened = opened.unwrap_or_else(|failed| Err(std::io::Error::other(failed)));
    opened.map_err(|source| ServerError::Ledger { path: dir.to_owned(), source })
}

/// Returns the variables that do not depend on ports and instances.
fn env_of(config: &ServerConfig, engine: &Engine) -> BTreeMap<String, String> {
    let (id, secret) = match &config.access_key {
        Some(key) => (key.id.as_str(), key.secret.as_str()),
        None => ANY_KEY,
    };
    let token = config.access_key.as_ref().and_then(|key| key.session_token.clone());
    let devices = engine.devices_dir().unwrap_or_default();
    let region = engine.config().region.clone();
    let mut env = BTreeMap::from([
        ("AWS_ACCESS_KEY_ID".to_owned(), id.to_owned()),
        ("AWS_SECRET_ACCESS_KEY".to_owned(), secret.to_owned()),
        ("AWS_REGION".to_owned(), region.clone()),
        // The AWS CLI and boto3 read the region only from this variable.
        ("AWS_DEFAULT_REGION".to_owned(), region),
        ("EBS_SIM_DEVICES_DIR".to_owned(), devices.display().to_string()),
    ]);
    env.extend(token.map(|token| ("AWS_SESSION_TOKEN".to_owned(), token)));
    env
}
