// Numbers, sizes and times for people.
import { language } from "./words.js";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const missing = "–";
const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };

const locale = () => (language() === "zh" ? "zh-CN" : "en-GB");

// Formats are dear to make and cheap to use.
const formats = new Map();
function formatted(kind, options, value, place = locale()) {
  const key = `${kind.name} ${place} ${JSON.stringify(options)}`;
  if (!formats.has(key)) formats.set(key, new kind(place, options));
  return formats.get(key).format(value);
}

export function bytes(size) {
  if (size === null || size === undefined || Number.isNaN(size) || size < 0) return missing;
  let power = 0;
  let value = size;
  while (value >= 1024 && power < UNITS.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}

export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return missing;
  return Math.abs(value) >= 100_000 ? compact(value) : formatted(Intl.NumberFormat, { maximumFractionDigits: 0 }, value);
}

function compact(value) {
  return formatted(Intl.NumberFormat, { notation: "compact", maximumFractionDigits: 1 }, value, "en-GB");
}

export function rate(value) {
  if (value === null || value === undefined) return missing;
  return `${value >= 100 || value === 0 ? count(Math.round(value)) : value.toFixed(1)}/s`;
}

export const byteRate = (value) => (value === null || value === undefined ? missing : `${bytes(value)}/s`);

export function percent(share) {
  return share === null || share === undefined ? missing : `${Math.round(share * 100)} %`;
}

const TIME_UNITS = { en: { ms: "ms", s: "s", min: "min", h: "h", d: "d" }, zh: { ms: "毫秒", s: "秒", min: "分", h: "小时", d: "天" } };

export function duration(ms) {
  if (ms === null || ms === undefined || ms < 0 || Number.isNaN(ms)) return missing;
  const units = TIME_UNITS[language()];
  if (ms < 1000) return `${Math.round(ms)} ${units.ms}`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} ${units.s}`;
  const seconds = Math.floor(ms / 1000);
  const parts = [[86_400, units.d], [3600, units.h], [60, units.min], [1, units.s]];
  const first = parts.findIndex(([size]) => seconds >= size);
  const [size, unit] = parts[first];
  const next = parts[first + 1];
  const rest = next ? Math.floor((seconds % size) / next[0]) : 0;
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${next[1]}` : ""}`;
}

// How long ago something was; clocks of two machines may differ by a moment.
export const age = (now, then) => duration(Math.max(0, now - then));

export function time(ms) {
  if (!ms || ms < 0) return missing;
  const date = new Date(ms);
  const today = new Date().toDateString() === date.toDateString();
  return formatted(Intl.DateTimeFormat, today ? CLOCK : { year: "numeric", month: "short", day: "2-digit", ...CLOCK }, date);
}

export const clock = (ms) => formatted(Intl.DateTimeFormat, CLOCK, new Date(ms));

export const nameOfPath = (path) => path?.replace(/\/$/, "").split("/").pop() ?? missing;

// What a terminal would act upon when it is pasted, quoted or not, and what hides how a command reads.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const escaped = (character) => {
  const code = character.charCodeAt(0);
  return code < 0x80 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
};

// The name of a job, or what it is found by where nothing of its name can be seen.
export const nameOf = (job) => (job.name.replace(UNSEEN, "").trim() ? job.name : job.jid.slice(0, 8));

// A word of a command line, quoted where a shell needs it.
export function quoted(given) {
  const word = String(given);
  if (/^[\w@%+:,./-][\w@%+=:,./-]*$/.test(word)) return word;
  if (word.search(UNSEEN) < 0) return `'${word.replaceAll("'", `'\\''`)}'`;
  return `$'${word.replace(/[\\']/g, "\\$&").replace(UNSEEN, escaped)}'`;
}

// A command line of words from others: none of them is taken for an option, which a word that begins with "-" would be.
// Args: words are what begins it; given are words of others, in order; options are {name: value}, with true for one without a value.
export function commandLine(words, given, options = {}) {
  const told = Object.entries(options)
    .filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "")
    .map(([name, value]) => (value === true ? name : `${name} ${quoted(value)}`));
  const rest = given.map(quoted);
  const parts = given.some((word) => String(word).startsWith("-")) ? [...told, "--", ...rest] : [...rest, ...told];
  return [words, ...parts].join(" ");
}
