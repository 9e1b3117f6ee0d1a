// The view is in the address bar: read it, change it, come back to it. Nothing here knows what the names mean.

const token = new URLSearchParams(location.search).get("token");
const inline = new URLSearchParams(location.search).get("inline");

/** What every request carries: the token where cookies may not be kept (in a notebook), and which tab asks. */
export const headers = { "x-tether-tab": crypto.randomUUID() };
if (token) headers["x-tether-token"] = token;

/** The view, as names and values. */
export function view() {
  const found = new URLSearchParams(location.search);
  found.delete("token");
  found.delete("inline");
  return found;
}

/** As a query, in one order whatever was changed last. */
function query(found) {
  const kept = new URLSearchParams(found);
  if (inline) {
    kept.set("token", token);
    kept.set("inline", inline);
  }
  const text = kept.toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
  return text ? `?${text}` : location.pathname;
}

/** Put a view into the address bar: as a new entry of the history, or in place of the present one. */
export function go(found, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", query(found));
  else history.pushState(null, "", query(found));
  window.dispatchEvent(new Event("view"));
}

/** The present view with some values changed; an empty value is left out. */
export function change(values, options) {
  const found = view();
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === null) found.delete(name);
    else found.set(name, value);
  }
  go(found, options);
}

// The token does not stay in the address bar, in bookmarks or in the history.
if (token && !inline) history.replaceState(null, "", query(view()));
window.addEventListener("popstate", () => window.dispatchEvent(new Event("view")));
