"""The progress of a command in a terminal of 80 and of 40 columns: what the terminal shows is replayed character by character. No line
wraps, percentages never fall, ^C says what it does, and NO_COLOR, TERM=dumb and files get plain lines.

    terminal.py PLIMSOLL FOLDER
"""
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time

program, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
failed = 0
SMALL = ["--backend", "builtin", "--threads", "1"]


def check(what, ok, *seen):
    global failed
    if not ok:
        failed += 1
        print("failed:", what, *seen)


class Screen:
    """As much of a terminal as progress needs: carriage return, line feed, erase to the end of the line, colours."""

    def __init__(self, columns):
        self.columns, self.lines, self.at, self.wrapped, self.states = columns, [""], 0, [], []

    def feed(self, text):
        for part in re.findall(r"\x1b\[[0-9;]*[A-Za-z]|\r+\n|.|\n|\r", text):
            line = self.lines[-1]
            if part == "\r":
                self.states.append(line)
                self.at = 0
            elif part.endswith("\n"):
                self.states.append(line)
                self.lines.append("")
                self.at = 0
            elif part == "\x1b[K":
                self.lines[-1] = line[:self.at]
            elif part[0] != "\x1b":
                if self.at >= self.columns:
                    self.wrapped.append(line)
                self.lines[-1] = line[:self.at] + part + line[self.at + 1:]
                self.at += 1


def run(words, columns, interrupts=(), term="xterm", **more):
    """(exit code, screen, raw text); interrupts: a text to wait for each, then ^C."""
    pid, fd = pty.fork()
    if pid == 0:
        env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        os.execvpe(program, [program, *words], {**env, "TERM": term, "OMP_WAIT_POLICY": "passive", **more})
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    text, waits, start, last = "", list(interrupts), time.monotonic(), 0
    while time.monotonic() - start < 40:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            more_text = os.read(fd, 4096).decode("utf-8", "replace")
        except OSError:
            break
        text += more_text
        if waits and waits[0] in text[last:]:
            last = len(text)
            waits.pop(0)
            time.sleep(0.25)
            os.write(fd, b"\x03")
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    screen = Screen(columns)
    screen.feed(text)
    return status, screen, text


def narrow(name, words, columns):
    status, screen, text = run(words, columns)
    check(f"{name} at {columns} columns ends well", status == 0, status, text[-300:])
    drawn = [s for s in screen.states if s.startswith(("step", "sampling", "  planning"))]
    check(f"{name} draws over a line", len(drawn) > 3, len(drawn))
    check(f"{name}: no drawn line reaches the last of {columns} columns", all(len(s) < columns for s in drawn), max(map(len, drawn), default=0))
    return drawn, screen


def falls(drawn):
    numbers = [int(m.group(1)) for s in drawn if (m := re.search(r"(\d+)%", s))]
    return [(a, b) for a, b in zip(numbers, numbers[1:]) if b < a]


shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.chdir(folder)
TINY = [word for key in ("widths=[8]", "groups=4", "heads=2", "height=8", "width=8") for word in ("--set", "model." + key)]
TRAIN = ["train", "unet-small", *SMALL, *TINY, "--batch", "2", "--set", "validate.every=5", "--set", "data.holdout=0.1", "--set", "sample.every=10", "--set",
         "sampler.steps=5"]
for columns in (80, 40):
    drawn, screen = narrow("train", [*TRAIN, "--steps", "20", "--out", f"run{columns}"], columns)
    steps = [int(m.group(1)) for s in drawn if (m := re.match(r"step (\d+)/", s))]
    check("every step is shown, in order", steps == sorted(steps) and len(set(steps)) == 20, steps)
    if columns == 80:
        check("with loss, pace, time left and memory", all(re.search(r"loss \S+ .*ms/step.* left .*[KM]iB of", s) for s in drawn if s.startswith("step") and "validation" not in s), drawn)
    end = next(i for i, l in enumerate(screen.lines) if l.startswith("unet-small: "))
    begin = screen.lines[:end]
    check(f"no line of the start is wrapped at {columns} columns", any(l.startswith("data: ") for l in begin) and all(len(l) <= columns for l in begin), begin)
    said = [l for l in screen.lines[end:] if not l.startswith("next: ")]
    check(f"sentences are broken where the terminal ends, at {columns} columns", len(said) > 2 and all(len(l) <= columns for l in said), said)
    drawn, screen = narrow("fit", ["fit", "unet-small", "--budget", "14MiB", "--effort", "20000", *SMALL], columns)
    check("fit never goes backwards", not falls(drawn), falls(drawn))
    check("fit shows the first plan early", any(l.startswith("  found: ") for l in screen.lines))

