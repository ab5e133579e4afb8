"""The HTML report in a real browser: nothing complains, the plot is drawn and right, hover, search, keys and tables work.

    test_html.py PLIMSOLL FOLDER [RECIPE]

Images of both themes are left in FOLDER. Skipped, with a message, where no Chromium is installed.
"""
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from browser import Browser, find

program, folder = sys.argv[1:3]
recipe = sys.argv[3] if len(sys.argv) > 3 else "stdiff-small"
checks = {"passed": 0, "failed": 0}


def check(what, ok, *seen):
    checks["passed" if ok else "failed"] += 1
    if not ok:
        print("failed:", what, *seen)


def main():
    browser_path = find()
    if not browser_path:
        print("skipped: no chromium on this machine (apt-get install chromium)")
        sys.exit(77)
    os.makedirs(folder, exist_ok=True)
    page = os.path.join(folder, recipe + ".html")
    subprocess.run([program, "explain", recipe, "--html", page, "--time-limit", "12"], check=True, stdout=subprocess.DEVNULL)
    told = json.loads(subprocess.run([program, "explain", recipe, "--json"], check=True, capture_output=True).stdout)

    with open(page) as f:
        text = f.read()
    check("nothing is fetched from elsewhere", not re.search(r"(src|href)=[\"'](https?:)?//|@import|url\(", text))

    b = Browser(browser_path)
    try:
        b.open(page)
        for _ in range(200):
            if b.run("!!(window.plimsoll && plimsoll.timeline.drawMs)"):
                break
            time.sleep(0.05)
        b.run("document.documentElement.dataset.theme = 'light'; plimsoll.timeline.draw()")
        numbers(b, told)
        drawn(b, told)
        hover(b)
        search(b, told)
        keys(b)
        tables(b, told)
        treemap(b, told)
        time_axis(b, told)
        modules(b, told)
        what_if(b)
        themes(b)
        speed(b)
        planned(b)
        phone(b, page)
        check("no errors or warnings in the console", not b.complaints, b.complaints)
    finally:
        b.close()
    print(f"{checks['passed']} passed, {checks['failed']} failed")
    sys.exit(checks["failed"] != 0)


def numbers(b, told):
    """The buffers the page got add up, at every run of every phase, to the bytes the planner metered."""
    worst = b.run("""(() => { let worst = 0;
        for (const p of plimsoll.data.programs) {
            const change = new Float64Array(p.runs + 1);
            for (let i = 0; i < p.n; i++) { change[p.first[i]] += p.bytes[i]; change[p.end[i]] -= p.bytes[i]; }
            let live = 0;
            for (let t = 0; t < p.runs; t++) { live += change[t]; worst = Math.max(worst, Math.abs(live - p.live[t])); }
        } return worst; })()""")
    check("buffers add up to the live bytes at every run", worst == 0, worst)
    check("the peak is the one of the JSON", b.run("plimsoll.data.peak.live[plimsoll.data.peak.peakRun]") == told["live_bytes"])
    top = b.run("(() => { const p = plimsoll.data.peak; let m = 0; for (let i = 0; i < p.n; i++) m = Math.max(m, p.offset[i] + p.bytes[i]); return m; })()")
    check("the highest end of a buffer is the arena", top == told["peak_bytes"], top, told["peak_bytes"])


def drawn(b, told):
    share = b.run("(() => { const t = plimsoll.timeline; let n = 0; for (const c of t.pixels) n += c !== t.back; return n / t.pixels.length; })()")
    check("a good part of the plot is coloured", 0.05 < share < 0.98, share)
    height = b.run("""(() => { const t = plimsoll.timeline, x = t.firstColumn[t.p.peakRun]; let n = 0;
        for (let y = 0; y < t.H; y++) n += t.ids[y * t.W + x] !== -1; return n / t.H * t.top; })()""")
    check("the peak is as high as it should be", abs(height - told["live_bytes"]) < 0.01 * told["live_bytes"], height, told["live_bytes"])
    seen = b.run("""(() => { const c = document.getElementById('base'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, s = new Set();
        for (let i = 0; i < d.length; i += 4) s.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return s.size; })()""")
    check("many colours are on the canvas", seen > 10, seen)
    b.run("document.querySelector('[data-view=arena]').click()")
    check("the arena is drawn", b.run("(() => { const t = plimsoll.timeline, s = new Set(t.ids); return t.view === 'arena' && s.size > 50; })()"))
    b.run("document.querySelector('[data-view=live]').click()")


