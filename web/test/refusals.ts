/** Refusals: tests compare what an error is about and what it names, and never its sentences. */

import { DippError } from "../src/errors";

/** Return the check of an error about an argument, whose problem or remedy names each of the tokens. */
export function refused(argument: string, ...tokens: string[]): (error: unknown) => boolean {
  return (error) =>
    error instanceof DippError &&
    error.argument === argument &&
    tokens.every((token) => error.problem.includes(token) || error.remedy.includes(token)) &&
    !error.message.includes("\n");
}
