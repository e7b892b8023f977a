/**
 * A file, a picture or a choice that cannot be used. The message is one sentence, "argument problem; remedy", as Python's
 * `DippError` says it.
 */
export class DippError extends Error {
  constructor(
    /** What the error is about. */
    readonly argument: string,
    /** What is wrong with it, as a predicate that follows the argument: "must be positive, got −1". */
    readonly problem: string,
    /** What to do; empty if the problem says it. */
    readonly remedy = "",
  ) {
    super(`${argument} ${problem}${remedy && "; "}${remedy}`);
  }
}

/** The argument of an error about the file that is being read. */
export const FILE = "the file";

/** Return the error for a file that no version of dipp can have written. */
export function damaged(reason: string): DippError {
  return new DippError(FILE, `is damaged or cut short: ${reason}`, "get it again");
}

/** Return the error for a file with a part that this version of the page does not know. */
export function newer(what: string): DippError {
  return new DippError(FILE, `was written by a newer dipp (${what})`, "use a newer version of the page");
}

/** Return the error for a file that Python reads, and this page does not. */
export function unread(what: string): DippError {
  return new DippError(FILE, `${what}, which this page cannot read`, "use `dipp info` and `dipp decode`");
}
