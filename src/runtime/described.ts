/** What created a stage of ours. */
export interface Description {
  readonly name: string;
  /** The names that `without` was called with. */
  readonly taken: readonly string[];
}

const description: unique symbol = Symbol('evenkeel.description');

/** Marks `made` with the name of the function that created it. Returns `made`. */
export function described<T extends object>(made: T, name: string, taken: readonly string[] = []): T {
  Object.defineProperty(made, description, { value: { name, taken } satisfies Description });
  return made;
}

/** What created a function; undefined for an application's own functions. */
export function descriptionOf(value: unknown): Description | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined;
  return (value as { readonly [description]?: Description })[description];
}
