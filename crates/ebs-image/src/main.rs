//! `ebs-image`: creates the files of the image, its archive, or a whole release. `make image` and `make release` call
//! it.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::{Args, Parser, Subcommand};
use ebs_image::contents::DRIVER_IMAGE;
use ebs_image::imports::of_one_that_starts_nothing;
use ebs_image::lock::Pinned;
use ebs_image::oci::{About, Compression, Image, write};
use ebs_image::platform::Platform;
use ebs_image::release::Inputs;
use ebs_image::windows;

#[derive(Parser)]
#[command(name = "ebs-image", about = "Builds the container image and the release reproducibly")]
struct Arguments {
    #[command(flatten)]
    inputs: InputArgs,
    #[command(subcommand)]
    task: Task,
}

#[derive(Args)]
struct InputArgs {
    /// Directory of the repository
    #[arg(long, default_value = ".")]
    root: PathBuf,
    /// Directory of the Debian packages, with a subdirectory per platform, from deploy/image/fetch
    #[arg(long)]
    packages: Option<PathBuf>,
    /// Driver program, such as amd64=target/release/aws-ebs-csi-driver; once per platform
    #[arg(long = "driver", value_parser = driver)]
    drivers: Vec<(Platform, PathBuf)>,
    /// Time of all files in seconds since 1970, usually the commit's time
    #[arg(long, env = "SOURCE_DATE_EPOCH")]
    epoch: Option<u64>,
    /// Commit of the source
    #[arg(long, env = "GIT_COMMIT", default_value = "")]
    commit: String,
    /// Accept other package versions than those of packages.lock
    #[arg(long)]
    unpinned: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Write the files of one platform's image to an existing directory
    Tree { to: PathBuf },
    /// Write the image as an archive in OCI layout, which docker load also reads for one platform
    Pack {
        to: PathBuf,
        /// Leave layers uncompressed, for immediate use on this machine
        #[arg(long)]
        uncompressed: bool,
    },
    /// Write all files of a release
    Release {
        to: PathBuf,
        /// Path of the helm program
        #[arg(long)]
        helm: String,
    },
    /// Write an archive of an image for Windows nodes, over bases referenced by digest
    Windows {
        to: PathBuf,
        /// Program aws-ebs-csi-driver.exe or csi-node-driver-registrar.exe, which also names the image
        #[arg(long)]
        program: PathBuf,
        /// Base image, such as ltsc2022=DIRECTORY with its manifest.json and config.json; once per version of Windows
        #[arg(long = "base", required = true, value_parser = base)]
        bases: Vec<(windows::Release, PathBuf)>,
    },
    /// Print what Windows programs import, and fail if one can start processes or exceeds --at-most
    Imports {
        #[arg(required = true)]
        programs: Vec<PathBuf>,
        /// Maximum size of each program in bytes
        #[arg(long)]
        at_most: Option<usize>,
        /// Allowed function that starts processes, such as CreateProcessW
        #[arg(long = "known", value_name = "FUNCTION")]
        known: Vec<String>,
    },
}

fn base(text: &str) -> Result<(windows::Release, PathBuf), String> {
    let (release, path) = text.split_once('=').ok_or("expected RELEASE=DIRECTORY, such as ltsc2022=DIRECTORY")?;
    Ok((release.parse().map_err(|error: anyhow::Error| error.to_string())?, path.into()))
}

fn driver(text: &str) -> Result<(Platform, PathBuf), String> {
    let (platform, path) = text.split_once('=').ok_or("expected PLATFORM=PATH, such as amd64=PATH")?;
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
    let mut out = std::io::stdout();
    let about = || {
        let epoch = args.epoch.context("--epoch is missing; set it or SOURCE_DATE_EPOCH")?;
        anyhow::Ok(About {
            what: DRIVER_IMAGE,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: args.commit.clone(),
            epoch,
        })
    };
    match arguments.task {
        Task::Tree { to } => {
            let inputs = args.inputs(about()?)?;
            let parts = inputs.parts().await?;
            let [part] = parts.as_slice() else { anyhow::bail!("tree requires exactly one --driver") };
            part.files.joined()?.write(&to, inputs.about.epoch)
        }
        Task::Pack { to, uncompressed } => {
            let inputs = args.inputs(about()?)?;
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
            for name in args.inputs(about()?)?.release(&helm, &to).await? {
                writeln!(out, "{}", to.join(name).display())?;
            }
            Ok(())
        }
        Task::Windows { to, program, bases } => {
            let about = About { what: windows::image_of(&program)?, ..about()? };
            windows_image(&args.root, &to, &program, &bases, &about)
        }
        Task::Imports { programs, at_most, known } => {
            for program in programs {
                let said = said_of(&program, at_most, &known).with_context(|| program.display().to_string())?;
                writeln!(out, "{}: {said}", program.display())?;
            }
            Ok(())
        }
    }
}

impl InputArgs {
    fn inputs(&self, about: About) -> anyhow::Result<Inputs> {
        let pinned = if self.unpinned { Pinned::ByName } else { Pinned::Exactly };
        let packages = self.packages.clone().context("--packages is missing")?;
        Ok(Inputs { root: self.root.clone(), packages, pinned, drivers: self.drivers.clone(), about })
    }
}

fn windows_image(
    root: &Path,
    to: &Path,
    program: &Path,
    bases: &[(windows::Release, PathBuf)],
    about: &About,
) -> anyhow::Result<()> {
    let read = |path: &Path| std::fs::read(path).with_context(|| format!("read {}", path.display()));
    let mut texts = Vec::new();
    for name in ["LICENSE", "NOTICE"] {
        texts.push((name.to_owned(), read(&root.join(name))?));
    }
    let files = windows::files(about.what, &read(program)?, &texts).with_context(|| program.display().to_string())?;
    let mut images = Vec::new();
    for (release, directory) in bases {
        let (manifest, config) = (read(&directory.join("manifest.json"))?, read(&directory.join("config.json"))?);
        let base = windows::Base::read(*release, &manifest, &config)?;
        images.push((base.version().to_owned(), windows::pack(&base, &files, about)?));
    }
    // Nodes use the first one that fits.
    images.sort_by(|one, other| one.0.cmp(&other.0));
    write(&images.iter().map(|(_, image)| image).collect::<Vec<_>>(), about, to)?;
    let mut out = std::io::stdout();
    for (version, image) in images {
        writeln!(out, "{} windows/{} {version}", image.digest(), image.platform)?;
    }
    Ok(())
}

fn said_of(program: &Path, at_most: Option<usize>, known: &[String]) -> anyhow::Result<String> {
    let bytes = std::fs::read(program).context("read")?;
    let most = at_most.unwrap_or(usize::MAX);
    ensure!(bytes.len() <= most, "has {} bytes, at most {most} are allowed", bytes.len());
    let all = of_one_that_starts_nothing(&bytes, known)?;
    let starts = match known {
        [] => "none starts a process, and none is named".to_owned(),
        known => format!("only {} starts processes, and no other is named", known.join(" and ")),
    };
    let libraries: Vec<&str> = all.libraries.iter().map(String::as_str).collect();
    let count = all.functions.len();
    Ok(format!("{} bytes, {count} imports; {starts}; from {}", bytes.len(), libraries.join(" ")))
}
