/**
 * The service worker: after the first visit the page comes from the browser's own store, and needs no network. It also
 * adds the headers that WebAssembly threads need, for servers that cannot, and the page's policy: a worker does not
 * inherit that of the page.
 *
 * A new version waits until no page of the old one is open. Were it to take over at once, a page could go on with plans
 * of the one version and the network of the other.
 */

/** Hash of the page's files, their names, and the policy of `index.html`: put in when the page is built. */
declare const VERSION: string;
declare const FILES: readonly string[];
declare const POLICY: string;

const scope = self as unknown as ServiceWorkerGlobalScope;
const STORE = `dipp-page-${VERSION}`;

scope.addEventListener("install", (event) => {
  // From the server, and not from what the browser may have kept of another version.
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
  // What only some browsers need (WebGPU) is kept when it is first used.
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
