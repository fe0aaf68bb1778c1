//! The Kubernetes side of the driver against a real API server, with real RBAC and admission.

mod connection;
mod pre_stop;
mod rights;
mod support;
mod taint;
