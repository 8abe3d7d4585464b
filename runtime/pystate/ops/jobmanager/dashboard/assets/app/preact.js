// preact with htm's templates: one place that names the vendored files.
import { h, render, Fragment } from "../vendor/preact.mjs";
import htm from "../vendor/htm.mjs";

export { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact-hooks.mjs";
export { render, Fragment };
export const html = htm.bind(h);
