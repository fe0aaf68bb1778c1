//! Tests of the registration socket: existing files at its path, and its removal.

use std::os::unix::fs::MetadataExt;

use anyhow::ensure;
use rustix::process::Signal;

use crate::fake_driver::{FakeDriver, Says};
use crate::fake_kubelet::FakeKubelet;
use crate::program::{Sandbox, ends_with, said};
use crate::{BOUND, eventually};

const NAME: &str = "ebs.csi.aws.com";

#[tokio::test]
async fn vanished_socket_is_restored() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let mut registrar = sandbox.start("registrar", &[])?;
    let mut kubelet = FakeKubelet::watching(&sandbox.registration());
    kubelet.meet().await?.register().await?;
    for wipe in ["the socket", "the directory"] {
        if wipe == "the socket" {
            std::fs::remove_file(sandbox.socket(NAME))?;
        } else {
            std::fs::remove_dir_all(sandbox.registration())?;
            eventually("the loss in the log", async || {
                let output = registrar.output().ok()?;
                (output.matches("registration socket is missing").count() == 2).then_some(())
            })
            .await?;
            std::fs::create_dir(sandbox.registration())?;
        }
        kubelet.forget();
        kubelet.meet().await?.register().await?;
    }
    ensure!(driver.asked() == 1, "the driver was asked again");
    registrar.signal(Signal::TERM)?;
    ends_with(&mut registrar, 0).await?;
    ensure!(!sandbox.socket(NAME).exists());
    Ok(())
}

#[tokio::test]
async fn second_registrar_takes_over_from_the_first() -> anyhow::Result<()> {
    let sandbox = Sandbox::new()?;
    let _driver = FakeDriver::at(&sandbox.driver(), Says::Name(NAME))?;
    let mut first = sandbox.start("first", &[])?;
    let mut kubelet = FakeKubelet::watching(&sandbox.registration());
    kubelet.meet().await?.register().await?;
    let mut second = sandbox.start("second", &[])?;
    kubelet.meet().await?.register().await?;
    let number = std::fs::metadata(sandbox.socket(NAME))?.ino();
    said(&first, "another process replaced the registration socket").await?;
    first.signal(Signal::TERM)?;
    ends_with(&mut first, 0).await?;
    ensure!(std::fs::metadata(sandbox.socket(NAME))?.ino() == number, "the first one has meddled");
    second.signal(Signal::TERM)?;
    second.wait(BOUND).await?;
    ensure!(!sandbox.socket(NAME).exists());
    Ok(())
}
