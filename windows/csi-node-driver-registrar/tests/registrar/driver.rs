//! Tests with a driver that starts late, misbehaves, crashes or restarts.

use std::os::unix::fs::MetadataExt;

use anyhow::ensure;
use rustix::process::Signal;

use crate::BOUND;
use crate::fake_driver::{FakeDriver, Says};
use crate::fake_kubelet::FakeKubelet;
use crate::program::{Sandbox, ends_with, said};

const NAME: &str = "ebs.csi.aws.com";

#[tokio::test]
async fn late_driver_is_registered_once_it_has_started() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    drop(std::os::unix::net::UnixListener::bind(sandbox.driver())?);
    let mut stopped = sandbox.start("stopped", &[])?;
    said(&stopped, "connecting to the driver").await?;
    stopped.signal(Signal::TERM)?;
    ends_with(&mut stopped, 0).await?;
    let _registrar = sandbox.start("registrar", &[])?;
    said(&_registrar, "connecting to the driver").await?;
    ensure!(std::fs::read_dir(sandbox.registration())?.next().is_none(), "a socket without a driver");
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    FakeKubelet::watching(&sandbox.registration()).meet().await?.register().await?;
    Ok(())
}

#[tokio::test]
async fn driver_without_a_valid_name_ends_the_registrar() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    for (nth, (says, because)) in [
        (Says::Fails, "call GetPluginInfo of the driver at "),
        (Says::Nothing, "no reply within 300ms (--timeout)"),
        (Says::Name(""), "the driver's name is empty"),
        (Says::Name("../x"), "cannot be part of a file name"),
    ]
    .into_iter()
    .enumerate()
    {
        let _driver = FakeDriver::at(&sandbox.driver(), says)?;
        let mut registrar = sandbox.start(&format!("registrar-{nth}"), &["--timeout=300ms"])?;
        let output = ends_with(&mut registrar, 1).await?;
        ensure!(output.contains(because), "{because}: {output}");
    }
    ensure!(std::fs::read_dir(sandbox.registration())?.next().is_none(), "a socket was left");
    Ok(())
}

#[tokio::test]
async fn slow_driver_is_queried_again() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let driver = FakeDriver::at(&sandbox.driver(), Says::Nothing)?;
    let registrar = sandbox.start("registrar", &["--timeout=3s"])?;
    said(&registrar, "retrying GetPluginInfo").await?;
    driver.say(Says::Name(NAME));
    FakeKubelet::watching(&sandbox.registration()).meet().await?.register().await?;
    Ok(())
}

#[tokio::test]
async fn registrar_reconnects_to_a_restarted_driver() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let mut registrar = sandbox.start("registrar", &[])?;
    let mut kubelet = FakeKubelet::watching(&sandbox.registration());
    let mut met = kubelet.meet().await?;
    met.register().await?;
    let number = std::fs::metadata(&met.socket)?.ino();
    drop(driver);
    said(&registrar, "connection to the driver lost").await?;
    ensure!(met.info().await?.name == NAME);
    let _back = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    said(&registrar, "reconnected to the driver").await?;
    met.register().await?;
    ensure!(std::fs::metadata(&met.socket)?.ino() == number, "the kubelet was told");
    registrar.signal(Signal::TERM)?;
    registrar.wait(BOUND).await?;
    Ok(())
}

#[tokio::test]
async fn registrar_ends_when_another_driver_replaces_the_first() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let mut registrar = sandbox.start("registrar", &[])?;
    FakeKubelet::watching(&sandbox.registration()).meet().await?.register().await?;
    drop(driver);
    let _other = FakeDriver::at(&sandbox.driver(), Says::Name("other.csi.example"))?;
    let output = ends_with(&mut registrar, 1).await?;
    ensure!(output.contains("changed from ebs.csi.aws.com to other.csi.example"), "{output}");
    Ok(())
}
