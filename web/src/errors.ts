/** What a user can mend: one line that says what is wrong, and what to do. */
export class DippError extends Error {}

/** What to throw for a file that nobody has written like this. */
export function damaged(reason: string): DippError {
  return new DippError(`the file is damaged or cut short: ${reason}; get it again`);
}
