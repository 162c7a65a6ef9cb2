/**
 * What functions of the application threw or failed with while mysql2 was at work for them: no fault of the server. True:
 * mysql2 read the server's answer to its end all the same.
 */
const own = new WeakMap<object, boolean>();

/** Whether a function of the application brought it about. */
export function isOwnFault(error: object): boolean {
  return own.has(error);
}

/** Whether nothing of the answer was left on the connection. */
export function wasReadToItsEnd(error: object): boolean {
  return own.get(error) === true;
}

/** Known from then on as the application's own. `what` says who threw it, where it is no Error. */
export function ownFault(error: unknown, what: string, isReadToItsEnd = false): object {
  // mysql2 writes on what it catches: that has to be an object.
  const object = error instanceof Error ? error : new Error(`${what} threw what is no Error`, { cause: error });
  own.set(object, isReadToItsEnd);
  return object;
}
