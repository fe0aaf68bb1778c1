//! Tests the Kubernetes part of the driver with a real API server, real RBAC and admission.

mod connection;
mod pre_stop;
mod rights;
mod support;
mod taint;
