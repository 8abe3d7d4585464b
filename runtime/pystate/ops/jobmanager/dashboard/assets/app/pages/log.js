// A job's log, which follows what is written.
import { html, useEffect, useLayoutEffect, useRef, useState } from "../preact.js";
import { Command, Failure, Panel } from "../components.js";
import { ask, askBytes, useOnce } from "../rest.js";
import { t } from "../words.js";

const TAIL = 200_000; // bytes that are shown at most
const EVERY_MS = 1000;

// Lines of a log have the times of the machine that writes them; all else on a page has those of whoever looks at it.
export function Zone() {
  const { data } = useOnce("/config");
  const here = -new Date().getTimezoneOffset() * 60_000;
  if (!data || data["timezone-offset"] === here) return null;
  return html`<span class="soft small">${t("Times in the log are {zone}, those of the page {here}", { zone: fromUtc(data["timezone-offset"]), here: fromUtc(here) })}</span>`;
}

const fromUtc = (ms) => {
  const minutes = Math.abs(ms) / 60_000;
  return `UTC${ms < 0 ? "-" : "+"}${Math.floor(minutes / 60)}${minutes % 60 ? `:${String(minutes % 60).padStart(2, "0")}` : ""}`;
};

export function LogView({ jid }) {
  const [text, set] = useState("");
  const [error, fail] = useState(null);
  const [follows, follow] = useState(true);
  const [wanted, want] = useState("");
  const place = useRef(null);

  useEffect(() => {
    let live = true;
    let timer = null;
    let offset = null;
    const decoder = new TextDecoder();
    const read = async () => {
      let wait = EVERY_MS;
      try {
        if (offset === null) {
          const [first, last] = (await ask(`/pystate/jobs/${jid}`)).extents.log;
          offset = Math.max(first, last - TAIL);
        }
        const answer = await askBytes(`/pystate/jobs/${jid}/log?offset=${offset}`);
        const data = new Uint8Array(await answer.arrayBuffer());
        if (!live) return;
        offset += data.length;
        if (data.length) set((before) => (before + decoder.decode(data, { stream: true })).slice(-TAIL));
        fail(null);
        if (answer.headers.get("pystate-ended") === "true" && data.length === 0) wait = null;
      } catch (failure) {
        if (!live) return;
        fail(failure);
        if (failure.status === 416) offset = null;
        wait = failure.status === 401 ? null : 3000;
      }
      if (live && wait !== null) timer = setTimeout(read, wait);
    };
    read();
    return () => {
      live = false;
      clearTimeout(timer);
    };
  }, [jid]);

  useLayoutEffect(() => {
    if (follows && place.current) place.current.scrollTop = place.current.scrollHeight;
  }, [text, follows, wanted]);

  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = place.current;
    follow(scrollHeight - scrollTop - clientHeight < 40);
  };
  const shown = wanted ? text.split("\n").filter((line) => line.toLowerCase().includes(wanted.toLowerCase())).join("\n") : text;
  return html`<${Panel} title=${t("Log")} side=${html`<${Zone} /><input type="search" placeholder=${t("Lines with …")} aria-label=${t("Show only lines with this text")} value=${wanted} onInput=${(event) => want(event.target.value)} />
      <label class="check small"><input type="checkbox" checked=${follows} onChange=${(event) => follow(event.target.checked)} />${t("follow")}</label>`}>
    <${Failure} error=${error} />
    <pre class="log" role="log" ref=${place} onScroll=${scrolled} tabindex="0" aria-label=${t("Log")}>${shown}</pre>
    <${Command} text=${`pystate logs -f ${jid}`} />
  <//>`;
}
