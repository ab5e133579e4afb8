"""`watch` over HTTP and in a real browser, and every HTML page of the program at two widths in both themes.

    watch.py PLIMSOLL FOLDER

Over HTTP: only GET, only this machine's name, only with the token, only files of samples; slow, torn and many connections. In
Chromium at 1280 and 390 pixels, light and dark: nothing is wider than the window, the page follows a run that trains, is killed and
resumed. Images are left in FOLDER. The part in the browser is skipped, with a message, where no Chromium is installed.
"""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find

program, folder = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failed = 0


def check(what, ok, *seen):
    global failed
    if not ok:
        failed += 1
        print("failed:", what, *seen)


def train(name, *more, resume=False, wait=True):
    out = os.path.join("runs", name)
    words = [program, "train", *(["--resume", out] if resume else ["unet-small", "--out", out]), "--backend", "builtin", "--threads", "1",
             "--quiet", *more]
    p = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    if wait:
        check(f"{name} trains", p.wait() == 0)
    return p


def watch(path):
    p = subprocess.Popen([program, "watch", path], stdout=subprocess.PIPE, text=True)
    line = p.stdout.readline()
    port, token = re.search(r"http://127\.0\.0\.1:(\d+)/([0-9a-f]{32})/", line).groups()
    return p, int(port), token


