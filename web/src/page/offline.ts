/**
 * The service worker: after the first visit the browser loads the page from its cache, without a network. It also adds the
 * headers that WebAssembly threads need, for servers that cannot, and the content policy of the page, which a worker does
 * not inherit.
 *
 * A new version waits until no page of the old one is open. Otherwise a page could use the plans of one version and the
 * network of another.
 */

/** The hash of the page's files, their names, and the policy of `index.html`; the build puts them in. */
declare const VERSION: string;
declare const FILES: readonly string[];
declare const POLICY: string;

const scope = self as unknown as ServiceWorkerGlobalScope;
const STORE = `dipp-page-${VERSION}`;

scope.addEventListener("install", (event) => {
  // Reload from the server, because the browser may have cached another version.
  const files = FILES.map((name) => new Request(name, { cache: "reload" }));
  event.waitUntil(caches.open(STORE).then((store) => store.addAll(files)));
});

scope.addEventListener("activate", (event) => {
  const stale = (name: string): boolean => name.startsWith("dipp-page-") && name !== STORE;
  event.waitUntil(
    caches.keys()
      .then((names) => Promise.all(names.filter(stale).map((name) => caches.delete(name))))
      .then(() => scope.clients.claim()),
  );
});

scope.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method === "GET" && new URL(request.url).origin === scope.location.origin) event.respondWith(answer(request));
});

async function answer(request: Request): Promise<Response> {
  const store = await caches.open(STORE);
  const kept = await store.match(request, { ignoreSearch: true });
  if (kept) return isolated(kept);
  const fresh = await fetch(request);
  // Files that only some browsers need (for WebGPU) are cached when they are first used.
  if (fresh.ok && fresh.status === 200) await store.put(request, fresh.clone());
  return isolated(fresh);
}

function isolated(response: Response): Response {
  const headers = new Headers(response.headers);
  headers.set("Cross-Origin-Opener-Policy", "same-origin");
  headers.set("Cross-Origin-Embedder-Policy", "require-corp");
  headers.set("Content-Security-Policy", POLICY);
  return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
}
