// treemap.js -- modules at the peak by size, two levels at a time (squarified: Bruls, Huizing, van Wijk 2000).
"use strict";

class Treemap {
  constructor(data, onPick) {
    this.data = data;
    this.box = document.getElementById("map");
    this.crumbs = document.getElementById("crumbs");
    this.onPick = onPick;
    const p = data.peak, n = data.modules.length;
    this.own = new Float64Array(n);
    this.total = new Float64Array(n);
    this.byClass = Array.from({ length: n }, () => new Float64Array(CLASSES.length));
    for (const i of p.liveAt(p.peakRun)) { this.own[p.module[i]] += p.bytes[i]; this.byClass[p.module[i]][p.cls[i]] += p.bytes[i];
                                           }
    this.children = Array.from({ length: n }, () => []);
    for (let i = n - 1; i >= 0; i--) {
      this.total[i] += this.own[i];
      const up = data.parents[i];
      if (up < 0) continue;
      this.total[up] += this.total[i];
      for (let c = 0; c < CLASSES.length; c++) this.byClass[up][c] += this.byClass[i][c];
      this.children[up].unshift(i);
    }
    this.at = 0;
    new ResizeObserver(() => this.draw()).observe(this.box);
  }

  label(i) { const path = this.data.modules[i], up = this.data.parents[i] >= 0 ? this.data.modules[this.data.parents[i]] : "";
             return path.slice(up && path.startsWith(up + ".") ? up.length + 1 : 0) || "(model)"; }

  // A module whose bytes are all in one child is merged with it: "dit.params" is one box.
  through(i) {
    for (;;) {
      const inside = this.children[i].filter(c => this.total[c] > 0);
      if (this.own[i] > 0 || inside.length !== 1) return i;
      i = inside[0];
    }
  }
  path(from, to) { let text = this.label(to); for (let i = to; i !== from; ) { i = this.data.parents[i]; text = this.label(i) + "." + text; } return text; }

  // The boxes of a module: its children, and its own bytes by class.
  boxes(i) {
    const out = this.children[i].filter(c => this.total[c] > 0).map(c => {
      const deep = this.through(c);
      return { module: deep, bytes: this.total[c], label: this.path(c, deep), cls: this.main(c) };
    });
    if (this.own[i] > 0) {
      const p = this.data.peak, by = new Float64Array(CLASSES.length);
      for (const b of p.liveAt(p.peakRun)) if (p.module[b] === i) by[p.cls[b]] += p.bytes[b];
      by.forEach((bytes, c) => { if (bytes) out.push({ module: -1, bytes, label: CLASSES[c], cls: CLASSES[c] }); });
    }
    return out.sort((a, b) => b.bytes - a.bytes);
  }
  main(i) { let best = 0; this.byClass[i].forEach((v, c) => { if (v > this.byClass[i][best]) best = c; }); return CLASSES[best]; }

  // A module's classes side by side, the largest first.
  stripes(i) {
    const shares = CLASSES.map((name, c) => [this.byClass[i][c] / this.total[i],
                                            COLOURS[name]]).filter(([share]) => share > .004).sort((a, b) => b[0] - a[0]);
    let at = 0;
    const stops = shares.map(([share, colour]) => { const from = at; at += 100 * share;
                                                   return `${colour} ${from.toFixed(1)}% ${at.toFixed(1)}%`; });
    return `linear-gradient(90deg, ${stops.join(", ")})`;
  }

  static squarify(boxes, x, y, w, h) {
    const whole = boxes.reduce((a, p) => a + p.bytes, 0), out = [];
    if (!whole || w < 1 || h < 1) return out;
    let scale = w * h / whole, row = [], sum = 0, k = 0;
    const worst = (list, s, side) => { let largest = 0, smallest = Infinity; for (const p of list) { const a = p.bytes * scale;
        if (a > largest) largest = a; if (a < smallest) smallest = a; } const a = s * scale;
            return Math.max(side * side * largest / (a * a), a * a / (side * side * smallest)); };
    const lay = () => {
      const across = w >= h, side = across ? h : w, thick = sum * scale / side;
      let at = across ? y : x;
      for (const p of row) { const len = p.bytes / sum * side; out.push({ ...p, x: across ? x : at, y: across ? at : y,
                                                                          w: across ? thick : len, h: across ? len : thick });
                                                                              at += len; }
      if (across) { x += thick; w -= thick; } else { y += thick; h -= thick; }
      row = []; sum = 0;
    };
    while (k < boxes.length) {
      const side = Math.min(w, h), p = boxes[k];
      if (!row.length || worst([...row, p], sum + p.bytes, side) <= worst(row, sum, side)) { row.push(p); sum += p.bytes; k++;
          } else lay();
    }
    if (row.length) lay();
    return out;
  }

  draw() {
    const w = this.box.clientWidth, h = this.box.clientHeight, whole = this.data.explain.peak_bytes;
    if (!w) return;
    this.box.replaceChildren();
    this.crumbs.replaceChildren();
    const path = [];
    for (let i = this.at; i >= 0; i = this.data.parents[i]) path.unshift(i);
    path.forEach((i, k) => { if (k) this.crumbs.append(element("span", {}, "›"));
                             this.crumbs.append(element("button", { onclick: () => this.go(i) }, this.label(i))); });
    this.crumbs.append(element("span", {},
                               ` ${bytesText(this.total[this.at])}, ${(100 * this.total[this.at] / whole).toFixed(1)} % of the peak`));
    for (const r of Treemap.squarify(this.boxes(this.at), 0, 0, w, h)) {
      if (r.w < 2 || r.h < 2) continue;
      const deep = r.module >= 0 && (this.children[r.module].some(c => this.total[c]) || this.own[r.module] > 0),
          nested = deep && r.w > 90 && r.h > 60;
      this.add(r, nested ? "group" : deep ? "" : "leaf");
      if (!nested) continue;
      for (const q of Treemap.squarify(this.boxes(r.module), r.x + 3, r.y + 21, r.w - 6, r.h - 24)) if (q.w >= 2 &&
          q.h >= 2) this.add(q, q.module >= 0 ? "" : "leaf");
    }
  }

  add(r, kind) {
    const full = r.module >= 0 ? this.data.modules[r.module] : r.label,
        text = `${full || "(model)"}: ${bytesText(r.bytes)} (${countText(r.bytes)} bytes), ${(100 * r.bytes / this.data.explain.peak_bytes).toFixed(2)} % of the peak, mostly ${r.cls}`;
    const b = element("button", { class: kind, title: text, "aria-label": text, tabindex: r.w > 24 && r.h > 12 ? 0 : -1,
      style: `left:${r.x}px;top:${r.y}px;width:${r.w}px;height:${r.h}px;` + (kind === "group" ? ""
                                                                             : `background:${r.module >= 0 ? this.stripes(r.module) : COLOURS[r.cls]}`) });
    if (r.w > 34 && r.h > 15) b.append(element("span", {}, r.label, kind === "group" ||
                                               r.h > 30 ? element("small", {}, bytesText(r.bytes)) : null));
    b.addEventListener("click", () => { if (r.module >= 0) this.go(r.module); });
    b.addEventListener("keydown", e => { if (e.key === "Backspace") this.go(Math.max(0, this.data.parents[this.at])); });
    this.box.append(b);
  }

  go(i) { this.at = i; this.draw(); this.onPick(this.data.modules[i]); }
}
