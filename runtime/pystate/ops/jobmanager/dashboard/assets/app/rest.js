// REST of the job manager: questions, and answers that follow what changes.
import { keep, kept } from "./kept.js";
import { useEffect, useState } from "./preact.js";
import { t } from "./words.js";

// the page may be served below a prefix by a proxy: everything is relative to the address of this file
export const root = new URL("../../", import.meta.url);

export class RestError extends Error {
  constructor(status, body) {
    const ours = body?.pystate;
    super(ours?.message ?? body?.errors?.[0] ?? `HTTP ${status}`);
    this.status = status;
    this.kind = ours?.class;
    this.where = ours?.where;
    this.hint = ours?.hint;
  }
}

// Nothing came back: whether what was asked for is done, nobody knows yet.
class NoAnswerError extends Error {
  constructor(changes) {
    super(t("The job manager does not answer."));
    this.isOwn = true;
    this.hint = changes ? t("It may have been done all the same: the page shows it as soon as the job manager answers again.") : null;
  }
}

async function fetched(path, options) {
  try {
    return await fetch(address(path), options);
  } catch {
    throw new NoAnswerError(options.method !== undefined && options.method !== "GET");
  }
}

const address = (path) => new URL(path.replace(/^\//, ""), root);
// The key of the page's log-in. Cookies go to every port of a host, what is kept here to none: neither counts alone.
const KEPT = `pystate-page ${root.pathname}`;
window.addEventListener("storage", (event) => {
  if (event.key !== KEPT) return; // another tab has logged in or out
  doubt();
  reconnect();
});
export const keepKey = (key) => keep(KEPT, key || null);
const pageKey = () => kept(KEPT) ?? "";
const headers = () => ({ "pystate-client": "dashboard", "pystate-dashboard": pageKey() });

export async function ask(path, { method = "GET", body } = {}) {
  const options = { method, headers: headers(), cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const answer = await fetched(path, options);
  compareClocks(answer);
  const text = await answer.text();
  let parsed = null;
  try {
    parsed = text === "" ? null : JSON.parse(text);
  } catch {
    if (answer.ok) throw new RestError(answer.status, { errors: ["The answer is no JSON."] });
  }
  if (answer.status === 401 && method === "GET") doubt();
  if (!answer.ok) throw new RestError(answer.status, parsed);
  return parsed;
}

export async function askBytes(path) {
  const answer = await fetched(path, { headers: headers(), cache: "no-store" });
  if (!answer.ok) throw new RestError(answer.status, await answer.json().catch(() => null));
  return answer;
}

// What the job manager's clock is ahead of this browser's, where that is more than an answer takes.
let ahead = 0;
export const serverNow = () => Date.now() + ahead;
function compareClocks(answer) {
  const told = Date.parse(answer.headers.get("date") ?? "");
  if (Number.isNaN(told)) return;
  const difference = told + 500 - Date.now();
  ahead = Math.abs(difference) > 3000 ? difference : 0;
}

// Whom to tell that the log-in may have ended: something was refused, or the job manager is back after it was gone.
const doubters = new Set();
export const onDoubt = (tell) => doubters.add(tell);
const doubt = () => doubters.forEach((tell) => tell());

export const withQuery = (path, values) => {
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  return `${path}?${query}`;
};

const pause = () => new Promise((resolve) => setTimeout(resolve, 700));

// The result of what was triggered at a path, once there is one; what it failed of is thrown. Until then see gets how far it is.
export async function awaitOperation(path, see = () => {}) {
  for (;;) {
    let answer;
    try {
      answer = await ask(path);
    } catch (error) {
      if (error instanceof RestError && error.status !== 503) throw error;
      await pause(); // no job manager answers: the next one goes on, and knows of it
      continue;
    }
    const { status, operation, pystate } = answer;
    see(pystate);
    if (status.id === "COMPLETED") {
      const cause = operation?.["failure-cause"];
      if (cause) throw new RestError(0, { pystate: cause.pystate, errors: [cause["stack-trace"]?.split("\n")[0] ?? cause.class] });
      return operation;
    }
    await pause();
  }
}

// -- what is watched: one stream for all that the page shows

const entries = new Map(); // path -> {answer, listeners, count}
const taps = new Map(); // path -> functions that see every answer
let stream = null;
let streamed = "";
let planned = null;
let retry = null;
let down = null;
const DOWN_MS = 3000; // streams end now and then, and are opened again within a moment

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
  source.addEventListener("open", () => {
    if (down !== null) doubt();
    clearTimeout(down);
    down = null;
    setUp(true);
  });
  source.addEventListener("answer", (event) => take(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    if (source !== stream) return;
    down ??= setTimeout(() => setUp(false), DOWN_MS);
    if (source.readyState === EventSource.CLOSED) retry = setTimeout(reconnect, 2000);
  });
}

function take({ path, status, body }) {
  const entry = entries.get(path);
  if (!entry) return;
  if (status === 401) doubt();
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
