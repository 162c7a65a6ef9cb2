/** What functions of the application threw or failed with while mysql2 was at work for them: no fault of the server. */
const own = new WeakSet<object>();

/** Whether a function of the application brought it about. */
export function isOwnFault(error: object): boolean {
  return own.has(error);
}

/** Known from then on as the application's own. `what` says who threw it, where it is no Error. */
export function ownFault(error: unknown, what: string): object {
  // mysql2 writes on what it catches: that has to be an object.
  const object = error instanceof Error ? error : new Error(`${what} threw what is no Error`, { cause: error });
  own.add(object);
  return object;
}
