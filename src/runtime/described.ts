/** What created a function of ours, and with which options: enough to create it again in another process. */
export interface Description {
  readonly name: string;
  /** The options as they were passed; may contain functions. */
  readonly options: object;
}

const description: unique symbol = Symbol('evenkeel.description');
const none: object = Object.freeze({});

/** Records what created `made`. Returns `made`. */
export function described<T extends object>(made: T, name: string, options: object = none): T {
  Object.defineProperty(made, description, { value: { name, options } satisfies Description });
  return made;
}

/** What created a function; undefined for an application's own functions. */
export function descriptionOf(value: unknown): Description | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined;
  return (value as { readonly [description]?: Description })[description];
}
