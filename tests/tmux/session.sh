#!/bin/sh
# Plays a person at the screen, in a real tmux: a prompt, an answer that streams in, a command
# that is approved, a hunk that is refused, an interrupt, a message while it works, an undo, a
# resize, an end, and the session resumed. Then every finished line must be in the scrollback
# exactly once.
#
#   sh tests/tmux/session.sh [PATH/TO/gimlet] [DIRECTORY FOR CAPTURES]
#
# The captures, one per stage, are what picture.py makes the pictures in assets/screens of. Needs tmux; no key, no
# network.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
gimlet=$(realpath "${1:-$here/../../target/debug/gimlet}")
captures=${2:-}
place=$(mktemp -d)
project=$place/leap
server="gimlet-$$"
trap 'tmux -L "$server" kill-server 2>/dev/null; rm -rf "$place"' EXIT
cp -r "$here/../../assets/demo/project" "$project"

do_tmux() { tmux -L "$server" -f /dev/null "$@"; }
screen() { do_tmux capture-pane -p -t s; }

# Waits until a text can be seen; says what was seen where it does not come.
see() {
    tries=0
    until screen | grep -qF -- "$1"; do
        tries=$((tries + 1))
        if [ "$tries" -ge 300 ]; then
            echo "not seen: $1" >&2
            do_tmux capture-pane -p -S - -t s >&2
            exit 1
        fi
        sleep 0.1
    done
}

see_not() {
    if screen | grep -qF -- "$1"; then
        echo "seen too early: $1" >&2
        screen >&2
        exit 1
    fi
}

keep() {
    if [ -n "$captures" ]; then
        mkdir -p "$captures"
        do_tmux capture-pane -e -p -t s | sed "s|$place|~|g" > "$captures/$1.txt"
    fi
}

# Presses a key until it shows: one that comes as soon as a question does is not its answer.
press() {
    sleep 1
    tries=0
    until screen | grep -qF -- "$2"; do
        tries=$((tries + 1))
        [ "$tries" -gt 10 ] && see "$2"
        keys "$1"
        waited=0
        until screen | grep -qF -- "$2" || [ "$waited" -ge 20 ]; do
            waited=$((waited + 1))
            sleep 0.1
        done
    done
}

keys() { do_tmux send-keys -t s "$@"; }
write() { do_tmux send-keys -t s -l "$1"; keys Enter; }

once() {
    count=$(printf '%s\n' "$all" | grep -cF -- "$1" || true)
    if [ "$count" != 1 ]; then
        printf '%s\n' "$all" >&2
        echo "$count times in the scrollback: $1" >&2
        exit 1
    fi
}

# Every line that is finished is there, and there once.
finished() {
    all=$(do_tmux capture-pane -p -S - -t s)
    once "› fix the leap years"
    once "One by one, as it arrives:"
    once "the second"
    once "The tests will tell."
    once "FAILED  1900"
    once "The rule is right now"
    once "› tell me a story"
    once "A long story begins"
    once "stopped; what was done so far is kept"
    once "› look around"
    once "› and mind the README"
    once "The README was minded"
    once "took back what turn 1 did"
}

start() {
    do_tmux send-keys -t s -l "env -u NO_COLOR HOME=$place GIMLET_HOME=$place/home $gimlet $*"
    keys Enter
    see "sandboxed"
}

do_tmux new-session -d -s s -x 80 -y 24 -c "$project" "env PS1='\$ ' sh"
do_tmux set-option -t s history-limit 10000
see '$'
start -a untrusted --driver fake --script "$here/script.jsonl"

write "fix the leap years"
see "the first"
see_not "the third"
keep streaming

see "gimlet wants to run"
keep command
press y "hunk 1 of 2"
keep hunks
press y "hunk 2 of 2"
sleep 1
keys n
press Enter "your no was heard"
test ! -e "$project/NOTES.md"
grep -q "% 400" "$project/leap.sh"

write "tell me a story"
see "A long story begins"
keys Escape
see "stopped; what was done so far is kept"

write "look around"
see "Looking around"
write "and mind the README"
see "The README was minded"

write "/undo"
see "took back what turn 1 did"
grep -q "% 400" "$project/leap.sh" && { echo "the undo did nothing" >&2; exit 1; }

do_tmux resize-window -t s -x 100 -y 30
see "sandboxed"
do_tmux resize-window -t s -x 80 -y 24
see "sandboxed"
keep undone
finished

# Resumed on an empty screen: the conversation is laid out anew, from the log.
write "/quit"
see "gimlet resume"
do_tmux send-keys -t s -l "clear"
keys Enter
do_tmux clear-history -t s
start resume --last -a untrusted --driver fake --script "$here/resumed.jsonl"
write "hello again"
see "Here we are again"
keep resumed
finished
once "› hello again"
once "Here we are again"
keys C-d
see "goes on"
echo "The session went as it should, and every line is there once."
