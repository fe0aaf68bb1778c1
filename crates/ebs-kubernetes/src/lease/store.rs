//! The storage of a lease.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::Failure;

/// One Lease object. A replacement succeeds only if the object still has the version that the replacement names.
pub trait LeaseStore: Send + Sync {
    /// Returns the lease, or `None` if it does not exist.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, Failure>> + Send;

    /// Creates the lease. Fails if it exists.
    fn create(&self, lease: &Lease) -> impl Future<Output = Result<Lease, Failure>> + Send;

    /// Replaces the lease. Fails if its version has changed.
    fn replace(&self, lease: &Lease) -> impl Future<Output = Result<Lease, Failure>> + Send;
}

/// A Lease object of the cluster.
#[derive(Clone)]
pub struct LeaseApi {
    leases: Api<Lease>,
    name: String,
}

impl LeaseApi {
    /// Selects the lease with this name in this namespace.
    pub fn new(client: Client, namespace: &str, name: &str) -> Self {
        Self { leases: Api::namespaced(client, namespace), name: name.to_owned() }
    }
}

impl LeaseStore for LeaseApi {
    async fn get(&self) -> Result<Option<Lease>, Failure> {
        Ok(self.leases.get_opt(&self.name).await?)
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, Failure> {
        Ok(self.leases.create(&PostParams::default(), lease).await?)
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, Failure> {
        Ok(self.leases.replace(&self.name, &PostParams::default(), lease).await?)
    }
}
