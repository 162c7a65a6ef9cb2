/** How much of a discarded response is read, and for how long, so that its connection can be reused; in bytes and ms. */
export const DISCARDED_BYTES = 65_536;
export const DISCARDED_MS = 1_000;
