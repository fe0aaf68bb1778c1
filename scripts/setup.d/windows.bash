# Programs of Windows nodes are cross-built, with Rust's library for that target and a linker. Wine runs them, where there is Wine.

# rust_target TARGET: Rust's library for the target.
rust_target() {
  [ ! -d "$(rustc --print sysroot 2>/dev/null)/lib/rustlib/$1/lib" ] || return 0
  step "install Rust's library for $1" add_rust_target "$1"
}
add_rust_target() {
  command -v rustup >/dev/null || { say "this Rust has no rustup to install the library for $1; install Rust with rustup: https://rustup.rs" && return 1; }
  rustup target add "$1"
}

# The clients of the csi-proxy project, from its Go module, for the proxy that runs under Wine.
csi_proxy_clients=$tools/csi-proxy-clients-$(digest tests/acceptance/csi-proxy/*.go tests/acceptance/csi-proxy/go.mod tests/acceptance/csi-proxy/go.sum)
need_csi_proxy_clients() {
  CGO_ENABLED=0 GOOS=windows go_program tests/acceptance/csi-proxy "$csi_proxy_clients/clients.exe" "csi-proxy's own client" -trimpath -ldflags=-s
}

# The csi-proxy project's own program, for the driver that works over it under Wine.
go_csi_proxy=$tools/go-csi-proxy-$(digest tests/acceptance/go-csi-proxy/go.mod tests/acceptance/go-csi-proxy/go.sum)
need_go_csi_proxy() {
  go_package=github.com/kubernetes-csi/csi-proxy/cmd/csi-proxy \
    CGO_ENABLED=0 GOOS=windows go_program tests/acceptance/go-csi-proxy "$go_csi_proxy/csi-proxy.exe" "the csi-proxy in Go" -trimpath -ldflags=-s
}

# A Windows of its own for the tests.
wine_prefix=$tools/wine-prefix
need_wine_prefix() { [ -e "$wine_prefix/complete" ] || step "create a Wine prefix" create_wine_prefix; }

# Wine 8 lacks bcryptprimitives.dll: programs of Rust then end without a message.
create_wine_prefix() {
  rm -rf "$wine_prefix"
  mkdir -p "$wine_prefix"
  local log=$PWD/$tools/wine-prefix.log library=$PWD/$wine_prefix/drive_c/windows/system32/bcryptprimitives.dll
  if ! WINEPREFIX=$PWD/$wine_prefix WINEARCH=win64 WINEDEBUG=-all WINEDLLOVERRIDES=mscoree,mshtml= \
    timeout 300 "$wine" wineboot --init >"$log" 2>&1 </dev/null; then
    say "start Wine: it failed; see $log"
    return 1
  fi
  [ -e "$library" ] || x86_64-w64-mingw32-gcc -shared -O2 -s -o "$library" deploy/windows/bcryptprimitives.c -ladvapi32
  touch "$wine_prefix/complete"
}
