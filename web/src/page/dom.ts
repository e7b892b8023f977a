/** Short functions for the elements of the page. */

/** Return the element with an id. */
export function element<T extends Element = HTMLElement>(id: string): T {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no element ${id}`);
  return node as unknown as T;
}

/** Return a new element with text or children, and attributes. */
export function made(tag: string, content: string | readonly Node[], attributes: Record<string, string> = {}): HTMLElement {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (typeof content === "string") node.textContent = content;
  else node.append(...content);
  return node;
}

/** Return a row of a table, whose first cell is its heading. */
export function row(head: string, ...cells: string[]): HTMLElement {
  return made("tr", [made("th", head, { scope: "row" }), ...cells.map((cell) => made("td", cell))]);
}

/** Return a number with commas between thousands. */
export function grouped(value: number): string {
  return value.toLocaleString("en-GB");
}

/** Return a count with its noun: "1 step", "2 steps". */
export function counted(count: number, what: string): string {
  return `${grouped(count)} ${what}${count === 1 ? "" : "s"}`;
}

/** Let the browser download bytes as a file. */
export function save(bytes: BlobPart, type: string, name: string): void {
  const address = URL.createObjectURL(new Blob([bytes], { type }));
  const link = made("a", "", { href: address, download: name }) as HTMLAnchorElement;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
