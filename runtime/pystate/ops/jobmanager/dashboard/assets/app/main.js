// The frame of the dashboard: navigation, state of the connection, and the page that the address names.
import { Component, html, render, useState } from "./preact.js";
import { Failure, Notice } from "./components.js";
import { ClusterPage } from "./pages/cluster.js";
import { JobPage } from "./pages/job.js";
import { LoginPage } from "./pages/login.js";
import { OverviewPage } from "./pages/overview.js";
import { SavepointsPage } from "./pages/savepoints.js";
import { root, useConnection } from "./rest.js";
import { useRoute } from "./route.js";
import { begin, logOut, useSession } from "./session.js";
import { theme, toggleTheme } from "./theme.js";
import { language, setLanguage, t } from "./words.js";

const PAGES = { "": OverviewPage, jobs: JobPage, savepoints: SavepointsPage, cluster: ClusterPage, login: LoginPage };

// A page that can't be drawn says so, and the frame around it stays.
class Drawn extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }
  componentDidUpdate(before) {
    if (before.at !== this.props.at && this.state.error) this.setState({ error: null });
  }
  render({ children }, { error }) {
    return error ? html`<${Failure} error=${error} />` : children;
  }
}

function App() {
  const [, redraw] = useState(0);
  const again = () => redraw((n) => n + 1);
  const route = useRoute();
  const session = useSession();
  const up = useConnection();
  const [first = ""] = route.parts;
  const Page = PAGES[first] ?? OverviewPage;
  const link = (name, href, key) => html`<a href=${href} aria-current=${first === key ? "page" : null}>${name}</a>`;
  const turn = () => {
    setLanguage(language() === "zh" ? "en" : "zh");
    again();
  };
  const switchTheme = () => {
    toggleTheme();
    again();
  };
  return html`
    <a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.getElementById("content").focus(); }}>${t("Skip to the content")}</a>
    <header class="top">
      <a class="brand" href="#/"><img src=${new URL("ui/icon.svg", root).href} alt="" />pystate</a>
      <nav aria-label=${t("Pages")}>${link(t("Jobs"), "#/", "")}${link(t("Savepoints"), "#/savepoints", "savepoints")}${link(t("Job manager"), "#/cluster", "cluster")}</nav>
      <div class="tools">
        <span class=${`live ${up ? "" : "off"}`} role="status"><i></i>${up ? t("live") : t("no connection")}</span>
        <button class="plain" onClick=${turn} lang=${language() === "zh" ? "en" : "zh-CN"}>${language() === "zh" ? "English" : "中文"}</button>
        <button class="plain" onClick=${switchTheme}>${theme() === "dark" ? t("Light") : t("Dark")}</button>
        ${session.loggedIn ? html`<button class="plain" onClick=${logOut}>${t("Log out")}</button>` : html`<a class="button plain" href="#/login">${t("Log in")}</a>`}
      </div>
    </header>
    <main id="content" tabindex="-1">
      ${up ? null : html`<${Notice} kind="bad" title=${t("The job manager does not answer.")}>${t("What is shown is what was known last. It is asked again every two seconds; jobs go on without it.")} <code>pystate cluster status</code><//>`}
      ${session.lost ? html`<${Notice} kind="warn" title=${t("You are not logged in any more.")}><span>${t("A log-in ends after 12 hours, with the job manager, and with a log-out in another tab.")}</span><a href="#/login">${t("Log in")}</a><//>` : null}
      ${session.known && session.tokenNeeded && !session.loggedIn && first !== "login" ? html`<${LoginPage} />` : html`<${Drawn} key=${`${first}/${route.parts[1] ?? ""}`} at=${route.path}><${Page} route=${route} session=${session} /><//>`}
    </main>`;
}

begin().finally(() => {
  const place = document.getElementById("app");
  place.replaceChildren();
  render(html`<${App} />`, place);
});
