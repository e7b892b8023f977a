/** Few words for what the page does to its elements. */

export function element<T extends Element = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`there is no element ${id}`);
  return found as unknown as T;
}

/** A new element with text, attributes and children. */
export function made(tag: string, content: string | readonly Node[], attributes: Record<string, string> = {}): HTMLElement {
  const found = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  if (typeof content === "string") found.textContent = content;
  else found.append(...content);
  return found;
}

/** A row of a table: the first cell is its head. */
export function row(head: string, ...cells: string[]): HTMLElement {
  return made("tr", [made("th", head, { scope: "row" }), ...cells.map((cell) => made("td", cell))]);
}

/** Numbers for people. */
export function grouped(value: number): string {
  return value.toLocaleString("en-GB");
}

export function counted(count: number, what: string): string {
  return `${grouped(count)} ${what}${count === 1 ? "" : "s"}`;
}

export function save(bytes: BlobPart, type: string, name: string): void {
  const address = URL.createObjectURL(new Blob([bytes], { type }));
  const link = made("a", "", { href: address, download: name }) as HTMLAnchorElement;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
