// SPDX-License-Identifier: Apache-2.0
// Draws the plots, and lets tables be sorted by mouse or keyboard.
"use strict";
(() => {
  // The page's own colours, whatever the scheme, on paper too.
  const ink = "currentColor";
  const config = {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: "transparent" },
    axis: { labelColor: ink, titleColor: ink, domainColor: ink, tickColor: ink, gridColor: ink, gridOpacity: 0.13,
            domainOpacity: 0.5, tickOpacity: 0.5, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal",
            labelLimit: 220 },
    legend: { labelColor: ink, titleColor: ink, orient: "top", labelFontSize: 12, labelLimit: 220, symbolOpacity: 1,
              columns: window.innerWidth < 640 ? 2 : 4 },
  };

  const draw = async () => {
    const plots = [...document.querySelectorAll(".plot")];
    await Promise.all(plots.map((plot) => {
      const spec = JSON.parse(document.getElementById(plot.dataset.spec).textContent);
      return window.vegaEmbed(plot, spec, {
        actions: false, ast: true, config, defaultStyle: false, mode: "vega-lite", renderer: "svg", tooltip: false,
      });
    }));
    document.documentElement.dataset.drawn = String(plots.length);
  };

  const figure = (cell) => {
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const found = /^[-+]?\d[\d.]*/.exec(cell.textContent.trim());
    return found ? Number(found[0]) : null;
  };

  const sort = (table, column, header) => {
    const up = header.getAttribute("aria-sort") !== "ascending";
    for (const other of table.querySelectorAll("thead th")) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    const numbers = header.classList.contains("n") || rows.every((row) => figure(row.cells[column]) !== null);
    const key = (row) => (numbers ? figure(row.cells[column]) : row.cells[column].textContent.trim());
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const order = numbers ? x - y : x.localeCompare(y, "en", { numeric: true });
      return up ? order : -order;
    };
    table.tBodies[0].append(...rows.sort(compare));
  };

  for (const table of document.querySelectorAll("table")) {
    [...table.querySelectorAll("thead th")].forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = header.textContent;
      header.replaceChildren(button);
      header.setAttribute("aria-sort", "none");
      button.addEventListener("click", () => sort(table, column, header));
    });
  }

  draw();
})();
