// What the browser keeps for the page; where it keeps nothing, or has no room, until the page is left.
const meanwhile = new Map();

export function kept(key) {
  try {
    return meanwhile.get(key) ?? localStorage.getItem(key);
  } catch {
    return null; // somebody has forbidden it
  }
}

export function keep(key, value) {
  meanwhile.delete(key);
  try {
    if (value === null) localStorage.removeItem(key);
    else localStorage.setItem(key, value);
  } catch {
    meanwhile.set(key, value);
  }
}
