//! The names that most tests of this suite use.

pub(crate) use std::time::Duration;

pub(crate) use csi_proto::csi;
pub(crate) use csi_proto::csi::node_server::Node as _;
pub(crate) use ebs_driver::operation::Operations;
pub(crate) use ebs_testkit::content;
pub(crate) use ebs_testkit::mount_namespace::{in_mount_namespace, unmount};
pub(crate) use ebs_testkit::process::run_tool;
pub(crate) use ebs_testkit::replaced_tool::ReplacedTool;
pub(crate) use tonic::{Code, Request};

pub(crate) use crate::log::Log;
pub(crate) use crate::node::{
    Calls, MIB, Node, block, context, metadata, mount, options, options_of, refused, with_node, with_node_of,
    with_staged_node,
};
pub(crate) use crate::traced_tools::TracedTools;
