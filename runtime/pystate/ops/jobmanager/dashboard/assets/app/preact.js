// preact with htm's templates: one place that names the vendored files.
import { h, render, Component, Fragment } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.mjs";
export { render, Component, Fragment };

// Names and values may come from others. Marks that turn the direction of writing would make them look like something else.
const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
const shown = (child) => (typeof child === "string" ? child.replace(TURNING, "\ufffd") : Array.isArray(child) ? child.map(shown) : child);
export const html = htm.bind((type, props, ...children) => h(type, props, ...children.map(shown)));
