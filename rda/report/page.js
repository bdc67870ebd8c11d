"use strict";
// Shows the values of all curves under the pointer. The page is complete without it.
for (const chart of document.querySelectorAll("figure.chart")) {
  const svg = chart.querySelector("svg");
  const curves = [...svg.querySelectorAll("g.curve")].reverse().map((curve) => {
    const path = curve.querySelector(".smooth").getAttribute("d");
    const points = [...path.matchAll(/[ML](-?\d+) (-?\d+)/g)];
    return {
      label: curve.dataset.label,
      colour: curve.dataset.colour,
      across: points.map((point) => point[1] / 1000),
      down: points.map((point) => point[2] / 1000),
      values: curve.dataset.values.split(" "),
    };
  });
  const add = (parent, kind, name) => {
    const element = document.createElement(kind);
    element.className = name;
    return parent.appendChild(element);
  };
  const cover = add(chart.querySelector(".plot"), "div", "cover");
  const rule = add(cover, "div", "rule");
  const dots = curves.map((curve) => {
    const dot = add(cover, "div", "dot");
    dot.style.background = curve.colour;
    return dot;
  });
  const tip = add(cover, "div", "tip");

  const placeOf = (curve, share) => {
    const last = curve.across.length - 1;
    if (last < 0 || share > curve.across[last] + 0.0005) return -1;
    let index = last;
    while (index > 0 && curve.across[index] > share + 0.0005) index -= 1;
    return index;
  };
  const row = (table, label, value, colour) => {
    const line = add(table, "tr", "");
    const name = add(line, "td", "");
    if (colour) add(name, "span", "dot").style.background = colour;
    name.append(label);
    add(line, "td", "").textContent = value;
  };
  const show = (event) => {
    const box = cover.getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
    const x = share * Number(svg.dataset.end);
    const places = curves.map((curve) => placeOf(curve, share));
    tip.replaceChildren();
    const head = add(tip, "div", "head");
    head.textContent = svg.dataset.over === "steps"
      ? `step ${Math.round(x).toLocaleString("en")}`
      : `${Number(x.toPrecision(3)).toLocaleString("en")} ${svg.dataset.over}`;
    const table = add(tip, "table", "");
    curves.forEach((curve, i) => {
      const index = places[i];
      row(table, curve.label, index < 0 ? "\u2013" : curve.values[index], curve.colour);
      dots[i].hidden = index < 0;
      dots[i].style.left = `${100 * curve.across[index]}%`;
      dots[i].style.top = `${100 * curve.down[index]}%`;
    });
    rule.style.left = `${100 * share}%`;
    tip.style.left = share < 0.5 ? `calc(${100 * share}% + 12px)` : "auto";
    tip.style.right = share < 0.5 ? "auto" : `calc(${100 - 100 * share}% + 12px)`;
    cover.classList.add("active");
  };
  cover.addEventListener("pointermove", show);
  cover.addEventListener("pointerdown", show);
  cover.addEventListener("pointerleave", () => cover.classList.remove("active"));
}
