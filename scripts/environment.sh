# Read by the other scripts: makes the virtual environment in .venv, once, and again when what it is made from changes.
#
# use_environment NAME REQUIREMENTS: afterwards $root/.venv has what the file REQUIREMENTS lists. A stamp, written
# last, says so, and for what: a setup that was cut off starts again, and the next start only compares a checksum.

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd -P)
venv=$root/.venv
lock=$root/.venv.lock

say() {
    printf '%s\n' "$*" >&2
}

fail() {
    say "$@"
    exit 1
}

# The first Python on the PATH that is new enough and can make an environment.
find_python() {
    for candidate in ${HERMES_PYTHON:+"$HERMES_PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 python; do
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    fail "Hermes needs Python 3.11 or newer with its venv and pip modules, and none was found on the PATH." \
        "Install it (Debian, Ubuntu: apt install python3 python3-venv), or set HERMES_PYTHON to one."
}

# A checksum of everything that the environment is made from. Its own path is part of it: programs in it name that path.
checksum() {
    (
        cd "$root" || exit 1
        printf '%s\n' "$root" "$1"
        cat constraints.txt requirements.txt "$1" pyproject.toml adapters/*/pyproject.toml plugins/*/pyproject.toml
        cat .venv/pyvenv.cfg 2>/dev/null || printf 'none\n'
    ) | cksum
}

is_ready() {
    [ -x "$venv/bin/python" ] && [ -f "$venv/.ready-$1" ] && [ "$(cat "$venv/.ready-$1")" = "$(checksum "$2")" ]
}

# Two first starts at once would spoil each other's work. The lock of a process that is gone is taken over.
take_lock() {
    waited=
    until mkdir "$lock" 2>/dev/null; do
        holder=$(cat "$lock/pid" 2>/dev/null || true)
        if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
            rm -rf "$lock"
        else
            [ -n "$waited" ] || say "Waiting for another setup of this checkout (remove $lock if there is none) …"
            waited=yes
            sleep 1
        fi
    done
    printf '%s\n' $$ >"$lock/pid"
    trap 'rm -rf "$lock"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
}

make_environment() {
    log=$venv/setup.log
    # An environment that was moved has programs that name its old path; one whose setup was cut off may have no pip,
    # or packages of which a part is missing without pip seeing it.
    if [ -e "$venv/.unfinished" ] ||
        [ "$(cat "$venv/.made-for" 2>/dev/null || printf '%s' "$root")" != "$root" ] ||
        ! "$venv/bin/python" -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
        python=$(find_python) || exit 1
        say "Making .venv with $("$python" --version) …"
        "$python" -m venv --clear "$venv" >&2 || fail "The environment $venv could not be made."
    fi
    : >"$venv/.unfinished"
    printf '%s' "$root" >"$venv/.made-for"
    say "Installing what $1 lists (a minute or two the first time) …"
    if ! (cd "$root" && "$venv/bin/python" -m pip install --disable-pip-version-check --no-input \
        -c constraints.txt -r "$1") >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        fail "The installation failed; the whole story is in $log."
    fi
    rm -f "$venv/.unfinished"
}

use_environment() {
    is_ready "$1" "$2" && return
    take_lock
    if ! is_ready "$1" "$2"; then
        rm -f "$venv/.ready-$1"
        make_environment "$2"
        checksum "$2" >"$venv/.ready-$1"
    fi
    rm -rf "$lock"
    trap - EXIT INT TERM
}
