/** What a function of ours was created by, and with which options: enough to create it again elsewhere. */
export interface Description {
  readonly name: string;
  /** As given. May contain functions. */
  readonly options: object;
}

const description: unique symbol = Symbol('evenkeel.description');
const none: object = Object.freeze({});

/** Notes on `made` what created it. Returns `made`. */
export function described<T extends object>(made: T, name: string, options: object = none): T {
  Object.defineProperty(made, description, { value: { name, options } satisfies Description });
  return made;
}

/** Undefined for what an application wrote itself. */
export function descriptionOf(value: unknown): Description | undefined {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined;
  return (value as { readonly [description]?: Description })[description];
}
