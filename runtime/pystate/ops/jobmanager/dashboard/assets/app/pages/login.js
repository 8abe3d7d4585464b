// Log-in with a token, or what `pystate ui` does in its place.
import { html, useState } from "../preact.js";
import { Command, Failure, Panel } from "../components.js";
import { beforeLogin, goTo } from "../route.js";
import { logIn } from "../session.js";
import { t } from "../words.js";

export function LoginPage() {
  const [error, fail] = useState(null);
  const [busy, set] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    set(true);
    try {
      await logIn({ token: new FormData(event.target).get("token").trim() });
      goTo(beforeLogin());
    } catch (failure) {
      fail(failure.status === 401 ? { isOwn: true, message: t("This is not the token of this job manager.") } : failure);
      set(false);
    }
  };
  return html`<${Panel} title=${t("Log in")}>
    <form class="row" onSubmit=${submit} method="post">
      <label class="field wide">${t("Token")}<input name="token" type="password" autocomplete="current-password" required autofocus /></label>
      <button class="main" disabled=${busy}>${t("Log in")}</button>
    </form>
    <p class="soft small">${t("The token is the content of the file that pystate.rest.token-file names, or of the file token in the home of the job manager. On its machine this opens the page logged in:")}</p>
    <${Command} text="pystate ui" />
    <${Failure} error=${error} />
  <//>`;
}
