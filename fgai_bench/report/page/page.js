"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const palette = ["var(--hue-0)", "#56B4E9", "#E69F00", "#D55E00", "#CC79A7", "#009E73", "#0072B2", "#999999"];
  const known = ["vanilla", "ln", "at", "fgai", "fgai-attention", "pro-gnn", "gnn-svd", "gnnguard"];
  const always = ["dataset", "model", "defense", "attack"];
  // A run of one suite or one task needs no column to say so.
  const names = ["suite", "task", ...always].filter((n) => always.includes(n) || new Set(data.rows.map((r) => r[n])).size > 1);
  const $ = (id) => document.getElementById(id);
  const titles = new Map(Object.entries(data.titles)); // a plain object would answer for "constructor", too
  const say = (name) => titles.get(name) ?? name;

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
  const distinct = (values) => [...new Set(values)];
  const colorOf = (label) => {
    const others = distinct(data.curves.map((c) => c.label)).filter((l) => !known.includes(l));
    // Black is the vanilla model's: others take the rest of the palette in turn.
    const turn = 1 + (Math.max(0, others.indexOf(label)) % (palette.length - 1));
    return palette[known.includes(label) ? known.indexOf(label) : turn];
  };

  // The tooltip: for a mouse that hovers, and for a finger that taps.
  const tip = $("tip");
  function explain(node, text) {
    const show = (event) => {
      tip.textContent = text;
      tip.hidden = false;
      tip.style.left = `${Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${Math.max(8, event.clientY - tip.offsetHeight - 12)}px`;
    };
    node.addEventListener("pointerenter", show);
    node.addEventListener("pointermove", show);
    node.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  function picker(form, id, word, values, changed, all = true) {
    const select = make("select", { id, onchange: changed });
    if (all) select.append(make("option", { value: "" }, "all"));
    for (const value of values) select.append(make("option", { value }, say(value)));
    form.append(make("label", { for: id }, word, select));
    return select;
  }

  // The leaderboard.
  let sorted = { key: "", down: false };
  const filters = Object.fromEntries(
    names.map((name) => [name, picker($("filters"), `filter-${name}`, name, distinct(data.rows.map((r) => r[name])), fill)]),
  );
  function value(row, key) {
    return names.includes(key) ? row[key] : row.cells[key].mean;
  }
  function order(a, b) {
    const [x, y] = [value(a, sorted.key), value(b, sorted.key)];
    // What has no value comes last, whichever way one sorts.
    if (x === null || y === null) return (x === null) - (y === null);
    const by = typeof x === "string" ? x.localeCompare(y) : x - y;
    return sorted.down ? -by : by;
  }
  function sortBy(key) {
    const column = data.columns.find((c) => c.key === key);
    const first = Boolean(column && column.better === "higher");
    sorted = { key, down: sorted.key === key ? !sorted.down : first };
    fill();
  }
  const headings = [...names.map((key) => ({ key, title: key })), ...data.columns];
  const headRow = make("tr");
  for (const { key, title, better } of headings) {
    const arrow = better === "higher" ? " ↑" : better === "lower" ? " ↓" : "";
    headRow.append(make("th", { scope: "col", "data-key": key },
      make("button", { type: "button", "data-key": key, onclick: () => sortBy(key) }, title + arrow)));
  }
  $("board").tHead.append(headRow);
  function fill() {
    const rows = data.rows.filter((row) => names.every((n) => !filters[n].value || row[n] === filters[n].value));
    if (sorted.key) rows.sort(order);
    $("count").textContent = `${rows.length} of ${data.rows.length} rows`;
    for (const th of headRow.children) {
      const own = th.dataset.key === sorted.key;
      th.setAttribute("aria-sort", own ? (sorted.down ? "descending" : "ascending") : "none");
    }
    $("board").tBodies[0].replaceChildren(...rows.map(line));
  }
  function line(row) {
    const tr = make("tr");
    for (const name of names) tr.append(make("td", {}, say(row[name])));
    for (const { key, title } of data.columns) {
      const cell = row.cells[key];
      const distrust = row.flags.some((f) => f.startsWith("unreliable")) && cell.mean !== null ? "†" : "";
      const text = cell.text + distrust + (cell.unequal ? "‡" : "") + (cell.beatsNull === false ? "°" : "");
      const open = () => detail(row, key, title);
      tr.append(make("td", { class: cell.bold ? "best" : cell.status === "ok" ? "" : "gap", "data-key": key },
        make("button", { type: "button", onclick: open }, text)));
    }
    return tr;
  }
  function listing(caption, pairs) {
    if (!pairs.length) return "";
    const body = make("tbody");
    for (const [a, b] of pairs) body.append(make("tr", {}, make("th", { scope: "row" }, a), make("td", {}, String(b))));
    return make("div", {}, make("h3", {}, caption), make("table", {}, body));
  }
  function detail(row, key, title) {
    const cell = row.cells[key];
    const spent = Object.entries(row.ledger).map(([seed, ledger]) =>
      [`seed ${seed}`, Object.entries(ledger).map(([n, v]) => `${n} ${v}`).join(", ")]);
    $("detail-body").replaceChildren(
      make("h2", {}, `${title}: ${say(row.defense)} on ${say(row.model)}, ${say(row.dataset)}, ${row.attack}`),
      make("p", {}, `${cell.text}${cell.rank === null ? "; not ranked" : `; rank ${cell.rank}`}`),
      listing("Seeds", [...Object.entries(cell.seeds), ...Object.entries(cell.gaps)]),
      listing("Reasons for distrust", row.flags.map((flag, i) => [i + 1, flag])),
      listing("Ledger: what the attack spent", spent),
      listing("Budget", Object.entries(row.threat)),
      listing("Provenance", [["suite", row.suite], ...Object.entries(row.where),
        ...Object.entries(row.steps).map(([seed, step]) => [`step of seed ${seed}`, step])]),
    );
    $("detail").showModal();
  }

  // Curves: F+ solid, F- dashed; clean beside attacked.
  const curvePlaces = distinct(data.curves.map((c) => `${c.suite} / ${c.dataset} / ${c.model}`));
  const pickCurve = picker($("pick-curves"), "curve-place", "suite / dataset / model", curvePlaces, curves, false);
  function curves() {
    const chosen = data.curves.filter((c) => `${c.suite} / ${c.dataset} / ${c.model}` === pickCurve.value);
    if (!chosen.length) {
      $("curves").replaceChildren(make("p", { class: "small" }, "This run has no such curves."));
      return;
    }
    const labels = distinct(chosen.map((c) => c.label));
    $("curves").replaceChildren(...["", "injection"].map((attack) => plot(chosen.filter((c) => c.attack_label === attack), attack)));
    $("legend").replaceChildren(...labels.map((label) => {
      const mark = make("i");
      mark.style.background = colorOf(label);
      return make("span", {}, mark, say(label));
    }), make("span", {}, "solid: highest attention deleted first; dashed: lowest first"));
  }
  function plot(lines, attack) {
    const [w, h, left, bottom] = [340, 220, 38, 26];
    const ys = lines.flatMap((l) => l.points.map((p) => p[1]));
    const [low, high] = ys.length ? [Math.min(...ys), Math.max(...ys)] : [0, 1];
    const pad = Math.max(0.02, (high - low) * 0.08);
    const X = (x) => left + (x / 0.5) * (w - left - 10);
    const Y = (y) => h - bottom - ((y - low + pad) / (high - low + 2 * pad)) * (h - bottom - 10);
    const svg = draw("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": `accuracy, ${attack || "clean"}` });
    for (let i = 0; i <= 4; i += 1) {
      const y = low + ((high - low) * i) / 4;
      svg.append(draw("line", { class: "axis", x1: left, x2: w - 10, y1: Y(y), y2: Y(y) }),
        draw("text", { x: 4, y: Y(y) + 3 }, y.toFixed(2)));
    }
    for (const x of [0, 0.1, 0.2, 0.3, 0.4, 0.5]) svg.append(draw("text", { x: X(x) - 7, y: h - 8 }, String(x)));
    for (const one of lines) {
      const path = one.points.map(([x, y], i) => `${i ? "L" : "M"}${X(x)} ${Y(y)}`).join("");
      const dash = one.curve === "f_acc_neg" ? "5 4" : "none";
      svg.append(draw("path", { d: path, fill: "none", stroke: colorOf(one.label), "stroke-width": 2, "stroke-dasharray": dash }));
      const sign = one.curve === "f_acc_neg" ? "F-" : "F+";
      for (const [x, y] of one.points) {
        const dot = draw("circle", { cx: X(x), cy: Y(y), r: 6, fill: "transparent", class: "point" });
        explain(dot, `${say(one.label)} ${sign}, r = ${x}: ${y.toFixed(3)}`);
        svg.append(dot);
      }
    }
    return make("figure", {}, make("figcaption", {}, attack ? "attacked" : "clean"), svg);
  }

  // Attention around one node.
  const graphPlaces = distinct(data.graphs.map((g) => `${g.dataset} / ${g.model}`));
  const pickGraph = picker($("pick-graphs"), "graph-place", "dataset / model", graphPlaces, graphs, false);
  function graphs() {
    const chosen = data.graphs.filter((g) => `${g.dataset} / ${g.model}` === pickGraph.value);
    if (!chosen.length) {
      $("graphs").replaceChildren(make("p", { class: "small" }, "This run keeps no sample of attention."));
      return;
    }
    $("graphs").replaceChildren(...chosen.flatMap((g) => [around(g, 2), around(g, 3)]));
  }
  function around(graph, column) {
    const svg = draw("svg", { viewBox: "-1.12 -1.12 2.24 2.24", role: "img", "aria-label": `attention, ${graph.label}` });
    const at = new Map(graph.nodes.map(([id, x, y, injected]) => [id, { x, y, injected }]));
    const largest = Math.max(1e-9, ...graph.edges.map((e) => Math.max(e[2], e[3])));
    const lines = graph.edges.filter((e) => e[column] > 0).sort((a, b) => a[column] - b[column]);
    for (const edge of lines) {
      const [a, b] = [at.get(edge[0]), at.get(edge[1])];
      const share = edge[column] / largest;
      const ends = { x1: a.x, y1: a.y, x2: b.x, y2: b.y };
      svg.append(draw("line", { ...ends, stroke: "var(--accent)", "stroke-width": 0.006 + 0.02 * share, opacity: 0.12 + 0.88 * share }));
      const hit = draw("line", { ...ends, stroke: "transparent", "stroke-width": 0.05, class: "edge" });
      explain(hit, `${edge[0]} → ${edge[1]}: ${edge[2].toFixed(4)} before, ${edge[3].toFixed(4)} after`);
      svg.append(hit);
    }
    const used = new Set(lines.flatMap((e) => [e[0], e[1]]));
    for (const [id, { x, y, injected }] of at) {
      if (!used.has(id) && id !== graph.centre) continue;
      const own = id === graph.centre;
      const dot = draw("circle", { cx: x, cy: y, r: own ? 0.045 : 0.022, fill: injected ? "#CC79A7" : own ? "#D55E00" : "var(--text)" });
      explain(dot, `node ${id}${injected ? ", injected" : ""}${own ? ", the centre" : ""}`);
      svg.append(dot);
    }
    const words = `${say(graph.label)}, ${column === 2 ? "clean" : "attacked"}`;
    return make("figure", {}, make("figcaption", {}, words), svg);
  }

  $("about").textContent = `run ${data.run.id}; suites ${data.run.suites.join(", ")}; ${data.run.version}`;
  $("claims").replaceChildren(...data.claims.map((claim) => make("li", {},
    make("span", { class: "verdict" }, claim.verdict), ` · ${claim.text} `,
    make("span", { class: "small" }, [...claim.cells.slice(0, 3), claim.advice].filter(Boolean).join("; ")),
    make("div", { class: "small" }, `What would change it: ${claim.change}.`))));
  $("look").onclick = () => {
    const root = document.documentElement;
    const dark = (root.dataset.look ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    root.dataset.look = dark ? "light" : "dark";
    $("look").setAttribute("aria-pressed", String(!dark));
  };
  fill();
  curves();
  graphs();
})();
