// Light or dark: the system's choice, or the person's.
import { keep, kept } from "./kept.js";

const KEY = "pystate-theme";
const listeners = new Set();
const system = window.matchMedia("(prefers-color-scheme: dark)");

export const theme = () => ["dark", "light"].find((one) => one === kept(KEY)) ?? (system.matches ? "dark" : "light");

let printed = false; // paper is light
function apply() {
  document.documentElement.dataset.theme = printed ? "light" : theme();
  listeners.forEach((tell) => tell());
}

export function toggleTheme() {
  keep(KEY, theme() === "dark" ? "light" : "dark");
  apply();
}

export function onTheme(tell) {
  listeners.add(tell);
  return () => listeners.delete(tell);
}

system.addEventListener("change", apply);
for (const [moment, is] of [["beforeprint", true], ["afterprint", false]])
  window.addEventListener(moment, () => {
    printed = is;
    apply();
  });
apply();
