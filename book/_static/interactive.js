// Figures that a hand can move. All curves stand in the page, for each setting of the controls (interactive.py): this
// chooses those of the setting and has uPlot draw them; nothing is computed. Only pages with such a figure load it.
(() => {
  "use strict";
  const LETTERS = "0.85rem";
  const pixels = (rem) => rem * parseFloat(getComputedStyle(document.documentElement).fontSize);

  /** What nested lists have for a setting, a list for each control: of length 1 where nothing depends on it. */
  const at = (values, chosen) => chosen.reduce((list, choice) => list[Math.min(choice, list.length - 1)], values);

  const chart = (place, panel, lines, mark) => {
    const ink = () => getComputedStyle(place).color;
    const faint = () => `color-mix(in srgb, ${ink()} 15%, transparent)`;
    const font = () => `${pixels(parseFloat(LETTERS))}px ${getComputedStyle(place).fontFamily}`;
    const scale = (isLog, range) => ({ time: false, distr: isLog ? 3 : 1, range: () => range });
    const axis = (label, { at: places, labels }, size, gap) => ({
      label, stroke: ink, font: font(), labelFont: font(), size, labelSize: 22, gap,
      grid: { stroke: faint, width: 1 }, ticks: { show: false },
      splits: () => places, filter: () => places, values: () => labels,
    });
    const [first, last] = [panel.x[0], panel.x.at(-1)];
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
      series: [{}, ...lines.map(({ color, dash }) => (
        { stroke: color || ink, dash: dash.length ? dash : undefined, width: 2.2, pxAlign: 0, points: { show: false } }
      ))],
      hooks: { draw: panel.mark === null ? [] : [drawMark] },
    }, [panel.x, ...lines.map(() => panel.x.map(() => null))], place);
  };

  const start = (figure) => {
    const { choices, panels, lines } = JSON.parse(figure.querySelector("script").textContent);
    const fields = [...figure.querySelectorAll("input, select")];
    const readings = [...figure.querySelectorAll(".by-hand-reading")];
    const setting = () => fields.map((field) => (field.tagName === "SELECT" ? field.selectedIndex : Number(field.value)));
    const charts = panels.map((panel, number) => {
      const place = figure.querySelectorAll(".by-hand-plot")[number];
      const own = lines.filter((line) => number in line.curves);
      const drawn = chart(place, panel, own, () => panel.x[setting()[panel.mark]]);
      new ResizeObserver(() => drawn.setSize({ width: place.clientWidth, height: place.clientHeight })).observe(place);
      const update = (chosen) => drawn.setData([panel.x, ...own.map((line) => at(line.curves[number], chosen))]);
      return { drawn, update };
    });
    const update = () => {
      const chosen = setting();
      fields.forEach((field, number) => {
        if (field.tagName === "SELECT") return;
        const text = choices[number][chosen[number]];
        field.setAttribute("aria-valuetext", text);
        field.previousElementSibling.textContent = text;
      });
      lines.forEach(({ reading }, number) => {
        readings[number].textContent = at(reading, chosen);
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

  if (window.uPlot) document.querySelectorAll(".by-hand[hidden]").forEach(start);
  else document.querySelectorAll(".by-hand").forEach((figure) => figure.remove()); // the static figure is there
})();
