//! The program: its command line, log, machine, services, and shutdown.

#[cfg(any(windows, test))]
mod end;
#[cfg(windows)]
mod service;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use component_base::logs::{self, chain};
use component_base::signals::Signals;
use tokio_util::sync::CancellationToken;
use winstorage::host::Host;
use winstorage::path::Validation;
use winstorage::service::{Policy, Storage};
use winstorage::types::WinPath;

use crate::audit::{AuditSink, IntoFile, IntoLog};
use crate::flags::{AuditTo, Command, DEFAULT_PIPE_SECURITY, PathChecks, Selftest, Settings, read};
use crate::log_files::{self, Output};
use crate::proxy::{Parts, Proxy, Transport};
use crate::selftest;
use crate::serve::OPERATIONS;

/// Creates the machine on which operations act: Windows in the product, a fake in test programs.
///
/// This is a type rather than a value, because the callback of the service control manager has no argument for it.
pub trait MakeHost: 'static {
    fn make() -> Result<Arc<dyn Host>, String>;

    fn arguments() -> Vec<OsString> {
        std::env::args_os().skip(1).collect()
    }
}

/// Number of worker threads, which only forward bytes.
const WORKERS: usize = 2;
/// How long an idle operation thread is kept. It holds WMI connections, so this time should be long.
const THREADS_STAY: Duration = Duration::from_secs(60 * 60);
/// The name of the log file if the command line does not specify one.
const NAME: &str = "csi-proxy";
const USAGE: u8 = 2;

/// Runs the program until it ends. Returns 0 after a clean stop, 1 after an error, and 2 for an invalid command line.
pub fn main<M: MakeHost>() -> ExitCode {
    let settings = match command::<M>() {
        Ok(Command::Run(settings)) => *settings,
        Ok(Command::Version) => return print(&format!("csi-proxy {}\n", version())),
        Ok(Command::Help(text)) => return print(&text),
        Ok(Command::Selftest(asked)) => return ended(try_disk::<M>(&asked)),
        Err(text) => {
            complain(&format!("csi-proxy: {text}\nsee csi-proxy --help"));
            return ExitCode::from(USAGE);
        }
    };
    #[cfg(windows)]
    if settings.windows_service {
        return service::run_as_service::<M>();
    }
    ended(run_here::<M>(settings))
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            complain(&format!("csi-proxy: {text}"));
            ExitCode::FAILURE
        }
    }
}

fn try_disk<M: MakeHost>(asked: &Selftest) -> Result<(), String> {
    selftest::execute(M::make()?, asked, &mut std::io::stdout())
}

fn command<M: MakeHost>() -> Result<Command, String> {
    read(M::arguments()).map_err(|error| error.to_string())
}

fn run_here<M: MakeHost>(settings: Settings) -> Result<(), String> {
    let stop = CancellationToken::new();
    Started::new::<M>(settings)?.run(stop.clone(), || (), Some(until_asked_to_end(stop)))
}

/// Cancels `stop` when a user presses Ctrl-C, or when the program's container ends.
async fn until_asked_to_end(stop: CancellationToken) {
    // Without a console, the program receives no signals such as Ctrl-C.
    if let Ok(mut signals) = Signals::listen() {
        signals.next().await;
        stop.cancel();
        // Keep listening: without a listener, a second signal would end the process while it drains calls.
        std::future::pending().await
    }
}

struct Started {
    settings: Settings,
    log: Output,
    storage: Arc<Storage>,
}

impl Started {
    fn new<M: MakeHost>(settings: Settings) -> Result<Self, String> {
        let log = log_files::init(&settings.log, NAME, is_ours);
        let log = log.map_err(|error| format!("open the log file: {error}"))?;
        logs::log_panics();
        Self::with_log::<M>(settings, log)
            .inspect_err(|text| tracing::error!(error = text, "csi-proxy failed to start"))
    }

    fn with_log<M: MakeHost>(settings: Settings, log: Output) -> Result<Self, String> {
        announce(&settings);
        if !settings.insecure_pipe_acl {
            crate::sddl::check(&settings.pipe_security).map_err(|error| error.to_string())?;
        }
        let policy = policy(&settings)?;
        let storage = Arc::new(Storage::new(M::make()?, policy));
        Ok(Self { settings, log, storage })
    }

    /// Opens the pipes, calls `opened`, and serves until `stop` is cancelled. Runs `signals` concurrently.
    fn run(
        self,
        stop: CancellationToken,
        opened: impl FnOnce(),
        signals: Option<impl Future<Output = ()> + Send + 'static>,
    ) -> Result<(), String> {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder
            .worker_threads(WORKERS)
            .max_blocking_threads(OPERATIONS + 4)
            .thread_keep_alive(THREADS_STAY)
            .enable_all();
        #[cfg(windows)]
        builder.on_thread_stop(winstorage::real::disconnect);
        let runtime = builder.build().map_err(|error| format!("start the runtime: {error}"))?;
        let result = runtime.block_on(async {
            let mut beside = tokio::task::JoinSet::new();
            signals.map(|signals| beside.spawn(signals));
            self.serve(stop, opened).await
        });
        // Do not wait for operations in Windows, which cannot be cancelled: the process ends now.
        runtime.shutdown_background();
        match &result {
            Ok(()) => tracing::info!("csi-proxy has stopped"),
            Err(error) => tracing::error!(error, "csi-proxy failed"),
        }
        result
    }