def box(b):
    return b.run("(() => { const r = document.getElementById('plot').getBoundingClientRect(), t = plimsoll.timeline; return [r.left, r.top, t.cssW, t.cssH, t.xOf(t.p.middle(t.p.peakRun))]; })()")


def hover(b):
    left, top, w, h, peak = box(b)
    x = left + peak
    y = top + b.run("""(() => { const t = plimsoll.timeline, x = t.firstColumn[t.p.peakRun]; let y = Math.floor(t.H / 2);
        while (y < t.H && t.ids[y * t.W + x] < 0) y++; return y + 18.5; })()""")
    b.mouse("mouseMoved", x, y)
    name = b.run("plimsoll.timeline.hover >= 0 ? plimsoll.timeline.p.name_(plimsoll.timeline.hover) : ''")
    check("pointing finds a buffer", name != "")
    check("the tip says which", b.run("!document.getElementById('tip').hidden && document.getElementById('tip').textContent").startswith(name))
    check("the panel below says which", name in b.run("document.getElementById('detail').textContent"))
    b.mouse("mousePressed", x, y, button="left", clickCount=1)
    b.mouse("mouseReleased", x, y, button="left", clickCount=1)
    check("a click pins it", b.run("plimsoll.timeline.pinned === plimsoll.timeline.hover"))
    before = b.run("plimsoll.timeline.t1 - plimsoll.timeline.t0")
    b.mouse("mouseWheel", x, y, deltaX=0, deltaY=-400)
    time.sleep(0.2)
    check("the wheel zooms in", b.run("plimsoll.timeline.t1 - plimsoll.timeline.t0") < before)
    check("and keeps the place under the pointer", abs(box(b)[4] - peak) < 3 + w / before, box(b)[4], peak)


def search(b, told):
    module = next(m["module"] for m in told["modules"] if not m["module"].startswith("("))
    b.run("document.activeElement.blur()")
    b.key("/")
    check("/ goes to the search box", b.run("document.activeElement.id") == "search")
    b.send("Input.insertText", text=module)
    found = b.run("plimsoll.timeline.found")
    want = sum(t["bytes"] for t in told["tensors_at_peak"]
               if module.lower() in (t["name"] + " " + t["module"] + " " + t.get("file", "")).lower())
    check("what is found at the peak is what the JSON has", found["atPeak"] == want, found, want)
    check("it says how much", "buffers" in b.run("document.getElementById('found').textContent"))
    faint = b.run("(() => { const t = plimsoll.timeline, i = t.match.indexOf(0); return t.shades[t.p.cls[i]].faint.includes(t.shade(i)); })()")
    check("all others are faint", faint)
    b.key("Escape")
    check("escape clears it", b.run("plimsoll.timeline.match === null && document.activeElement.id === 'plot'"))


def keys(b):
    span = "plimsoll.timeline.t1 - plimsoll.timeline.t0"
    b.key("0")
    time.sleep(0.1)
    check("0 shows all", b.run(span) == b.run("plimsoll.timeline.p.total"))
    b.key("+")
    time.sleep(0.1)
    check("+ zooms in", b.run(span) < b.run("plimsoll.timeline.p.total"))
    at = b.run("plimsoll.timeline.t0")
    b.key("ArrowRight")
    time.sleep(0.1)
    check("an arrow moves", b.run("plimsoll.timeline.t0") > at)
    b.key("ArrowUp")
    first = b.run("plimsoll.timeline.hover")
    b.key("ArrowUp")
    check("up chooses one buffer after another", b.run("plimsoll.timeline.hover") != first)
    b.key("p")
    time.sleep(0.1)
    check("p goes to the peak", b.run("(() => { const t = plimsoll.timeline, at = t.p.middle(t.p.peakRun); return t.t0 <= at && at < t.t1; })()"))
    b.key("0")
    b.key("Escape")


def tables(b, told):
    names = b.run("[...document.querySelectorAll('#pick button')].map(x => x.textContent)")
    for name in names:
        b.run(f"[...document.querySelectorAll('#pick button')].find(x => x.textContent === '{name}').click()")
        rows = b.run("document.querySelectorAll('#table tbody tr').length")
        check(f"table {name} has rows", rows > 0 or name == "Avoided", rows)
        foot = b.run("document.querySelector('#table tfoot')?.textContent ?? ''")
        if name in ("Classes", "Bottlenecks", "Modules", "Lines", "Tensors"):
            check(f"table {name} ends with the peak", f"{told['peak_bytes']:,}" in foot, foot)
    b.run("document.querySelector('#table th button').click()")
    check("a heading sorts", b.run("!!document.querySelector('#table th[aria-sort]')"))
    b.run("document.querySelectorAll('#pick button')[1].click()")


