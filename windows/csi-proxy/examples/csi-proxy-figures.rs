//! Measures a csi-proxy.exe over Windows' pipes: the time from its start until all of its pipes exist, a unary call,
//! memory, and handles. `scripts/windows-figures` runs it under Wine. docs/performance.md has the results.
//!
//! `csi-proxy-figures PROGRAM.exe`

use std::process::ExitCode;

#[cfg(windows)]
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    use std::io::Write;
    let Some(program) = std::env::args_os().nth(1) else {
        let _ = writeln!(std::io::stderr(), "usage: csi-proxy-figures PROGRAM.exe");
        return ExitCode::from(2);
    };
    match measure::all(program.into()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(not(windows))]
fn main() -> ExitCode {
    ExitCode::FAILURE
}

#[cfg(windows)]
mod measure {
    use std::io::Write;
    use std::path::PathBuf;
    use std::process::{Child, Command, Stdio};
    use std::time::Duration;

    use csi_proxy_proto::filesystem::v1::PathExistsRequest;
    use csi_proxy_proto::filesystem::v1::filesystem_client::FilesystemClient;
    use csi_proxy_proto::{Group, connect, pipe_name, pipes, served};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::windows::named_pipe::{ClientOptions, NamedPipeClient};
    use tokio::time::{Instant, sleep};

    type Failed = Box<dyn std::error::Error>;

    /// Windows' error for an existing pipe without a free instance (`ERROR_PIPE_BUSY`).
    const BUSY: i32 = 231;
    const STARTS: usize = 15;
    /// Below the burst limit of one connection.
    const CALLS_OF_A_CONNECTION: u32 = 400;
    const CALLS: usize = 10_000;
    const PROBES: usize = 1_000;
    const LIMIT: Duration = Duration::from_secs(60);
    /// The proxy has closed silent connections after this time.
    const PROBES_ARE_CLOSED: Duration = Duration::from_secs(150);

    /// Prints and flushes, because a reader may inspect the machine at that moment.
    fn say(what: &str, value: &str) -> Result<(), Failed> {
        let mut out = std::io::stdout();
        writeln!(out, "{what}: {value}")?;
        Ok(out.flush()?)
    }

    /// A running proxy, killed on drop.
    struct Proxy {
        child: Child,
        program: PathBuf,
        page: u16,
    }

    impl Drop for Proxy {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    impl Proxy {
        #[expect(clippy::disallowed_methods, reason = "a measuring program for whoever builds this, not the product")]
        fn start(program: PathBuf) -> Result<Self, Failed> {
            // The port is free until another process takes it; then the start fails.
            let page = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            let child = Command::new(&program)
                .arg(format!("--metrics-bind-address=127.0.0.1:{page}"))
                .arg("--audit-log=off")
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            Ok(Self { child, program, page })
        }

        /// Waits until each of the pipes can be opened.
        async fn has_all_pipes(&mut self) -> Result<(), Failed> {
            let end = Instant::now() + LIMIT;
            for (group, version) in served() {
                let name = pipe_name(group, version);
                while let Err(error) = ClientOptions::new().open(&name) {
                    if error.raw_os_error() == Some(BUSY) {
                        break;
                    }
                    if Instant::now() > end || self.child.try_wait()?.is_some() {
                        return Err(format!("{} has no {name}: {error}", self.program.display()).into());
                    }
                    sleep(Duration::from_millis(1)).await;
                }
            }
            Ok(())
        }

        /// Returns a value from the page of metrics.
        async fn figure(&self, name: &str) -> Result<f64, Failed> {
            let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.page)).await?;
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await?;
            let mut page = String::new();
            stream.read_to_string(&mut page).await?;
            let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            Ok(value.ok_or_else(|| format!("no {name} in {page}"))?.parse()?)
        }

        async fn say_what_it_takes(&self, when: &str) -> Result<(), Failed> {
            let bytes = self.figure("process_resident_memory_bytes").await?;
            let handles = self.figure("process_open_fds").await?;
            say(when, &format!("{:.1} MiB resident, {handles} handles", bytes / 1_048_576.0))
        }
    }

    pub(super) async fn all(program: PathBuf) -> Result<(), Failed> {
        let mut starts = Vec::new();
        for _ in 0..STARTS {
            let began = Instant::now();
            let mut proxy = Proxy::start(program.clone())?;
            proxy.has_all_pipes().await?;
            starts.push(began.elapsed());
        }
        say(&format!("start until all 23 pipes are open, {STARTS} starts"), &told(&mut starts))?;
        let mut proxy = Proxy::start(program)?;
        proxy.has_all_pipes().await?;
        sleep(Duration::from_secs(3)).await;
        proxy.say_what_it_takes("idle").await?;
        let mut calls = Vec::new();
        while calls.len() < CALLS {
            one_connection(&mut calls).await?;
        }
        say(&format!("PathExists over filesystem/v1, {CALLS} calls"), &told(&mut calls))?;
        proxy.say_what_it_takes(&format!("after {CALLS} calls")).await?;
        let probes = probes().await?;
        sleep(Duration::from_secs(1)).await;
        proxy.say_what_it_takes(&format!("with {PROBES} silent connections")).await?;
        sleep(PROBES_ARE_CLOSED).await;
        proxy.say_what_it_takes("after they were closed").await?;
        drop(probes);
        Ok(())
    }

    /// Silent connections, as clients in Go leave them behind.
    async fn probes() -> Result<Vec<NamedPipeClient>, Failed> {
        let (mut probes, end) = (Vec::new(), Instant::now() + LIMIT);
        let name = pipe_name(Group::Disk, "v1".parse()?);
        while probes.len() < PROBES {
            match ClientOptions::new().open(&name) {
                Ok(probe) => probes.push(probe),
                Err(error) if error.raw_os_error() == Some(BUSY) && Instant::now() < end => {
                    sleep(Duration::from_millis(1)).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(probes)
    }

    async fn one_connection(calls: &mut Vec<Duration>) -> Result<(), Failed> {
        let found = connect(&pipes(), Group::Filesystem, &["v1".parse()?]).await?;
        let mut client = FilesystemClient::new(found.channel);
        for _ in 0..CALLS_OF_A_CONNECTION {
            let request = PathExistsRequest { path: r"C:\var\lib\kubelet\none".to_owned() };
            let began = Instant::now();
            client.path_exists(request).await?;
            calls.push(began.elapsed());
        }
        Ok(())
    }

    /// Formats the median and the 99th percentile.
    fn told(all: &mut [Duration]) -> String {
        all.sort_unstable();
        let at = |percent: usize| all[(all.len() - 1) * percent / 100].as_secs_f64() * 1000.0;
        format!("median {:.2} ms, 99th percentile {:.2} ms", at(50), at(99))
    }
}
