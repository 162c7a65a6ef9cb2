/**
 * The type of options with all default values filled in. Like `Required`, but without the `undefined` that stands for a default value.
 */
export type Complete<T> = { readonly [Name in keyof T]-?: Exclude<T[Name], undefined> };

/** The type of options with default values filled in, except for some options that have none and may be undefined. */
export type Filled<T, Optional extends keyof T> = Complete<Omit<T, Optional>> & {
  readonly [Name in Optional]-?: T[Name] | undefined;
};
