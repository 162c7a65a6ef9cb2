/** `free-port.mjs`, with types. */
const { freePort: untyped } = (await import(new URL('free-port.mjs', import.meta.url).href)) as {
  freePort: (addresses?: readonly string[]) => Promise<number>;
};

/** A port of 127.0.0.1, or of all these addresses, that nobody else gets while no server uses it. */
export const freePort: (addresses?: readonly string[]) => Promise<number> = untyped;
