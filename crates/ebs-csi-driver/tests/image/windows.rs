//! Tests the images for Windows nodes.

use ebs_testkit::run_dir::OwnDir;

use super::{script, text};

/// One index has an image for each version of Windows, built on that version's base image. Each image has the form and
/// the settings of Windows images. The same input gives the same digest. The build rejects unsuitable bases and
/// programs.
#[tokio::test]
async fn windows_image_index_has_an_image_for_each_base_version() -> anyhow::Result<()> {
    let place = OwnDir::new("windows-")?;
    script("crates/ebs-csi-driver/tests/image/windows.bash", &[text(place.path())?]).await.map(drop)
}
