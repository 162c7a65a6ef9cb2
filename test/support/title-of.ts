/**
 * The title of a test that runs only under a condition; if that does not hold, it says what would make the test run.
 *
 *   it.runIf(has8)(titleOf('HTTP/2 …', has8, 'it needs undici 8'), …)
 */
export const titleOf = (title: string, runs: boolean, reason: string): string =>
  runs ? title : `${title} (skipped: ${reason})`;
