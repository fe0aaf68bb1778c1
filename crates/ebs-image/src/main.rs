//! `ebs-image`: the files of the image, its archive, or a whole release. `make image` and `make release` say how it is called.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, Parser, Subcommand};
use ebs_image::lock::Pinned;
use ebs_image::oci::{About, Compression, Image, write};
use ebs_image::platform::Platform;
use ebs_image::release::Inputs;

#[derive(Parser)]
#[command(name = "ebs-image", about = "Makes the container image and the release, reproducibly")]
struct Arguments {
    #[command(flatten)]
    inputs: InputArgs,
    #[command(subcommand)]
    task: Task,
}

#[derive(Args)]
struct InputArgs {
    /// The repository
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Debian packages, in a directory for each platform: deploy/image/fetch gets them
    #[arg(long)]
    packages: PathBuf,
    /// A driver program, like amd64=target/release/aws-ebs-csi-driver; once for each platform
    #[arg(long = "driver", required = true, value_parser = driver)]
    drivers: Vec<(Platform, PathBuf)>,
    /// The time of everything, in seconds since 1970: that of the commit
    #[arg(long, env = "SOURCE_DATE_EPOCH")]
    epoch: u64,
    /// The commit that it is made from
    #[arg(long, env = "GIT_COMMIT", default_value = "")]
    commit: String,
    /// Take newer packages than those of packages.lock too
    #[arg(long)]
    unpinned: bool,
}

#[derive(Subcommand)]
enum Task {
    /// The files of one platform's image, below a directory that is there
    Tree { to: PathBuf },
    /// An archive of the image: OCI's layout, which docker load reads too when it is for one platform
    Pack {
        to: PathBuf,
        /// Layers as they are, for a machine that runs the image at once
        #[arg(long)]
        uncompressed: bool,
    },
    /// Everything that users fetch
    Release {
        to: PathBuf,
        /// Helm's program
        #[arg(long)]
        helm: String,
    },
}

fn driver(text: &str) -> Result<(Platform, PathBuf), String> {
    let (platform, path) = text.split_once('=').ok_or("it is not like amd64=PATH")?;
    Ok((platform.parse().map_err(|error: anyhow::Error| error.to_string())?, path.into()))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ran = tokio::runtime::Builder::new_current_thread().enable_all().build().context("a runtime");
    match ran.and_then(|runtime| runtime.block_on(run(arguments))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "Error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let args = arguments.inputs;
    let about = About { version: env!("CARGO_PKG_VERSION").to_owned(), commit: args.commit, epoch: args.epoch };
    let pinned = if args.unpinned { Pinned::ByName } else { Pinned::Exactly };
    let inputs = Inputs { root: args.root, packages: args.packages, pinned, drivers: args.drivers, about };
    let mut out = std::io::stdout();
    match arguments.task {
        Task::Tree { to } => {
            let parts = inputs.parts().await?;
            let [part] = parts.as_slice() else { anyhow::bail!("a tree is of one platform") };
            part.files.joined()?.write(&to, inputs.about.epoch)
        }
        Task::Pack { to, uncompressed } => {
            let compression = if uncompressed { Compression::None } else { Compression::Gzip };
            let mut images = Vec::new();
            for part in inputs.parts().await? {
                images.push(Image::pack(part.platform, &part.files, &inputs.about, compression)?);
            }
            write(&images.iter().collect::<Vec<_>>(), &inputs.about, &to)?;
            for image in images {
                writeln!(out, "{} linux/{} {} bytes", image.digest(), image.platform, image.size())?;
            }
            Ok(())
        }
        Task::Release { to, helm } => {
            for name in inputs.release(&helm, &to).await? {
                writeln!(out, "{}", to.join(name).display())?;
            }
            Ok(())
        }
    }
}
