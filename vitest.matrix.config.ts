import { defineConfig } from 'vitest/config';
import { alias } from './vitest.config.js';

/**
 * The adapters' integration tests against one supported combination; `npm run test:matrix` runs them all. The newer
 * major version of a peer is installed under a name of its own, and takes the place of the older one here.
 */
const newer = process.env.EVENKEEL_UNDICI === '8' ? [{ find: /^undici$/, replacement: 'undici8' }] : [];

const config: ReturnType<typeof defineConfig> = defineConfig({
  resolve: { alias: [...newer, ...alias] },
  test: {
    include: ['test/integration/**/*.test.ts'],
    exclude: ['test/integration/package/**'],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});

export default config;