def raw(port, data, timeout=10, pause=0):
    """What is answered to these bytes, sent as they are (with a pause in the middle)."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as s:
        half = len(data) // 2 if pause else len(data)
        s.sendall(data[:half])
        if pause:
            time.sleep(pause)
            s.sendall(data[half:])
        answer = b""
        try:
            while more := s.recv(1 << 16):
                answer += more
        except (TimeoutError, ConnectionResetError):
            pass
    return answer


def get(port, path, host="localhost", method="GET"):
    answer = raw(port, f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, head.decode(), body


def over_http(port, token):
    at = f"/{token}/"
    status, head, body = get(port, at)
    check("the page is there", status == 200 and b"</html>" in body)
    check("it may load nothing from elsewhere", "default-src 'none'" in head and not re.search(rb"(src|href)=[\"'](https?:)?//|@import", body))
    check("and is not kept", "Cache-Control: no-store" in head)
    for method in ("HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
        check(f"{method} is refused", get(port, at, method=method)[0] == 405)
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "0.0.0.0", "[::1]"):
        check(f"as {host} it is refused", get(port, at + "runs.json", host)[0] == 403)
    for host in (f"localhost:{port}", "127.0.0.1", "127.0.0.1:99"):
        check(f"as {host} it answers", get(port, at + "runs.json", host)[0] == 200)
    for path in ("/", "/runs.json", "/" + "0" * 32 + "/", at[:-2] + "/", at[:-1], at.upper() + "x"):
        check(f"{path} is not there", get(port, path)[0] == 404, get(port, path)[0])
    runs = json.loads(get(port, at + "runs.json")[2])["runs"]
    i = next(i for i, r in enumerate(runs) if r["name"] == "done")
    file = open("runs/done/samples/000020/samples.png", "rb").read()
    check("a sample is served as it is", get(port, f"{at}file/{i}/samples/000020/samples.png")[2] == file)
    os.symlink("/etc/hostname", "runs/done/samples/000020/link.png")
    os.symlink("/etc", "runs/done/samples/etc")
    for path in ("../recipe.yaml", "samples/../recipe.yaml", "samples/000020/../../recipe.yaml", "recipe.yaml", "samples/000020/link.png",
                 "samples/etc/hostname", "samples/etc/x.png", "samples/000020/%73amples.png", "samples//000020/samples.png", "samples/000020",
                 "samples/000020/", "samples/.png", "step-000020.safetensors", "log.jsonl"):
        check(f"{path} is not served", get(port, f"{at}file/{i}/{path}")[0] == 404, path)
    os.remove("runs/done/samples/000020/link.png")
    os.remove("runs/done/samples/etc")
    for run in (-1, 64, len(runs), "x", ""):
        check(f"run {run} is not there", get(port, f"{at}log?run={run}")[0] == 404)
    log = open("runs/done/log.jsonl", "rb").read()
    status, head, body = get(port, f"{at}log?run={i}&from=50")
    check("a part of the log is the log's", body == log[50:] and head.rstrip().split("X-Log: ")[1].split("\r\n")[0].split()[1:] == ["50", str(len(log))], head)
    check("beyond its end it begins anew", get(port, f"{at}log?run={i}&from=99999999")[2] == log)
    check("garbage is refused", raw(port, b"\x16\x03\x01\0\xa5\x01\0\r\n\r\n").startswith(b"HTTP/1.1 400"))
    check("a long head is refused", raw(port, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 3000).startswith(b"HTTP/1.1 431"))
    check("a slow request is answered", raw(port, f"GET {at} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), pause=.3).startswith(b"HTTP/1.1 200"))
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(25)]
    start = time.monotonic()
    check("beside 25 idle connections it answers", get(port, at)[0] == 200 and time.monotonic() - start < 5)
    more = [socket.create_connection(("127.0.0.1", port)) for _ in range(35)]      # more than it holds: the oldest go
    start = time.monotonic()
    check("beside more idle connections than it holds it answers", get(port, at)[0] == 200 and time.monotonic() - start < 10)
    for s in idle:
        s.close()
    check("and after they are gone too", get(port, at)[0] == 200)
    for s in more:
        s.close()


def settle(b, script, seconds=20):
    for _ in range(seconds * 10):
        if b.run(script):
            return True
        time.sleep(0.1)
    return False


def looks(b, name, url):
    """No overflow at either width in either theme."""
    for width in (1280, 390):
        b.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)
        b.open(url)
        settle(b, "document.readyState === 'complete'")
        settle(b, "!window.plimsoll || (plimsoll.timeline ? !!plimsoll.timeline.drawMs : plimsoll.runs.length > 0 && plimsoll.runs.every(r => r.at > 0 || !r.about.steps))")
        time.sleep(.4)
        for theme in ("light", "dark"):
            b.run(f"document.documentElement.dataset.theme = '{theme}'; window.plimsoll && plimsoll.timeline && plimsoll.timeline.draw(); window.redraw && redraw(); void 0")
            wide = b.run("[document.documentElement.scrollWidth, innerWidth]")
            check(f"{name} at {width}, {theme}: nothing is wider than the window", wide[0] <= wide[1], wide, b.run(
                "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 5).map(e => e.tagName + '#' + e.id + '.' + e.className)"))
            b.screenshot(os.path.join(folder, f"{name}-{width}-{theme}.png"), whole=True)


def page_follows(b, port, token):
    url = f"http://127.0.0.1:{port}/{token}/"
    b.send("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
    b.open(url)
    check("the runs are there", settle(b, "plimsoll.runs.length === 3 && plimsoll.runs.every(r => r.last > 0)"), b.run("plimsoll.runs.map(r => [r.name, r.last])"))
    states = dict(b.run("plimsoll.runs.map(r => [r.name, r.state[0]])"))
    check("each says how it stands", states == {"done": "finished", "killed": "stopped", "live": "running"}, states)
    live = b.run("plimsoll.runs.findIndex(r => r.name === 'live')")
    b.run(f"select({live})")
    first = b.run(f"plimsoll.runs[{live}].last")
    check("new steps come by themselves", settle(b, f"plimsoll.runs[{live}].last > {first}"))
    text = b.run("document.getElementById('tiles').textContent")
    check("time left and memory are there", "Time left" in text and "planned" in text and "Memory used" in text, text)
    log = [json.loads(l) for l in open("runs/done/log.jsonl")]
    done = b.run("(() => { const r = plimsoll.runs.find(r => r.name === 'done'); return [r.step, r.loss, r.val, r.memory]; })()")
    check("a run's numbers are the log's", done[0] == [e["step"] for e in log] and done[1] == [e["loss"] for e in log] and
          done[2] == [e["val_loss"] for e in log if "val_loss" in e] and done[3] == max(e.get("memory_bytes", 0) for e in log))
    killed = b.run("plimsoll.runs.findIndex(r => r.name === 'killed')")
    before = b.run(f"plimsoll.runs[{killed}].last")
    train("killed", "--steps", str(before + 30), resume=True)
    want = [json.loads(l)["step"] for l in open("runs/killed/log.jsonl")]
    check("a resumed run is read again: no gap, no repeat", settle(b, f"plimsoll.runs[{killed}].last + 1 === {len(want)}") and
          b.run(f"plimsoll.runs[{killed}].step") == want)
    check("what is computed as lines come is what all of them give", b.run("""plimsoll.runs.every(r => {
        const all = Object.assign(new Run(0, ""), { loss: r.loss, ms: r.ms });
        return JSON.stringify([r.smooth("loss", plimsoll.smooth), r.medianMs()]) === JSON.stringify([all.smooth("loss", plimsoll.smooth), all.medianMs()]); })"""))
    others = "plimsoll.charts.loss.series.filter(s => s.other).length"
    check("losses of one model share the chart", b.run(others) == 2, b.run(others))
    b.run("document.querySelector('[data-others=one]').click()")
    check("or this run is alone", b.run(others) == 0, b.run(others))
    check("another model's loss is not among them", b.run(f"(() => {{ delete plimsoll.others; plimsoll.runs[({live} + 1) % 3].about.model = 'other'; redraw(); return {others}; }})()") == 1)
    marks = b.run("[tickText(0.002, 0.0005), tickText(4, 2), tickText(0, 1), tickTime(1500, 500), tickTime(20, 10)]")
    check("marks of an axis have its digits", marks == ["0.0020", "4", "0", "1.5 s", "20 ms"], marks)
    b.run("select(plimsoll.runs.findIndex(r => r.name === 'done'))")    # the live one may not have drawn any yet
    check("samples are shown", settle(b, "document.querySelectorAll('#sheet img').length > 0 && [...document.querySelectorAll('#sheet img')].every(i => i.naturalWidth > 0)"))
    b.mouse("mouseMoved", 600, b.run("document.getElementById('loss').getBoundingClientRect().top + 100"))
    check("pointing says the step", "step " in (b.run("document.querySelector('#loss .tip').textContent") or ""))
    colours = b.run("(() => { const c = document.querySelector('#loss canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, s = new Set(); for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size; })()")
    check("the loss is drawn", colours > 10, colours)
    return url


def main():
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "runs"))
    os.chdir(folder)
    tiny = [w for k in ("model.widths=[8, 16]", "model.groups=4", "batch=2", "accumulate=1", "sampler.steps=10", "sample.n=4", "validate.every=10",
                        "data.holdout=0.1", "save.every=10", "save.minutes=0") for w in ("--set", k)]
    train("done", "--steps", "120", "--set", "sample.every=20", *tiny)
    dead = train("killed", "--steps", "100000", "--set", "sample.every=25", *tiny, wait=False)
    live = train("live", "--steps", "100000", "--set", "sample.every=500", "--set", "batch=8", "--set", "validate.every=100", wait=False)
    for _ in range(300):
        if os.path.exists("runs/killed/log.jsonl") and open("runs/killed/log.jsonl").read().count("\n") > 80:
            break
        time.sleep(.1)
    dead.kill()
    dead.wait()
    server, port, token = watch("runs")
    b = None
    try:
        over_http(port, token)
        path = find()
        if path:
            b = Browser(path, 1280, 900)
            url = page_follows(b, port, token)
            looks(b, "watch", url)
            pages(b)
            check("no errors or warnings in the console", not b.complaints, b.complaints)
        else:
            print("no chromium on this machine: the part in the browser is skipped (apt-get install chromium)")
    finally:
        live.kill()
        live.wait()
        if b:
            b.close()
        server.send_signal(signal.SIGINT)
        check("^C ends the server", server.wait(10) == 0)
    check("a folder that is no run is refused", subprocess.run([program, "watch", "."], capture_output=True).returncode == 2)
    print("failed" if failed else "passed")
    sys.exit(failed != 0)


def pages(b):
    small = ["--backend", "builtin", "--threads", "1"]
    make = {"explain": ["explain", "unet-small", "--budget", "14MiB", "--time-limit", "3", "--effort", "500", *small],
            "fit": ["fit", "unet-small", "--budget", "14MiB", "--effort", "500", *small],
            "compare": ["compare", "unet-small", "--sweep", "batch=4,8", "--sweep", "model.heads=2,3", "--budget", "8MiB,12MiB,16MiB,32MiB", "--effort", "200", *small]}
    for name, words in make.items():
        done = subprocess.run([program, *words, "--html", name + ".html"], capture_output=True, text=True)
        check(f"{name} --html", done.returncode == 0, done.stderr)
        text = open(name + ".html").read()
        check(f"{name} needs nothing from elsewhere", not re.search(r"(src|href)=[\"'](https?:)?//|@import|url\(", text))
        looks(b, name, os.path.abspath(name + ".html"))
        if name == "compare":                               # looks() leaves it as wide as a phone
            said = b.run("[...document.querySelectorAll('td[colspan]')].map(e => [e.offsetWidth, e.textContent])")
            check("a variant that cannot be built says why, on a phone too", len(said) == 2 and all(w > 50 and "3 heads" in t for w, t in said), said)
        if name == "fit":
            marks = b.run("[...document.querySelectorAll('.plot.narrow text')].map(e => e.textContent)")
            check("its axes have round marks and names", "0 B" in marks and "10.0 MiB" in marks and "0 %" in marks and "arena" in marks, marks)
            check("the row of the plan stands out", b.run("document.querySelector('tr.chosen').textContent.startsWith('14.0 MiB')"))


main()
