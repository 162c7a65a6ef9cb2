import type * as undici from 'undici';

/** undici 8, whose `fetch` and requests speak only the newer form of handlers; undefined where it is not installed. */
export const undici8: typeof undici | undefined = await import('undici8' as string).catch(() => undefined);
