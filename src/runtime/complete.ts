/** Options with every default filled in: like `Required`, and without the `undefined` that stands for a default. */
export type Complete<T> = { readonly [Name in keyof T]-?: Exclude<T[Name], undefined> };
