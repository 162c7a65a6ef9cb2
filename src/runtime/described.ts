/** What created a stage of ours. */
export interface Description {
  readonly name: string;
  /** The names that `without` was called with. */
  readonly taken: readonly string[];
}

/** A map and no property, so that an application's copy of one of our functions is the application's. */
const descriptions = new WeakMap<object, Description>();

/** Notes the name of the function that created `made`. Returns `made`. */
export function described<T extends object>(made: T, name: string, taken: readonly string[] = []): T {
  descriptions.set(made, { name, taken });
  return made;
}

/** What created a function; undefined for an application's own functions. */
export function descriptionOf(value: unknown): Description | undefined {
  return descriptions.get(value as object);
}
