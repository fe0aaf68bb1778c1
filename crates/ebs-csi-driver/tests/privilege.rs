//! Tests the permissions that the node service needs (`docs/security.md`). The profiles in `deploy/security` restrict
//! the running service to them. Needs root and runc. Every test has its own mount namespace.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::content;
use ebs_testkit::csi_client::{Access, GIB, new_volume, refused};
use ebs_testkit::doc_table;
use ebs_testkit::node_pod::{NodePod, Rights, run_in_pod};
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::process::run_tool;
use ebs_testkit::skipped::record_skipped;
use ebs_testkit::world::{World, with_mounts};
use serde_json::{Value, json};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const DATA: u64 = 4 << 20;
const TOOL_BOUND: Duration = Duration::from_secs(60);

/// The capabilities of `docs/security.md`.
const CAPABILITIES: [&str; 2] = ["CAP_SYS_ADMIN", "CAP_SYS_RESOURCE"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn profile() -> anyhow::Result<Value> {
    let text = std::fs::read(repository().join("deploy/security/seccomp-node.json")).context("the seccomp profile")?;
    serde_json::from_slice(&text).context("the seccomp profile")
}

/// Returns the seccomp profile without these system calls.
fn profile_without(calls: &[&str]) -> anyhow::Result<Value> {
    let mut profile = profile()?;
    for group in profile["syscalls"].as_array_mut().context("syscalls")? {
        let names = group["names"].as_array_mut().context("names")?;
        names.retain(|name| !calls.iter().any(|call| name == call));
    }
    Ok(profile)
}

/// Returns the node service's capabilities, as far as this machine can grant them.
fn capabilities() -> anyhow::Result<Vec<String>> {
    let wanted = std::env::var("EBS_TEST_NODE_CAPABILITIES");
    let wanted: Vec<String> = match &wanted {
        Ok(list) => list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        Err(_) => CAPABILITIES.map(str::to_owned).into(),
    };
    let status = std::fs::read_to_string("/proc/self/status").context("this process's capabilities")?;
    let bounding = status.lines().find_map(|line| line.strip_prefix("CapBnd:")).context("CapBnd")?;
    let has_resource = u64::from_str_radix(bounding.trim(), 16)? & (1 << 24) != 0;
    if !has_resource {
        record_skipped(
            "node service in its container has CAP_SYS_RESOURCE",
            "this machine lacks it; make vm-test checks it",
        );
    }
    Ok(wanted.into_iter().filter(|name| has_resource || name != "CAP_SYS_RESOURCE").collect())
}

async fn world() -> anyhow::Result<World> {
    World::builder(DRIVER).mode("controller").loop_devices().start().await
}

/// A volume with its two users: the controller outside the pod, and the node service inside it.
struct Life<'a> {
    world: &'a World,
    pod: &'a NodePod,
    volume: VolumeOnNode,
}

impl<'a> Life<'a> {
    async fn of(world: &'a World, pod: &'a NodePod, access: &Access) -> anyhow::Result<Self> {
        let node = pod.client().node_info().await.context("NodeGetInfo")?.node_id;
        let name = format!("pvc-{access:?}").replace(['"', '(', ')'], "-").to_lowercase();
        let volume = world.client().create_volume(new_volume(&name, 1, access)).await.map_err(refused)?;
        let volume = VolumeOnNode::new(world.client(), volume, access, &node, &world.kubelet_dir())?;
        Ok(Self { world, pod, volume })
    }

    fn node(&mut self) -> &mut VolumeOnNode {
        self.volume.set_client(self.pod.client());
        &mut self.volume
    }

    fn controller(&mut self) -> &mut VolumeOnNode {
        self.volume.set_client(self.world.client());
        &mut self.volume
    }

    async fn bring_up(&mut self) -> anyhow::Result<()> {
        self.controller().attach().await.map_err(refused).context("attach")?;
        self.node().stage().await.map_err(refused).context("stage")?;
        self.node().publish().await.map_err(refused).context("publish")
    }

    async fn take_down(&mut self) -> anyhow::Result<()> {
        self.node().unpublish().await.map_err(refused).context("unpublish")?;
        self.node().unstage().await.map_err(refused).context("unstage")?;
        self.controller().detach().await.map_err(refused).context("detach")
    }

    async fn grow(&mut self, gib: i64) -> anyhow::Result<bool> {
        self.controller().expand_in_ec2(gib).await.map_err(refused).context("expand")
    }

