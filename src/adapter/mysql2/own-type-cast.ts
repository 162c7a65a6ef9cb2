/** What a `typeCast` of the application threw while mysql2 read an answer: no fault of the server. */
const thrown = new WeakSet<object>();

/** Whether the application's own `typeCast` threw it. */
export function isOfTypeCast(error: object): boolean {
  return thrown.has(error);
}

/**
 * A `typeCast` whose errors are known from then on as its own. Anything else mysql2 takes for one (a boolean, nothing) is
 * returned as it is.
 */
export function ownTypeCast(typeCast: unknown): unknown {
  if (typeof typeCast !== 'function') return typeCast;
  return (field: unknown, next: unknown): unknown => {
    try {
      return typeCast(field, next);
    } catch (error) {
      throw known(error);
    }
  };
}

/** mysql2 writes on what it catches: that has to be an object. */
function known(error: unknown): object {
  const object = error instanceof Error ? error : new Error('typeCast threw what is no Error', { cause: error });
  thrown.add(object);
  return object;
}
