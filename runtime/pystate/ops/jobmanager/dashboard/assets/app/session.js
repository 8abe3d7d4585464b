// Whether this browser is logged in, and how it comes to be.
import { useEffect, useState } from "./preact.js";
import { ask, keepKey, onDoubt, reconnect } from "./rest.js";

const PATH = "/pystate/session";
let current = { loggedIn: false, tokenNeeded: false, known: false, lost: false };
const listeners = new Set();

async function look({ leaves = false } = {}) {
  try {
    const answer = await ask(PATH);
    const loggedIn = answer["logged-in"];
    const lost = !loggedIn && !leaves && (current.loggedIn || current.lost);
    current = { loggedIn, tokenNeeded: answer["token-needed"], known: true, lost };
  } catch {
    current = { ...current, known: true };
  }
  listeners.forEach((tell) => tell());
}

export async function logIn(given) {
  keepKey((await ask(PATH, { method: "POST", body: given })).page);
  await look();
  reconnect();
}

export async function logOut() {
  await ask(PATH, { method: "DELETE" });
  keepKey(null);
  await look({ leaves: true });
  reconnect();
}

// `pystate ui` opens the page with a code after "#login=", which no server and no log sees; it is good for one log-in.
export async function begin() {
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1];
  if (code) {
    history.replaceState(null, "", `${location.pathname}${location.search}#/`);
    window.dispatchEvent(new Event("hashchange"));
    try {
      await logIn({ code });
      return;
    } catch {
      // it was used, or is too old; the page says that it isn't logged in
    }
  }
  await look();
}

let looking = false;
onDoubt(async () => {
  if (looking || !current.known) return;
  looking = true;
  await look();
  looking = false;
});
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#login=")) begin();
});

export function useSession() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const tell = () => redraw((n) => n + 1);
    listeners.add(tell);
    return () => listeners.delete(tell);
  }, []);
  return current;
}
