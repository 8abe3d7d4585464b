// The words of the page in two languages; the English ones are their own keys.
import { keep, kept } from "./kept.js";
import { CHINESE, KINDS } from "./words-zh.js";

const KEY = "pystate-language";
const LANGUAGES = ["en", "zh"];
let chosen = LANGUAGES.find((one) => one === kept(KEY)) ?? (navigator.language.startsWith("zh") ? "zh" : "en");

export const language = () => chosen;

export function setLanguage(next) {
  chosen = next;
  keep(KEY, next);
  document.documentElement.lang = next === "zh" ? "zh-CN" : "en";
}

// Return a text in the chosen language, with {names} replaced.
export function t(text, values = {}) {
  const found = chosen === "zh" ? (CHINESE[text] ?? text) : text;
  return found.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// Return what kind of error, or of reason, a name stands for; null in English, which its message is in, and for one without words.
export const kindOf = (name) => (chosen === "zh" ? (KINDS[name] ?? null) : null);

setLanguage(chosen);
