# Installs, upgrades or removes csi-proxy as a service of this node.
#
#   .\install-csi-proxy.ps1 -Program .\csi-proxy.exe [-Sha256 DIGEST] [-Groups disk,volume,filesystem] [-Arguments '-v=2']
#   .\install-csi-proxy.ps1 -Uninstall
#
# Drain the node before an upgrade and before -Uninstall: while the proxy is away, volumes of running pods cannot be torn down.
# An upgrade that fails puts the previous program back and starts it.
# Written without a Windows machine: read the checklist in docs/dev/windows.md before you rely on it.
[CmdletBinding(DefaultParameterSetName = 'Install')]
param(
    [Parameter(Mandatory, ParameterSetName = 'Install')] [string] $Program,
    [Parameter(ParameterSetName = 'Install')] [string] $Sha256,
    [Parameter(ParameterSetName = 'Install')] [string] $Groups = 'disk,volume,filesystem',
    [Parameter(ParameterSetName = 'Install')] [string] $Arguments = '',
    [Parameter(ParameterSetName = 'Install')] [string] $KubeletPath = 'C:\var\lib\kubelet',
    [Parameter(Mandatory, ParameterSetName = 'Uninstall')] [switch] $Uninstall,
    [string] $Directory = "$env:ProgramFiles\csi-proxy",
    [string] $LogFile = 'C:\var\log\csi-proxy\csi-proxy.log'
)
$ErrorActionPreference = 'Stop'
Set-StrictMode -Version Latest
$name = 'csiproxy'
# The proxy takes at most 20 s to finish calls; a minute is more than it ever needs.
$patience = New-TimeSpan -Seconds 60

function Invoke-System([string] $Tool) {
    & "$env:SystemRoot\System32\$Tool" @args
    if ($LASTEXITCODE -ne 0) { throw "$Tool $($args -join ' '): status $LASTEXITCODE" }
}

function Get-Proxy { Get-Service -Name $name -ErrorAction SilentlyContinue }

# Stops the service and waits for the end of its process: STOPPED is reported before that, and until then the program's file is in use.
# With -Force a process that does not stop is ended, and its calls with it.
function Stop-Proxy([switch] $Force) {
    $service = Get-Proxy
    if ($null -eq $service) { return }
    $id = (Get-CimInstance Win32_Service -Filter "Name='$name'").ProcessId
    if ($service.Status -ne 'Stopped') {
        Write-Host "stopping $name; running calls are finished first"
        try {
            $service.Stop()
            $service.WaitForStatus('Stopped', $patience)
        } catch {
            if (-not $Force -or $id -eq 0) { throw }
            Stop-Process -Force -Id $id
        }
    }
    if ($id -ne 0) { Wait-Process -Id $id -Timeout $patience.TotalSeconds -ErrorAction SilentlyContinue }
    if ($id -ne 0 -and (Get-Process -Id $id -ErrorAction SilentlyContinue | Where-Object Path -eq $installed)) {
        throw "process $id of $name still runs a minute after the stop; end it (Stop-Process -Id $id), then run this script again"
    }
}

function Start-Proxy {
    Start-Service -Name $name
    (Get-Service -Name $name).WaitForStatus('Running', $patience)
}

# Scanners may hold a file for a moment.
function Copy-Program([string] $From, [string] $To) {
    for ($try = 1; ; $try++) {
        try { Copy-Item -Force $From $To; return } catch { if ($try -ge 10) { throw } }
        Start-Sleep -Seconds 1
    }
}

$installed = Join-Path $Directory 'csi-proxy.exe'
if ($Uninstall) {
    Stop-Proxy
    if (Get-Proxy) { Invoke-System sc.exe delete $name }
    if (Test-Path $installed) { Remove-Item -Force $installed }
    Write-Host "$name is removed; its log stays: $LogFile"
    return
}

if ($Sha256) {
    $found = (Get-FileHash -Algorithm SHA256 $Program).Hash
    if ($found -ne $Sha256) { throw "$Program has the digest $found, not $Sha256" }
}
# The new program is tried before the old one is stopped.
& $Program --version
if ($LASTEXITCODE -ne 0) { throw "$Program does not run on this machine: status $LASTEXITCODE" }

$logs = Split-Path $LogFile
New-Item -ItemType Directory -Force $Directory, $logs | Out-Null
# The service renames its logs as LocalSystem: only the system and administrators may write there.
Invoke-System icacls.exe $logs /inheritance:r /grant:r '*S-1-5-18:(OI)(CI)F' '*S-1-5-32-544:(OI)(CI)F' | Out-Null
# A backslash before a closing quote would escape that quote.
$kubelet = $KubeletPath.TrimEnd('\')
$command = "`"$installed`" -windows-service -logtostderr=false -log_file=`"$LogFile`" -kubelet-path=`"$kubelet`" -api-groups=$Groups $Arguments".TrimEnd()
$key = "HKLM:\SYSTEM\CurrentControlSet\Services\$name"
$previous = if (Get-Proxy) { (Get-ItemProperty $key).ImagePath } else { $null }
$old = "$installed.old"

Stop-Proxy
if (Test-Path $installed) { Copy-Program $installed $old }
try {
    Copy-Program $Program $installed
    # By .NET and the registry, since sc.exe and PowerShell disagree about quotes in a command line.
    if ($null -ne $previous) {
        Set-ItemProperty $key -Name ImagePath -Value $command
    } else {
        New-Service -Name $name -BinaryPathName $command -DisplayName 'CSI proxy' -StartupType Automatic `
            -Description 'Storage of this node for CSI drivers in containers' | Out-Null
    }
    # Started again 10 s after it ends by itself, also where it reports its own error before that.
    Invoke-System sc.exe failure $name reset= 0 actions= restart/10000
    Invoke-System sc.exe failureflag $name 1
    # At a shutdown Windows waits so long for running calls, such as a format: milliseconds, more than the 20 s that the proxy takes.
    Set-ItemProperty $key -Name PreshutdownTimeout -Type DWord -Value 30000
    # So that the event log shows the records of calls as they are.
    if (-not [System.Diagnostics.EventLog]::SourceExists($name)) { New-EventLog -LogName Application -Source $name }
    Start-Proxy
} catch {
    $reason = $_
    if ($null -eq $previous) { throw }
    Write-Warning "$name was not upgraded; the previous program is put back: $reason"
    Stop-Proxy -Force
    if (Test-Path $old) { Copy-Program $old $installed }
    Set-ItemProperty $key -Name ImagePath -Value $previous
    Start-Proxy
    throw $reason
}
Write-Host "$name runs: all of its pipes exist. Log: $LogFile"
