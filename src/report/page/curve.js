// curve.js -- bytes against time: the plans that no other plan found beats in both, and every lever that keeps the model.
"use strict";

const CURVE = { w: 1000, h: 300, left: 68, right: 16, top: 24, bottom: 46 };

function svg(tag, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// A step of 1, 2 or 5 times a power of the base that divides the span into about `n`.
function niceStep(span, n, base) {
  const rough = span / n, power = base ** Math.floor(Math.log(rough) / Math.log(base));
  return power * ([1, 2, 5, 10, 20, 50, 100, 200, 500].find(k => k * power >= rough) ?? 1000);
}

function curveTexts(e) {
  const plans = (e.curve ?? []).map(p => ({ bytes: p.peak_bytes, by: p.slowdown, front: true, name:
    [`micro-batch ${p.micro_batch} × ${p.accumulate}`, p.recompute_nodes ? `${p.recompute_nodes} nodes recomputed` : "nothing recomputed",
     p.transfers ? `${p.transfers} host transfers` : "",
     p.precision !== e.recipe.precision ? p.precision : "", p.release ? "gradients released" : "",
     p.sample_chunks > 1 ? `${p.sample_chunks} sample chunks` : "", p.loss_chunks > 1 ? `${p.loss_chunks} loss chunks` : "",
     p.attention === "stored" ? "attention stored" : ""].filter(Boolean).join(", ") }));
  const levers = (e.what_if ?? []).filter(r => !r.failed && r.effort !== "long" && r.peak_bytes <= 1.1 * e.peak_bytes)
    .map(r => ({ bytes: r.peak_bytes, by: r.slowdown, name: r.name }));
  return { plans, levers };
}

function curveChart(data) {
  const e = data.explain, box = document.getElementById("curve"), { plans, levers } = curveTexts(e), all = [...plans, ...levers];
  document.getElementById("bytestime").hidden = all.length < 3;
  if (all.length < 3) { document.querySelector('nav a[href="#bytestime"]').remove(); return; }
  const { w, h, left, right, top, bottom } = CURVE, unit = 1024 ** Math.floor(Math.log(e.peak_bytes) / Math.log(1024));
  const most = 1.04 * Math.max(e.peak_bytes, ...all.map(p => p.bytes));
  let low = Math.min(1, ...all.map(p => p.by)), high = Math.max(1.02, ...all.map(p => p.by));
  const pad = .06 * (high - low); low -= pad; high += pad;
  const x = bytes => left + bytes / most * (w - left - right), y = by => h - bottom - (by - low) / (high - low) * (h - top - bottom);
  const chart = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": "Peak bytes against time of a step" });
  chart.append(svg("text", { x: (left + w - right) / 2, y: h - 8, "text-anchor": "middle" }, "peak of the step"),
               svg("text", { x: 4, y: 12 }, "time of the step against everything kept"));
  const xStep = niceStep(most / unit, 8, 10), yStep = niceStep(high - low, 5, 10);
  for (let v = 0; v * unit <= most; v += xStep)
    chart.append(svg("line", { class: "grid", x1: x(v * unit), x2: x(v * unit), y1: top, y2: h - bottom }),
                 svg("text", { x: x(v * unit), y: h - bottom + 16, "text-anchor": "middle" }, bytesText(v * unit)));
  for (let k = Math.ceil((low - 1) / yStep); 1 + k * yStep <= high; k++)
    chart.append(svg("line", { class: k ? "grid" : "zero", x1: left, x2: w - right, y1: y(1 + k * yStep), y2: y(1 + k * yStep) }),
                 svg("text", { x: left - 8, y: y(1 + k * yStep) + 4, "text-anchor": "end" }, timeChange(1 + k * yStep)));
  (e.budgets ?? []).filter(b => b.budget_bytes < most).forEach((b, i) => {     // labels on three lines: the budgets of small GPUs are close together
    chart.append(svg("line", { class: "budget", x1: x(b.budget_bytes), x2: x(b.budget_bytes), y1: top, y2: h - bottom }),
                 svg("text", { class: "budget", x: x(b.budget_bytes) + 4, y: top + 9 + 13 * (i % 3) }, bytesText(b.budget_bytes)));
  });
  if (plans.length) {                                  // steps: between two points, the smaller plan fits
    let d = "";
    plans.forEach((p, i) => { d += i ? `H${x(p.bytes)}V${y(p.by)}` : `M${x(p.bytes)},${y(p.by)}`; });
    chart.append(svg("path", { class: "front", d }));
  }
  const say = document.getElementById("curvenote"), rest = "Point at a plan, or go from one to the next with the arrow keys.";
  const dots = all.sort((a, b) => b.bytes - a.bytes).map(p => {
    const text = `${p.name}: ${bytesText(p.bytes)}, time ${timeChange(p.by)}`;
    const dot = svg("circle", { class: p.front ? "plan" : "lever", cx: x(p.bytes), cy: y(p.by), r: p.front ? 4.5 : 5.5, tabindex: -1,
                                role: "img", "aria-label": text });
    const show = () => { say.textContent = text; };
    dot.addEventListener("pointerenter", show);
    dot.addEventListener("focus", show);
    dot.addEventListener("pointerleave", () => { say.textContent = rest; });
    return dot;
  });
  dots[0].setAttribute("tabindex", 0);                 // one stop for the tab key; arrow keys move between points
  chart.addEventListener("keydown", ev => {
    const at = dots.indexOf(document.activeElement), by = { ArrowRight: -1, ArrowUp: -1, ArrowLeft: 1, ArrowDown: 1 }[ev.key];
    if (at < 0 || !by) return;
    ev.preventDefault();
    dots[Math.max(0, Math.min(dots.length - 1, at + by))].focus();
  });
  chart.append(...dots);
  say.textContent = rest;
  box.append(chart);
}
