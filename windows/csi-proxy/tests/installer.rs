//! Tests of the installer's text, because these tests cannot run PowerShell on Windows. Each test fails if the lines
//! that it expects are missing or in another order.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

const SCRIPT: &str = include_str!("../../../deploy/windows/install-csi-proxy.ps1");

fn code() -> String {
    let lines = SCRIPT.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join("\n")
}

fn block<'a>(code: &'a str, head: &str) -> &'a str {
    let start = code.find(head).unwrap_or_else(|| panic!("there is no {head:?}")) + head.len();
    let open = start + code[start..].find('{').unwrap();
    let mut depth = 0;
    for (at, letter) in code[open..].char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[open + 1..open + at];
        }
    }
    panic!("{head:?} does not end")
}

fn after<'a>(code: &'a str, head: &str) -> &'a str {
    code.split_once(head).unwrap_or_else(|| panic!("there is no {head:?}")).1
}

#[test]
fn installer_does_its_steps_in_order() {
    let code = code();
    let install = after(&code, "$old = ");
    for (text, steps) in [
        // Without `failureflag`, Windows does not apply the action to failures that the service itself reports.
        (&*code, "sc.exe failure $name reset= 0 actions= restart/10000|sc.exe failureflag $name 1|Start-Proxy"),
        // The program file is in use until the process has ended. The process ends after the service has reported that
        // it has stopped.
        (block(&code, "function Stop-Proxy"), ".ProcessId|.Stop()|WaitForStatus('Stopped'|Wait-Process -Id $id|throw"),
        (install, "Stop-Proxy|Copy-Program $installed $old|Copy-Program $Program $installed"),
        (block(&code, "function Copy-Program"), "try|Copy-Item|throw|Start-Sleep"),
        // If any step of an upgrade fails, the installer restores the previous program and its command line, and starts
        // the service.
        (block(install, "try"), "Copy-Program $Program|ImagePath -Value $command|Start-Proxy"),
        (
            block(install, "catch"),
            "Stop-Proxy|Copy-Program $old $installed|ImagePath -Value $previous|Start-Proxy|throw $reason",
        ),
        (block(&code, "if ($Uninstall)"), "Stop-Proxy|sc.exe delete|Remove-Item -Force $installed|is removed"),
        // A trailing backslash would escape the closing quote, and the next flag would become part of the path.
        (&code, "$KubeletPath.TrimEnd('\\')|-kubelet-path=`\"$kubelet`\""),
        // LocalSystem renames files in this directory, so the directory must not inherit permissions.
        (&code, "icacls.exe $logs /inheritance:r|S-1-5-18|S-1-5-32-544|Start-Proxy"),
    ] {
        let mut rest = text;
        for step in steps.split('|') {
            rest = rest.split_once(step).unwrap_or_else(|| panic!("{step:?} does not follow in {text}")).1;
        }
    }
    assert!(!block(&code, "if ($Uninstall)").contains("SilentlyContinue"), "a failed removal must fail");
}

/// At a shutdown, Windows must wait longer for the service than the service takes to finish its calls.
#[test]
fn installer_makes_shutdown_wait_longer_than_the_drain() {
    let value = after(SCRIPT, "-Name PreshutdownTimeout -Type DWord -Value ");
    let milliseconds: u128 = value.split_whitespace().next().unwrap().parse().unwrap();
    assert!(milliseconds > csi_proxy::DRAIN_LIMIT.as_millis() + 2_000, "{milliseconds}");
}
