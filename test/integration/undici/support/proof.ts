/** Whether the tests run at the counts that are promised (`npm run proof -- http`), or at small ones (`npm test`). */
export const PROOF: boolean = process.env.EVENKEEL_PROOF === '1';

/** In a proof: prints what was measured, for the reader. */
export function report(what: string, figures: Readonly<Record<string, number | string>>): void {
  if (!PROOF) return;
  const words = Object.entries(figures).map(([name, value]) => `${name} ${value}`);
  console.log(`${what}: ${words.join(', ')}`);
}

/** The machine's monotonic clock, in ms: the same in every process, so that both sides can be compared. */
export function machineMs(): number {
  return Number(process.hrtime.bigint() / 1_000n) / 1_000;
}

/** The value below which `share` of `values` lie. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}
