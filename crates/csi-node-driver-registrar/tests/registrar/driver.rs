//! The driver beside the registrar: late, odd, dying and coming back.

use std::os::unix::fs::MetadataExt;

use anyhow::ensure;
use rustix::process::Signal;

use crate::BOUND;
use crate::fake_driver::{FakeDriver, Says};
use crate::fake_kubelet::FakeKubelet;
use crate::program::{Sandbox, ends_with, said};

const NAME: &str = "ebs.csi.aws.com";

/// A driver that comes late, after a stale socket of its own, is registered when it is there; until then there is no registration
/// socket, and a stop is a success.
#[tokio::test]
async fn a_driver_that_comes_late_is_registered_when_it_is_there() -> anyhow::Result<()> {
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

/// A driver that fails GetPluginInfo, does not answer it within `--timeout`, or gives a name that cannot be registered ends the
/// registrar with exit code 1, and the log says which.
#[tokio::test]
async fn a_driver_that_does_not_say_its_name_ends_the_registrar() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    for (nth, (says, because)) in [
        (Says::Fails, "failed GetPluginInfo: "),
        (Says::Nothing, "did not answer GetPluginInfo within 300ms (--timeout)"),
        (Says::Name(""), "its name is empty"),
        (Says::Name("../x"), "which cannot be part of a file name"),
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

/// A driver that has much to do when it starts is asked again.
#[tokio::test]
async fn a_driver_that_answers_late_is_asked_again() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let driver = FakeDriver::at(&sandbox.driver(), Says::Nothing)?;
    let registrar = sandbox.start("registrar", &["--timeout=3s"])?;
    said(&registrar, "the driver is asked again").await?;
    driver.say(Says::Name(NAME));
    FakeKubelet::watching(&sandbox.registration()).meet().await?.register().await?;
    Ok(())
}

/// A driver that dies and comes back is connected to again, for as long as it takes, while the kubelet is served from the same socket.
#[tokio::test]
async fn a_driver_that_dies_is_connected_to_again() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let mut registrar = sandbox.start("registrar", &[])?;
    let mut kubelet = FakeKubelet::watching(&sandbox.registration());
    let mut met = kubelet.meet().await?;
    met.register().await?;
    let number = std::fs::metadata(&met.socket)?.ino();
    drop(driver);
    said(&registrar, "the connection to the driver is lost").await?;
    ensure!(met.info().await?.name == NAME);
    let _back = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    said(&registrar, "connected to the driver again").await?;
    met.register().await?;
    ensure!(std::fs::metadata(&met.socket)?.ino() == number, "the kubelet was told");
    registrar.signal(Signal::TERM)?;
    registrar.wait(BOUND).await?;
    Ok(())
}

/// When another driver comes back in the place of the one that died, the registrar ends with exit code 1, to begin anew.
#[tokio::test]
async fn another_driver_in_the_place_of_the_first_is_registered_anew() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let mut registrar = sandbox.start("registrar", &[])?;
    FakeKubelet::watching(&sandbox.registration()).meet().await?.register().await?;
    drop(driver);
    let _other = FakeDriver::at(&sandbox.driver(), Says::Name("other.csi.example"))?;
    let output = ends_with(&mut registrar, 1).await?;
    ensure!(output.contains("was ebs.csi.aws.com and is other.csi.example"), "{output}");
    Ok(())
}
