// timeline.js -- the plot: every buffer drawn as pixels into one image.
//
// The x axis is the predicted time of the pass. Live view: at each column the run with the most live bytes is shown, its buffers stacked. Arena view: each
// buffer where it lies (offset) while it lives. A second image holds the buffer's number for every pixel,
// so that finding the buffer under the pointer costs nothing.
"use strict";

const MARGIN = { left: 66, right: 12, top: 18, bottom: 24 };

// A time on the axis: as many digits as tell neighbours apart.
function axisTime(ms, step) {
  const seconds = step >= 100, v = seconds ? ms / 1000 : ms, s = seconds ? step / 1000 : step;
  return v === 0 ? "0" : v.toFixed(Math.max(0, -Math.floor(Math.log10(s) + 1e-9))) + (seconds ? " s" : " ms");
}

// The plan over the samples of one pass of everything kept: where its micro-batches are smaller, several of them. null: no plan.
function plannedFor(data, program) {
  const { planned } = data, micro = planned.find(q => q.name.startsWith("micro")), inMicro = program.name.startsWith("micro");
  const update = planned.find(q => q.name === "update"), own = planned.find(q => q.name === program.name);
  let passes = own ? [own] : [], many = 1;
  if (inMicro && micro) {
    many = Math.max(1, Math.round(data.explain.recipe.batch / micro.batch));
    passes = Array(many).fill(micro);
    if (program.name.includes("update") && micro.name === "micro" && update) passes.push(update);
  }
  if (!passes.length) return null;
  const total = passes.reduce((sum, q) => sum + q.time[q.runs], 0);
  return { passes, many, batch: passes[0].batch, total, most: passes.reduce((most, q) => q.live.reduce((a, b) => Math.max(a, b), most), 0) };
}

