//! The lifecycle of the registrar, which waits for the driver, gets the driver's name, and serves the kubelet until a
//! signal arrives.

use std::convert::Infallible;

use axum::Router;
use axum::http::Uri;
use axum::routing::get;
use component_base::http::{ClearText, HttpEndpoint, serve};
use component_base::signals::Signals;
use tokio::sync::mpsc;

use crate::address::{Address, BadAddress};
use crate::cli::{Place, Settings};
use crate::diagnostics;
use crate::driver::{Driver, DriverError};
use crate::driver_name::DriverName;
use crate::health::Check;
use crate::platform::Platform;
use crate::registration;
use crate::server::{ServeError, Server};

#[derive(Debug, thiserror::Error)]
pub(crate) enum LifeError {
    #[error("prepare the driver's registration")]
    Driver(#[from] DriverError),
    #[error("serve the kubelet")]
    Serve(#[from] ServeError),
    /// The kubelet rejected the driver. The kubelet's reason is already in the log.
    #[error("register the driver: the kubelet rejected it: {0:?}")]
    Refused(String),
    #[error("registration socket {path:?} {cause}")]
    Path {
        path: String,
        /// The problem, as the end of a sentence.
        cause: BadAddress,
    },
}

enum End {
    Asked(&'static str),
    Refused(String),
    Failed(LifeError),
}

pub(crate) async fn run(settings: &Settings, mut signals: Signals) -> Result<(), LifeError> {
    let (mut driver, name) = tokio::select! {
        met = meet(settings) => met?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before the driver was reachable");
            return Ok(());
        }
    };
    let site = site(&settings.registration, &name)?;
    let (refusals, mut refused) = mpsc::channel(1);
    let routes = registration::routes(&name, &settings.endpoint, refusals);
    let mut server = Server::bind(&site, routes).await?;
    let address = server.address().clone();
    tracing::info!(driver = %name, %address, endpoint = settings.endpoint, "serving the kubelet");
    let check = Check { address, driver: name.clone(), bound: settings.timeout };
    let pages = pages(check, settings.diagnostics);
    let end = tokio::select! {
        served = server.serve() => match served {
            Ok(never) => match never {},
            Err(error) => End::Failed(error.into()),
        },
        // The receiver never closes, because the server owns the sender.
        Some(error) = refused.recv() => End::Refused(error),
        watched = driver.watch(&name, settings.timeout) => match watched {
            Ok(never) => match never {},
            Err(error) => End::Failed(error.into()),
        },
        never = health(settings.http.as_ref(), pages) => match never {},
        signal = signals.next() => End::Asked(signal),
    };
    finish(server, end, signals).await
}

async fn meet(settings: &Settings) -> Result<(Driver, DriverName), DriverError> {
    tracing::info!(address = %settings.driver, "connecting to the driver");
    let driver = Driver::connect(settings.driver.clone()).await?;
    let name = driver.first_name(settings.timeout).await?;
    tracing::info!(driver = %name, "received the driver's name");
    Ok((driver, name))
}

fn site(place: &Place, name: &DriverName) -> Result<Address, LifeError> {
    match place {
        Place::Tcp(address) => Ok(Address::Tcp(*address)),
        Place::Directory(directory) => {
            let path = Platform::HERE.join(directory, &name.socket_file());
            let bad = |cause| LifeError::Path { path: path.display().to_string(), cause };
            Address::local(path.clone()).map_err(bad)
        }
    }
}

/// Returns the routes for `/healthz`, and for `/debug/pprof/` if it is enabled.
fn pages(check: Check, diagnostics: bool) -> Router {
    let pages = Router::new().route("/healthz", get(async move || check.answer().await));
    if diagnostics { pages.fallback(async |uri: Uri| diagnostics::page(uri.path())) } else { pages }
}

async fn health(endpoint: Option<&HttpEndpoint>, pages: Router) -> Infallible {
    match endpoint {
        Some(endpoint) => serve(endpoint, "/healthz", ClearText, pages).await,
        None => std::future::pending().await,
    }
}

/// Finishes serving. After a signal, unregisters the driver. In all other cases, lets the kubelet receive its response
/// first, and leaves the socket for the next process, which replaces it.
async fn finish(server: Server, end: End, mut signals: Signals) -> Result<(), LifeError> {
    let result = match end {
        End::Asked(signal) => {
            tracing::info!(
                signal,
                "stopping and removing the registration socket, so the kubelet unregisters the driver"
            );
            server.unregister();
            Ok(())
        }
        End::Refused(error) => Err(LifeError::Refused(error)),
        End::Failed(error) => Err(error),
    };
    tokio::select! {
        () = server.drain() => {}
        signal = signals.next() => tracing::info!(signal, "stopping immediately"),
    }
    result
}