def time_axis(b, told):
    """The x axis is time: the runs' times add up to the step's, as the planner predicts it."""
    total = b.run("plimsoll.data.programs.filter(p => p.name.includes('micro') || p.name.includes('update')).reduce((a, p) => a + p.total * (p.name.includes('micro') ? plimsoll.data.explain.recipe.accumulate : 1), 0)")
    check("the runs' times add up to the step's", 0.5 < total / told["time"]["step_ms"] < 1.2, total, told["time"]["step_ms"])
    check("runs begin in order", b.run("plimsoll.data.programs.every(p => p.time.every((v, t) => !t || v >= p.time[t - 1]))"))


def modules(b, told):
    """Coloured by module: other stacks, the same bytes; and back."""
    b.run("plimsoll.timeline.showAll(); document.querySelector('[data-colour=module]').click()")
    names = b.run("plimsoll.timeline.groups.names.length")
    check("several groups of modules", 3 <= names <= 12, names)
    check("their bytes at the peak are all of it", abs(b.run("(() => { const p = plimsoll.data.peak; return p.liveAt(p.peakRun).reduce((a, i) => a + p.bytes[i], 0); })()") - told["live_bytes"]) < 1)
    check("neighbours in the stack are of one module", b.run("(() => { const p = plimsoll.timeline.p; for (let i = p.nState + 1; i < p.n; i++) if (p.grp[i] < p.grp[i - 1]) return false; return true; })()"))
    check("the legend has them", b.run("document.querySelectorAll('#legend button').length") >= 3)
    b.screenshot(os.path.join(folder, f"{recipe}-modules.png"))
    b.run("document.querySelector('[data-colour=class]').click()")
    check("and back to classes", b.run("plimsoll.timeline.p.grp === plimsoll.timeline.p.cls"))


def treemap(b, told):
    check("the map holds every live byte", b.run("plimsoll.map.total[0]") == told["live_bytes"], b.run("plimsoll.map.total[0]"))
    outside = b.run("""(() => { const m = document.getElementById('map'), r = m.getBoundingClientRect();
        return [...m.children].filter(c => { const q = c.getBoundingClientRect(); return q.left < r.left - 1 || q.right > r.right + 1 || q.top < r.top - 1 || q.bottom > r.bottom + 1; }).map(c => c.title + c.getAttribute('style')); })()""")
    check("no box leaves the map", not outside, outside)
    b.run("document.querySelector('#map button.group, #map button:not(.leaf)').click()")
    check("a box opens", b.run("plimsoll.map.at") > 0)
    b.run("document.querySelector('#crumbs button').click(); document.getElementById('search').value = ''; plimsoll.timeline.search('')")


def what_if(b):
    rows = b.run("plimsoll.data.explain.what_if")
    check("a row for every lever", b.run("document.querySelectorAll('#whatif table')[0].querySelectorAll('tbody tr').length") == len(rows))
    check("each says its effort", b.run("document.querySelectorAll('#whatif .tag').length") == len(rows))
    check("beliefs are put right", b.run("document.querySelectorAll('#whatif table').length") == 2)
    dots = b.run("document.querySelectorAll('#curve circle').length")
    check("bytes against time has its points", dots >= 3, dots)
    outside = b.run("[...document.querySelectorAll('#curve circle')].filter(c => !(+c.getAttribute('cx') >= 68 && +c.getAttribute('cx') <= 1000 && +c.getAttribute('cy') >= 0 && +c.getAttribute('cy') <= 300)).length")
    check("and all of them within it", outside == 0, outside)
    b.run("document.querySelector('#curve circle[tabindex=\"0\"]').focus()")
    first = b.run("document.getElementById('curvenote').textContent")
    b.key("ArrowLeft")
    second = b.run("document.getElementById('curvenote').textContent")
    check("arrows go from plan to plan, and it says which", "time" in first and "time" in second and first != second, first, second)


