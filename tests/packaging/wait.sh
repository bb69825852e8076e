# Functions that wait for a service; sourced by the tests.

# How often a condition is checked, twice a second, before the test fails.
attempts=240

# until_true DESCRIPTION COMMAND...
until_true() {
  local description=$1 attempt
  shift
  for ((attempt = 0; attempt < attempts; attempt++)); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.5
  done
  echo "timed out: $description" >&2
  return 1
}

# is_ready PORT: whether /readyz of the operator port answers 200.
is_ready() {
  local line
  exec 3<>"/dev/tcp/127.0.0.1/$1" || return 1
  printf 'GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n' >&3
  IFS= read -r line <&3
  exec 3>&-
  [[ $line == *' 200 '* ]]
}