    async fn end(mut self) -> anyhow::Result<()> {
        self.take_down().await?;
        self.world.client().delete_volume(self.volume.id()).await.map_err(refused)
    }
}

/// Stages, publishes and writes a volume, reads its statistics and health, expands it, attaches it again, and reads the
/// same data.
async fn whole_life(world: &World, pod: &NodePod, access: &Access) -> anyhow::Result<()> {
    let mut life = Life::of(world, pod, access).await?;
    life.bring_up().await?;
    let target = life.volume.target.clone();
    let is_block = *access == Access::Block;
    let file = target.join("data");
    let written =
        if is_block { content::write_device(&target, 7, DATA)? } else { content::write_file(&file, 7, DATA)? };
    life.node().stats().await.map_err(refused).context("statistics")?;
    let grown = life.grow(2).await?;
    // A mounted xfs always grows. A mounted ext4 grows only if the kernel permits this process to grow it, so in this
    // test e2fsck and resize2fs grow the ext4 at the next NodeStageVolume call.
    if grown && *access == Access::Mount("xfs".to_owned()) {
        let now = life.node().expand_on_node().await.map_err(refused).context("expand on the node")?;
        ensure!(now == 2 * GIB, "{now} bytes after growth in use");
    }
    life.take_down().await?;
    life.bring_up().await?;
    if is_block {
        ensure!(content::hash_start(&target, DATA)? == written, "the data differ");
        ensure!(content::size_of(&target)? == 2 * GIB.cast_unsigned(), "the device did not grow");
    } else {
        ensure!(content::hash_file(&file)? == written, "the data differ");
        let (total, _) = life.node().stats().await.map_err(refused)?;
        ensure!(total > GIB * 18 / 10, "{total} bytes after growth");
    }
    life.end().await
}

async fn all_lives(world: &World, pod: &NodePod) -> anyhow::Result<()> {
    for fs_type in ["ext4", "xfs"] {
        whole_life(world, pod, &Access::Mount(fs_type.to_owned())).await.context(fs_type)?;
    }
    whole_life(world, pod, &Access::Block).await.context("raw block")
}

/// The node has the seccomp profile of `deploy/security`, the capabilities of `docs/security.md` and a read-only root.
/// The volumes are ext4, xfs and raw block.
#[test]
fn node_completes_volume_lifecycles_under_the_seccomp_profile() {
    with_mounts(|| async {
        let world = world().await?;
        let trace = std::env::var_os("EBS_TEST_NODE_TRACE").map(PathBuf::from);
        let here = trace.as_ref().map(|_| world.kubelet_dir().join("trace"));
        let rights = match trace {
            None => Rights { capabilities: capabilities()?, seccomp: Some(profile()?) },
            // The node's own permissions do not allow tracing, so omit the seccomp profile and add a capability.
            Some(_) => {
                Rights { capabilities: [capabilities()?, vec!["CAP_SYS_PTRACE".to_owned()]].concat(), seccomp: None }
            }
        };
        let pod = NodePod::start(&world, &rights, here.as_deref()).await?;
        let lived = all_lives(&world, &pod).await;
        let lived = lived.with_context(|| format!("last lines of the node's log:\n{}", pod.log_tail()));
        lived?;
        match (here, trace) {
            // The tracer does not forward SIGTERM to the node service, so signal the service itself.
            (Some(from), Some(to)) => {
                std::fs::copy(&from, &to).context("keep the trace")?;
                drop(pod);
            }
            _ => pod.stop().await?,
        }
        world.finish().await
    });
}

/// The process has more capabilities than the node service, so only the profile can reject its calls.
#[test]
fn seccomp_profile_rejects_a_call_that_the_node_does_not_need() {
    with_mounts(|| async {
        let world = world().await?;
        let admin = [capabilities()?, vec!["CAP_SYS_CHROOT".to_owned(), "CAP_MKNOD".to_owned()]].concat();
        let free = Rights { capabilities: admin.clone(), seccomp: None };
        let filtered = Rights { capabilities: admin, seccomp: Some(profile()?) };
        for program in [
            &["/usr/bin/unshare", "--mount", "/usr/bin/true"][..],
            &["/usr/sbin/chroot", "/", "/usr/bin/true"],
            &["/usr/bin/mknod", "/csi/node", "b", "7", "250"],
        ] {
            let (status, output) = run_in_pod(&world, program, &filtered).await?;
            ensure!(!status.success() && output.contains("not permitted"), "{program:?}: {status} {output}");
            // The same call succeeds without the profile, so the profile is what rejects it.
            let (status, output) = run_in_pod(&world, program, &free).await?;
            ensure!(status.success(), "{program:?} without the profile: {status} {output}");
        }
        let (status, output) = run_in_pod(&world, &["/usr/bin/true"], &filtered).await?;
        ensure!(status.success(), "a program that needs nothing: {status} {output}");
        world.finish().await
    });
}