    #[cfg(windows)]
    async fn serve(self, stop: CancellationToken, opened: impl FnOnce()) -> Result<(), String> {
        let user = crate::windows::own_user();
        let text = pipe_security(&self.settings.pipe_security, user.as_deref());
        for entry in crate::sddl::that_add_instances(&text, user.as_deref()) {
            tracing::warn!(
                entry,
                "Insecure: this entry of the pipes' security descriptor lets its account intercept the clients of csi-proxy"
            );
        }
        let security = crate::windows::Security::parse(&text)
            .map_err(|error| format!("parse the security descriptor {text:?}: {error}"))?;
        let transport = crate::windows::Pipes::new(security, stop.clone());
        self.serve_on(&transport, stop, opened).await
    }

    /// Fails: only Windows has named pipes that the whole machine can open.
    #[cfg(not(windows))]
    async fn serve(self, _: CancellationToken, _: impl FnOnce()) -> Result<(), String> {
        Err("csi-proxy requires Windows".to_owned())
    }

    #[cfg_attr(not(windows), expect(dead_code, reason = "for Windows"))]
    async fn serve_on<T: Transport>(
        self,
        transport: &T,
        stop: CancellationToken,
        opened: impl FnOnce(),
    ) -> Result<(), String> {
        let audit = audit(&self.settings, &self.log)?;
        #[cfg(windows)]
        let figures = crate::windows::process_figures;
        #[cfg(not(windows))]
        let figures = crate::figures::Figures::default;
        let parts = Parts {
            storage: self.storage,
            api_groups: self.settings.api_groups,
            metrics_bind_address: self.settings.metrics_bind_address,
            figures,
            audit,
        };
        let pipes = parts.api_groups.pairs().count();
        let proxy = Proxy::open(transport, parts, stop).await.map_err(|error| chain(&error))?;
        if let Some(address) = proxy.metrics_address() {
            tracing::info!("Metrics on http://{address}/metrics");
        }
        tracing::info!("Serving {pipes} pipes");
        opened();
        proxy.run().await.map_err(|error| chain(&error))
    }
}

fn announce(settings: &Settings) {
    tracing::info!("Starting CSI-Proxy Server ...");
    tracing::info!("Version: {}", version());
    tracing::info!("Working directories: [{}]", settings.working_dirs.join(" "));
    tracing::info!("Require privacy: {}", settings.require_privacy);
    settings.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    if settings.insecure_pipe_acl {
        tracing::warn!("Insecure: --insecure-pipe-acl accepts any security descriptor");
    }
    if settings.audit_log == AuditTo::Off {
        tracing::warn!("Insecure: --audit-log=off disables the records of calls");
    }
}

fn policy(settings: &Settings) -> Result<Policy, String> {
    let mut directories = Vec::new();
    for directory in &settings.working_dirs {
        let path = WinPath::normalise(directory);
        directories.push(path.ok_or_else(|| format!("working directory {directory:?} is not an absolute path"))?);
    }
    Ok(Policy {
        validation: match settings.validate_paths {
            PathChecks::Strict => Validation::Strict,
            PathChecks::Legacy => Validation::Legacy,
        },
        require_privacy: settings.require_privacy,
        allow_reformat: settings.allow_reformat,
        ..Policy::new(directories)
    })
}

/// Returns the security descriptor of the pipes. The default descriptor includes the user of the process, so that any
/// administrator can start the program.
#[cfg_attr(not(windows), expect(dead_code, reason = "for Windows"))]
fn pipe_security(given: &str, user: Option<&str>) -> String {
    match user {
        Some(user) if given == DEFAULT_PIPE_SECURITY => crate::sddl::for_user(user),
        _ => given.to_owned(),
    }
}

fn audit(settings: &Settings, log: &Output) -> Result<Vec<Box<dyn AuditSink>>, String> {
    let mut sinks: Vec<Box<dyn AuditSink>> = match &settings.audit_log {
        AuditTo::Off => return Ok(Vec::new()),
        AuditTo::Log => vec![Box::new(IntoLog(log.clone()))],
        AuditTo::File(file) => {
            let opened = IntoFile::open(file, log.clone());
            vec![Box::new(opened.map_err(|error| format!("open the audit log {}: {error}", file.display()))?)]
        }
    };
    #[cfg(windows)]
    match crate::windows::EventLog::open() {
        Ok(events) => sinks.push(Box::new(events)),
        Err(error) => tracing::warn!(%error, "failed to open the event log, so calls are not recorded there"),
    }
    sinks.shrink_to_fit();
    Ok(sinks)
}

fn version() -> String {
    let commit = option_env!("GIT_COMMIT").filter(|commit| !commit.is_empty());
    let version = env!("CARGO_PKG_VERSION");
    commit.map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"))
}

/// Returns whether a log target belongs to this project's code. Log lines of other crates may contain headers and
/// requests.
fn is_ours(target: &str) -> bool {
    ["csi_proxy", "winstorage", "grpc_authority", "component_base"].iter().any(|name| target.starts_with(name))
}

fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn complain(text: &str) {
    // A failure of this write cannot be reported anywhere else.
    let _ignored = writeln!(std::io::stderr(), "{text}");
}
