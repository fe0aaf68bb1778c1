//! Tests of the registrar program on Linux and Windows without local sockets: the driver and the kubelet use loopback.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, RegistrationStatus};
use tonic::transport::Endpoint;

use crate::fake_driver::{FakeDriver, Says};

const NAME: &str = "tcp.csi.example";

fn args(driver: SocketAddr) -> Vec<String> {
    vec![
        format!("--csi-address=tcp://{driver}"),
        r"--kubelet-registration-path=C:\\var\\lib\\kubelet\\plugins\\d\\csi.sock".to_owned(),
        "-plugin-registration-path".to_owned(),
        "tcp://127.0.0.1:0".to_owned(),
    ]
}

/// Gets the plugin's info, registers the plugin, and then rejects it. Returns the endpoint.
async fn kubelet(address: &str) -> anyhow::Result<String> {
    let address = address.trim_matches('"').strip_prefix("tcp://").context("an address")?;
    let channel = Endpoint::try_from(format!("http://{address}"))?.connect().await?;
    let mut client = RegistrationClient::new(channel);
    let info = client.get_info(InfoRequest {}).await?.into_inner();
    ensure!(info.name == NAME && info.r#type == "CSIPlugin" && info.supported_versions == ["1.0.0"], "{info:?}");
    for (plugin_registered, error) in [(true, ""), (false, "no such thing")] {
        let error = error.to_owned();
        client.notify_registration_status(RegistrationStatus { plugin_registered, error }).await?;
    }
    Ok(info.endpoint)
}

#[tokio::test]
async fn registrar_works_over_loopback_on_both_systems() -> anyhow::Result<()> {
    let (driver, address) = FakeDriver::over_tcp(Says::Name(NAME))?;
    #[cfg(target_os = "linux")]
    {
        let sandbox = crate::program::Sandbox::new()?;
        let mut registrar = crate::program::program(sandbox.path(), "registrar", args(address))?;
        let served =
            crate::program::said(&registrar, "\"serving the kubelet\" driver=\"tcp.csi.example\" address=").await?;
        let endpoint = kubelet(&served).await?;
        ensure!(endpoint == r"C:\\var\\lib\\kubelet\\plugins\\d\\csi.sock", "not as given: {endpoint}");
        crate::program::ends_with(&mut registrar, 1).await?;
    }
    #[cfg(windows)]
    {
        let mut registrar = crate::program::Registrar::start(&args(address))?;
        let served = registrar.said("\"serving the kubelet\" driver=\"tcp.csi.example\" address=")?;
        let endpoint = kubelet(&served).await?;
        ensure!(endpoint == r"C:\\var\\lib\\kubelet\\plugins\\d\\csi.sock", "not as given: {endpoint}");
        ensure!(registrar.exit_code()? == Some(1));
    }
    ensure!(driver.asked() == 1, "asked {} times", driver.asked());
    Ok(())
}
