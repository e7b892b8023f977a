import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";

/** The rooms. Each room may import the rooms before it and `errors`. */
const ROOMS = ["errors", "core", "codes", "privacy", "format", "models", "codec", "redaction", "page"];
const SOURCE = join(process.cwd(), "src");

function modules(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? modules(join(folder, entry.name)) : [join(folder, entry.name)],
  );
}

function room(path: string): number {
  const found = ROOMS.indexOf(relative(SOURCE, path).split(/[\\/.]/)[0]!);
  assert.ok(found >= 0, `${path} is in no room`);
  return found;
}

test("no module imports a later room, as in Python", () => {
  let seen = 0;
  for (const path of modules(SOURCE)) {
    for (const [, target] of readFileSync(path, "utf8").matchAll(/from "(\.[^"]*)"/g)) {
      assert.ok(room(join(dirname(path), target!)) <= room(path), `${path} imports ${target}`);
      seen += 1;
    }
  }
  assert.ok(seen > 50);
});

test("private randomness has one source, which only the encoder uses", () => {
  const users = modules(SOURCE).filter((path) => /getRandomValues\(|privateWords\(|Math\.random/.test(readFileSync(path, "utf8")));
  assert.deepEqual(users.map((path) => relative(SOURCE, path)).sort(), ["codes/pairs.ts", "core/closest.ts", "core/randomness.ts", "page/rivals.ts"]);
});
