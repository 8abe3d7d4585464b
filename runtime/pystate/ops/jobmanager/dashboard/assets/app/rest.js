// REST of the job manager: questions, and answers that follow what changes.
import { useEffect, useState } from "./preact.js";

// the page may be served below a prefix by a proxy: everything is relative to the address of this file
export const root = new URL("../../", import.meta.url);

export class RestError extends Error {
  constructor(status, body) {
    const ours = body?.pystate;
    super(ours?.message ?? body?.errors?.[0] ?? `HTTP ${status}`);
    this.status = status;
    this.where = ours?.where;
    this.hint = ours?.hint;
  }
}

const address = (path) => new URL(path.replace(/^\//, ""), root);
// The key of the page's log-in. Cookies go to every port of a host, what is kept here to none: neither counts alone.
const KEPT = `pystate-page ${root.pathname}`;
export const keepKey = (key) => (key ? localStorage.setItem(KEPT, key) : localStorage.removeItem(KEPT));
const pageKey = () => localStorage.getItem(KEPT) ?? "";
const headers = () => ({ "pystate-client": "dashboard", "pystate-dashboard": pageKey() });

export async function ask(path, { method = "GET", body } = {}) {
  const options = { method, headers: headers(), cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetch(address(path), options);
  const text = await answer.text();
  let parsed = null;
  try {
    parsed = text === "" ? null : JSON.parse(text);
  } catch {
    if (answer.ok) throw new RestError(answer.status, { errors: ["The answer is no JSON."] });
  }
  if (!answer.ok) throw new RestError(answer.status, parsed);
  return parsed;
}

export async function askBytes(path) {
  const answer = await fetch(address(path), { headers: headers(), cache: "no-store" });
  if (!answer.ok) throw new RestError(answer.status, await answer.json().catch(() => null));
  return answer;
}

export const withQuery = (path, values) => {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return `${path}?${query}`;
};

// -- what is watched: one stream for all that the page shows

const entries = new Map(); // path -> {answer, listeners, count}
const taps = new Map(); // path -> functions that see every answer
let stream = null;
let streamed = "";
let planned = null;
let retry = null;

export const connection = { up: true, listeners: new Set() };

function setUp(up) {
  if (connection.up === up) return;
  connection.up = up;
  connection.listeners.forEach((tell) => tell());
}

export function tap(path, see) {
  taps.set(path, [...(taps.get(path) ?? []), see]);
}

function plan() {
  planned ??= setTimeout(() => {
    planned = null;
    open();
  }, 30);
}

export function reconnect() {
  streamed = "";
  plan();
}

function open() {
  const paths = [...entries.keys()].sort();
  const wanted = paths.map((path) => `path=${encodeURIComponent(path)}`).join("&");
  if (wanted === streamed && stream && stream.readyState !== EventSource.CLOSED) return;
  clearTimeout(retry);
  stream?.close();
  stream = null;
  streamed = wanted;
  if (!wanted) return;
  const source = new EventSource(address(`pystate/watch?${wanted}&page=${encodeURIComponent(pageKey())}`));
  stream = source;
  source.addEventListener("open", () => setUp(true));
  source.addEventListener("answer", (event) => take(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    if (source !== stream) return;
    setUp(false);
    if (source.readyState === EventSource.CLOSED) retry = setTimeout(reconnect, 2000);
  });
}

function take({ path, status, body }) {
  const entry = entries.get(path);
  if (!entry) return;
  entry.answer = status < 400 ? { data: body, error: null } : { data: entry.answer?.data ?? null, error: new RestError(status, body) };
  if (status < 400) taps.get(path)?.forEach((see) => see(body));
  entry.listeners.forEach((tell) => tell());
}

const NOTHING = { data: null, error: null };

// The answer of a GET, again whenever it changes: {data, error}. Nothing is asked for a null path.
export function useAnswer(path) {
  const [, redraw] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    const entry = entries.get(path) ?? { answer: null, listeners: new Set(), count: 0 };
    entries.set(path, entry);
    entry.count += 1;
    const tell = () => redraw((n) => n + 1);
    entry.listeners.add(tell);
    plan();
    return () => {
      entry.listeners.delete(tell);
      entry.count -= 1;
      if (entry.count === 0) {
        entries.delete(path);
        plan();
      }
    };
  }, [path]);
  return (path && entries.get(path)?.answer) || NOTHING;
}

// The answer of one GET: {data, error, again}.
export function useOnce(path) {
  const [state, set] = useState({ path: null, data: null, error: null });
  const [round, again] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    let live = true;
    ask(path).then(
      (data) => live && set({ path, data, error: null }),
      (error) => live && set({ path, data: null, error }),
    );
    return () => {
      live = false;
    };
  }, [path, round]);
  const current = state.path === path ? state : { data: null, error: null };
  return { ...current, again: () => again((n) => n + 1) };
}

export function useConnection() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const tell = () => redraw((n) => n + 1);
    connection.listeners.add(tell);
    return () => connection.listeners.delete(tell);
  }, []);
  return connection.up;
}