def planned(b):
    """With a budget: the plan beside everything kept, both adding up."""
    page = os.path.join(folder, "budget.html")
    subprocess.run([program, "explain", "unet-small", "--budget", "14MiB", "--time-limit", "3", "--html", page], check=True, stdout=subprocess.DEVNULL)
    b.open(page)
    for _ in range(200):
        if b.run("!!(window.plimsoll && plimsoll.timeline.drawMs)"):
            break
        time.sleep(0.05)
    e = b.run("plimsoll.data.explain")
    check("the plan is shown", b.run("!document.getElementById('plan').hidden"))
    plan = b.run("(() => { const t = plimsoll.timeline, q = t.plan; return q && { max: q.most, total: q.total, batch: q.batch * q.many, whole: t.whole, kept: t.p.total, budget: plimsoll.data.budgetBytes, top: t.top, y: t.yOf(plimsoll.data.budgetBytes) }; })()")
    check("the plan's curve is there and stays below the budget", plan and plan["max"] <= plan["budget"] == 14 * 2**20, plan)
    check("the plan's curve is over as many samples as everything kept", plan and plan["batch"] == e["recipe"]["batch"], plan)
    check("a slower plan ends within the axis", plan and plan["whole"] == max(plan["total"], plan["kept"]), plan)
    x, height = b.run("(() => { const t = plimsoll.timeline; return [t.xOf(t.plan.total) - 2, t.plannedAt(t.xOf(t.plan.total) - 2)]; })()")
    check("its last bytes are on it", 60 < x < 1440 and height > 0, x, height)
    check("nothing of everything kept is drawn behind its end", b.run("(() => { const t = plimsoll.timeline; t.show('arena'); const x = t.W - 1, free = t.whole <= t.p.total || t.ids[x] === -1; t.show('live'); return free; })()"))
    check("the budget's line is within the plot", plan and plan["budget"] < plan["top"] and plan["y"] > 0, plan)
    drawn = b.run("(() => { const t = plimsoll.timeline, g = t.over.getContext('2d'), y = Math.round(t.yOf(plimsoll.data.budgetBytes)), d = g.getImageData(0, y - 1, t.over.width, 3).data; let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 60; return n; })()")
    check("and drawn", drawn > 300, drawn)
    foot = b.run("document.querySelector('#plantable tfoot').textContent")
    check("its classes end with both peaks", f"{e['peak_bytes']:,}" in foot and f"{e['plan']['peak_bytes']:,}" in foot, foot)
    check("and add up", sum(e["plan"]["classes"].values()) == e["plan"]["peak_bytes"])


def phone(b, page):
    """390 pixels wide: nothing is wider than the page, with a name that has no place to break."""
    b.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False)
    for path in (page, os.path.join(folder, "budget.html")):
        b.open(path)
        b.run("document.getElementById('model').textContent += '_'.repeat(200); document.getElementById('about').textContent += 'x'.repeat(200)")
        time.sleep(0.3)
        wide = b.run("document.documentElement.scrollWidth - innerWidth")
        check("nothing leaves a phone's screen", wide <= 0, path, wide)
    b.send("Emulation.setDeviceMetricsOverride", width=1440, height=1000, deviceScaleFactor=1, mobile=False)


def themes(b):
    colours = {}
    for theme in ("light", "dark"):
        b.run(f"document.documentElement.dataset.theme = '{theme}'; plimsoll.timeline.draw()")
        colours[theme] = b.run("getComputedStyle(document.body).backgroundColor")
        b.screenshot(os.path.join(folder, f"{recipe}-{theme}.png"), whole=True)
    check("the themes differ", colours["light"] != colours["dark"], colours)
    before = b.run("document.documentElement.dataset.theme")
    b.run("document.getElementById('theme').click()")
    check("the button switches", b.run("document.documentElement.dataset.theme") != before)


def speed(b):
    """Printed, not checked: the machine may be busy."""
    times = b.run("""(() => { const t = plimsoll.timeline, p = t.p, n = 50000, q = Object.assign(Object.create(Object.getPrototypeOf(p)), p, { n });
        for (const key of ['first', 'end', 'bytes', 'offset', 'cls', 'module', 'nameOf', 'line', 'shape']) {
            q[key] = new p[key].constructor(n);
            for (let i = 0; i < n; i++) q[key][i] = p[key][i < p.n ? i : p.nState + i % (p.n - p.nState)];
        }
        q.grp = q.cls;
        const k = Math.ceil(n / p.n);
        for (let i = p.nState; i < n; i++) q.bytes[i] /= k;
        const out = {}, was = t.p;
        t.p = q;
        for (const view of ['live', 'arena']) { t.view = view; out[view] = []; for (let i = 0; i < 9; i++) { t.draw(); out[view].push(t.drawMs); } out[view].sort((a, b) => a - b); }
        t.p = was; t.view = 'live'; t.draw();
        return out; })()""")
    for view, ms in times.items():
        print(f"redraw of 50,000 buffers, {view}: median {ms[4]:.1f} ms, worst {ms[-1]:.1f} ms")


main()
