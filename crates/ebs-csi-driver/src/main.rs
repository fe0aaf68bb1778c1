//! aws-ebs-csi-driver: see the library.

use std::process::ExitCode;

use ebs_csi_driver::System;

fn main() -> ExitCode {
    ebs_csi_driver::main(std::env::args_os(), System::this_machine())
}
