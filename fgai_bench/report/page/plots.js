"use strict";
// What every drawing is made of: elements, axes with ticks and titles, legends, markers.
const plots = (() => {
  function make(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "onclick" || key === "onchange") node[key] = value;
      else node.setAttribute(key, value);
    }
    node.append(...children);
    return node;
  }
  function draw(tag, attributes = {}, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }
  function ticks([low, high]) {
    const raw = (high - low) / 6;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((k) => k * power).find((s) => s >= raw * 0.999);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9; k += 1) found.push([k * step, (k * step).toFixed(digits)]);
    return found;
  }
  function span(values, pad) {
    const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    const room = Math.max(0.01, (high - low) * pad);
    return [low - room, high + room];
  }
  function frame(w, h, xs, ys, xTitle, yTitle, label) {
    const [left, right, top, bottom] = [40, 10, 24, 36];
    const X = (v) => left + ((v - xs[0]) / (xs[1] - xs[0])) * (w - left - right);
    const Y = (v) => h - bottom - ((v - ys[0]) / (ys[1] - ys[0])) * (h - top - bottom);
    const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": label });
    for (const [y, text] of ticks(ys)) {
      svg.append(draw("line", { class: "axis", x1: left, x2: w - right, y1: Y(y), y2: Y(y) }),
        draw("text", { x: left - 5, y: Y(y) + 4, "text-anchor": "end" }, text));
    }
    for (const [x, text] of ticks(xs)) svg.append(draw("text", { x: X(x), y: h - bottom + 14, "text-anchor": "middle" }, text));
    svg.append(draw("text", { x: (left + w - right) / 2, y: h - 4, "text-anchor": "middle" }, `${xTitle} →`),
      draw("text", { x: 2, y: 11 }, `↑ ${yTitle}`));
    return { svg, X, Y, left, right: w - right };
  }
  const key = (words, ...marks) => make("span", {}, draw("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, ...marks), words);
  const stroke = (color, more = {}) => draw("line", { x1: 0, x2: 22, y1: 6, y2: 6, stroke: color, "stroke-width": 2, ...more });
  const shapes = [
    (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`, (r) => `M${-r} ${-r}h${2 * r}v${2 * r}h${-2 * r}z`,
    (r) => `M0 ${-1.3 * r}L${r} 0L0 ${1.3 * r}L${-r} 0z`, (r) => `M0 ${-1.2 * r}L${1.1 * r} ${r}H${-1.1 * r}z`,
    (r) => `M0 ${1.2 * r}L${1.1 * r} ${-r}H${-1.1 * r}z`, (r) => `M${-r / 3} ${-r}h${r / 1.5}v${r / 1.5}h${r / 1.5}v${r / 1.5}h${-r / 1.5}v${r / 1.5}h${-r / 1.5}v${-r / 1.5}h${-r / 1.5}v${-r / 1.5}h${r / 1.5}z`,
    (r) => `M${-r} ${-r}L0 0L${-r} ${r}H${r}L0 0L${r} ${-r}z`, (r) => `M${-r} ${-r}L0 0L${r} ${-r}V${r}L0 0L${-r} ${r}z`,
    (r) => `M${-1.2 * r} 0L${-r / 2} ${-r}H${r / 2}L${1.2 * r} 0L${r / 2} ${r}H${-r / 2}z`,
  ];
  return { make, draw, span, frame, key, stroke, shapes };
})();
