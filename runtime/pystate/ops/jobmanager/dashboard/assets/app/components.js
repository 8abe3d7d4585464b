// Small parts that all pages are made of.
import { Component, html, useEffect, useLayoutEffect, useRef, useState } from "./preact.js";
import { serverNow } from "./rest.js";
import { kindOf, language, t } from "./words.js";

// A part that is drawn again only when something that it is given is another thing; what is changed in place is not.
export const kept = (draw) =>
  class extends Component {
    shouldComponentUpdate(next) {
      return Object.keys(next).some((name) => name !== "children" && next[name] !== this.props[name]);
    }
    render(props) {
      return draw(props);
    }
  };

const LOOKS = {
  RUNNING: "good", COMPLETED: "good", FINISHED: "info", IN_PROGRESS: "info", CREATED: "info", INITIALIZING: "info",
  RESTARTING: "warn", CANCELLING: "warn", SUSPENDED: "warn", FAILING: "bad", FAILED: "bad", CANCELED: "calm",
};

export const Badge = ({ state, children }) => html`<span class=${`badge ${LOOKS[state] ?? ""}`}>${children ?? state}</span>`;

export const Facts = ({ of }) => html`<dl class="facts">
  ${of.filter(Boolean).map(([label, value, note]) => html`<div key=${label}><dt>${label}</dt><dd>${value}${note ? html`<small>${note}</small>` : null}</dd></div>`)}
</dl>`;

export const Panel = ({ title, side, children }) => html`<section class="panel">
  ${title ? html`<div class="panel-head"><h2>${title}</h2>${side}</div>` : null}
  ${children}
</section>`;

export function Command({ text }) {
  const [done, set] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // without TLS browsers give pages no clipboard
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    set(true);
    setTimeout(() => set(false), 1500);
  };
  return html`<div class="command"><code tabindex="0">${text}</code><button type="button" class="plain small" onClick=${copy}>${done ? t("Copied") : t("Copy")}</button></div>`;
}

export const Notice = ({ kind = "", title, children }) => html`<div class=${`notice ${kind}`} role=${kind === "bad" ? "alert" : "note"}>
  ${title ? html`<strong>${title}</strong>` : null}${children}
</div>`;

// What the job manager or the program says: in English, and marked so in pages of another language.
export const Told = ({ text }) => (text ? html`<span class="told" lang=${language() === "en" ? null : "en"}>${text}</span>` : null);

// What an error says, after its kind in the language of the page, where that isn't the error's own.
export const Message = ({ kind, text }) => {
  const named = kindOf(kind);
  return named ? html`${named}<br /><${Told} text=${text} />` : html`<${Told} text=${text} />`;
};

export const Failure = ({ error }) => {
  if (!error) return null;
  const needsLogin = error.status === 401;
  return html`<${Notice} kind="bad" title=${error.isOwn ? error.message : html`<${Message} kind=${needsLogin ? "401" : error.kind} text=${error.message} />`}>
    ${error.where ? html`<span class="mono">${error.where}</span>` : null}
    ${error.hint && !needsLogin ? (error.isOwn ? html`<span>${error.hint}</span>` : html`<${Told} text=${error.hint} />`) : null}
    ${needsLogin ? html`<a href="#/login">${t("Log in")}</a>` : null}
  <//>`;
};

export const Waiting = () => html`<p class="empty" role="status">${t("One moment …")}</p>`;

// A dialog that is open as long as it is drawn.
export function Dialog({ title, onClose, children }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  const cancel = (event) => {
    event.preventDefault();
    onClose();
  };
  return html`<dialog ref=${element} onCancel=${cancel} aria-labelledby="dialog-title"><h2 id="dialog-title">${title}</h2>${children}</dialog>`;
}

// Long lists a page at a time: {shown, more}, of which the latter is a button as long as there are others.
export function usePages(list, size) {
  const [most, set] = useState(size);
  const rest = Math.min(size, list.length - most);
  return { shown: list.slice(0, most), more: rest > 0 ? html`<button type="button" onClick=${() => set(most + size)}>${t("Show {count} more", { count: rest })}</button>` : null };
}

// A table that is put in order by a click on the head of a column: {sorted, head}, of which head makes such a column's head.
// Args: list is what is shown; of are {key: value of one}. The first click puts the highest on top, the third takes it back.
export function useOrder(list, of) {
  const [order, set] = useState({ key: null, down: true });
  const value = of[order.key];
  const sign = order.down ? -1 : 1;
  const sorted = value ? [...list].sort((a, b) => sign * ((value(a) ?? -Infinity) - (value(b) ?? -Infinity)) || 0) : list;
  const turn = (key) => set(order.key !== key ? { key, down: true } : order.down ? { key, down: false } : { key: null, down: true });
  const head = (key, name, kind = "right") => html`<th class=${kind} aria-sort=${order.key === key ? (order.down ? "descending" : "ascending") : "none"}><button type="button" class="sort" onClick=${() => turn(key)}>${name}<i aria-hidden="true">${order.key === key ? (order.down ? "▼" : "▲") : ""}</i></button></th>`;
  return { sorted, head };
}

export function Spark({ values, second, label }) {
  const all = [...values, ...(second ?? [])].filter((value) => value !== null);
  const top = Math.max(1e-9, ...all);
  const points = (of) => of.map((value, index) => `${(index / Math.max(1, of.length - 1)) * 100},${27 - ((value ?? 0) / top) * 25}`).join(" ");
  return html`<svg class="spark" viewBox="0 0 100 28" preserveAspectRatio="none" role="img" aria-label=${label}>
    ${second ? html`<polyline class="second" points=${points(second)} />` : null}
    <polyline points=${points(values)} />
  </svg>`;
}

export const Load = ({ busy, pressed }) => html`<div class="bar" role="img"
  aria-label=${t("busy {busy} %, back-pressured {pressed} %", { busy: Math.round(busy * 100), pressed: Math.round(pressed * 100) })}>
  <i class="busy" style=${{ width: `${Math.min(100, busy * 100)}%` }}></i><i class="pressed" style=${{ width: `${Math.min(100, pressed * 100)}%` }}></i>
</div>`;

export const Progress = ({ done, total, label }) => html`<div class="progress" role="progressbar" aria-valuemin="0" aria-valuemax=${total}
  aria-valuenow=${done} aria-label=${label}><i style=${{ width: `${total ? (done / total) * 100 : 0}%` }}></i></div>`;

export const Tabs = ({ of, label }) => html`<nav class="tabs" aria-label=${label}>
  ${of.map(([name, href, current]) => html`<a key=${href} href=${href} aria-current=${current ? "page" : null}>${name}</a>`)}
</nav>`;

// Redraw every so many ms, for what shows how long ago something was.
export function useClock(ms = 1000) {
  const [now, set] = useState(serverNow());
  useEffect(() => {
    const timer = setInterval(() => set(serverNow()), ms);
    return () => clearInterval(timer);
  }, [ms]);
  return now;
}
