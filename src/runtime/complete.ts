/** Options with every default filled in: like `Required`, and without the `undefined` that stands for a default. */
export type Complete<T> = { readonly [Name in keyof T]-?: Exclude<T[Name], undefined> };

/** Options with defaults filled in, but for those that may be left out. */
export type Filled<T, Optional extends keyof T> = Complete<Omit<T, Optional>> & {
  readonly [Name in Optional]-?: T[Name] | undefined;
};
