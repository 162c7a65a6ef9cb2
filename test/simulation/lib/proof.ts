/** EVENKEEL_PROOF=1 (`npm run proof -- balancing`): five seeds and full counts. Otherwise one, and about a third. */
export const PROOF: boolean = process.env.EVENKEEL_PROOF === '1';

export const SEEDS: readonly number[] = PROOF ? [1, 2, 3, 4, 5] : [1];

/** How long scenarios run, in ms of virtual time. */
export const LENGTH_MS: number = PROOF ? 60_000 : 20_000;
