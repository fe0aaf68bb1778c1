//! Reports the state of the service to the service control manager: RUNNING when all pipes exist, then STOP_PENDING
//! until the last call has ended.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use windows_service::service::{
    ServiceControl, ServiceControlAccept, ServiceExitCode, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle};
use windows_service::service_dispatcher;

use super::end::{End, live};
use super::{MakeHost, Started, command, complain};
use crate::flags::Command;
use crate::windows::EventLog;

const NAME: &str = "csiproxy";
/// How often the service notifies the manager while it is stopping.
const BEAT: Duration = Duration::from_secs(1);
/// The wait hint of a phase. It covers the drain and the steps around it.
const HINT: Duration = Duration::from_secs(30);

/// Lets the service control manager use this thread until the service has stopped.
pub(super) fn run_as_service<M: MakeHost>() -> ExitCode {
    match service_dispatcher::start(NAME, service_main::<M>) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!(
                "csi-proxy: connect to the service control manager, which -windows-service requires: {error}"
            ));
            ExitCode::FAILURE
        }
    }
}

extern "system" fn service_main<M: MakeHost>(_: u32, _: *mut *mut u16) {
    // A panic must not unwind into Windows' own stack frames.
    if std::panic::catch_unwind(serve::<M>).is_err() {
        fail("service thread panicked");
    }
}

/// Ends the process without reporting STOPPED, which the service control manager treats as a crash. Writes the reason
/// to the event log, because a log file may not exist yet.
fn fail(reason: &str) -> ! {
    tracing::error!(reason, "service failed");
    report(&format!("csi-proxy failed: {reason}"));
    std::process::exit(1)
}

fn report(text: &str) {
    match EventLog::open() {
        Ok(events) => events.error(text),
        Err(error) => tracing::warn!(%error, "failed to write to the event log"),
    }
}

fn serve<M: MakeHost>() {
    let (stop, asked) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)));
    let handler = {
        let (stop, asked) = (stop.clone(), Arc::clone(&asked));
        move |control| match control {
            ServiceControl::Stop | ServiceControl::Shutdown | ServiceControl::Preshutdown => {
                asked.store(true, Ordering::Release);
                stop.cancel();
                ServiceControlHandlerResult::NoError
            }
            ServiceControl::ParamChange | ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
            _ => ServiceControlHandlerResult::NotImplemented,
        }
    };
    let handle = service_control_handler::register(NAME, handler)
        .unwrap_or_else(|error| fail(&format!("register with the service control manager: {error}")));
    let told = Told { handle };
    told.tell(ServiceState::StartPending, 1);
    match live(|| asked.load(Ordering::Acquire), || run::<M>(&told, stop)) {
        End::Stopped(left) => {
            if let Some(left) = left {
                report(&format!("csi-proxy stopped: {left}"));
            }
            told.stopped();
        }
        End::Failed(reason) => fail(&reason),
    }
}

fn run<M: MakeHost>(told: &Told, stop: CancellationToken) -> Result<(), String> {
    let Command::Run(settings) = command::<M>()? else {
        return Err("the command line does not run a service".to_owned());
    };
    let started = Started::new::<M>(*settings)?;
    // Dropping the sender ends the notifications, even if the service panics.
    let (over, ended) = mpsc::channel();
    std::thread::scope(|scope| {
        let stopped = stop.clone();
        let beat = scope.spawn(move || beat(told, &stopped, &ended));
        let opened = || told.tell(ServiceState::Running, 0);
        let result = started.run(stop, opened, None::<std::future::Ready<()>>);
        drop::<Sender<()>>(over);
        // The thread returns no result.
        let _ignored = beat.join();
        result
    })
}

/// After `stop` is cancelled, repeatedly notifies the manager that the service is finishing calls.
fn beat(told: &Told, stop: &CancellationToken, ended: &Receiver<()>) {
    let mut checkpoint = 0;
    // Before `stop` is cancelled, check often, so that the manager gets the first notification without delay.
    let pause = || if stop.is_cancelled() { BEAT } else { BEAT / 10 };
    while ended.recv_timeout(pause()) == Err(RecvTimeoutError::Timeout) {
        if stop.is_cancelled() {
            checkpoint += 1;
            told.tell(ServiceState::StopPending, checkpoint);
        }
    }
}

struct Told {
    handle: ServiceStatusHandle,
}

impl Told {
    fn tell(&self, state: ServiceState, checkpoint: u32) {
        let accepted = if state == ServiceState::Running {
            // Accept PRESHUTDOWN: during the shutdown itself, Windows waits only a few seconds for all services
            // together, which would interrupt a format.
            ServiceControlAccept::STOP | ServiceControlAccept::PRESHUTDOWN | ServiceControlAccept::PARAM_CHANGE
        } else {
            ServiceControlAccept::empty()
        };
        let hint = if state == ServiceState::Running { Duration::ZERO } else { HINT };
        self.set(status(state, accepted), checkpoint, hint);
    }

    fn stopped(&self) {
        self.set(status(ServiceState::Stopped, ServiceControlAccept::empty()), 0, Duration::ZERO);
    }

    fn set(&self, status: ServiceStatus, checkpoint: u32, wait_hint: Duration) {
        // If the manager rejects the status, the service has no other way to report it.
        let _ignored = self.handle.set_service_status(ServiceStatus { checkpoint, wait_hint, ..status });
    }
}

fn status(state: ServiceState, accepted: ServiceControlAccept) -> ServiceStatus {
    ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: accepted,
        exit_code: ServiceExitCode::Win32(0),
        checkpoint: 0,
        wait_hint: Duration::ZERO,
        process_id: None,
    }
}