status, screen, text = run([*TRAIN, "--steps", "100000", "--out", "stopped"], 80, ["step 9/"])
check("^C says what it does", "stopping: this step is finished and saved; ^C again ends at once" in text, text[-600:])
check("and how to go on", status == 0 and "continue with: plimsoll train --resume stopped" in text, status)
status, screen, text = run(["train", "unet-small", *SMALL, "--steps", "100000", "--out", "ended", "--set", "sample.every=1000000", "--batch",
                            "256"], 80, ["step 1/", "stopping"])
check("a second ^C ends at once", os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT, status, text[-200:])

status, screen, text = run(["fit", "unet-small", "--budget", "70%kept", "-o", "plan.json", *SMALL, "--effort", "100000000"], 80, ["found: "])
check("^C in fit keeps the best plan", status == 0 and os.path.exists("plan.json") and "^C ended the search" in text, status, text[-600:])
check("and says so", "stopping, with the best plan found so far" in text)
done = subprocess.run([program, "train", "unet-small", "--plan", "plan.json", "--steps", "1", "--out", "none", "--quiet", *SMALL], capture_output=True,
                      text=True)
check("the plan can be trained", done.returncode == 0 and " planned = " in done.stdout, done.stderr)

_, _, coloured = run(["compare", "unet-small", "--budget", "16MiB", "--effort", "100", *SMALL], 100)
_, _, plain = run(["compare", "unet-small", "--budget", "16MiB", "--effort", "100", *SMALL], 100, NO_COLOR="1")
check("colours in a terminal", "\x1b[3" in coloured)
check("none with NO_COLOR", "\x1b[3" not in plain and "\x1b[1m" not in plain)
_, _, dumb = run([*TRAIN, "--steps", "6", "--out", "dumb"], 80, term="dumb")
check("plain lines with TERM=dumb", "\x1b" not in dumb and "\r" not in dumb.replace("\r\n", "\n"), repr(dumb[-300:]))
piped = subprocess.run([program, *TRAIN, "--steps", "6", "--out", "piped"], capture_output=True, text=True)
check("plain lines in a pipe", "\x1b" not in piped.stderr and "\r" not in piped.stderr and "step 6/6" in piped.stderr)

if shutil.which("tmux"):                                # a real terminal, as far as one can be had here
    socket = "plimsoll-test-" + str(os.getpid())
    tmux = ["tmux", "-L", socket, "-f", "/dev/null"]
    command = " ".join([program, *TRAIN, "--steps", "40", "--out", "tmux"]).replace("[", "'[").replace("]", "]'")
    subprocess.run([*tmux, "new-session", "-d", "-x", "80", "-y", "30", "-c", os.getcwd(), f"{command}; touch ended-tmux; sleep 60"], check=True)
    for _ in range(600):
        if os.path.exists("ended-tmux"):
            break
        time.sleep(0.1)
    time.sleep(0.3)
    shown = subprocess.run([*tmux, "capture-pane", "-p", "-S", "-"], capture_output=True, text=True).stdout
    joined = subprocess.run([*tmux, "capture-pane", "-p", "-J", "-S", "-"], capture_output=True, text=True).stdout   # wrapped lines in one
    subprocess.run([*tmux, "kill-server"])
    steps = [l for l in joined.split("\n") if l.startswith("step ")]
    check("tmux shows steps", len(steps) >= 8, shown)
    check("tmux wraps no line of progress", all(len(l.rstrip()) < 80 for l in steps), steps)
    numbers = [int(re.match(r"step (\d+)/", l).group(1)) for l in steps]
    check("one line for each validated step", numbers == list(range(5, 41, 5)), numbers)
else:
    print("tmux is not installed: its part is skipped")
print("failed" if failed else "passed")
sys.exit(failed != 0)