/// Kernels before 5.12 lack the system calls that complete a mount before it is visible. On such a kernel, the node
/// service publishes a volume with a bind mount and a remount.
#[test]
fn node_on_old_kernel_publishes_by_bind_and_remount() {
    with_mounts(|| async {
        let world = world().await?;
        let newer = ["open_tree", "move_mount", "mount_setattr"];
        let mut old = profile_without(&newer)?;
        let unknown = json!({ "names": newer, "action": "SCMP_ACT_ERRNO", "errnoRet": 38 });
        old["syscalls"].as_array_mut().context("syscalls")?.push(unknown);
        let rights = Rights { capabilities: capabilities()?, seccomp: Some(old) };
        let pod = NodePod::start(&world, &rights, None).await?;
        for access in [Access::Mount("xfs".to_owned()), Access::Block] {
            let mut life = Life::of(&world, &pod, &access).await?;
            life.bring_up().await?;
            life.node().publish().await.map_err(refused).context("publish again")?;
            life.end().await?;
        }
        pod.stop().await?;
        world.finish().await
    });
}

/// The profile is an allow list, so it rejects all other calls. It lists no call twice and has a reason for each group.
#[test]
fn seccomp_profile_lists_each_call_once_and_with_a_reason() {
    let profile = profile().unwrap();
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    let mut seen = std::collections::BTreeSet::new();
    for group in profile["syscalls"].as_array().unwrap() {
        assert!(group["comment"].as_str().is_some_and(|why| why.len() > 20), "a group without a reason: {group}");
        let conditional = group.get("args").is_some();
        for name in group["names"].as_array().unwrap() {
            assert!(seen.insert(name.as_str().unwrap().to_owned()) || conditional, "{name} is listed twice");
        }
    }
    for never in [
        "ptrace",
        "bpf",
        "init_module",
        "finit_module",
        "kexec_load",
        "setns",
        "unshare",
        "pivot_root",
        "chroot",
        "mknod",
        "mknodat",
        "reboot",
        "swapon",
        "keyctl",
        "perf_event_open",
        "io_uring_setup",
        "open_by_handle_at",
    ] {
        assert!(!seen.contains(never), "{never} is allowed");
    }
}

#[test]
fn apparmor_parser_accepts_the_profile() {
    let profile = repository().join("deploy/security/apparmor-node");
    assert!(profile.metadata().unwrap().permissions().mode() & 0o111 == 0);
    let parse = |path: &Path| {
        let arguments = ["-Q", "-K", "-o", "/dev/null", path.to_str().unwrap()];
        run_tool("/usr/sbin/apparmor_parser", &arguments, TOOL_BOUND)
    };
    parse(&profile).unwrap();
    // Replace a rule by an invalid one: the parser must reject the profile.
    let text = std::fs::read_to_string(&profile).unwrap().replacen("\n  umount,", "\n  no such rule", 1);
    let broken = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&broken, text).unwrap();
    assert!(parse(broken.path()).is_err());
}

/// Returns the table of `docs/dev/system-calls.md` that describes the profile.
fn table_of_calls() -> String {
    let profile = profile().expect("a profile");
    let mut table = "| what for | calls | |\n|---|---|---|\n".to_owned();
    for group in profile["syscalls"].as_array().expect("a list") {
        let names: Vec<String> = group["names"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|name| format!("`{}`", name.as_str().expect("text")))
            .collect();
        let verdict = match (group["action"].as_str().expect("text"), group.get("args")) {
            ("SCMP_ACT_ALLOW", None) => "allowed",
            ("SCMP_ACT_ALLOW", Some(_)) => "allowed with these arguments",
            _ => "ENOSYS",
        };
        table += &format!("| {} | {} | {verdict} |\n", group["comment"].as_str().expect("text"), names.join(", "));
    }
    table
}

/// `EBS_WRITE_DOCS=1` rewrites the documentation.
#[test]
fn documented_system_calls_match_the_seccomp_profile() {
    doc_table::check("docs/dev/system-calls.md", &[("system calls", table_of_calls())]);
}
