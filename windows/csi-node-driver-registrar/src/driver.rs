//! The driver next to the registrar. The registrar waits for the driver, gets its name, and monitors the connection.

use std::cell::RefCell;
use std::convert::Infallible;
use std::time::Duration;

use csi_proto::csi::GetPluginInfoRequest;
use csi_proto::csi::identity_client::IdentityClient;
use tokio::sync::watch;
use tokio::time::{Instant, interval_at, sleep, timeout};
use tonic::Status;
use tonic::transport::{self, Channel};

use crate::address::Address;
use crate::channel::channel;
use crate::driver_name::{BadDriverName, DriverName};
use crate::stream::{Link, LinkState, link};

const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of GetPluginInfo calls at startup if the driver does not answer in time.
const FIRST_ASKS: u32 = 10;
const RETRY: Duration = Duration::from_secs(1);
/// How often the registrar logs that it is waiting.
const TELL: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum DriverError {
    #[error(
        "connect to the driver at {address}: not reachable within {PATIENCE:?}; check that it runs and that --csi-address is its socket"
    )]
    NotThere {
        address: Address,
        #[source]
        cause: Attempt,
    },
    #[error("call GetPluginInfo of the driver at {address}: no reply within {bound:?} (--timeout)")]
    NoAnswer { address: Address, bound: Duration },
    #[error("call GetPluginInfo of the driver at {address}")]
    Refused {
        address: Address,
        #[source]
        status: Box<Status>,
    },
    #[error("register the driver at {address}")]
    Name {
        address: Address,
        #[source]
        cause: BadDriverName,
    },
    #[error(
        "reconnect to the driver at {address}: its name changed from {previous} to {now}, so it must be registered again"
    )]
    Another { address: Address, previous: DriverName, now: DriverName },
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Attempt {
    #[error("connection failed")]
    Connect(#[source] transport::Error),
    #[error("the server closed the connection immediately")]
    Closed,
    #[error("the server does not reply")]
    Silent,
}

#[derive(Debug)]
pub(crate) struct Driver {
    address: Address,
    channel: Channel,
    link: watch::Receiver<LinkState>,
}

impl Driver {
    /// Connects to the driver. Retries for at most 30 s, until the driver answers as an HTTP/2 server.
    pub(crate) async fn connect(address: Address) -> Result<Self, DriverError> {
        let last = RefCell::new(Attempt::Silent);
        let connected = async {
            loop {
                match Self::attempt(&address, &last).await {
                    Ok(connected) => return connected,
                    Err(cause) => last.replace(cause),
                };
                sleep(RETRY).await;
            }
        };
        let connected = tokio::select! {
            connected = timeout(PATIENCE, connected) => connected,
            never = tell_that_it_waits(&address, &last) => match never {},
        };
        connected.map_err(|_elapsed| DriverError::NotThere { address: address.clone(), cause: last.into_inner() })
    }

    async fn attempt(address: &Address, last: &RefCell<Attempt>) -> Result<Self, Attempt> {
        let (state, mut link) = link();
        let channel = channel(address, state).await.map_err(Attempt::Connect)?;
        last.replace(Attempt::Silent);
        // A listener does not count as a driver until its program accepts connections.
        let state = link.wait_for(|(_, link)| *link != Link::Open).await.map(|state| state.1);
        match state {
            Ok(Link::Heard) => Ok(Self { address: address.clone(), channel, link }),
            Ok(Link::Open | Link::Down) | Err(_) => Err(Attempt::Closed),
        }
    }

    /// Gets the name. Repeats the call if the driver does not answer in time, because it may only be busy.
    pub(crate) async fn first_name(&self, bound: Duration) -> Result<DriverName, DriverError> {
        let mut asked = 1;
        loop {
            match self.name(bound).await {
                Err(error @ DriverError::NoAnswer { .. }) if asked < FIRST_ASKS => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "retrying GetPluginInfo");
                    asked += 1;
                }
                answer => return answer,
            }
        }
    }

    pub(crate) async fn name(&self, bound: Duration) -> Result<DriverName, DriverError> {
        let address = || self.address.clone();
        let mut client = IdentityClient::new(self.channel.clone());
        let answer = timeout(bound, client.get_plugin_info(GetPluginInfoRequest {})).await;
        let answer = answer.map_err(|_elapsed| DriverError::NoAnswer { address: address(), bound })?;
        let answer = answer.map_err(|status| DriverError::Refused { address: address(), status: Box::new(status) })?;
        DriverName::new(answer.into_inner().name).map_err(|cause| DriverError::Name { address: address(), cause })
    }

    /// Monitors the connection forever. When the connection is lost, logs this, reconnects without a time limit, and
    /// gets the name again. Does not inform the kubelet, because the driver's endpoint stays the same. Errors:
    /// [`DriverError::Another`] if another driver has replaced this one.
    pub(crate) async fn watch(&mut self, name: &DriverName, bound: Duration) -> Result<Infallible, DriverError> {
        let bound = bound.max(RETRY);
        loop {
            // Waiting cannot fail, because the channel owns the sender.
            drop(self.link.wait_for(|(_, link)| *link == Link::Down).await);
            tracing::warn!(address = %self.address, "connection to the driver lost");
            let lost = Instant::now();
            let mut told = lost;
            loop {
                sleep(RETRY).await;
                match self.name(bound).await {
                    Ok(now) if now == *name => break,
                    Ok(now) => {
                        let (address, previous) = (self.address.clone(), name.clone());
                        return Err(DriverError::Another { address, previous, now });
                    }
                    Err(error) if told.elapsed() >= TELL => {
                        told = Instant::now();
                        tracing::warn!(error = &error as &dyn std::error::Error, "still reconnecting to the driver");
                    }
                    Err(_) => {}
                }
            }
            tracing::info!(address = %self.address, after = ?lost.elapsed(), "reconnected to the driver");
        }
    }
}

async fn tell_that_it_waits(address: &Address, last: &RefCell<Attempt>) -> Infallible {
    let mut often = interval_at(Instant::now() + TELL, TELL);
    loop {
        often.tick().await;
        let cause = last.borrow();
        tracing::warn!(%address, error = &*cause as &dyn std::error::Error, "waiting for the driver");
    }
}

#[cfg(test)]
mod tests;
