// Plots over time by uPlot, in the colours of the theme.
import { html, useEffect, useRef } from "./preact.js";
import { bytes, clock } from "./format.js";
import { onTheme } from "./theme.js";
import { t } from "./words.js";

export const BINARY = Array.from({ length: 51 }, (_, power) => 2 ** power); // sizes are told in KiB and MiB: 256 and not 244
export const WHOLE = Array.from({ length: 39 }, (_, step) => [1, 2, 5][step % 3] * 10 ** Math.floor(step / 3)); // ticks between them would round to the same text

export const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400]; // the same of times

const around = (least) => (_, low, high) => (low === null ? [0, 1] : [low - Math.max((high - low) / 12, least), high + Math.max((high - low) / 12, least)]);

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Args: data is uPlot's, [x, series ...]; series are {label, color, bars, raw}; raw is what to tell in place of a sum; label says what the plot shows;
// ticks are the steps that the marks of values may have; floats: it need not begin at nothing, as what only grows would be a flat line.
export function Plot({ data, series, label, height = 190, time = true, unit = (value) => String(value), ticks = unit === bytes ? BINARY : WHOLE, floats = false }) {
  const place = useRef(null);
  const plot = useRef(null);
  const latest = useRef(data);
  latest.current = data;
  const told = useRef(series);
  told.current = series;

  useEffect(() => {
    const element = place.current;
    const draw = () => {
      plot.current?.destroy();
      const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
      const bars = window.uPlot.paths.bars({ size: [0.7, 40] });
      plot.current = new window.uPlot(
        {
          width: Math.max(200, element.clientWidth),
          height,
          // the bars of the first and the last get a place on each side; what is drawn begins at nothing, so that bars can be compared
          scales: {
            x: time ? { time, range: (_, low, high) => (series.some((one) => one.bars) ? [low - (high - low || 1) / 40, high + (high - low || 1) / 40] : [low, high]) } : { time, range: (_, low, high) => [low - 0.7, high + 0.7] },
            y: { range: floats ? around(ticks?.[0] ?? 1) : (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : low < 0 ? 0 : 1] },
          },
          legend: { live: true },
          cursor: { drag: { x: false, y: false } },
          axes: [time ? { ...axis, space: 70, incrs: SECONDS, values: (_, ticks) => ticks.map((at) => clock(at * 1000)) } : { ...axis, incrs: WHOLE, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? String(tick) : "")) }, { ...axis, size: (_, texts) => Math.max(64, 20 + 7 * Math.max(0, ...(texts ?? []).map((text) => text.length))), incrs: ticks, values: (_, ticks) => ticks.map(unit) }],
          series: [
            time ? { label: t("time"), value: (_, at) => (at === null ? "–" : clock(at * 1000)) } : { label: t("id") },
            ...series.map((one, number) => ({
              label: one.label,
              stroke: color(one.color),
              fill: one.bars ? color(one.color) : undefined,
              width: one.bars ? 0 : 1.5,
              paths: one.bars ? bars : undefined,
              points: { show: (plot) => plot.data[0].length === 1 }, // of one value there is no line
              spanGaps: false,
              value: (_, value, __, index) => {
                const { raw } = told.current[number];
                const own = raw && index !== null ? raw[index] : value; // of stacked bars the drawn value is a sum
                return value === null || own === null || own === undefined ? "–" : unit(own);
              },
            })),
          ],
        },
        latest.current,
        element,
      );
    };
    draw();
    const resized = new ResizeObserver(() => plot.current?.setSize({ width: Math.max(200, element.clientWidth), height }));
    resized.observe(element);
    const leave = onTheme(draw);
    return () => {
      leave();
      resized.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
  }, [series.map((one) => one.label).join("|"), height, time, ticks, floats]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  return html`<div class="plot" ref=${place} role="img" aria-label=${label}></div>`;
}

// Sums for bars on top of each other, the topmost first, as uPlot draws the later ones above.
export function stacked(layers) {
  const sums = [];
  let below = null;
  for (const layer of layers) {
    below = layer.map((value, index) => (value ?? 0) + (below ? below[index] : 0));
    sums.push(below);
  }
  return sums.reverse();
}