class Timeline {
  constructor(data) {
    this.data = data;
    this.plot = document.getElementById("plot");
    this.base = document.getElementById("base");
    this.over = document.getElementById("over");
    this.tip = document.getElementById("tip");
    this.overview = document.getElementById("overview");
    this.view = "live";
    this.groups = { names: CLASSES, colours: CLASSES.map(c => COLOURS[c]), of: null };
    this.match = null;                               // Uint8Array, or null: all
    this.only = -1;                                  // one class, or -1
    this.hover = -1; this.pinned = -1; this.at = null;
    this.listeners = [];
    this.use(data.peak);
    this.events();
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  use(program) {
    this.p = program;
    this.hover = this.pinned = -1;
    this.plan = plannedFor(this.data, program);
    if (this.groups.of || program.grp !== program.cls) program.stackBy(this.groups.of);
    this.whole = Math.max(program.total, this.plan ? this.plan.total : 0); // a slower plan ends later
    this.t0 = 0; this.t1 = this.whole;
    this.y0 = 0; this.y1 = 0;                        // y1 0: as high as needed
    this.search(this.query || "");
  }

  // ---- what is drawn ----
  palette() {
    const dark = document.documentElement.dataset.theme === "dark", bg = dark ? [19, 26, 34] : [251, 252, 253];
    const pack = (r, g, b) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
    this.back = pack(...bg);
    this.shades = this.groups.colours.map(colour => {
      const v = parseInt(colour.slice(1), 16), rgb = [v >> 16, v >> 8 & 255, v & 255];
      const mix = (by, to) => pack(...rgb.map((c, i) => Math.round(c + (to[i] - c) * by)));
      return { full: [mix(0, bg), mix(.13, dark ? [0, 0, 0] : [255, 255, 255]), mix(.09, dark ? [255, 255, 255] : [0, 0, 0])],
               faint: [mix(.8, bg), mix(.83, bg), mix(.86, bg)] };
    });
  }

  frame() {
    const dpr = window.devicePixelRatio || 1, box = this.plot.getBoundingClientRect();
    this.dpr = dpr;
    this.cssW = box.width; this.cssH = box.height;
    for (const c of [this.base, this.over]) {
      const w = Math.round(box.width * dpr), h = Math.round(box.height * dpr);
      if (c.width !== w || c.height !== h) { c.width = w; c.height = h; }
    }
    this.W = Math.max(1, Math.round((box.width - MARGIN.left - MARGIN.right) * dpr));
    this.H = Math.max(1, Math.round((box.height - MARGIN.top - MARGIN.bottom) * dpr));
    if (!this.image || this.image.width !== this.W || this.image.height !== this.H) {
      this.image = new ImageData(this.W, this.H);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.ids = new Int32Array(this.W * this.H);
    }
  }

  // For every column the run with the most live bytes in it; behind the last one p.runs.
  sample() {
    const { W, t0, t1, p } = this, span = t1 - t0;
    this.column = new Int32Array(W);
    this.highest = 0;
    for (let x = 0; x < W; x++) {
      if (t0 + x * span / W >= p.total) { this.column[x] = p.runs; continue; }
      const a = p.at(t0 + x * span / W), b = Math.max(a + 1, p.at(t0 + (x + 1) * span / W) + (x + 1 === W ? 1 : 0));
      let best = a;
      for (let t = a + 1; t < b; t++) if (p.live[t] > p.live[best]) best = t;
      this.column[x] = best;
      if (p.live[best] > this.highest) this.highest = p.live[best];
    }
    // the first column whose run is t or later
    this.firstColumn = new Int32Array(p.runs + 2);
    for (let t = 0, x = 0; t <= p.runs + 1; t++) {
      while (x < W && this.column[x] < t) x++;
      this.firstColumn[t] = x;
    }
  }

  lit(i) { return (!this.match || this.match[i] === 1) && (this.only < 0 || this.p.grp[i] === this.only); }
  shade(i) {
    const s = this.shades[this.p.grp[i]];
    return (this.lit(i) ? s.full : s.faint)[i < this.p.nState ? i % 2 : i % 3];
  }

  draw() {
    const start = performance.now();
    this.palette();
    this.frame();
    if (this.cssW < 40) return;
    this.sample();
    this.pixels.fill(this.back);
    this.ids.fill(-1);
    const budget = this.data.budgetBytes ?? 0, near = budget <= 1.5 * this.highest ? Math.max(this.highest, budget) : this.highest;
    this.top = this.y1 || (this.view === "live" ? near * 1.06 : this.p.peakBytes * 1.02) || 1;
    if (this.view === "live") this.drawLive(); else this.drawArena();
    const g = this.base.getContext("2d");
    g.clearRect(0, 0, this.base.width, this.base.height);
    g.putImageData(this.image, Math.round(MARGIN.left * this.dpr), Math.round(MARGIN.top * this.dpr));
    this.axes(g);
    this.path = this.plan && this.view === "live" ? this.planPath() : null;
    this.drawOver();
    this.drawOverview();
    this.drawMs = performance.now() - start;
  }

  drawLive() {
    const { W, H, p, firstColumn, pixels, ids, y0 } = this, scale = H / (this.top - y0);
    let level = H + y0 * scale;                      // state is the same in every column: whole rows at once
    for (let i = 0; i < p.nState; i++) {
      const to = Math.min(H, Math.ceil(level - .5));
      level -= p.bytes[i] * scale;
      const from = Math.max(0, Math.ceil(level - .5));
      if (from < to) { pixels.fill(this.shade(i), from * W, to * W); ids.fill(i, from * W, to * W); }
    }
    // Then class by class. Buffers of less than a pixel are drawn together at the end of their class,
    // those that are lit and those that are not: tens of thousands of them cost one addition each.
    const height = new Float64Array(W).fill(level - .5), small = [new Float64Array(W + 1), new Float64Array(W + 1)],
        any = [false, false];
    const column = (x, h, colour, id) => {
      const was = height[x], now = was - h, to = was < H ? Math.ceil(was) : H;
      height[x] = now;
      for (let y = now > 0 ? Math.ceil(now) : 0, at = y * W + x; y < to; y++, at += W) { pixels[at] = colour; ids[at] = id; }
    };
    for (let i = p.nState; i < p.n; i++) {
      const x0 = firstColumn[p.first[i]], x1 = firstColumn[p.end[i]], h = p.bytes[i] * scale, cls = p.grp[i];
      if (x0 < x1 && h < 1) { const lit = +this.lit(i); any[lit] = true; small[lit][x0] += h; small[lit][x1] -= h; }
      else if (x0 < x1) { const colour = this.shade(i); for (let x = x0; x < x1; x++) column(x, h, colour, i); }
      if (i + 1 < p.n && p.grp[i + 1] === cls) continue;
      for (let lit = 0; lit < 2; lit++) {
        if (!any[lit]) continue;
        const s = this.shades[cls];
        for (let x = 0, h = 0; x < W; x++) { h += small[lit][x]; if (h > 1e-9) column(x, h, (lit ? s.full : s.faint)[0],
            -2 - cls); }
        small[lit].fill(0);
        any[lit] = false;
      }
    }
  }

  drawArena() {
    const { W, H, p, pixels, ids, t0, t1, y0 } = this, sx = W / (t1 - t0), sy = H / (this.top - y0);
    for (let i = 0; i < p.n; i++) {
      const from = p.time[p.first[i]], to = p.time[p.end[i]];
      if (to < t0 || from >= t1) continue;
      const x0 = Math.max(0, Math.floor((from - t0) * sx)), x1 = Math.min(W, Math.max(x0 + 1, Math.floor((to - t0) * sx)));
      const bottom = Math.min(H, Math.round(H - (p.offset[i] - y0) * sy)),
          top = Math.max(0, Math.min(bottom - 1, Math.round(H - (p.offset[i] + p.bytes[i] - y0) * sy)));
      if (bottom <= 0 || top >= H) continue;
      const colour = this.shade(i);
      for (let y = top; y < bottom; y++) {
        pixels.fill(colour, y * W + x0, y * W + x1);
        ids.fill(i, y * W + x0, y * W + x1);
      }
    }
  }

  styles() { const s = getComputedStyle(document.documentElement); return { ink: s.getPropertyValue("--ink"),
                                                                            soft: s.getPropertyValue("--soft"),
                                                                                line: s.getPropertyValue("--line"),
                                                                                    accent: s.getPropertyValue("--accent"),
                                                                                        bad: s.getPropertyValue("--bad"), surface: s.getPropertyValue("--surface") }; }

  axes(g) {
    const c = this.styles(), { dpr } = this;
    g.save();
    g.scale(dpr, dpr);
    g.font = "11px system-ui, sans-serif";
    g.fillStyle = c.soft; g.strokeStyle = c.line; g.lineWidth = 1;
    const unit = 2 ** (10 * Math.floor(Math.log2(Math.max(2, this.top - this.y0)) / 10)), span = (this.top - this.y0) / unit;
    const step = [.05, .1, .2, .25, .5, 1, 2, 5, 10, 20, 50, 100, 200, 500].find(s => span / s <= 7) * unit;
    g.textAlign = "right"; g.textBaseline = "middle";
    for (let v = Math.ceil(this.y0 / step) * step; v <= this.top; v += step) {
      const y = this.yOf(v);
      g.globalAlpha = .55; g.beginPath(); g.moveTo(MARGIN.left, y + .5); g.lineTo(this.cssW - MARGIN.right, y + .5); g.stroke();
          g.globalAlpha = 1;
      g.fillText(bytesText(v), MARGIN.left - 7, y);
    }
    g.textBaseline = "top"; g.textAlign = "center";
    const stepT = niceStep(this.t1 - this.t0, Math.max(2, Math.min(10, this.cssW / 110)), 10);
    for (let k = Math.ceil(this.t0 / stepT); k * stepT <= this.t1; k++) {
      const label = axisTime(k * stepT, stepT), half = g.measureText(label).width / 2;
      g.fillText(label, Math.min(this.cssW - half - 2, this.xOf(k * stepT)), this.cssH - MARGIN.bottom + 6);
    }
    // which pass runs, as a band above the plot
    const words = ["forward", "backward", "update"], tints = [c.accent, c.soft, c.bad];
    let from = 0;
    for (let x = 1; x <= this.W && this.column[from] < this.p.runs; x++)
      if (x === this.W || this.p.runKind[this.column[x]] !== this.p.runKind[this.column[from]]) {
        const kind = this.p.runKind[this.column[from]], a = MARGIN.left + from / dpr, w = (x - from) / dpr;
        g.globalAlpha = .8; g.fillStyle = tints[kind]; g.fillRect(a, MARGIN.top - 4, Math.max(1, w - (x < this.W ? 1 : 0)), 3);
            g.globalAlpha = 1;
        if (w > 60) { g.textBaseline = "bottom"; g.textAlign = "left"; g.fillStyle = c.soft;
                      g.fillText(words[kind], a + 2, MARGIN.top - 5); }
        from = x;
      }
    g.restore();
  }

  xOf(t) { return MARGIN.left + (t - this.t0) / (this.t1 - this.t0) * (this.cssW - MARGIN.left - MARGIN.right); }
  yOf(v) { return this.cssH - MARGIN.bottom - (v - this.y0) / (this.top - this.y0) * (this.cssH - MARGIN.top - MARGIN.bottom); }
  runAt(x) {
    const column = Math.max(0, Math.min(this.W - 1, Math.floor((x - MARGIN.left) * this.dpr)));
    return Math.min(this.column[column], this.p.runs - 1);
  }
  // Live bytes of the plan at a place of the axis; null: it has ended.
  plannedAt(x) {
    let time = this.t0 + (x - MARGIN.left) / (this.cssW - MARGIN.left - MARGIN.right) * (this.t1 - this.t0);
    for (const q of this.plan.passes) {
      if (time < q.time[q.runs]) return q.live[runAtTime(q, time)];
      time -= q.time[q.runs];
    }
    return null;
  }

  // The plan's live bytes as one path: for every pixel of the axis the least and the most within it, however many runs that are.
  planPath() {
    const { W, dpr, t0, t1 } = this, scale = W / (t1 - t0), low = new Float64Array(W).fill(Infinity), high = new Float64Array(W), path = new Path2D();
    let begin = 0;
    for (const q of this.plan.passes) {
      if (begin < t1 && begin + q.time[q.runs] > t0)
        for (let t = 0; t < q.runs; t++) {
          const from = Math.max(0, Math.floor((begin + q.time[t] - t0) * scale)), to = Math.min(W, Math.ceil((begin + q.time[t + 1] - t0) * scale)), v = q.live[t];
          for (let x = from; x < to; x++) { if (v < low[x]) low[x] = v; if (v > high[x]) high[x] = v; }
        }
      begin += q.time[q.runs];
    }
    let before = 0;
    for (let x = 0; x < W && high[x]; x++) {
      const up = Math.abs(before - low[x]) < Math.abs(before - high[x]), first = this.yOf(up ? low[x] : high[x]), last = this.yOf(up ? high[x] : low[x]);
      path.lineTo(MARGIN.left + x / dpr, first);
      if (first !== last) path.lineTo(MARGIN.left + x / dpr, last);
      path.lineTo(MARGIN.left + (x + 1) / dpr, last);
      before = up ? high[x] : low[x];
    }
    return path;
  }
  bufferAt(x, y) {
    const px = Math.floor((x - MARGIN.left) * this.dpr), py = Math.floor((y - MARGIN.top) * this.dpr);
    return px >= 0 && px < this.W && py >= 0 && py < this.H ? this.ids[py * this.W + px] : -1;
  }

  drawOver() {
    const g = this.over.getContext("2d"), c = this.styles(), i = this.hover >= 0 ? this.hover : this.pinned, { p, dpr } = this;
    g.clearRect(0, 0, this.over.width, this.over.height);
    g.save();
    g.scale(dpr, dpr);
    g.beginPath(); g.rect(MARGIN.left, MARGIN.top, this.cssW - MARGIN.left - MARGIN.right,
                          this.cssH - MARGIN.top - MARGIN.bottom); g.clip();
    const xPeak = this.xOf(p.middle(p.peakRun));
    g.strokeStyle = c.bad; g.setLineDash([4, 3]); g.lineWidth = 1.5;
    g.beginPath(); g.moveTo(xPeak, MARGIN.top); g.lineTo(xPeak, this.cssH - MARGIN.bottom); g.stroke();
    g.fillStyle = c.bad; g.font = "11px system-ui, sans-serif"; g.textBaseline = "top";
        g.textAlign = xPeak > this.cssW * .7 ? "right" : "left";
    g.fillText("peak " + bytesText(p.liveBytes), xPeak + (g.textAlign === "right" ? -6 : 6), MARGIN.top + 3);
    g.setLineDash([]);
    if (i >= 0) this.outline(g, i, c.ink);
    if (this.view === "live") this.limits(g, c);
    if (this.at) {
      g.strokeStyle = c.ink; g.globalAlpha = .35; g.lineWidth = 1;
      g.beginPath(); g.moveTo(this.at.x + .5, MARGIN.top); g.lineTo(this.at.x + .5, this.cssH - MARGIN.bottom); g.stroke();
    }
    g.restore();
  }

  // The budget as a line, and the live bytes of the plan that fits it over those of everything kept, both in their own time.
  limits(g, c) {
    const { data, plan } = this, budget = data.budgetBytes, label = (text, x, y, colour, align) => {
      g.font = "600 11px system-ui, sans-serif"; g.textAlign = align; g.textBaseline = "bottom"; g.lineWidth = 3; g.strokeStyle = c.surface; g.lineJoin = "round";
      g.strokeText(text, x, y); g.fillStyle = colour; g.fillText(text, x, y);
    };
    if (plan) {
      g.lineJoin = "round";
      g.strokeStyle = c.surface; g.lineWidth = 4; g.globalAlpha = .8; g.stroke(this.path);
      g.strokeStyle = c.ink; g.lineWidth = 1.8; g.globalAlpha = 1; g.stroke(this.path);
    }
    if (budget && budget < this.top && budget > this.y0) {
      const y = this.yOf(budget), right = this.cssW - MARGIN.right - 6;
      g.strokeStyle = c.surface; g.lineWidth = 4; g.globalAlpha = .7; g.beginPath(); g.moveTo(MARGIN.left, y); g.lineTo(this.cssW, y); g.stroke(); g.globalAlpha = 1;
      g.strokeStyle = c.bad; g.lineWidth = 1.8; g.setLineDash([7, 4]); g.beginPath(); g.moveTo(MARGIN.left, y); g.lineTo(this.cssW, y); g.stroke(); g.setLineDash([]);
      label("budget " + bytesText(budget), right, y - 3, c.bad, "right");
    }
  }

  // Frames the pixels of one buffer, found by its number.
  outline(g, i, colour) {
    const { W, H, ids, dpr, p } = this;
    let x0, x1;
    if (this.view === "live") { x0 = this.firstColumn[p.first[i]]; x1 = this.firstColumn[Math.min(p.end[i], p.runs + 1)]; }
    else { const sx = W / (this.t1 - this.t0); x0 = Math.max(0, Math.floor((p.time[p.first[i]] - this.t0) * sx));
           x1 = Math.min(W, Math.max(x0 + 1, Math.floor((p.time[p.end[i]] - this.t0) * sx))); }
    g.fillStyle = colour;
    for (let x = x0; x < x1; x++) {
      let a = -1, b = -1;
      for (let y = 0, at = x; y < H; y++, at += W) if (ids[at] === i) { if (a < 0) a = y; b = y; }
      if (a < 0) continue;
      const px = MARGIN.left + x / dpr, w = 1 / dpr + .1;
      g.fillRect(px, MARGIN.top + a / dpr - .5, w, 1.4);
      g.fillRect(px, MARGIN.top + (b + 1) / dpr - .9, w, 1.4);
      if (x === x0 || x === x1 - 1) g.fillRect(px - (x === x0 ? .5 : -.5), MARGIN.top + a / dpr, 1.4, (b - a + 1) / dpr);
    }
  }

  drawOverview() {
    const o = this.overview, w = o.clientWidth, h = o.clientHeight, { dpr, p } = this, c = this.styles(), g = o.getContext("2d");
    if (!w) return;
    o.width = w * dpr; o.height = h * dpr;
    g.scale(dpr, dpr);
    const left = MARGIN.left, span = w - MARGIN.left - MARGIN.right;
    g.fillStyle = COLOURS.activations; g.globalAlpha = .75;
    g.beginPath(); g.moveTo(left, h);
    for (let x = 0; x <= span; x++) {
      const from = x / span * this.whole, a = p.at(from), b = Math.max(a + 1, p.at((x + 1) / span * this.whole));
      let most = 0;
      for (let t = a; from < p.total && t < b && t < p.runs; t++) if (p.live[t] > most) most = p.live[t];
      g.lineTo(left + x, h - most / p.liveBytes * (h - 6));
    }
    g.lineTo(left + span, h); g.fill(); g.globalAlpha = 1;
    const a = left + this.t0 / this.whole * span, b = left + this.t1 / this.whole * span;
    g.fillStyle = c.ink; g.globalAlpha = .12; g.fillRect(left, 0, a - left, h); g.fillRect(b, 0, left + span - b, h);
        g.globalAlpha = 1;
    g.strokeStyle = c.accent; g.lineWidth = 2; g.strokeRect(a + 1, 1, Math.max(3, b - a - 2), h - 2);
  }

  // ---- moving and zooming ----
  setRange(t0, t1) {
    const { whole } = this, minSpan = whole * Math.min(1, 2 / this.p.runs), span = Math.max(minSpan, Math.min(whole, t1 - t0));
    t0 = Math.max(0, Math.min(whole - span, t0));
    this.t0 = t0; this.t1 = t0 + span;
    this.redraw();
  }
  zoom(factor, around) { this.setRange(around - (around - this.t0) * factor, around + (this.t1 - around) * factor); }
  zoomBytes(factor, around) {
    let y0 = around - (around - this.y0) * factor, y1 = around + (this.top - around) * factor;
    const most = this.p.peakBytes * 1.06;
    if (y1 - y0 >= most) { y0 = 0; y1 = 0; } else { y0 = Math.max(0, y0); y1 = Math.max(y0 + 1024, y1); }
    this.y0 = y0; this.y1 = y1;
    this.redraw();
  }
  showAll() { this.y0 = this.y1 = 0; this.setRange(0, this.whole); }
  redraw() { if (!this.waiting) { this.waiting = true; requestAnimationFrame(() => { this.waiting = false; this.draw(); }); } }
  goToPeak() { const { p } = this, span = p.total * Math.min(1, 240 / p.runs), at = p.middle(p.peakRun); this.y0 = this.y1 = 0;
               this.setRange(at - span / 2, at + span / 2); }
  colourBy(groups) {
    this.groups = groups;
    this.only = -1;
    this.use(this.p);
    this.draw();
  }
  show(view) { this.view = view; this.y0 = this.y1 = 0; this.draw(); }

  search(query) {
    this.query = query.trim().toLowerCase();
    const { p } = this, words = this.query.split(/\s+/).filter(Boolean);
    this.match = null; this.found = null;
    if (words.length) {
      if (!p.texts) { p.texts = new Array(p.n); for (let i = 0; i < p.n; i++) p.texts[i] = p.text(i); }
      this.match = new Uint8Array(p.n);
      const change = new Float64Array(p.runs + 1);
      let count = 0, atPeak = 0;
      for (let i = 0; i < p.n; i++) {
        const text = p.texts[i];
        if (!words.every(w => text.includes(w))) continue;
        this.match[i] = 1; count++;
        change[p.first[i]] += p.bytes[i]; change[p.end[i]] -= p.bytes[i];
        if (p.first[i] <= p.peakRun && p.peakRun < p.end[i]) atPeak += p.bytes[i];
      }
      let live = 0, most = 0;
      for (let t = 0; t < p.runs; t++) { live += change[t]; if (live > most) most = live; }
      this.found = { count, atPeak, most };
    }
    this.draw();
    for (const f of this.listeners) f();
  }

  pick(i, pin) {
    if (pin) this.pinned = this.pinned === i ? -1 : i; else this.hover = i;
    this.drawOver();
    for (const f of this.listeners) f();
  }

  events() {
    const { plot } = this;
    let drag = null;
    const place = e => { const b = plot.getBoundingClientRect(); return { x: e.clientX - b.left, y: e.clientY - b.top }; };
    plot.addEventListener("wheel", e => {
      e.preventDefault();
      const at = place(e), factor = Math.exp(Math.max(-80, Math.min(80, e.deltaY || e.deltaX)) * .0035);
      if (e.shiftKey) this.zoomBytes(factor,
                                     this.y0 + (this.cssH - MARGIN.bottom - at.y) / (this.cssH - MARGIN.top - MARGIN.bottom) * (this.top - this.y0));
      else this.zoom(factor, this.t0 + (at.x - MARGIN.left) / (this.cssW - MARGIN.left - MARGIN.right) * (this.t1 - this.t0));
    }, { passive: false });
    plot.addEventListener("pointerdown", e => { plot.setPointerCapture(e.pointerId);
                                                drag = { ...place(e), t0: this.t0, t1: this.t1, y0: this.y0, y1: this.y1,
                                                         moved: false }; });
    plot.addEventListener("pointermove", e => {
      const at = place(e);
      if (drag && (drag.moved || Math.hypot(at.x - drag.x, at.y - drag.y) > 4)) {
        drag.moved = true;
        plot.classList.add("panning");
        if (this.y1) { const by = (at.y - drag.y) / (this.cssH - MARGIN.top - MARGIN.bottom) * (drag.y1 - drag.y0),
                       y0 = Math.max(0, drag.y0 + by); this.y1 = y0 + drag.y1 - drag.y0; this.y0 = y0; }
        const by = (drag.x - at.x) / (this.cssW - MARGIN.left - MARGIN.right) * (drag.t1 - drag.t0);
        this.setRange(drag.t0 + by, drag.t1 + by);
        return;
      }
      this.point(at);
    });
    plot.addEventListener("pointerup", e => {
      const at = place(e), i = this.bufferAt(at.x, at.y);
      plot.classList.remove("panning");
      if (drag && !drag.moved && i >= 0) this.pick(i, true);
      drag = null;
    });
    plot.addEventListener("pointerleave", () => { this.at = null; this.tip.hidden = true; this.pick(-1, false); });
    plot.addEventListener("dblclick", () => this.showAll());
    plot.addEventListener("keydown", e => {
      const span = this.t1 - this.t0, middle = this.t0 + span / 2;
      const keys = { ArrowLeft: () => this.setRange(this.t0 - span * .15, this.t1 - span * .15),
                     ArrowRight: () => this.setRange(this.t0 + span * .15, this.t1 + span * .15),
        "+": () => this.zoom(.7, middle), "=": () => this.zoom(.7, middle), "-": () => this.zoom(1 / .7, middle),
            "0": () => this.showAll(), Home: () => this.setRange(0, span),
                End: () => this.setRange(this.whole - span, this.whole),
        ArrowUp: () => this.next(1), ArrowDown: () => this.next(-1), Enter: () => { if (this.hover >= 0) this.pick(this.hover,
            true); }, Escape: () => { this.pinned = -1; this.pick(-1, false); } };
      if (keys[e.key] && !e.ctrlKey && !e.metaKey) { e.preventDefault(); keys[e.key](); }
    });
    let sliding = false;
    const slide = e => {
      const b = this.overview.getBoundingClientRect(),
          t = (e.clientX - b.left - MARGIN.left) / (b.width - MARGIN.left - MARGIN.right) * this.whole, span = this.t1 - this.t0;
      this.setRange(t - span / 2, t + span / 2);
    };
    this.overview.addEventListener("pointerdown", e => { sliding = true; this.overview.setPointerCapture(e.pointerId); slide(e);
                                                         });
    this.overview.addEventListener("pointermove", e => { if (sliding) slide(e); });
    this.overview.addEventListener("pointerup", () => { sliding = false; });
  }

  point(at) {
    this.at = at;
    const i = this.bufferAt(at.x, at.y), t = this.runAt(at.x), { p } = this;
    this.tip.replaceChildren();
    if (i >= 0) this.tip.append(element("b", {}, p.name_(i)), element("br"), swatch(CLASSES[p.cls[i]]),
                                ` ${CLASSES[p.cls[i]]}  ${bytesText(p.bytes[i])}  ${this.data.shapes[p.shape[i]]}`,
                                    element("br"));
    else if (i < -1) this.tip.append(patch(this.groups.colours[-2 - i]),
                                     ` small buffers of ${this.groups.of ? "module" : "class"} ${this.groups.names[-2 - i]}; shift and wheel tell them apart`,
                                         element("br"));
    this.tip.append(element("span", { class: "note" }, `run ${countText(t)}: ${p.runText(t)}, ${bytesText(p.live[t])} live`));
    if (this.plan && this.view === "live") this.tip.append(element("br"), element("span", { class: "note" }, this.plannedAt(at.x) === null ? "the plan has ended" : `the plan then: ${bytesText(this.plannedAt(at.x))} live`));
    this.tip.hidden = false;
    const w = this.tip.offsetWidth, h = this.tip.offsetHeight;
    this.tip.style.left = (at.x + 16 + w > this.cssW ? Math.max(4, at.x - w - 14) : at.x + 16) + "px";
    this.tip.style.top = Math.max(4, Math.min(this.cssH - h - 4, at.y + 14)) + "px";
    this.pick(Math.max(-1, i), false);
  }

  // The next buffer up or down in the column under the crosshair, or at the peak.
  next(by) {
    const { p } = this, t = this.at ? this.runAt(this.at.x) : Math.max(p.at(this.t0), Math.min(p.at(this.t1), p.peakRun));
    let live = p.liveAt(t).filter(i => !this.match || this.match[i]);
    if (this.view === "arena") live.sort((a, b) => p.offset[a] - p.offset[b]);
    if (!live.length) return;
    const at = live.indexOf(this.hover);
    this.pick(live[at < 0 ? (by > 0 ? 0 : live.length - 1) : Math.max(0, Math.min(live.length - 1, at + by))], false);
  }
}
