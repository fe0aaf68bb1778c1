//! What the driver does with Kubernetes: start-up taints, the pre-stop hook, node labels, and metadata of the Node.
