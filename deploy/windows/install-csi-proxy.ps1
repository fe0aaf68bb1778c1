# Installs, upgrades or removes csi-proxy as a service of this node.
#
#   .\install-csi-proxy.ps1 -Program .\csi-proxy.exe [-Sha256 DIGEST] [-Groups disk,volume,filesystem] [-Arguments '-v=2']
#   .\install-csi-proxy.ps1 -Uninstall
#
# Drain the node before an upgrade and before -Uninstall: while the proxy is away, volumes of running pods cannot be torn down.
# Written without a Windows machine: read docs/csi-proxy.md, "What only Windows can prove", before relying on it.
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

function Invoke-Sc {
    & "$env:SystemRoot\System32\sc.exe" @args
    if ($LASTEXITCODE -ne 0) { throw "sc.exe $($args -join ' '): status $LASTEXITCODE" }
}

function Stop-Proxy {
    $service = Get-Service -Name $name -ErrorAction SilentlyContinue
    if ($null -eq $service -or $service.Status -eq 'Stopped') { return }
    Write-Host "stopping $name; running calls are finished first"
    $service.Stop()
    $service.WaitForStatus('Stopped', $patience)
}

if ($Uninstall) {
    Stop-Proxy
    if (Get-Service -Name $name -ErrorAction SilentlyContinue) { Invoke-Sc delete $name }
    Remove-Item -Force -ErrorAction SilentlyContinue (Join-Path $Directory 'csi-proxy.exe')
    Write-Host "$name is removed; its log stays: $LogFile"
    return
}

if ($Sha256) {
    $found = (Get-FileHash -Algorithm SHA256 $Program).Hash
    if ($found -ne $Sha256) { throw "$Program has the digest $found, not $Sha256" }
}
New-Item -ItemType Directory -Force $Directory, (Split-Path $LogFile) | Out-Null
$installed = Join-Path $Directory 'csi-proxy.exe'
$command = "`"$installed`" -windows-service -logtostderr=false -log_file=`"$LogFile`" -kubelet-path=`"$KubeletPath`" -api-groups=$Groups $Arguments".TrimEnd()

# The new program is tried before the old one is stopped.
& $Program --version
if ($LASTEXITCODE -ne 0) { throw "$Program does not run on this machine: status $LASTEXITCODE" }
Stop-Proxy
if (Test-Path $installed) { Copy-Item -Force $installed "$installed.old" }
Copy-Item -Force $Program $installed
# By .NET and the registry, since sc.exe and PowerShell disagree about quotes in a command line.
if (Get-Service -Name $name -ErrorAction SilentlyContinue) {
    Set-ItemProperty "HKLM:\SYSTEM\CurrentControlSet\Services\$name" -Name ImagePath -Value $command
} else {
    New-Service -Name $name -BinaryPathName $command -DisplayName 'CSI proxy' -StartupType Automatic `
        -Description 'Storage of this node for CSI drivers in containers' | Out-Null
}
Invoke-Sc failure $name reset= 0 actions= restart/10000
# So that the event log shows the records of calls as they are.
if (-not [System.Diagnostics.EventLog]::SourceExists($name)) { New-EventLog -LogName Application -Source $name }
Start-Service -Name $name
(Get-Service -Name $name).WaitForStatus('Running', $patience)
Write-Host "$name runs: all of its pipes exist. Log: $LogFile"
