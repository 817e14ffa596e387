// Figures that a hand can move. All curves stand in the page, for each setting of the controls (interactive.py): this
// chooses those of the setting and has uPlot draw them; nothing is computed. Only pages with such a figure load it.
(() => {
  "use strict";
  const LETTERS = "0.85rem";
  const pixels = (rem) => rem * parseFloat(getComputedStyle(document.documentElement).fontSize);

  /** What a table has for a setting: the last of the controls it depends on varies fastest. */
  const at = ({ by, values }, chosen, choices) =>
    values[by.reduce((place, control) => place * choices[control] + chosen[control], 0)];

  /** Of axes whose curves have places of their own, x, y, x, y, ...: the lines, areas and dots of `rows`. */
  const drawFree = ({ ctx, valToPos }, lines, rows, ink, corners) => {
    const point = (x, y) => [valToPos(x, "x", true), valToPos(y, "y", true)];
    const along = (places) => {
      ctx.beginPath();
      let pen = "moveTo";
      for (let i = 0; i < places.length; i += 2) {
        if (places[i] === null) pen = "moveTo";
        else { ctx[pen](...point(places[i], places[i + 1])); pen = "lineTo"; }
      }
    };
    ctx.save();
    ctx.lineJoin = "round";
    lines.forEach(({ color, dash, shape }, number) => {
      const places = rows[number];
      ctx.strokeStyle = ctx.fillStyle = color || ink;
      ctx.lineWidth = 2.2 * devicePixelRatio;
      ctx.setLineDash(dash.map((length) => length * devicePixelRatio));
      if (shape === "dots") {
        const radius = (places.length > 2 ? 3 : 6) * devicePixelRatio;
        for (let i = 0; i < places.length; i += 2) {
          if (places[i] === null) continue;
          ctx.beginPath();
          ctx.arc(...point(places[i], places[i + 1]), radius, 0, 2 * Math.PI);
          ctx.fill();
        }
        return;
      }
      along(places);
      if (shape === "area") {
        ctx.globalAlpha = 0.25;
        ctx.fill();
        ctx.globalAlpha = 1;
      }
      ctx.stroke();
    });
    if (corners) {
      ctx.setLineDash([]);
      ctx.strokeStyle = ctx.fillStyle = ink;
      ctx.lineWidth = 1.2 * devicePixelRatio;
      along([...corners, corners[0]].flatMap(({ at: place }) => place));
      ctx.stroke();
      ctx.font = `${pixels(parseFloat(LETTERS)) * devicePixelRatio}px ${getComputedStyle(ctx.canvas).fontFamily}`;
      ctx.textAlign = "center";
      ctx.textBaseline = "middle";
      for (const { name, at: [x, y] } of corners) ctx.fillText(name, ...point(x + 0.11 * (x - 0.5), y + 0.11 * (y - 0.4)));
    }
    ctx.restore();
  };

  /** Limits of a triangle's axes, units alike, so that it fills its place but for the names of its corners. */
  const around = (place) => {
    const { clientWidth: width, clientHeight: height } = place;
    const unit = Math.min(width / 1.2, height / 1.1);
    const [x, y] = [width / unit / 2, height / unit / 2];
    return { x: [0.5 - x, 0.5 + x], y: [0.43 - y, 0.43 + y] };
  };

  const triangle = (place, corners, draw) => new uPlot({
    width: place.clientWidth, height: place.clientHeight, padding: [0, 0, 0, 0],
    legend: { show: false }, cursor: { show: false },
    scales: { x: { time: false, range: () => around(place).x }, y: { range: () => around(place).y } },
    axes: [{ show: false }, { show: false }], series: [{}, { show: false }], hooks: { draw: [draw] },
  }, [[0, 1], [0, 1]], place);

  const chart = (place, panel, lines, mark, draw) => {
    const ink = () => getComputedStyle(place).color;
    const faint = () => `color-mix(in srgb, ${ink()} 15%, transparent)`;
    const font = () => `${pixels(parseFloat(LETTERS))}px ${getComputedStyle(place).fontFamily}`;
    const scale = (isLog, range) => ({ time: false, distr: isLog ? 3 : 1, range: () => range });
    const axis = (label, { at: places, labels }, size, gap) => ({
      label, stroke: ink, font: font(), labelFont: font(), size, labelSize: 22, gap,
      grid: { stroke: faint, width: 1 }, ticks: { show: false },
      splits: () => places, filter: () => places, values: () => labels,
    });
    const x = panel.x ?? panel.xlim;
    const [first, last] = [x[0], x.at(-1)];
    const own = draw ? [] : lines;
    const drawMark = ({ ctx, bbox, valToPos }) => {
      const x = Math.round(valToPos(mark(), "x", true));
      ctx.save();
      ctx.strokeStyle = ink();
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.restore();
    };
    return new uPlot({
      width: place.clientWidth, height: place.clientHeight, padding: [10, 24, 0, 0],
      legend: { show: false }, cursor: { show: false },
      scales: { x: scale(panel.log.includes("x"), [first, last]), y: scale(panel.log.includes("y"), panel.ylim) },
      // A first number on the left may stand beside the first one below, and not on it.
      axes: [axis(panel.xlabel, panel.xticks, 33, 9), axis(panel.ylabel, panel.yticks, 46, 4)],
      series: [{}, ...own.map(({ color, dash }) => (
        { stroke: color || ink, dash: dash.length ? dash : undefined, width: 2.2, pxAlign: 0, points: { show: false } }
      ))],
      bands: panel.band ? [{ series: panel.band.map((line) => line + 1), fill: faint }] : [],
      hooks: { draw: draw ? [draw] : panel.mark ? [drawMark] : [] },
    }, [x, ...own.map(() => x.map(() => null))], place);
  };

  const start = (figure) => {
    const { controls, panels, lines } = JSON.parse(figure.querySelector("script").textContent);
    const fields = [...figure.querySelectorAll("input, select")];
    const readings = [...figure.querySelectorAll(".by-hand-reading")];
    const choices = controls.map((control) => control.choices.length);
    const setting = () => fields.map((field) => (field.tagName === "SELECT" ? field.selectedIndex : Number(field.value)));
    const charts = panels.map((panel, number) => {
      const place = figure.querySelectorAll(".by-hand-plot")[number];
      const own = lines.filter((line) => number in line.curves);
      let rows = own.map((line) => at(line.curves[number], setting(), choices));
      const free = panel.x ? null : (plot) => drawFree(plot, own, rows, getComputedStyle(place).color, panel.corners);
      const drawn = panel.corners ? triangle(place, panel.corners, free)
        : chart(place, panel, own, () => panel.mark.at[setting()[panel.mark.by]], free);
      new ResizeObserver(() => drawn.setSize({ width: place.clientWidth, height: place.clientHeight })).observe(place);
      const update = (chosen) => {
        rows = own.map((line) => at(line.curves[number], chosen, choices));
        if (free) drawn.redraw();
        else drawn.setData([panel.x, ...rows]);
      };
      return { drawn, update };
    });
    const update = () => {
      const chosen = setting();
      fields.forEach((field, number) => {
        if (field.tagName === "SELECT") return;
        const text = controls[number].choices[chosen[number]];
        field.setAttribute("aria-valuetext", text);
        field.previousElementSibling.textContent = text;
      });
      lines.forEach(({ reading }, number) => {
        readings[number].textContent = reading ? at(reading, chosen, choices) : "";
      });
      for (const one of charts) one.update(chosen);
    };
    for (const field of fields) field.addEventListener("input", update);
    // The colour of the text follows the theme.
    new MutationObserver(() => charts.forEach(({ drawn }) => drawn.redraw(false, true)))
      .observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    update();
    figure.removeAttribute("hidden");
  };

  if (window.uPlot) document.querySelectorAll(".by-hand").forEach(start);
  else document.querySelectorAll(".by-hand").forEach((figure) => figure.remove()); // the static figure is there
})();
