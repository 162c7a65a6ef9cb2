import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { alias, patient } from './vitest.config.js';

/**
 * The integration tests against one supported combination; `npm run test:matrix` runs them all and says by
 * EVENKEEL_PEERS which version of a peer, in which folder, takes the place of the installed one.
 */
const peers = Object.entries(JSON.parse(process.env.EVENKEEL_PEERS ?? '{}') as Record<string, string>).map(
  ([name, folder]) => ({ find: new RegExp(`^${name}(?=/|$)`), replacement: folder }),
);

const config: ReturnType<typeof defineConfig> = defineConfig({
  resolve: { alias: [...peers, ...alias] },
  test: {
    include: ['test/integration/**/*.test.ts'],
    // As in vitest.config.ts.
    maxWorkers: Math.min(2 * availableParallelism(), 8),
    testTimeout: 120_000,
    hookTimeout: 120_000,
    ...patient,
  },
});

export default config;
