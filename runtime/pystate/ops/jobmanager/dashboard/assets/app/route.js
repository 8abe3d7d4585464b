// The page that is shown, in the part of the address after "#": it needs no server, so that any prefix works.
import { useEffect, useState } from "./preact.js";

function plain(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // an address that somebody has typed or cut off
  }
}

function read() {
  const [path, query] = (location.hash.slice(1) || "/").split("?");
  const parts = path.split("/").filter(Boolean).map(plain);
  return { path, parts, query: new URLSearchParams(query ?? "") };
}

// The page that a log-in comes back to.
let left = "/";
export const beforeLogin = () => left;
const note = ({ path, parts }) => {
  if (parts[0] !== "login") left = location.hash.slice(1) || path;
};
note(read());
window.addEventListener("hashchange", () => note(read()));

export function useRoute() {
  const [route, set] = useState(read());
  useEffect(() => {
    const changed = () => {
      set(read());
      window.scrollTo(0, 0);
    };
    window.addEventListener("hashchange", changed);
    return () => window.removeEventListener("hashchange", changed);
  }, []);
  return route;
}

export const goTo = (hash) => {
  location.hash = hash;
};
