// Whether this browser is logged in, and how it comes to be.
import { useEffect, useState } from "./preact.js";
import { ask, keepKey, reconnect } from "./rest.js";

const PATH = "/pystate/session";
let current = { loggedIn: false, tokenNeeded: false, known: false };
const listeners = new Set();

async function look() {
  try {
    const answer = await ask(PATH);
    current = { loggedIn: answer["logged-in"], tokenNeeded: answer["token-needed"], known: true };
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
  await look();
  reconnect();
}

// `pystate ui` opens the page with a code after "#login=", which no server and no log sees; it is good for one log-in.
export async function begin() {
  const code = /^#login=([\w-]+)$/.exec(location.hash)?.[1];
  if (code) {
    history.replaceState(null, "", `${location.pathname}${location.search}#/`);
    try {
      await logIn({ code });
      return;
    } catch {
      // it was used, or is too old; the page says that it isn't logged in
    }
  }
  await look();
}

export function useSession() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const tell = () => redraw((n) => n + 1);
    listeners.add(tell);
    return () => listeners.delete(tell);
  }, []);
  return current;
}
