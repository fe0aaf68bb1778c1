//! The images of Windows nodes.

use ebs_testkit::run_dir::OwnDir;

use super::{script, text};

/// One index has an image for each version of Windows over its base, and each has the form and the settings of Windows'
/// images. The same input gives the same digest. Bases and programs that do not fit are rejected.
#[tokio::test]
async fn windows_images_fit_their_bases_in_a_registry() -> anyhow::Result<()> {
    let place = OwnDir::new("windows-")?;
    script("crates/ebs-csi-driver/tests/image/windows.bash", &[text(place.path())?]).await.map(drop)
}
