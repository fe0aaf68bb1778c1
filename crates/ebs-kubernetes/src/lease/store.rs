//! Where a lease is kept.

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::Failure;

/// One Lease object. A replacement succeeds only if the object is still of the version that it names.
pub trait LeaseStore: Send + Sync {
    /// The lease, if there is one.
    fn get(&self) -> impl Future<Output = Result<Option<Lease>, Failure>> + Send;

    /// Makes it; fails if there is one.
    fn create(&self, lease: &Lease) -> impl Future<Output = Result<Lease, Failure>> + Send;

    /// Writes it; fails if it is of another version by now.
    fn replace(&self, lease: &Lease) -> impl Future<Output = Result<Lease, Failure>> + Send;
}

/// A Lease of the cluster.
#[derive(Clone)]
pub struct LeaseApi {
    leases: Api<Lease>,
    name: String,
}

impl LeaseApi {
    /// The lease of that name in that namespace.
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
