//! The HTTP pages of a driver that runs with `--http-endpoint=127.0.0.1:0` or `--health-endpoint=127.0.0.1:0`.

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::world::World;

/// The address of the pages.
#[derive(Debug)]
pub struct Pages(String);

impl Pages {
    /// Waits until the driver has started `starts` times and serves the pages. Its log contains the port.
    pub async fn of(world: &World, starts: usize) -> anyhow::Result<Self> {
        Self::logged(world, "serving /metrics, /healthz and /readyz", starts).await
    }

    /// Waits until the driver serves the page of `--health-endpoint`.
    pub async fn of_health(world: &World) -> anyhow::Result<Self> {
        Self::logged(world, "serving /healthz", 1).await
    }

    async fn logged(world: &World, words: &str, starts: usize) -> anyhow::Result<Self> {
        world.until_logged("the address of the pages", |log| log.matches(words).count() >= starts).await?;
        let log = std::fs::read_to_string(&world.driver_spec().log).context("read the driver's log")?;
        let line = log.lines().rfind(|line| line.contains(words)).context("find the line with the address")?;
        let address = line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
        Ok(Self(address.context("an address")?.trim_matches('"').to_owned()))
    }

    /// Returns the head and the body of a page.
    pub async fn get(&self, path: &str) -> anyhow::Result<(String, String)> {
        let mut stream = TcpStream::connect(&self.0).await.context("connect to the pages")?;
        // HTTP/1.0, so that the server does not chunk the body.
        stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.context("read a page")?;
        let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("{path}: {answer}"))?;
        Ok((head.to_owned(), body.to_owned()))
    }
}
